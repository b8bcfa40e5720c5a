//! `wait`: until a znode exists, or is gone.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use zoolet_client::{Error, Sessions, Stat};

use crate::answer::{Answer, ShellIo};
use crate::clusters::NamedCluster;
use crate::connect::{ConnectArguments, interval};
use crate::dial::Dial;
use crate::failure::{ExitReason, ShellError, ShellResult};
use crate::json;
use crate::reach::unreached;
use crate::shell::{OtherServers, Shell, resolve};
use crate::text::shown;

/// Between two requests of which the first has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// The arguments of `wait` in a shell, and of `zoolet wait --znode`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Exit code 1 if it takes longer, 5 if no server is reached. Example: wait /ready --timeout 5m"
)]
pub struct ZnodeWait {
    /// The znode
    pub path: String,
    /// Wait until it is gone
    #[arg(long)]
    pub gone: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = interval)]
    pub timeout: Duration,
}

impl ZnodeWait {
    /// Waits in sessions of its own, with the credentials that the file of clusters names for `cluster`, else those of the environment.
    /// The answer goes to `io`; messages name the server as `shown_server`, which may be reached at another address.
    ///
    /// # Errors
    /// `Absent` if the time is over, `Unreachable` if no server was asked in that time, `Refused` if the servers let nobody look.
    pub async fn run_at(
        &self,
        server: &str,
        shown_server: &str,
        cluster: &NamedCluster,
        is_json: bool,
        io: ShellIo<'_>,
    ) -> Result<(), ShellError> {
        let (server_name, dial) = (shown_server.to_owned(), Dial::default());
        let mut answer = Answer { io, server: server_name, dial, command: "wait", json: is_json };
        let place = ConnectArguments::relayed(server, cluster);
        let sessions = answer.answered(place.sessions(&place, OtherServers::Same))?;
        self.wait(&mut answer, &sessions, &resolve("/", &self.path)).await
    }

    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let path = shell.path(&self.path);
        let sessions = shell.open_sessions(OtherServers::Same)?;
        self.wait(shell, &sessions, &path).await
    }

    async fn wait(&self, answer: &mut Answer<'_>, sessions: &Sessions, path: &str) -> ShellResult {
        let begun = Instant::now();
        let mut was_asked = false;
        let outcome = timeout(self.timeout, self.seen(sessions, path, &mut was_asked)).await;
        let took = begun.elapsed();
        let stat = match outcome {
            Ok(seen) => answer.answered(seen)?,
            Err(_) => return Err(self.too_long(answer, sessions, path, was_asked)),
        };
        sessions.close().await;
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if answer.json {
            let stat = stat.as_ref().map(json::stat).unwrap_or_default();
            let head = json!({"path": path, "exists": !self.gone});
            return answer.json_line(&json::joined([head, stat, json!({"took_ms": millis})]));
        }
        match stat {
            Some(Stat { version, mzxid, .. }) => {
                answer.line(format!("{} exists: version {version}, zxid {mzxid}; {millis} ms", shown(path)))
            }
            None => answer.line(format!("{} is gone; {millis} ms", shown(path))),
        }
    }

    /// The Stat of the znode once it exists, or `None` once it is gone.
    async fn seen(
        &self,
        sessions: &Sessions,
        path: &str,
        was_asked: &mut bool,
    ) -> Result<Option<Stat>, Error> {
        loop {
            let client = sessions.client().await?;
            match client.exists(path).watch().await {
                Ok((stat, _)) if stat.is_none() == self.gone => return Ok(stat),
                Ok((_, watch)) => {
                    *was_asked = true;
                    // If the session ends first, the next one looks again.
                    let _ = watch.changed().await;
                }
                Err(error) if error.is_retryable() || client.state().is_final() => sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    fn too_long(&self, answer: &Answer<'_>, sessions: &Sessions, path: &str, was_asked: bool) -> ShellError {
        if was_asked {
            let time = humantime::format_duration(self.timeout);
            let state = if self.gone { "is still there" } else { "does not exist" };
            return answer.fail(ExitReason::Absent, format!("{} {state} after {time}", shown(path)));
        }
        unreached(answer, sessions, self.timeout)
    }
}
