//! The task behind a guard: notices that the lock is lost, and releases it.

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use zoolet_client::{Client, Error, ErrorCode, EventType, SessionState, States, Watch};

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

/// What the task of a held lock has.
pub(crate) struct Holder {
    pub(crate) entrant: Entrant,
    pub(crate) node: String,
    pub(crate) policy: SuspendPolicy,
    pub(crate) watch_own_node: bool,
    pub(crate) state: watch::Sender<HoldState>,
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
    pub(crate) async fn run(mut self) {
        let client = self.entrant.setup().client.clone();
        let lost = tokio::select! {
            biased;
            order = &mut self.order => return self.release(order.ok()).await,
            reason = watch_over(&client, &self.node, self.policy, self.watch_own_node, &self.state) => reason,
        };
        tracing::debug!(node = self.node, %lost, "lock lost");
        self.state.send_replace(HoldState::Lost(lost));
        // Nobody relies on it any more, so it is not kept from others until the guard is dropped.
        let gave_up = self.entrant.leave().await;
        let order = self.order.await;
        if let Ok(Order { done }) = order {
            let _ = done.send(gave_up.map(|_| Released::AlreadyGone).or_else(over_is_gone));
        }
    }

    async fn release(mut self, order: Option<Order>) {
        let outcome = self
            .entrant
            .leave()
            .await
            .map(|deleted| if deleted { Released::Deleted } else { Released::AlreadyGone });
        match (order, outcome) {
            (Some(Order { done }), outcome) => {
                let _ = done.send(outcome.or_else(over_is_gone));
            }
            (None, Err(error)) => {
                tracing::debug!(node = self.node, %error, "cannot release a lock; it goes with the session")
            }
            (None, Ok(_)) => {}
        }
    }
}

/// A lock goes with its session, so a release that finds the session over has nothing left to do.
fn over_is_gone(error: LockError) -> Result<Released, LockError> {
    match error {
        LockError::SessionOver { .. } => Ok(Released::AlreadyGone),
        error => Err(error),
    }
}

/// Publishes what becomes of the lock until it is lost, and says how.
async fn watch_over(
    client: &Client,
    node: &str,
    policy: SuspendPolicy,
    watch_own_node: bool,
    state: &watch::Sender<HoldState>,
) -> LostReason {
    let mut states = client.states();
    tokio::select! {
        biased;
        reason = follow_session(client, &mut states, policy, state) => reason,
        reason = follow_node(client, node, watch_own_node) => reason,
    }
}

async fn follow_session(
    client: &Client,
    states: &mut States,
    policy: SuspendPolicy,
    state: &watch::Sender<HoldState>,
) -> LostReason {
    let mut suspect_until = None;
    loop {
        let next = match suspect_until {
            None => states.next().await,
            Some(end) => tokio::select! {
                biased;
                next = states.next() => next,
                () = tokio::time::sleep_until(end) => return LostReason::LeaseElapsed,
            },
        };
        match next {
            Some(SessionState::Connected) => {
                suspect_until = None;
                state.send_replace(HoldState::Held);
            }
            Some(SessionState::Expired) => return LostReason::SessionExpired,
            Some(SessionState::AuthFailed) => return LostReason::AuthFailed,
            Some(SessionState::Closed) | None => return LostReason::SessionClosed,
            // Also a server that answers reads only is cut off: it shows our znode long after it is gone.
            Some(_) => {
                if policy == SuspendPolicy::Lost {
                    return LostReason::Suspended;
                }
                if suspect_until.is_none() {
                    suspect_until = Some(lease_end(client));
                    state.send_replace(HoldState::Suspect { since: Instant::now() });
                }
            }
        }
    }
}

/// Waits for the deletion of the holder's own znode, if that is wanted; the end of the session is for others to tell.
async fn follow_node(client: &Client, node: &str, wanted: bool) -> LostReason {
    if !wanted {
        return std::future::pending().await;
    }
    loop {
        let watch: Result<Watch, Error> = client.get_data(node).watch().await.map(|(_, _, watch)| watch);
        match watch {
            Ok(watch) => match watch.changed().await {
                Ok(event) if event.kind == EventType::NodeDeleted => return LostReason::NodeDeleted,
                Ok(_) | Err(Error::WatchRemoved(_)) => {}
                Err(_) => break,
            },
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return LostReason::NodeDeleted,
            Err(error) if error.is_retryable() => {}
            Err(_) => break,
        }
    }
    std::future::pending().await
}
