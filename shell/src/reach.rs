//! Waits for what needs a server, but not for a server.

use std::future::{Future, pending};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use zoolet_client::{Sessions, SessionsState};
use zoolet_recipes::{Cache, CacheError};

use crate::answer::Answer;
use crate::failure::{ExitReason, ShellError, ShellResult};
use crate::shell::Shell;

/// Opens a cache of a tree to a depth.
pub(crate) async fn open_cache(
    shell: &Shell<'_>,
    sessions: &Sessions,
    root: &str,
    depth: usize,
) -> ShellResult<Cache> {
    let opening = Cache::builder(sessions, root).max_depth(depth).open();
    let opened = while_served(shell, sessions, shell.timeout, opening).await?;
    opened.map_err(|error| cache_failed(shell, &error))
}

pub(crate) fn cache_failed(shell: &Shell<'_>, error: &CacheError) -> ShellError {
    match error {
        CacheError::SessionsEnded(error) => shell.failed(error),
        error => shell.fail(ExitReason::Refused, error),
    }
}

/// Waits for `work`, and fails once these sessions have had no server for as long as `limit`. Work itself may take any time.
async fn while_served<T>(
    answer: &Answer<'_>,
    sessions: &Sessions,
    limit: Duration,
    work: impl Future<Output = T>,
) -> ShellResult<T> {
    let mut changes = sessions.changes();
    let is_lost = async {
        let mut until = None;
        loop {
            let change = match until {
                Some(until) => match timeout_at(until, changes.next()).await {
                    Ok(change) => change,
                    Err(_) => return,
                },
                None => changes.next().await,
            };
            match change.map(|change| change.state) {
                Some(SessionsState::Connected | SessionsState::ConnectedReadOnly) => until = None,
                Some(_) => until = until.or_else(|| Some(Instant::now() + limit)),
                // The work ends as well, and says why.
                None => pending().await,
            }
        }
    };
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = is_lost => Err(unreached(answer, sessions, limit)),
    }
}

/// The error of a command for which no server was reached within this time.
pub(crate) fn unreached(answer: &Answer<'_>, sessions: &Sessions, limit: Duration) -> ShellError {
    let time = humantime::format_duration(limit);
    let why = sessions.state().reason.map_or_else(String::new, |reason| format!(": {reason}"));
    answer.fail(ExitReason::Unreachable, format!("no server was reached within {time}{why}"))
}
