//! The second half of a claim's task, [`run`]. It notices that the lock is lost, changes it, and releases it.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;

use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, EventType, SessionState};

use super::fenced::prove;
use super::lock_state::{CommandReceiver, LockCommand, LockState, ReleaseWaiter};
use crate::claim::Claim;
use crate::config::{LockConfig, SuspendPolicy};
use crate::error::LockError;
use crate::requests::first_of;
use crate::state::{Grant, HoldState, LostReason, Released};

/// Watches over a lock that was won until its guard is released or dropped, then gives it up.
pub(crate) async fn run<C: Claim>(mut claim: C, mut commands: CommandReceiver) {
    let config = Arc::clone(claim.config());
    let Some((lost, unanswered)) = hold(&mut claim, &config, &mut commands).await else { return };
    tracing::debug!(lock = config.label, %lost, "lock lost");
    // Nobody relies on the lock any more, so others need not wait until the guard is dropped; nor does a release
    // wait for a server that may never return.
    let (left, ()) = tokio::join!(claim.leave(), answer(&config, &mut commands, lost, unanswered));
    if let Err(error) = left {
        tracing::debug!(lock = config.label, %error, "cannot give up a lost lock; it is removed with the session");
    }
}

/// Holds the lock; returns the reason when it is lost, and `None` when it was released. If it is lost during a command, returns
/// that too.
async fn hold<C: Claim>(
    claim: &mut C,
    config: &LockConfig,
    commands: &mut CommandReceiver,
) -> Option<(LostReason, Option<LockCommand>)> {
    let lock = Arc::clone(&commands.lock);
    // Dropped when this returns: nobody would poll its timer afterwards.
    let mut session_over = pin!(follow_session(&config.client, config.on_suspend, &lock));
    loop {
        let grant = lock.grant();
        // Commands first: a guard that was released before the loss is released, and not lost. The followers of the
        // znodes begin anew after each command, as a change gives the lock other znodes.
        let command = tokio::select! {
            biased;
            command = commands.next_command() => command,
            reason = &mut session_over => return Some((reason, None)),
            () = follow_nodes(config, &grant) => return Some((lock.lose(LostReason::NodeDeleted), None)),
            () = prove_alive(config, &grant, &lock) => return Some((lock.lose(LostReason::NodeDeleted), None)),
        };
        // The session may end during a command, and the lock with it.
        match command {
            // Another task has noticed the loss first: a fenced write that was refused, or a look at the clock.
            LockCommand::Lost(reason) => return Some((reason, None)),
            LockCommand::Release(sender) => tokio::select! {
                biased;
                outcome = claim.leave() => {
                    report(sender, outcome);
                    return None;
                }
                reason = &mut session_over => return Some((reason, Some(LockCommand::Release(sender)))),
            },
            LockCommand::Change(change, sender) => tokio::select! {
                biased;
                changed = claim.change(change) => {
                    if let Ok(grant) = &changed {
                        lock.set_grant(grant.clone());
                    }
                    let _ = sender.send(changed);
                }
                // The change may be executed or not: the claim's `leave` looks for both outcomes.
                reason = &mut session_over => return Some((reason, Some(LockCommand::Change(change, sender)))),
            },
        }
    }
}

/// Answers the commands of the guards of a lost lock, until one of them releases it or the last is dropped.
async fn answer(
    config: &LockConfig,
    commands: &mut CommandReceiver,
    lost: LostReason,
    mut unanswered: Option<LockCommand>,
) {
    loop {
        let command = match unanswered.take() {
            Some(command) => command,
            None => commands.next_command().await,
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
    let deleted = async {
        while let Some((_, stat, watch)) = config.watch_data(node).await? {
            let is_ours = grant.is_of(&stat);
            if !is_ours || config.retries().changed(watch).await? == Some(EventType::NodeDeleted) {
                break;
            }
        }
        Ok::<_, LockError>(())
    };
    if deleted.await.is_ok() {
        return;
    }
    pending().await
}
