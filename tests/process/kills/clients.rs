//! The foreign clients: programs that read and write until they are killed. See `tests/apache/clients/*/kills.*`.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::kills::proxy::Proxy;

/// A line per client: its name, a tab, a command of the shell. `tests/process/kill` builds the programs and sets it.
pub const CLIENTS: &str = "ZOOLET_KILL_CLIENTS";
/// The session timeout that clients ask for. No session may expire during a test.
pub const TIMEOUT_MS: u32 = 20_000;
/// Bytes of replies that are more than a handshake and the watches that are restored.
const PROGRESS: u64 = 10_000;

/// A client program behind a proxy. Killed on drop.
pub struct ForeignClient {
    pub name: String,
    log: PathBuf,
    child: Child,
    proxy: Proxy,
    received: u64,
}

/// The names and commands of the clients.
pub fn commands() -> Vec<(String, String)> {
    let text = env::var(CLIENTS).expect(CLIENTS);
    let commands = text.lines().filter_map(|line| line.split_once('\t'));
    commands.map(|(name, command)| (name.to_owned(), command.to_owned())).collect()
}

impl ForeignClient {
    pub fn start(name: String, command: &str, proxy: Proxy, seed: usize, dir: &Path) -> Self {
        let log = dir.join(format!("{name}.log"));
        let output = File::create(&log).expect("a log");
        let errors = output.try_clone().expect("the same log");
        // Several names of the same server: some clients wait for a second before they try the first one again.
        let hosts = vec![proxy.address.to_string(); 4].join(",");
        // The shell becomes the client, so that killing it kills the client.
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {command}")]);
        shell.env("ZK_HOSTS", hosts).env("ZK_ROOT", "/").env("ZK_SEED", seed.to_string());
        shell.env("ZK_TIMEOUT_MS", TIMEOUT_MS.to_string()).env("ZK_DIRECT", "").env("ZK_CONTROL", "");
        // A pipe that is never written to ends with this process, and clients end with it.
        shell.stdin(Stdio::piped()).stdout(output).stderr(errors);
        let child = shell.spawn().expect("a shell");
        Self { name, log, child, proxy, received: 0 }
    }

    /// From now on [`ForeignClient::works`] counts.
    pub fn mark(&mut self) {
        self.received = self.proxy.received();
    }

    /// Whether the server has answered requests since the mark.
    pub fn works(&self) -> bool {
        self.proxy.received() > self.received + PROGRESS
    }

    /// The end of what it printed.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Ends the program. Its sessions stay.
    pub fn kill(mut self) {
        self.reap();
    }

    fn reap(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for ForeignClient {
    fn drop(&mut self) {
        self.reap();
    }
}
