//! The server that is killed: `zoolet serve`, or Apache ZooKeeper with the same settings.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// `zoolet`, `apache`, or `memory` for Zoolet without a data directory.
pub const SERVER: &str = "ZOOLET_KILL_SERVER";
/// The binary of Zoolet.
pub const BINARY: &str = "ZOOLET_KILL_BINARY";

/// A shell that runs the server and kills it when its own input ends, because the server is to be killed or the test is gone. It
/// reaps the server last, so nobody else gets its process id before.
const SUPERVISOR: &str = r#"trap "" PIPE; "$@" </dev/null & echo "pid $!"; read -r _; kill -KILL $! 2>/dev/null; wait $! 2>/dev/null"#;
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// How often containers are looked for, which is a flag of the JVM for Apache.
const CONTAINER_CHECK: &str = "znode.container.checkIntervalMs";
const CONTAINER_CHECK_MS: u32 = 300;

/// How to start the server again and again.
pub struct Setup {
    kind: String,
    /// The data directory.
    pub data: PathBuf,
    dir: PathBuf,
    config: PathBuf,
    starts: u32,
}

/// A server process. Killed on drop.
pub struct Server {
    supervisor: Child,
    pid: u32,
    lines: mpsc::Receiver<String>,
    /// The file of its warnings.
    pub log: PathBuf,
}

impl Setup {
    /// A server with these settings in its `zoo.cfg`, and its files in `dir`.
    pub fn new(dir: &Path, settings: &[(&str, String)]) -> Self {
        let kind = env::var(SERVER).unwrap_or_else(|_| "zoolet".to_owned());
        let mut text: String = settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        if kind != "apache" {
            text += &format!("{CONTAINER_CHECK}={CONTAINER_CHECK_MS}\n");
        }
        let config = dir.join("given.cfg");
        fs::write(&config, text).expect("a file");
        // Where tests/apache/zookeeper has it.
        Self { kind, data: dir.join("data"), dir: dir.to_owned(), config, starts: 0 }
    }

    /// Starts the server. It is not ready before [`Server::address`].
    pub fn start(&mut self) -> Server {
        self.starts += 1;
        let log = self.dir.join(format!("server-{}.log", self.starts));
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", SUPERVISOR, "supervisor"]);
        if self.kind == "apache" {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
            let port = port.expect("a free port").port().to_string();
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apache/zookeeper");
            supervisor.arg(script).args(["start", "--port", &port, "--dir"]).arg(&self.dir);
            supervisor.arg("--config").arg(&self.config);
            supervisor.args(["--jvm=-Xmx512m", "--jvm=-XX:TieredStopAtLevel=1"]);
            supervisor.args(["-D", &format!("{CONTAINER_CHECK}={CONTAINER_CHECK_MS}")]);
        } else {
            supervisor.args([&env::var(BINARY).expect(BINARY), "serve", "--bind", "127.0.0.1:0", "--config"]);
            supervisor.arg(&self.config);
            if self.kind == "zoolet" {
                supervisor.arg("--data-dir").arg(&self.data);
            }
        }
        supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log).expect("a log"));
        let mut supervisor = supervisor.spawn().expect("a shell");
        let mut output = BufReader::new(supervisor.stdout.take().expect("a pipe"));
        let mut first = String::new();
        output.read_line(&mut first).expect("the output of the shell");
        let pid = first.trim_start_matches("pid ").trim().parse().expect("a process id");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            while output.read_line(&mut line).is_ok_and(|read| read > 0) {
                drop(sender.send(std::mem::take(&mut line)));
            }
        });
        Server { supervisor, pid, lines, log }
    }

    /// Checks the directory of a server that has stopped with `zoolet data verify`, if it is ours.
    pub fn verify(&self) -> Result<(), String> {
        if self.kind != "zoolet" {
            return Ok(());
        }
        let binary = env::var(BINARY).expect(BINARY);
        let verified =
            Command::new(binary).args(["data", "verify"]).arg(&self.data).output().expect("a process");
        let text = String::from_utf8_lossy(&verified.stdout) + String::from_utf8_lossy(&verified.stderr);
        if verified.status.success() { Ok(()) } else { Err(format!("zoolet data verify:\n{text}")) }
    }
}

impl Server {
    /// Waits until the server is ready, and returns its address.
    ///
    /// # Errors
    /// It did not start; with its log.
    pub fn address(&self) -> Result<SocketAddr, String> {
        // Both servers print one line that contains it.
        match self.lines.recv_timeout(START_LIMIT) {
            Ok(line) => {
                let words = line.split_whitespace().map(|word| word.trim_end_matches(';'));
                let address = words.filter_map(|word| word.parse().ok()).next_back();
                address.ok_or(format!("the server printed {line:?}"))
            }
            Err(_) => Err(format!("the server did not start; its log:\n{}", self.log_text())),
        }
    }

    /// Sends SIGKILL and waits for the end of the process.
    pub fn kill(mut self) {
        self.reap();
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// It did not stop in time; with its log.
    pub fn stop(self) -> Result<(), String> {
        let began = Instant::now();
        drop(Command::new("kill").args(["-TERM", &self.pid.to_string()]).status());
        while !self.has_ended() {
            if began.elapsed() > STOP_LIMIT {
                return Err(format!("the server did not stop; its log:\n{}", self.log_text()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The server's log.
    pub fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether the process has ended by itself, or by a signal.
    pub fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with('Z'))
    }

    fn reap(&mut self) {
        drop(self.supervisor.stdin.take());
        drop(self.supervisor.wait());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.reap();
    }
}
