//! Real servers on given data directories, one after the other in one process: see `java/Directories.java`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use zoolet_test_support::limit;

/// The versions that are tried: the newest release of 3.9, and the first one of 3.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V38,
    V39,
}

impl Version {
    pub const ALL: [Self; 2] = [Self::V39, Self::V38];

    fn class_path(self) -> String {
        let variable = match self {
            Self::V38 => "ZOOLET_DIRECTORIES_38",
            Self::V39 => "ZOOLET_DIRECTORIES_39",
        };
        std::env::var(variable)
            .unwrap_or_else(|_| panic!("{variable} is not set: use tests/apache/run storage"))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V38 => "3.8",
            Self::V39 => "3.9",
        })
    }
}

/// The settings of a server. By default nothing happens while it runs: no session expires, no container goes, and the only
/// snapshot is that of the start.
#[derive(Debug, Clone)]
pub struct Settings(BTreeMap<&'static str, String>);

impl Settings {
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.insert(name, value.to_string());
        self
    }
}

/// A process that runs at most one server at a time.
pub struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// What it is, for messages.
    pub version: Version,
}

/// A server that has started.
#[derive(Debug)]
pub struct Started {
    pub address: SocketAddr,
    /// What it logged: warnings and worse, with stack traces.
    pub log: Vec<String>,
}

/// Why one has not.
#[derive(Debug)]
pub struct Refused {
    pub reason: String,
    pub log: Vec<String>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.reason, self.log.join("\n"))
    }
}

/// What no client sees.
#[derive(Debug, Default)]
pub struct Stored {
    /// The owner of each znode.
    pub owners: BTreeMap<String, i64>,
    /// The timeout of each session.
    pub sessions: BTreeMap<i64, i32>,
}

struct Answer {
    result: Result<String, String>,
    lines: Vec<String>,
    log: Vec<String>,
}

impl Process {
    pub fn new(version: Version) -> Self {
        let mut child = Command::new("java")
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"])
            .args(
                ["defaultLogLevel=warn", "showThreadName=false"]
                    .map(|p| format!("-Dorg.slf4j.simpleLogger.{p}")),
            )
            .args(["-cp", &version.class_path(), "org.apache.zookeeper.server.Directories"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("java");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, input, output, version }
    }

    /// Starts a server on a directory, which changes the directory.
    pub fn start(&mut self, dir: &Path, settings: &Settings) -> Result<Started, Refused> {
        let mut words = vec!["start".to_owned(), text(dir), text(dir)];
        words.extend(settings.0.iter().map(|(name, value)| format!("{name}={value}")));
        let Answer { result, log, .. } = self.ask(&words);
        match result {
            Ok(port) => {
                let port = port.parse().expect("a port");
                Ok(Started { address: (Ipv4Addr::LOCALHOST, port).into(), log })
            }
            Err(reason) => Err(Refused { reason, log }),
        }
    }

    /// What no client sees.
    pub fn stored(&mut self) -> Stored {
        let Answer { result, lines, .. } = self.ask(&["raw".to_owned()]);
        result.expect("a server that runs");
        let mut stored = Stored::default();
        for line in lines {
            let fields: Vec<_> = line.splitn(3, ' ').collect();
            let hex = |text| u64::from_str_radix(text, 16).expect("a number") as i64;
            match fields[..] {
                ["owner", owner, path] => _ = stored.owners.insert(path.to_owned(), hex(owner)),
                ["session", id, timeout] => {
                    stored.sessions.insert(hex(id), timeout.parse().expect("a number"));
                }
                _ => panic!("{line}"),
            }
        }
        stored
    }

    /// Shuts the server down. Returns what it logged since the last answer.
    pub fn stop(&mut self) -> Vec<String> {
        let Answer { result, log, .. } = self.ask(&["stop".to_owned()]);
        result.expect("a clean stop");
        log
    }

    /// What zkTxnLogToolkit prints of a log file, or why it fails.
    pub fn toolkit(&mut self, file: &Path) -> Result<Vec<String>, String> {
        let Answer { result, lines, .. } = self.ask(&["toolkit".to_owned(), text(file)]);
        result.map(|_| lines)
    }

    fn ask(&mut self, words: &[String]) -> Answer {
        limit();
        writeln!(self.input, "{}", words.join("\t")).expect("a process that takes commands");
        let (mut lines, mut log) = (Vec::new(), Vec::new());
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("text");
            assert!(
                line.ends_with('\n'),
                "Apache ZooKeeper {} has ended: {line} {lines:?} {log:?}",
                self.version
            );
            let line = line.trim_end_matches('\n');
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            match kind {
                "log" => log.push(rest.to_owned()),
                "ok" => return Answer { result: Ok(rest.to_owned()), lines, log },
                "failed" => return Answer { result: Err(rest.to_owned()), lines, log },
                "line" => lines.push(rest.to_owned()),
                _ => lines.push(line.to_owned()),
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it without a shutdown (`kill -9`).
    pub fn kill(self) {}
}

/// A process that is stopped in whatever it is doing, until this is dropped: its files are as a kill would leave them.
pub struct Stopped(u32);

impl Stopped {
    pub fn new(pid: u32) -> Self {
        signal(pid, "STOP");
        let stopped = Self(pid);
        // A thread that is in the middle of a write finishes it first.
        while !is_stopped(pid) {
            thread::sleep(Duration::from_millis(1));
        }
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.0, "CONT");
    }
}

fn signal(pid: u32, signal: &str) {
    let sent = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status();
    assert!(sent.is_ok_and(|sent| sent.success()), "cannot send {signal} to {pid}");
}

/// Whether all threads of a process are stopped (Linux).
fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the threads of a process");
    threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok()).all(|stat| {
        // After the name, which is in brackets.
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    })
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path of text").to_owned()
}
