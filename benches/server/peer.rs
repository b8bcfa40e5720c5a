//! The servers under load, each a process of its own.

use std::env;
use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use tempfile::TempDir;

use crate::echo::Flavor;
use crate::workload::Target;

/// Apache ZooKeeper may have to be downloaded first.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A server that can be put under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A bare tokio server that answers frames with frames of the same size.
    Echo,
    /// Ours: the release binary.
    Zoolet,
    /// Apache ZooKeeper 3.9, in memory.
    Apache,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Zoolet => "zoolet",
            Self::Apache => "apache",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A running server; it ends with this value.
pub(crate) struct Peer {
    pub(crate) kind: Kind,
    pub(crate) target: Target,
    /// How it was started, for the report.
    pub(crate) about: String,
    child: Child,
    _data: Option<TempDir>,
}

/// What is needed to start servers.
pub(crate) struct Starter {
    /// The release binary; by default the one that Cargo builds beside this bench.
    pub(crate) zoolet: Option<PathBuf>,
    /// What the echo runs on.
    pub(crate) flavor: Flavor,
}

impl Starter {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// Says what is missing and how to get it.
    pub(crate) fn start(&self, kind: Kind) -> io::Result<Peer> {
        let addr = free_address()?;
        let mut data = None;
        let (mut command, about) = match kind {
            Kind::Echo => self.echo(addr)?,
            Kind::Zoolet => self.zoolet(addr)?,
            Kind::Apache => {
                let dir = in_memory()?;
                let started = apache(addr, dir.path());
                data = Some(dir);
                started
            }
        };
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| {
                io::Error::new(error.kind(), format!("{:?}: {error}", command.get_program()))
            })?;
        let target = Target { addr, pid: child.id() };
        let ready = says_it_is_ready(&mut child);
        let peer = Peer { kind, target, about, child, _data: data };
        match ready {
            true => Ok(peer),
            false => Err(io::Error::other("it did not start; what it said stands above")),
        }
    }

    fn echo(&self, addr: SocketAddr) -> io::Result<(Command, String)> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["echo", "--runtime", self.flavor.name(), "--port", &addr.port().to_string()]);
        Ok((command, format!("bare tokio server, {} runtime", self.flavor.name())))
    }

    fn zoolet(&self, addr: SocketAddr) -> io::Result<(Command, String)> {
        let binary = match &self.zoolet {
            Some(binary) => binary.clone(),
            None => target_dir()?.join("release").join("zoolet"),
        };
        if !binary.exists() {
            let message =
                format!("no {}; build it with `cargo build --release -p zoolet-cli`", binary.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        let mut command = Command::new(binary);
        command.args(["serve", "--bind", &addr.to_string()]);
        Ok((command, "zoolet serve, in memory".into()))
    }
}

fn apache(addr: SocketAddr, dir: &Path) -> (Command, String) {
    let mut command = Command::new("tests/clients/apache");
    command.args(["start", "--port", &addr.port().to_string(), "--dir"]).arg(dir);
    command.args(["-D", "zookeeper.forceSync=no", "--jvm=-Xmx2g"]);
    let about =
        format!("Apache ZooKeeper, NIO, forceSync=no, data in {}", dir.parent().unwrap_or(dir).display());
    (command, about)
}

/// A folder that is in memory where the system offers one.
fn in_memory() -> io::Result<TempDir> {
    TempDir::with_prefix_in("zoolet-bench-", "/dev/shm").or_else(|_| TempDir::with_prefix("zoolet-bench-"))
}

/// A port that was free a moment ago.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Each of the servers prints a line when it can be reached; whether it came before the time was up.
fn says_it_is_ready(child: &mut Child) -> bool {
    let Some(stdout) = child.stdout.take() else { return false };
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines();
        let _ = tell.send(matches!(lines.next(), Some(Ok(_))));
        // Keep reading, or a server that says more would stop for want of a reader.
        lines.for_each(drop);
    });
    told.recv_timeout(START_LIMIT).unwrap_or(false)
}

/// Cargo's target folder, in which this program lies as `release/deps/server-…`.
pub(crate) fn target_dir() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let target = program.ancestors().nth(3).ok_or_else(|| io::Error::other("not run by Cargo"))?;
    Ok(target.to_path_buf())
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
