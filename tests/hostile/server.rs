//! A server in a process of its own: `zoolet serve`, or Apache ZooKeeper with the same settings.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use zoolet_test_support::certificates::Authority;

/// `zoolet`, which `tests/hostile/run` builds, or `apache`.
pub const SERVER: &str = "ZOOLET_HOSTILE_SERVER";
/// The binary of Zoolet.
pub const BINARY: &str = "ZOOLET_HOSTILE_BINARY";
/// Set on a machine that does other work.
const BUSY: &str = "ZOOLET_HOSTILE_BUSY";

/// A shell that runs the server and kills it when its own input ends, because the server is to end or the test is gone. It
/// reaps the server last, so nobody else gets its process id before. It outlives a test that no longer reads its output.
const SUPERVISOR: &str = r#"trap "" PIPE; eval "$LIMITS"; "$@" </dev/null & echo $!; read -r _; kill -KILL $! 2>/dev/null; wait $! 2>/dev/null"#;

/// Neither a server that allocates without bounds nor a Java heap may take the memory of the machine.
const ADDRESS_SPACE_KIB: u64 = 6 << 20;
const HEAP: &str = "-Xmx2g";

#[derive(Clone, Copy)]
pub struct Settings {
    /// Connections of one client address; 0 for no limit.
    pub max_client_cnxns: u32,
    /// Whether stderr is a pipe that nobody reads.
    pub stderr_unread: bool,
    /// Open descriptors of the server.
    pub descriptors: u32,
    /// The port that is attacked. The bystander is at that of clients.
    pub port: Port,
}

#[derive(Clone, Copy)]
pub enum Port {
    Clients,
    Tls,
    Admin,
    Metrics,
}

impl Settings {
    pub const fn new() -> Self {
        Self { max_client_cnxns: 0, stderr_unread: false, descriptors: 20_000, port: Port::Clients }
    }
}

pub struct Server {
    pub address: SocketAddr,
    /// The port that is attacked.
    pub target: SocketAddr,
    pub pid: u32,
    supervisor: Child,
    _unread: Option<ChildStderr>,
    _dir: tempfile::TempDir,
}

/// How many times the usual bound a wait may take.
pub fn wait_factor() -> u32 {
    if env::var_os(BUSY).is_some() { 10 } else { 1 }
}

/// Whether the attacks run on Apache ZooKeeper.
pub fn is_apache() -> bool {
    env::var(SERVER).is_ok_and(|server| server == "apache")
}

/// Where logs and results are written.
pub fn output() -> PathBuf {
    let name = if is_apache() { "hostile-apache" } else { "hostile-zoolet" };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a directory");
    folder
}

impl Server {
    /// Starts a server and waits until it answers. `name` is in the name of its log.
    pub fn start(name: &str, settings: Settings) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("given.cfg");
        let mut text = format!(
            "tickTime=2000\nmaxClientCnxns={}\n4lw.commands.whitelist=*\nadmin.enableServer={}\n",
            settings.max_client_cnxns,
            matches!(settings.port, Port::Admin)
        );
        let target = settings.port.configure(dir.path(), &mut text);
        fs::write(&config, text).expect("a file");
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", SUPERVISOR, "supervisor"]);
        let mut limits = format!("ulimit -n {}", settings.descriptors);
        if is_apache() {
            let port = free_address().port().to_string();
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apache/zookeeper");
            supervisor.arg(script).args(["start", "--port", &port, "--dir"]).arg(dir.path().join("server"));
            // A disk that syncs slowly is none of the attacks.
            supervisor
                .arg("--config")
                .arg(&config)
                .args([&format!("--jvm={HEAP}"), "-Dzookeeper.forceSync=no"]);
        } else {
            limits = format!("{limits}; ulimit -v {ADDRESS_SPACE_KIB}");
            let binary = env::var(BINARY).expect(BINARY);
            supervisor.args([&binary, "serve", "--bind", "127.0.0.1:0", "--config"]).arg(&config);
        }
        let log = File::create(output().join(format!("{name}.log"))).expect("a log");
        supervisor.env("LIMITS", limits).stdin(Stdio::piped()).stdout(Stdio::piped());
        supervisor.stderr(if settings.stderr_unread { Stdio::piped() } else { Stdio::from(log) });
        let mut supervisor = supervisor.spawn().expect("a shell");
        let mut lines = BufReader::new(supervisor.stdout.take().expect("a pipe"));
        let (mut pid, mut address) = (None, None);
        // The shell names the process, and the server its address, in either order.
        while pid.is_none() || address.is_none() {
            let mut line = String::new();
            let read = lines.read_line(&mut line).expect("the output of the server");
            assert!(read > 0, "{name} did not start; see its log in {}", output().display());
            match line.trim().parse() {
                Ok(number) => pid = Some(number),
                // The port without TLS is named first.
                Err(_) => {
                    let mut words = line.split([' ', ',', ';', '\n']);
                    address = words.find_map(|word| word.parse().ok());
                }
            }
        }
        let (pid, address) = pid.zip(address).expect("both are there");
        thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        let unread = supervisor.stderr.take();
        Self { address, target: target.unwrap_or(address), pid, supervisor, _unread: unread, _dir: dir }
    }

    /// Makes the most memory that was resident count anew. Where that is not allowed, the set-up counts as well.
    pub fn reset_peak(&self) {
        let _ = fs::write(format!("/proc/{}/clear_refs", self.pid), "5");
    }

    /// Resident memory in bytes; 0 if the server has ended.
    pub fn resident(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most memory that was resident, in bytes; 0 if the server has ended.
    pub fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
    }

    /// The time that its threads have used a processor.
    pub fn cpu_time(&self) -> Duration {
        let stat = self.stat().unwrap_or_default();
        let ticks = stat.iter().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>();
        Duration::from_millis(10 * ticks)
    }

    pub fn has_ended(&self) -> bool {
        self.stat().is_none_or(|stat| stat[0] == "Z")
    }

    /// The fields of /proc/PID/stat after the name.
    fn stat(&self) -> Option<Vec<String>> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        Some(rest.split_whitespace().map(str::to_owned).collect())
    }

    /// Sends SIGTERM and returns how long the server takes to end, or `None` if it takes longer than `limit`.
    pub fn terminate(&self, limit: Duration) -> Option<Duration> {
        let sent = Instant::now();
        let _ = Command::new("kill").args(["-TERM", &self.pid.to_string()]).stderr(Stdio::null()).status();
        while !self.has_ended() {
            if sent.elapsed() > limit {
                return None;
            }
            thread::sleep(Duration::from_millis(2));
        }
        Some(sent.elapsed())
    }
}

fn free_address() -> SocketAddr {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
    free.expect("a free port")
}

impl Port {
    /// Adds the port to a configuration and chooses its address, except for that of clients.
    fn configure(self, dir: &Path, config: &mut String) -> Option<SocketAddr> {
        let address = free_address();
        let port = address.port();
        let lines = match self {
            Self::Clients => return None,
            Self::Tls => with_tls(dir, port),
            // Attackers may ask for as many snapshots as they like.
            Self::Admin => format!(
                "admin.serverAddress=127.0.0.1\nadmin.serverPort={port}\nadmin.rateLimiterIntervalInMS=0\n"
            ),
            Self::Metrics => {
                let class = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
                format!(
                    "metricsProvider.className={class}\nmetricsProvider.httpHost=127.0.0.1\n\
                     metricsProvider.httpPort={port}\n"
                )
            }
        };
        config.push_str(&lines);
        Some(address)
    }
}

/// A port with TLS, at which clients may have a certificate.
fn with_tls(dir: &Path, port: u16) -> String {
    let authority = Authority::new("authority");
    let write = |name: &str, text: String| {
        fs::write(dir.join(name), text).expect("a file");
        dir.join(name).display().to_string()
    };
    let key = write("server.pem", authority.issue("server"));
    let trusted = write("authority.pem", authority.pem());
    let factory = "org.apache.zookeeper.server.NettyServerCnxnFactory";
    format!(
        "secureClientPort={port}\nserverCnxnFactory={factory}\nssl.keyStore.location={key}\n\
         ssl.trustStore.location={trusted}\nssl.clientAuth=want\n"
    )
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}
