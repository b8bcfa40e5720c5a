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
use tokio::time::{sleep, timeout};
use zoolet::Server;

use crate::certificates::Certificates;
use crate::echo::Flavor;
use crate::home::{Home, Place, Settings};
use crate::wire::{Door, Stream, Wire};
use crate::workload::Target;

/// Apache ZooKeeper may have to be downloaded first.
const START_LIMIT: Duration = Duration::from_secs(60);
/// A large directory may have to be loaded.
const LOAD_LIMIT: Duration = Duration::from_secs(600);
/// The timeout for a starting server to open a session.
const TRIAL: Duration = Duration::from_millis(200);
/// The pause between two looks at a server that starts or stops.
const PAUSE: Duration = Duration::from_millis(2);
/// The heap of Apache ZooKeeper.
const HEAP: &str = "-Xmx2g";
const HEAP_FLAG: &str = "--jvm=-Xmx2g";

/// A kind of server to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A bare tokio server that answers frames with frames of the same size.
    Echo,
    /// On disk: the same with a thread of its own that writes and syncs.
    EchoThread,
    /// Our binary, built with the profile `dist`.
    Zoolet,
    /// The same with metrics, in memory.
    Measured,
    /// Our server embedded in the bench, without sockets; its CPU time includes the load.
    InProcess,
    /// Apache ZooKeeper 3.9.
    Apache,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::EchoThread => "echo-thread",
            Self::Zoolet => "zoolet",
            Self::Measured => "measured",
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

/// A running server; killed on drop.
pub(crate) struct Peer {
    pub(crate) kind: Kind,
    pub(crate) target: Target,
    /// How it was started, for the report.
    pub(crate) about: String,
    /// How long it took until it opened a session.
    pub(crate) started_in: Duration,
    life: Life,
}

/// How to stop a server.
enum Life {
    Process { child: Child, home: Option<Home> },
    Embedded { _server: Server },
}

/// The configuration to start servers.
pub(crate) struct Starter {
    /// Our binary; by default that of the profile `dist` in the target folder of this bench.
    pub(crate) zoolet: Option<PathBuf>,
    /// Nanoseconds of work that the echo server does for each change.
    pub(crate) echo_work: u64,
    /// The runtime of the echo server.
    pub(crate) flavor: Flavor,
}

impl Starter {
    /// Starts a server with an empty folder and waits until it answers.
    ///
    /// # Errors
    /// What is missing, with a hint.
    pub(crate) async fn start(&self, kind: Kind, place: Place) -> io::Result<Peer> {
        match (kind, place) {
            (Kind::InProcess, _) => embed().await,
            (_, Place::Memory | Place::MemoryByTls) => {
                self.start_in(kind, Home::in_memory(place)?, &[]).await
            }
            (_, Place::Disk) => self.start_in(kind, Home::on_disk()?, &[]).await,
        }
    }

    /// Starts a server in a folder, which may have data, and waits until it answers. The settings are for servers on disk.
    ///
    /// # Errors
    /// What is missing, with a hint.
    pub(crate) async fn start_in(&self, kind: Kind, home: Home, settings: Settings<'_>) -> io::Result<Peer> {
        let addr = free_address()?;
        let tls = if home.place == Place::MemoryByTls { Some(Certificates::find()?) } else { None };
        // The plain port, which is not used then.
        let plain = if tls.is_some() { free_address()? } else { addr };
        let (mut command, about) = match (kind, home.place) {
            (Kind::Echo | Kind::EchoThread, _) => self.echo(addr, &home, kind == Kind::EchoThread)?,
            (Kind::Zoolet, Place::MemoryByTls) => {
                let keys = tls.as_ref().map(|tls| tls.settings(addr)).unwrap_or_default();
                let keys: Vec<_> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
                self.zoolet(plain, &home, &keys)?
            }
            (Kind::Zoolet, _) => self.zoolet(addr, &home, settings)?,
            (Kind::Measured, _) => {
                let (mut command, about) = self.zoolet(addr, &home, settings)?;
                command.args(["--metrics", "127.0.0.1:0"]);
                (command, format!("{about}, with metrics"))
            }
            (Kind::Apache, Place::Memory | Place::MemoryByTls) => {
                apache_in_memory(plain, &home, tls.as_ref().map(|tls| (tls, addr)))
            }
            (Kind::Apache, Place::Disk) => apache_on_disk(addr, &home, settings)?,
            (Kind::InProcess, _) => return embed().await,
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(home.log())?);
        let began = Instant::now();
        let child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", Path::new(command.get_program()).display()))
        })?;
        let door = match tls {
            None => Door::Tcp(addr),
            Some(tls) => Door::Tls(addr, tls.connector()?),
        };
        let target = Target { door, pid: child.id() };
        let life = Life::Process { child, home: Some(home) };
        let mut peer = Peer { kind, target, about, started_in: Duration::ZERO, life };
        match peer.until_it_serves().await {
            Ok(()) => {
                peer.started_in = began.elapsed();
                Ok(peer)
            }
            Err(error) => Err(peer.explain(error)),
        }
    }

    fn echo(&self, addr: SocketAddr, home: &Home, on_thread: bool) -> io::Result<(Command, String)> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["echo", "--runtime", self.flavor.name(), "--port", &addr.port().to_string()]);
        command.args(["--work", &self.echo_work.to_string()]);
        let mut about = format!("bare tokio server, {} runtime", self.flavor.name());
        if self.echo_work > 0 {
            about += &format!(", {} ns of work for a change", self.echo_work);
        }
        if home.place == Place::Disk {
            command.arg("--journal").arg(home.path().join("journal"));
            about += ", writes and syncs changes";
            if on_thread {
                command.arg("--on-thread");
                about += " on a thread of its own";
            }
        }
        Ok((command, about))
    }

    fn zoolet(&self, addr: SocketAddr, home: &Home, settings: Settings<'_>) -> io::Result<(Command, String)> {
        let binary = match &self.zoolet {
            Some(binary) => binary.clone(),
            None => target_dir()?.join("dist").join("zoolet"),
        };
        if !binary.exists() {
            let message = format!(
                "no {}; build it with `cargo build --profile dist -p zoolet-cli --features full`",
                binary.display()
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        let mut command = Command::new(binary);
        command.args(["serve", "--bind", &addr.to_string()]);
        if home.place == Place::Disk {
            command.arg("--config").arg(home.config(settings)?).arg("--data-dir").arg(home.data());
            return Ok((command, format!("zoolet serve, synced, data in {}", home.path().display())));
        }
        if home.place == Place::MemoryByTls {
            command.arg("--config").arg(home.config(settings)?);
            return Ok((command, "zoolet serve, in memory, by TLS".into()));
        }
        // All connections come from one address.
        command.args(["--max-client-cnxns", "0"]);
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
    let (kind, started_in) = (Kind::InProcess, Duration::ZERO);
    Ok(Peer { kind, target, about, started_in, life: Life::Embedded { _server: server } })
}

fn apache_in_memory(
    addr: SocketAddr,
    home: &Home,
    tls: Option<(&Certificates, SocketAddr)>,
) -> (Command, String) {
    let mut command = Command::new("tests/apache/zookeeper");
    command.args(["start", "--port", &addr.port().to_string(), "--dir"]).arg(home.path());
    command.args(["-D", "zookeeper.forceSync=no", HEAP_FLAG]);
    let parent = home.path().parent().unwrap_or(home.path());
    let mut factory = "NIO";
    if let Some((certificates, addr)) = tls {
        factory = "Netty, by TLS";
        command.arg("--tls").arg(&certificates.folder);
        command.args(["--secure-port", &addr.port().to_string(), "-D", "zookeeper.ssl.clientAuth=none"]);
    }
    let about = format!("Apache ZooKeeper, {factory}, forceSync=no, data in {}", parent.display());
    (command, about)
}

/// Without the script, whose own start would count.
fn apache_on_disk(addr: SocketAddr, home: &Home, settings: Settings<'_>) -> io::Result<(Command, String)> {
    let fetched = Command::new("tests/apache/zookeeper").arg("fetch").output()?;
    if !fetched.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&fetched.stderr).into_owned()));
    }
    let jars = String::from_utf8_lossy(&fetched.stdout).trim().to_owned();
    let (data, port) = (home.data().display().to_string(), addr.port().to_string());
    let own = [
        ("dataDir", &*data),
        ("clientPort", &*port),
        ("clientPortAddress", "127.0.0.1"),
        ("admin.enableServer", "false"),
    ];
    let config = home.config(&[&own, settings].concat())?;
    let java = env::var_os("JAVA_HOME").map_or("java".into(), |home| Path::new(&home).join("bin/java"));
    let mut command = Command::new(java);
    command.args([HEAP, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", &jars]);
    command.arg("org.apache.zookeeper.server.ZooKeeperServerMain").arg(config);
    let about = format!("Apache ZooKeeper, NIO, synced, data in {}", home.path().display());
    Ok((command, about))
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
        let Life::Process { home: Some(home), .. } = &self.life else { return error };
        let log = fs::read_to_string(home.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n  ");
        io::Error::new(error.kind(), format!("{error}; the last lines of its log:\n  {last}"))
    }

    /// The folder of a server in a process of its own.
    pub(crate) fn home(&self) -> io::Result<&Home> {
        match &self.life {
            Life::Process { home: Some(home), .. } => Ok(home),
            _ => Err(io::Error::other("the server has no folder")),
        }
    }

    /// Stops the server with SIGTERM and returns its folder.
    pub(crate) async fn stop(mut self) -> io::Result<Home> {
        let pid = self.target.pid.to_string();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        let Life::Process { child, home } = &mut self.life else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        while child.try_wait()?.is_none() {
            sleep(PAUSE).await;
        }
        home.take().ok_or_else(|| io::Error::other("the server has no folder"))
    }

    /// Kills the server with SIGKILL and returns its folder.
    pub(crate) fn kill(mut self) -> io::Result<Home> {
        let Life::Process { child, home } = &mut self.life else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        child.kill()?;
        child.wait()?;
        home.take().ok_or_else(|| io::Error::other("the server has no folder"))
    }

    async fn until_it_serves(&mut self) -> io::Result<()> {
        let on_disk =
            matches!(&self.life, Life::Process { home: Some(home), .. } if home.place == Place::Disk);
        let limit = Instant::now() + if on_disk { LOAD_LIMIT } else { START_LIMIT };
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
            sleep(PAUSE).await;
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
