//! [`ClientCheck`]: runs a command, and judges the ZooKeeper client in it.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use crate::client::evidence::Mistake;
use crate::client::prepare::{ROOT, prepare};
use crate::client::proxy::ClientProxy;
use crate::client::scenario::ClientScenario;
use crate::error::ClientError;

/// How many lines of a program's stderr are kept, of how many bytes.
const KEPT_LINES: usize = 10;
const KEPT_BYTES: usize = 16 << 10;

/// What stands for the addresses among the arguments of the command.
const PLACEHOLDER: &str = "{}";

/// Runs a command against a server, and judges the frames of its ZooKeeper client.
///
/// The command finds the addresses in `ZOOKEEPER`, and in place of `{}` among its arguments; the name of the scenario in
/// `ZOOKEEPER_SCENARIO`; for how many seconds it is to use its client in `ZOOKEEPER_SECONDS`; and a path with the children
/// `data` and `children` to read in `ZOOKEEPER_PATH`. It must end by itself.
#[derive(Debug, Clone)]
pub struct ClientCheck {
    /// A server that nobody else uses, and that has nothing from an earlier check.
    pub server: SocketAddr,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// How long the command may run.
    pub limit: Duration,
}

/// The outcome of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientVerdict {
    /// Why the scenario has not taken place, if it has not.
    pub not_exercised: Option<String>,
    /// What the client did wrong.
    pub mistakes: Vec<Mistake>,
    /// What went wrong with the command itself, and the last lines of its stderr.
    pub failure: Option<(String, Vec<String>)>,
}

impl ClientVerdict {
    /// Whether the scenario has taken place, and nothing was wrong.
    pub fn has_passed(&self) -> bool {
        self.not_exercised.is_none() && self.mistakes.is_empty() && self.failure.is_none()
    }
}

impl ClientCheck {
    /// Runs the command, and waits until it ends.
    ///
    /// # Errors
    /// If the command cannot be started, the server does not answer, or connections of the command cannot be passed on.
    pub async fn run(&self, scenario: &ClientScenario) -> Result<ClientVerdict, ClientError> {
        let disturbance = scenario.disturbance;
        let prepared = prepare(&self.server.to_string(), disturbance).await;
        prepared.map_err(|error| ClientError::Server(error.to_string()))?;
        let proxy = ClientProxy::start(self.server, disturbance).await.map_err(ClientError::Listen)?;
        let failure = self.execute(scenario, &proxy.connect_string()).await?;
        let (exercised, mistakes) = proxy.finish().await.map_err(ClientError::Proxy)?;
        Ok(ClientVerdict { not_exercised: exercised.err(), mistakes, failure })
    }

    /// Runs the command. Returns what went wrong with it.
    async fn execute(
        &self,
        scenario: &ClientScenario,
        addresses: &str,
    ) -> Result<Option<(String, Vec<String>)>, ClientError> {
        let mut words = self.command.iter().map(|word| filled(word, addresses));
        let program = words.next().unwrap_or_default();
        let started = Command::new(&program)
            .args(words)
            .env("ZOOKEEPER", addresses)
            .env("ZOOKEEPER_SCENARIO", scenario.name())
            .env("ZOOKEEPER_SECONDS", scenario.seconds().to_string())
            .env("ZOOKEEPER_PATH", ROOT)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let failed =
            |source| ClientError::Command { command: program.to_string_lossy().into_owned(), source };
        let mut child = started.map_err(failed)?;
        let mut last = Vec::new();
        let ended = {
            let stderr = child.stderr.take();
            let reading = keep_last(stderr, &mut last);
            let waiting = async {
                // A program that it has started may hold stderr open for longer.
                tokio::pin!(reading);
                tokio::select! {
                    () = &mut reading => child.wait().await,
                    ended = child.wait() => {
                        let _ = timeout(Duration::from_millis(200), reading).await;
                        ended
                    }
                }
            };
            timeout(self.limit, waiting).await
        };
        let what = match ended {
            Ok(Ok(status)) if status.success() => return Ok(None),
            Ok(Ok(status)) => format!("the program failed: {status}"),
            Ok(Err(error)) => format!("the program cannot be waited for: {error}"),
            Err(_) => {
                // It is no more, whatever it has held.
                let _ = child.kill().await;
                format!("the program was still running after {} s", self.limit.as_secs())
            }
        };
        Ok(Some((what, last_lines(&last))))
    }
}

/// An argument with the addresses in place of `{}`.
fn filled(word: &OsStr, addresses: &str) -> OsString {
    match word.to_str() {
        Some(text) => text.replace(PLACEHOLDER, addresses).into(),
        None => word.to_owned(),
    }
}

/// Reads to the end, and keeps the last bytes: a program may write on and on without a line break.
async fn keep_last(stderr: Option<impl AsyncRead + Unpin>, last: &mut Vec<u8>) {
    let Some(mut stderr) = stderr else { return };
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        last.extend_from_slice(&chunk[..count]);
        if last.len() > 2 * KEPT_BYTES {
            last.drain(..last.len() - KEPT_BYTES);
        }
    }
}

fn last_lines(bytes: &[u8]) -> Vec<String> {
    let kept = &bytes[bytes.len().saturating_sub(KEPT_BYTES)..];
    let text = String::from_utf8_lossy(kept);
    let lines: Vec<_> = text.lines().map(|line| line.trim_end().to_owned()).collect();
    lines[lines.len().saturating_sub(KEPT_LINES)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn kept(written: &[u8]) -> (Vec<String>, usize) {
        let mut last = Vec::new();
        keep_last(Some(written), &mut last).await;
        (last_lines(&last), last.len())
    }

    #[tokio::test]
    async fn of_what_a_program_writes_only_the_last_lines_are_kept() {
        let (lines, _) = kept(b"a\nb \r\n\nlast").await;
        assert_eq!(lines, ["a", "b", "", "last"]);
        let many: String = (0..100_000).map(|at| format!("line {at}\n")).collect();
        let (lines, bytes) = kept(many.as_bytes()).await;
        assert_eq!((lines.len(), lines[0].as_str(), lines[9].as_str()), (10, "line 99990", "line 99999"));
        assert!(bytes <= 2 * KEPT_BYTES, "{bytes} bytes");
        let (lines, bytes) = kept(&b"x".repeat(10 << 20)).await;
        assert!(lines.len() == 1 && lines[0].len() == KEPT_BYTES && bytes <= 2 * KEPT_BYTES, "{bytes} bytes");
    }
}
