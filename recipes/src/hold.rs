//! The task behind a guard: notices that the lock is lost, and releases it.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use zoolet_client::{Client, Error, ErrorCode, EventType, SessionState, Watch};

use crate::contender::Entrant;
use crate::error::LockError;
use crate::guard::{HoldState, LostReason, Released};

/// What a lost connection means to a held lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SuspendPolicy {
    /// The lock counts as held until no server was reached for so long that it may have expired the session.
    #[default]
    UntilLeaseEnd,
    /// The lock counts as lost at once, and is given up.
    Lost,
}

/// The order to release, with who waits for it.
pub(crate) struct Order {
    pub(crate) done: oneshot::Sender<Result<Released, LockError>>,
}

/// What is known of a held lock: written by its task, read by its guard.
#[derive(Debug)]
pub(crate) struct Hold {
    state: Mutex<HoldState>,
    /// Wakes those who wait in the order in which they came, where a `watch` channel would in random order.
    lost: Notify,
}

impl Hold {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(HoldState::Held), lost: Notify::new() }
    }

    pub(crate) fn state(&self) -> HoldState {
        *self.locked()
    }

    /// Waits until the lock is lost.
    pub(crate) async fn lost(&self) -> LostReason {
        loop {
            // Told of everything from here on, so that nothing is missed between the look and the wait.
            let told = self.lost.notified();
            if let HoldState::Lost(reason) = self.state() {
                return reason;
            }
            told.await;
        }
    }

    fn set(&self, state: HoldState) {
        *self.locked() = state;
    }

    fn lose(&self, reason: LostReason) -> LostReason {
        self.set(HoldState::Lost(reason));
        self.lost.notify_waiters();
        reason
    }

    fn locked(&self) -> MutexGuard<'_, HoldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the task of a held lock has.
pub(crate) struct Holder {
    pub(crate) entrant: Entrant,
    pub(crate) node: String,
    pub(crate) policy: SuspendPolicy,
    pub(crate) watch_own_node: bool,
    pub(crate) hold: Arc<Hold>,
    pub(crate) order: oneshot::Receiver<Order>,
}

/// Until when the session cannot have expired, as far as this machine's clock runs like the server's. A tenth of the
/// timeout is kept back for clocks that do not, and for the time it takes to notice.
pub(crate) fn lease_end(client: &Client) -> Instant {
    let timeout = client.session_timeout();
    client.last_contact() + (timeout - timeout / 10)
}

impl Holder {
    /// Watches over the lock until its guard is released or dropped, then gives it up.
    pub(crate) async fn run(self) {
        let Self { mut entrant, node, policy, watch_own_node, hold, mut order } = self;
        let client = entrant.setup().client.clone();
        let mut session_over = pin!(follow_session(&client, policy, &hold));
        let mut ordered = None;
        let lost = tokio::select! {
            biased;
            given = &mut order => {
                // A dropped guard is an order as well, for whose outcome nobody waits.
                let waiting = ordered.insert(given.ok());
                tokio::select! {
                    biased;
                    outcome = entrant.leave() => return tell(waiting.take(), outcome),
                    reason = &mut session_over => reason,
                }
            }
            reason = &mut session_over => reason,
            () = follow_node(&client, &node, watch_own_node) => hold.lose(LostReason::NodeDeleted),
        };
        tracing::debug!(node, %lost, "lock lost");
        let answer = async {
            let waiting = match ordered {
                Some(waiting) => waiting,
                None => order.await.ok(),
            };
            tell(waiting, Ok(false));
        };
        // Nobody relies on it any more, so it is not kept from others until the guard is dropped; nor is whoever releases
        // it kept waiting for a server that may never come back.
        let (gave_up, ()) = tokio::join!(entrant.leave(), answer);
        if let Err(error) = gave_up {
            tracing::debug!(node, %error, "cannot give up a lost lock; it goes with the session");
        }
    }
}

/// Tells whoever waits for a release whether a znode was deleted by it.
fn tell(waiting: Option<Order>, outcome: Result<bool, LockError>) {
    let released = match outcome {
        Ok(true) => Ok(Released::Deleted),
        // A lock goes with its session: a release that finds that over has nothing left to do.
        Ok(false) | Err(LockError::SessionOver { .. }) => Ok(Released::AlreadyGone),
        Err(error) => Err(error),
    };
    match (waiting, released) {
        (Some(Order { done }), released) => _ = done.send(released),
        (None, Err(error)) => tracing::debug!(%error, "cannot release a lock; it goes with the session"),
        (None, Ok(_)) => {}
    }
}

/// Publishes what becomes of the lock as its session goes, and ends when that is the loss of it.
async fn follow_session(client: &Client, policy: SuspendPolicy, hold: &Hold) -> LostReason {
    let mut states = client.states();
    // Also while there is a connection: one on which nothing of ours is answered is as good as none.
    let mut lease = client.clock().sleep_until(lease_end(client));
    let mut suspect = false;
    loop {
        let next = tokio::select! {
            biased;
            next = states.next() => next,
            () = &mut lease => {
                let end = lease_end(client);
                if suspect || end <= client.clock().now() {
                    return hold.lose(LostReason::LeaseElapsed);
                }
                lease.reset(end);
                continue;
            }
        };
        match next {
            Some(SessionState::Connected) => {
                suspect = false;
                hold.set(HoldState::Held);
            }
            Some(SessionState::Expired) => return hold.lose(LostReason::SessionExpired),
            Some(SessionState::AuthFailed) => return hold.lose(LostReason::AuthFailed),
            Some(SessionState::Closed) | None => return hold.lose(LostReason::SessionClosed),
            // Also a server that answers reads only is cut off: it shows our znode long after it is gone.
            Some(_) => {
                if policy == SuspendPolicy::Lost {
                    return hold.lose(LostReason::Suspended);
                }
                if !suspect {
                    suspect = true;
                    lease.reset(lease_end(client));
                    hold.set(HoldState::Suspect { since: client.clock().now() });
                }
            }
        }
    }
}

/// Waits for the deletion of the holder's own znode, if that is wanted; the end of the session is for others to tell.
async fn follow_node(client: &Client, node: &str, wanted: bool) {
    if !wanted {
        return std::future::pending().await;
    }
    loop {
        let watch: Result<Watch, Error> = client.get_data(node).watch().await.map(|(_, _, watch)| watch);
        match watch {
            Ok(watch) => match watch.changed().await {
                Ok(event) if event.kind == EventType::NodeDeleted => return,
                Ok(_) | Err(Error::WatchRemoved(_)) => {}
                Err(_) => break,
            },
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return,
            Err(error) if error.is_retryable() => {}
            Err(_) => break,
        }
    }
    std::future::pending().await
}
