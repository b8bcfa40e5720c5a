//! [`LockTask`]: the second half of a claim's task. It notices that the lock is lost, changes it, and releases it.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, ErrorCode, EventType, SessionState};

use super::fenced::prove;
use super::lock_state::{LockCommand, LockState, ReleaseWaiter};
use crate::claim::Claim;
use crate::config::{LockConfig, SuspendPolicy};
use crate::error::LockError;
use crate::requests::{changed, first_of};
use crate::state::{Grant, HoldState, LostReason, Released};

/// The task of a held lock.
pub(crate) struct LockTask<C> {
    claim: C,
    grant: Grant,
    state: CommandReceiver,
}

/// The task's reference to the [`LockState`]. Closes it when the task ends, also by a shutdown of the runtime.
struct CommandReceiver {
    lock: Arc<LockState>,
    commands: mpsc::UnboundedReceiver<LockCommand>,
}

impl CommandReceiver {
    async fn next_command(&mut self) -> LockCommand {
        match self.commands.recv().await {
            Some(command) => command,
            // Not before this is dropped, which has a sender itself.
            None => pending().await,
        }
    }
}

impl Drop for CommandReceiver {
    fn drop(&mut self) {
        // In this order: a command that comes later is dropped, and its sender then sees why.
        self.commands.close();
        self.lock.close();
    }
}

impl<C: Claim> LockTask<C> {
    pub(crate) fn new(
        claim: C,
        grant: Grant,
        lock: Arc<LockState>,
        commands: mpsc::UnboundedReceiver<LockCommand>,
    ) -> Self {
        Self { claim, grant, state: CommandReceiver { lock, commands } }
    }

    /// Watches over the lock until its guard is released or dropped, then gives it up.
    pub(crate) async fn run(mut self) {
        let config = Arc::clone(self.claim.config());
        let mut releasing = None;
        let Some(lost) = self.hold(&config, &mut releasing).await else { return };
        tracing::debug!(lock = config.label, %lost, "lock lost");
        // Nobody relies on the lock any more, so others need not wait until the guard is dropped; nor does a release
        // wait for a server that may never return.
        let Self { mut claim, mut state, .. } = self;
        let (left, ()) = tokio::join!(claim.leave(), answer(&config, &mut state, lost, releasing));
        if let Err(error) = left {
            tracing::debug!(lock = config.label, %error, "cannot give up a lost lock; it is removed with the session");
        }
    }

    /// Holds the lock; returns the reason when it is lost, and `None` when it was released. If it is lost during a release,
    /// `releasing` has the waiter of that.
    async fn hold(
        &mut self,
        config: &Arc<LockConfig>,
        releasing: &mut Option<ReleaseWaiter>,
    ) -> Option<LostReason> {
        let Self { claim, grant, state } = self;
        let lock = Arc::clone(&state.lock);
        // Dropped when this returns: nobody would poll its timer afterwards.
        let mut session_over = pin!(follow_session(&config.client, config.on_suspend, &lock));
        loop {
            // Commands first: a guard that was released before the loss is released, and not lost. The followers of the
            // znodes begin anew after each command, as a change gives the lock other znodes.
            let command = tokio::select! {
                biased;
                command = state.next_command() => command,
                reason = &mut session_over => return Some(reason),
                () = follow_nodes(config, grant) => return Some(lock.lose(LostReason::NodeDeleted)),
                () = prove_alive(config, grant, &lock) => return Some(lock.lose(LostReason::NodeDeleted)),
            };
            match command {
                // Another task has noticed the loss first: a fenced write that was refused, or a look at the clock.
                LockCommand::Lost(reason) => return Some(reason),
                LockCommand::Release(sender) => {
                    let sender = releasing.insert(sender);
                    // The session may end meanwhile, and the lock with it.
                    tokio::select! {
                        biased;
                        outcome = claim.leave() => {
                            report(sender.take(), outcome);
                            return None;
                        }
                        reason = &mut session_over => return Some(reason),
                    }
                }
                LockCommand::Change(change, sender) => {
                    let changed = tokio::select! {
                        biased;
                        changed = claim.change(change) => changed,
                        // The change may be executed or not: the claim's `leave` looks for both outcomes.
                        reason = &mut session_over => {
                            let dir = config.label.clone();
                            let _ = sender.send(Err(LockError::NotHeld { dir, reason }));
                            return Some(reason);
                        }
                    };
                    if let Ok(changed) = &changed {
                        grant.clone_from(changed);
                    }
                    let _ = sender.send(changed);
                }
            }
        }
    }
}

/// Answers the commands of the guards of a lost lock, until one of them releases it or the last is dropped.
async fn answer(
    config: &LockConfig,
    state: &mut CommandReceiver,
    lost: LostReason,
    mut releasing: Option<ReleaseWaiter>,
) {
    loop {
        let command = match releasing.take() {
            Some(sender) => LockCommand::Release(sender),
            None => state.next_command().await,
        };
        match command {
            LockCommand::Release(sender) => return report(sender, Ok(false)),
            LockCommand::Lost(_) => {}
            LockCommand::Change(_, sender) => {
                let error = LockError::NotHeld { dir: config.label.clone(), reason: lost };
                let _ = sender.send(Err(error));
            }
        }
    }
}

/// Reports to the waiter of a release whether it deleted a znode.
fn report(sender: ReleaseWaiter, outcome: Result<bool, LockError>) {
    let released = match outcome {
        Ok(true) => Ok(Released::Deleted),
        // A lock ends with its session, so a release after that has nothing left to do.
        Ok(false) | Err(LockError::SessionOver { .. }) => Ok(Released::AlreadyGone),
        Err(error) => Err(error),
    };
    match (sender, released) {
        (Some(sender), released) => _ = sender.send(released),
        (None, Err(error)) => {
            tracing::debug!(%error, "cannot release a lock; it is removed with the session")
        }
        (None, Ok(_)) => {}
    }
}

/// Publishes the state of the lock as that of its session changes. Completes when the lock is lost by that.
async fn follow_session(client: &Client, policy: SuspendPolicy, lock: &LockState) -> LostReason {
    let mut states = client.states();
    // The lease also counts while there is a connection: one on which nothing is answered is as good as none.
    let mut lease =
        client.clock().sleep_until(lock.lease_end(client)).internal("a held lock: the end of its lease");
    let mut suspect = false;
    loop {
        let next = tokio::select! {
            biased;
            next = states.next() => next,
            () = &mut lease => {
                let end = lock.lease_end(client);
                if suspect || end <= client.clock().now() {
                    return lock.lose(LostReason::LeaseElapsed);
                }
                lease.reset(end);
                continue;
            }
        };
        match next {
            Some(SessionState::Connected) => {
                suspect = false;
                lock.set(HoldState::Held);
            }
            Some(SessionState::Expired) => return lock.lose(LostReason::SessionExpired),
            Some(SessionState::AuthFailed) => return lock.lose(LostReason::AuthFailed),
            // Once a close is requested, the next holder may come before we know that the session is closed.
            Some(SessionState::Closing | SessionState::Closed) | None => {
                return lock.lose(LostReason::SessionClosed);
            }
            // Includes a connection to a read-only server, which shows our znode long after it is gone.
            Some(_) => {
                if policy == SuspendPolicy::Lost {
                    return lock.lose(LostReason::Suspended);
                }
                if !suspect {
                    suspect = true;
                    lease.reset(lock.lease_end(client));
                    lock.set(HoldState::Suspect { since: client.clock().now() });
                }
            }
        }
    }
}

/// For strict locks: proves by a write every third of the session timeout that the session is alive. Completes if that
/// shows that the lock is lost. If a write is not answered, the lease ends by itself.
async fn prove_alive(config: &LockConfig, grant: &Grant, lock: &LockState) {
    if !config.strict {
        return pending().await;
    }
    let clock = config.client.clock();
    loop {
        let latest = lock.proven().unwrap_or_else(|| clock.now());
        clock
            .sleep_until(latest + config.client.session_timeout() / 3)
            .internal("a strict lock: its next proof")
            .await;
        match prove(config, grant, None).await {
            Ok(sent) => lock.prove(sent),
            Err(LockError::NotHeld { .. }) => return,
            Err(_) => break,
        }
    }
    pending().await
}

/// Completes when one of the holder's own znodes is deleted, if that is to be watched. The end of the session is reported
/// by [`follow_session`].
async fn follow_nodes(config: &LockConfig, grant: &Grant) {
    if !config.watch_own_node {
        return pending().await;
    }
    first_of(grant.nodes.iter().map(|node| follow_node(config, node, grant))).await;
}

async fn follow_node(config: &LockConfig, node: &str, grant: &Grant) {
    loop {
        match config.retries().ask(|| config.client.get_data(node).watch()).await {
            Ok((_, stat, _)) if !grant.is_of(&stat) => return,
            Ok((_, _, watch)) => match changed(watch).await {
                Ok(Some(EventType::NodeDeleted)) => return,
                Ok(_) => {}
                Err(_) => break,
            },
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return,
            Err(_) => break,
        }
    }
    pending().await
}
