//! The task that owns a claim from its first request to its last. Whatever becomes of futures and guards, everything that
//! was begun is completed or undone.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;
use zoolet_client::internal::ClientExt as _;

use super::{Claim, WaitReport};
use crate::error::LockError;
use crate::guard::Guard;
use crate::guard::fenced::prove;
use crate::guard::lock_state::LockState;
use crate::guard::task;
use crate::shared_task::SharedTask;
use crate::state::Grant;

/// Spawns the task of a claim. On the runtime of the session, because what is left goes with the session.
pub(crate) fn spawn(
    claim: impl Claim,
    confirmed: bool,
    report: WaitReport,
    guard: oneshot::Sender<Result<Guard, LockError>>,
) -> SharedTask {
    let runtime = claim.config().client.runtime().clone();
    SharedTask::spawn(&runtime, |task| run(claim, confirmed, report, guard, task))
}

/// Wins the lock, sends the guard, and cleans up when the guard, or the future that waits for it, is gone.
async fn run<C: Claim>(
    mut claim: C,
    confirmed: bool,
    mut report: WaitReport,
    mut guard: oneshot::Sender<Result<Guard, LockError>>,
    shared: SharedTask,
) {
    // A future that is dropped before it has won ends the attempt at whatever request it is; `leave` below undoes it.
    let won = tokio::select! {
        biased;
        () = guard.closed() => None,
        won = win(&mut claim, confirmed, &mut report) => Some(won),
    };
    if let Some(Ok((grant, proven))) = won {
        let (state, commands) = LockState::new(grant.clone(), proven.filter(|_| claim.config().strict));
        let held = Guard::new(Arc::clone(claim.config()), grant, state, shared);
        // If nobody receives the guard, it is dropped here and the task releases the lock.
        let _ = guard.send(Ok(held));
        return task::run(claim, commands).await;
    }
    // Before the error is reported: when the caller has it, nothing of the attempt is left.
    if let Err(error) = claim.leave().await {
        let lock = &claim.config().label;
        tracing::debug!(lock, %error, "cannot leave the queue; the znode is removed with the session");
    }
    if let Some(Err(error)) = won {
        let _ = guard.send(Err(error));
    }
}

/// Wins the lock, and confirms that if required. Also returns when the confirming write was sent.
async fn win<C: Claim>(
    claim: &mut C,
    confirmed: bool,
    report: &mut WaitReport,
) -> Result<(Grant, Option<Instant>), LockError> {
    let grant = claim.win(report).await?;
    let config = claim.config();
    if !confirmed && !config.strict {
        return Ok((grant, None));
    }
    match prove(config, &grant, None).await {
        Ok(sent) => Ok((grant, Some(sent))),
        Err(LockError::NotHeld { dir, .. }) => Err(LockError::NodeDeleted { dir }),
        Err(error) => Err(error),
    }
}
