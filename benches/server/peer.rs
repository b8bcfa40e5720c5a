//! The servers under load, each in a process of its own, except for the embedded one.

use std::env;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use zoolet::Server;

use crate::echo::Flavor;
use crate::wire::{Door, Stream, Wire};
use crate::workload::Target;

/// Apache ZooKeeper may have to be downloaded first.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The timeout for a starting server to open a session.
const TRIAL: Duration = Duration::from_millis(200);

/// A kind of server to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A bare tokio server that answers frames with frames of the same size.
    Echo,
    /// Our release binary.
    Zoolet,
    /// Our server embedded in the bench, without sockets; its CPU time includes the load.
    InProcess,
    /// Apache ZooKeeper 3.9, in memory.
    Apache,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Zoolet => "zoolet",
            Self::InProcess => "in-process",
            Self::Apache => "apache",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A running server; stopped on drop.
pub(crate) struct Peer {
    pub(crate) kind: Kind,
    pub(crate) target: Target,
    /// How it was started, for the report.
    pub(crate) about: String,
    life: Life,
}

/// How to stop a server.
enum Life {
    Process {
        child: Child,
        log: PathBuf,
        /// The server's data, in memory; removed on drop.
        _dir: TempDir,
    },
    Embedded {
        _server: Server,
    },
}

/// The configuration to start servers.
pub(crate) struct Starter {
    /// The release binary; by default the one in the target folder of this bench.
    pub(crate) zoolet: Option<PathBuf>,
    /// The runtime of the echo server.
    pub(crate) flavor: Flavor,
}

impl Starter {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// What is missing, with a hint.
    pub(crate) async fn start(&self, kind: Kind) -> io::Result<Peer> {
        let addr = free_address()?;
        let dir = in_memory()?;
        let (mut command, about) = match kind {
            Kind::Echo => self.echo(addr)?,
            Kind::Zoolet => self.zoolet(addr)?,
            Kind::Apache => apache(addr, dir.path()),
            Kind::InProcess => return embed().await,
        };
        let log = dir.path().join("log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", Path::new(command.get_program()).display()))
        })?;
        let target = Target { door: Door::Tcp(addr), pid: child.id() };
        let mut peer = Peer { kind, target, about, life: Life::Process { child, log, _dir: dir } };
        match peer.until_it_serves().await {
            Ok(()) => Ok(peer),
            Err(error) => Err(peer.explain(error)),
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
        // All connections come from one address.
        command.args(["serve", "--bind", &addr.to_string(), "--max-client-cnxns", "0"]);
        Ok((command, "zoolet serve, in memory".into()))
    }
}

/// Starts our server in this process.
async fn embed() -> io::Result<Peer> {
    let server = Server::builder().start().await.map_err(io::Error::other)?;
    let connect = server.in_process();
    let connect = move || Ok(Box::new(connect().into_inner()?) as Box<dyn Stream>);
    let target = Target { door: Door::InProcess(Arc::new(connect)), pid: process::id() };
    let about = "the same embedded in this bench, without sockets, including the load".into();
    Ok(Peer { kind: Kind::InProcess, target, about, life: Life::Embedded { _server: server } })
}

fn apache(addr: SocketAddr, dir: &Path) -> (Command, String) {
    let mut command = Command::new("tests/apache/zookeeper");
    command.args(["start", "--port", &addr.port().to_string(), "--dir"]).arg(dir);
    command.args(["-D", "zookeeper.forceSync=no", "--jvm=-Xmx2g"]);
    let about =
        format!("Apache ZooKeeper, NIO, forceSync=no, data in {}", dir.parent().unwrap_or(dir).display());
    (command, about)
}

/// A folder in memory, if the system has one.
fn in_memory() -> io::Result<TempDir> {
    TempDir::with_prefix_in("zoolet-bench-", "/dev/shm").or_else(|_| TempDir::with_prefix("zoolet-bench-"))
}

/// A port that was free a moment ago.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Cargo's target folder, which contains this program as `release/deps/server-…`.
pub(crate) fn target_dir() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let target = program.ancestors().nth(3).ok_or_else(|| io::Error::other("not run by Cargo"))?;
    Ok(target.to_path_buf())
}

impl Peer {
    /// The error with the end of the server's log.
    pub(crate) fn explain(&self, error: io::Error) -> io::Error {
        const LINES: usize = 10;
        let Life::Process { log, .. } = &self.life else { return error };
        let log = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n  ");
        io::Error::new(error.kind(), format!("{error}; the last lines of its log:\n  {last}"))
    }

    async fn until_it_serves(&mut self) -> io::Result<()> {
        let limit = Instant::now() + START_LIMIT;
        loop {
            // A starting server may accept connections; only a session shows that it is ready.
            if let Ok(Ok(wire)) = timeout(TRIAL, Wire::open(&self.target.door)).await {
                return wire.close().await;
            }
            if let Life::Process { child, .. } = &mut self.life {
                if let Some(status) = child.try_wait()? {
                    return Err(io::Error::other(format!("it exited with {status}")));
                }
            }
            if Instant::now() > limit {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            sleep(TRIAL / 10).await;
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Life::Process { child, .. } = &mut self.life {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
