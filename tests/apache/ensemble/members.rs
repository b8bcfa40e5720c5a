//! An ensemble of Apache ZooKeepers: processes on this machine that can be killed, started again, stopped and continued.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::ensemble::words::{self, wait_for};

/// The variable with the class path of Apache ZooKeeper; `tests/apache/run` sets it.
pub const JARS: &str = "ZOOLET_ENSEMBLE_JARS";

/// How many members there are.
pub const MEMBERS: usize = 3;

/// The unit of every time of the servers.
pub const TICK: Duration = Duration::from_millis(250);
/// How many ticks a follower may be out of touch with its leader.
pub const SYNC_LIMIT: u32 = 4;

/// How long an election, or the start of a member on a busy machine, may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A shell that runs a member and kills it when its own input ends: on purpose, or because this process is gone,
/// for whatever reason. It stays the parent, so the process id remains that of the member as long as it is used here.
const SUPERVISOR: &str = r#""$@" </dev/null >&2 & echo $!; read -r _; kill -KILL $!; wait $! 2>/dev/null"#;

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Leader,
    Follower,
    ReadOnly,
    /// It answers without serving clients, or does not answer.
    None,
}

pub struct Ensemble {
    members: Vec<Member>,
    /// Data and settings; goes with this.
    _dir: tempfile::TempDir,
}

struct Member {
    jars: String,
    address: SocketAddr,
    config: PathBuf,
    log: PathBuf,
    properties: Vec<String>,
    running: Option<Running>,
}

struct Running {
    supervisor: Child,
    pid: String,
}

impl Ensemble {
    /// Three members that serve; `name` is in the names of their logs.
    pub async fn start(name: &str, rng: &mut StdRng) -> Self {
        Self::start_with(name, rng, "", &[]).await
    }

    /// The same with more lines of settings, and properties of the Java machine.
    pub async fn start_with(name: &str, rng: &mut StdRng, settings: &str, properties: &[&str]) -> Self {
        let jars = std::env::var(JARS).expect(JARS);
        let dir = tempfile::tempdir().expect("a directory");
        let logs = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ensemble");
        fs::create_dir_all(&logs).expect("a directory for logs");
        let ports = free_ports(rng, 3 * MEMBERS);
        let mut servers = String::new();
        for (at, ports) in ports.chunks(3).enumerate() {
            let _ = writeln!(servers, "server.{}=127.0.0.1:{}:{}", at + 1, ports[1], ports[2]);
        }
        let mut members = Vec::new();
        for (at, ports) in ports.chunks(3).enumerate() {
            let home = dir.path().join(format!("{at}"));
            fs::create_dir_all(home.join("data")).expect("a directory");
            fs::write(home.join("data/myid"), format!("{}", at + 1)).expect("a file");
            let (data, tick, port) = (home.join("data"), TICK.as_millis(), ports[0]);
            let config = home.join("zoo.cfg");
            let text = format!(
                "dataDir={}\ntickTime={tick}\ninitLimit=40\nsyncLimit={SYNC_LIMIT}\nclientPort={port}\n\
                 clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n\
                 4lw.commands.whitelist=*\n{servers}{settings}",
                data.display()
            );
            fs::write(&config, text).expect("a file");
            members.push(Member {
                jars: jars.clone(),
                address: (Ipv4Addr::LOCALHOST, port).into(),
                config,
                log: logs.join(format!("{name}-{at}.log")),
                properties: properties.iter().map(|property| format!("-D{property}")).collect(),
                running: None,
            });
        }
        for member in &members {
            let _ = fs::remove_file(&member.log);
        }
        let mut ensemble = Self { members, _dir: dir };
        (0..MEMBERS).for_each(|at| ensemble.restart(at));
        ensemble.wait_until_served().await;
        ensemble
    }

    /// All members, for a client.
    pub fn connect_string(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(|member| member.address.to_string()).collect();
        hosts.join(",")
    }

    pub fn addresses(&self) -> Arc<[SocketAddr]> {
        self.members.iter().map(|member| member.address).collect()
    }

    /// The settings of a member, which it reads when it starts.
    pub fn config(&self, at: usize) -> &Path {
        &self.members[at].config
    }

    /// The data directory of a member.
    pub fn data(&self, at: usize) -> PathBuf {
        self.config(at).with_file_name("data")
    }

    pub fn address(&self, at: usize) -> SocketAddr {
        self.members[at].address
    }

    /// Waits until every member that runs is a leader or follows one, and gives the leader.
    pub async fn wait_until_served(&self) -> usize {
        wait_for("every member serves", LIMIT, async || {
            let mut leader = None;
            for at in (0..MEMBERS).filter(|at| self.members[*at].running.is_some()) {
                match self.mode(at).await {
                    Mode::Leader => leader = Some(at),
                    Mode::Follower => {}
                    Mode::ReadOnly | Mode::None => return None,
                }
            }
            leader
        })
        .await
    }

    /// Waits until there is a leader among the members other than `but`, and gives it.
    pub async fn wait_for_leader_other_than(&self, but: usize) -> usize {
        wait_for("another leader", LIMIT, async || {
            for at in (0..MEMBERS).filter(|at| *at != but && self.members[*at].running.is_some()) {
                if self.mode(at).await == Mode::Leader {
                    return Some(at);
                }
            }
            None
        })
        .await
    }

    pub async fn mode(&self, at: usize) -> Mode {
        let answer = words::ask(self.address(at), "srvr").await.unwrap_or_default();
        match answer.lines().find_map(|line| line.strip_prefix("Mode: ")) {
            Some("leader") => Mode::Leader,
            Some("follower") => Mode::Follower,
            Some("read-only") => Mode::ReadOnly,
            _ => Mode::None,
        }
    }

    /// A number of the statistics, summed over all members that answer.
    pub async fn sum(&self, statistic: &str) -> u64 {
        let mut sum = 0;
        for at in 0..MEMBERS {
            let answer = words::ask(self.address(at), "mntr").await.unwrap_or_default();
            let values = answer.lines().filter_map(|line| line.split_once('\t'));
            let value =
                values.filter(|(key, _)| *key == statistic).find_map(|(_, value)| value.parse::<u64>().ok());
            sum += value.unwrap_or(0);
        }
        sum
    }

    /// Kills a member without a shutdown.
    pub fn kill(&mut self, at: usize) {
        if let Some(running) = self.members[at].running.take() {
            running.kill();
        }
    }

    /// Starts a member that does not run, with the data that it has.
    pub fn restart(&mut self, at: usize) {
        let member = &mut self.members[at];
        assert!(member.running.is_none(), "member {at} runs");
        member.running = Some(member.run());
    }

    /// The id of the process of a member.
    pub fn pid(&self, at: usize) -> u32 {
        let running = self.members[at].running.as_ref().expect("a member that runs");
        running.pid.parse().expect("a process id")
    }

    /// Stops a member in whatever it is doing. Its connections stay open, and are accepted by its kernel.
    pub fn pause(&self, at: usize) {
        self.signal(at, "STOP");
    }

    /// Lets a member that was stopped go on.
    pub fn resume(&self, at: usize) {
        self.signal(at, "CONT");
    }

    fn signal(&self, at: usize, signal: &str) {
        let running = self.members[at].running.as_ref().expect("a member that runs");
        let sent = Command::new("kill").args([&format!("-{signal}"), &running.pid]).status();
        assert!(sent.is_ok_and(|sent| sent.success()), "cannot send {signal} to member {at}");
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|at| self.kill(at));
    }
}

impl Member {
    fn run(&self) -> Running {
        let log = File::options().create(true).append(true).open(&self.log).expect("a log");
        // A small JVM starts fast: nothing here runs long enough for the optimizing compiler to pay.
        let machine = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:CICompilerCount=1"];
        // A killed process loses nothing that it has written: only the machine itself could, so nothing waits for the disk.
        let storage =
            ["-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=512", "-Dzookeeper.snapCount=2000"];
        let mut supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor", "java"])
            .args(machine)
            .args(storage)
            .args(&self.properties)
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .arg("-Dorg.slf4j.simpleLogger.showDateTime=true")
            .args(["-cp", &self.jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain"])
            .arg(&self.config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("a shell");
        let mut pid = String::new();
        let output = supervisor.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut pid).expect("the shell names the process");
        Running { supervisor, pid: pid.trim().to_owned() }
    }
}

impl Running {
    fn kill(mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}

/// Unused ports, below those that the system gives to outgoing connections: while a member is down, no
/// connection of a client may take the port that it listens on again.
fn free_ports(rng: &mut StdRng, count: usize) -> Vec<u16> {
    let mut held = Vec::new();
    while held.len() < count {
        held.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, rng.random_range(12_000..32_000))));
    }
    held.iter().map(|held| held.local_addr().expect("a bound port").port()).collect()
}
