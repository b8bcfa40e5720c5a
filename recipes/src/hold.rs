//! The task behind a guard: notices that the lock is lost, changes it, and releases it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, Error, ErrorCode, EventType, SessionState};

use crate::claim::{Change, Claim, Standing};
use crate::error::LockError;
use crate::fenced::FencedTxn;
use crate::guard::{HoldState, LostReason, Released};
use crate::setup::Setup;

/// What a lost connection means to a held lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SuspendPolicy {
    /// The lock counts as held until no server was reached for so long that it may have expired the session.
    #[default]
    UntilLeaseEnd,
    /// The lock counts as lost at once, and is given up.
    Lost,
}

/// What a guard tells the task behind it.
#[derive(Debug)]
pub(crate) enum Order {
    /// Release, and tell whoever waits for it; nobody waits for a guard that was dropped.
    Release(Option<oneshot::Sender<Result<Released, LockError>>>),
    /// Give it up: a server has said that it is not ours any more.
    Evicted,
    /// Make something else of it.
    Change(Change, oneshot::Sender<Result<Standing, LockError>>),
}

/// What is known of a held lock: written by its task, read by its guard; and the other way what the guard orders.
#[derive(Debug)]
pub(crate) struct Hold {
    inner: Mutex<Inner>,
    /// Wakes those who wait in the order in which they came, where a `watch` channel would in random order.
    lost: Notify,
    ordered: Notify,
}

#[derive(Debug)]
struct Inner {
    state: HoldState,
    /// When the latest write was sent that has shown the session to live, where nothing less counts.
    proven: Option<Instant>,
    orders: VecDeque<Order>,
    /// Whether the release was ordered.
    released: bool,
    /// Whether there is no task any more: it has released the lock, or its runtime is gone.
    closed: bool,
}

impl Hold {
    pub(crate) fn new(proven: Option<Instant>) -> Self {
        let inner =
            Inner { state: HoldState::Held, proven, orders: VecDeque::new(), released: false, closed: false };
        Self { inner: Mutex::new(inner), lost: Notify::new(), ordered: Notify::new() }
    }

    pub(crate) fn state(&self) -> HoldState {
        self.locked().state
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

    /// Gives an order. Dropped if nobody is there to take it, which whoever waits for its outcome learns by that.
    pub(crate) fn order(&self, order: Order) {
        let mut inner = self.locked();
        inner.released |= matches!(order, Order::Release(_));
        if !inner.closed {
            inner.orders.push_back(order);
            drop(inner);
            self.ordered.notify_one();
        }
    }

    async fn next_order(&self) -> Order {
        loop {
            let told = self.ordered.notified();
            let next = self.locked().orders.pop_front();
            match next {
                Some(order) => return order,
                None => told.await,
            }
        }
    }

    /// Until when the session cannot have expired, as far as this machine's clock runs like the server's. A tenth of the
    /// timeout is kept back for clocks that do not, and for the time it takes to notice.
    pub(crate) fn lease_end(&self, client: &Client) -> Instant {
        let timeout = client.session_timeout();
        let contact = self.locked().proven.unwrap_or_else(|| client.last_contact());
        contact + (timeout - timeout / 10)
    }

    fn prove(&self, sent: Instant) {
        self.locked().proven = Some(sent);
    }

    /// Lost, as somebody else has found out.
    pub(crate) fn evicted(&self) {
        self.lose(LostReason::NodeDeleted);
        self.order(Order::Evicted);
    }

    /// Says how it stands, unless it is lost, which is final.
    fn set(&self, state: HoldState) {
        let mut inner = self.locked();
        if !matches!(inner.state, HoldState::Lost(_)) {
            inner.state = state;
        }
    }

    fn lose(&self, reason: LostReason) -> LostReason {
        self.set(HoldState::Lost(reason));
        self.lost.notify_waiters();
        reason
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task of a held lock.
pub(crate) struct Holder<C> {
    claim: C,
    standing: Standing,
    task: Task,
}

/// The end of a [`Hold`] that its task has. Dropped with the task, also by a runtime that goes.
struct Task(Arc<Hold>);

impl Drop for Task {
    fn drop(&mut self) {
        let mut inner = self.0.locked();
        inner.closed = true;
        let left = std::mem::take(&mut inner.orders);
        let released = inner.released;
        drop(inner);
        drop(left);
        if !released {
            // It went with its runtime, and the session does.
            self.0.lose(LostReason::SessionClosed);
        }
    }
}

impl<C: Claim> Holder<C> {
    pub(crate) fn new(claim: C, standing: Standing, hold: Arc<Hold>) -> Self {
        Self { claim, standing, task: Task(hold) }
    }

    /// Watches over the lock until its guard is released or dropped, then gives it up.
    pub(crate) async fn run(self) {
        let Self { mut claim, mut standing, task: Task(ref hold) } = self;
        let setup = Arc::clone(claim.setup());
        let mut releasing = None;
        let lost = {
            // Ends with this block: behind it nobody would attend to its timer.
            let mut session_over = pin!(follow_session(&setup.client, setup.policy, hold));
            loop {
                let order = tokio::select! {
                    biased;
                    order = hold.next_order() => order,
                    reason = &mut session_over => break reason,
                    () = follow_nodes(&setup, &standing) => {
                        break hold.lose(LostReason::NodeDeleted);
                    }
                    () = prove_alive(&setup, &standing, hold) => break hold.lose(LostReason::NodeDeleted),
                };
                match order {
                    Order::Evicted => break LostReason::NodeDeleted,
                    Order::Release(waiting) => {
                        let waiting = releasing.insert(waiting);
                        tokio::select! {
                            biased;
                            outcome = claim.leave() => return tell(waiting.take(), outcome),
                            reason = &mut session_over => break reason,
                        }
                    }
                    Order::Change(change, done) => {
                        let changed = tokio::select! {
                            biased;
                            changed = claim.change(change) => changed,
                            reason = &mut session_over => {
                                let dir = setup.dir.clone();
                                let _ = done.send(Err(LockError::NotHeld { dir, reason }));
                                break reason;
                            }
                        };
                        if let Ok(changed) = &changed {
                            standing.clone_from(changed);
                        }
                        let _ = done.send(changed);
                    }
                }
            }
        };
        tracing::debug!(dir = setup.dir, %lost, "lock lost");
        let answer = async {
            let mut releasing = releasing;
            loop {
                let order = match releasing.take() {
                    Some(waiting) => Order::Release(waiting),
                    None => hold.next_order().await,
                };
                match order {
                    Order::Release(waiting) => return tell(waiting, Ok(false)),
                    Order::Evicted => {}
                    Order::Change(_, done) => {
                        let error = LockError::NotHeld { dir: setup.dir.clone(), reason: lost };
                        let _ = done.send(Err(error));
                    }
                }
            }
        };
        // Nobody relies on it any more, so it is not kept from others until the guard is dropped; nor is whoever releases
        // it kept waiting for a server that may never come back.
        let (gave_up, ()) = tokio::join!(claim.leave(), answer);
        if let Err(error) = gave_up {
            tracing::debug!(dir = setup.dir, %error, "cannot give up a lost lock; it goes with the session");
        }
    }
}

/// Tells whoever waits for a release whether a znode was deleted by it.
fn tell(waiting: Option<oneshot::Sender<Result<Released, LockError>>>, outcome: Result<bool, LockError>) {
    let released = match outcome {
        Ok(true) => Ok(Released::Deleted),
        // A lock goes with its session: a release that finds that over has nothing left to do.
        Ok(false) | Err(LockError::SessionOver { .. }) => Ok(Released::AlreadyGone),
        Err(error) => Err(error),
    };
    match (waiting, released) {
        (Some(done), released) => _ = done.send(released),
        (None, Err(error)) => tracing::debug!(%error, "cannot release a lock; it goes with the session"),
        (None, Ok(_)) => {}
    }
}

/// Publishes what becomes of the lock as its session goes, and ends when that is the loss of it.
async fn follow_session(client: &Client, policy: SuspendPolicy, hold: &Hold) -> LostReason {
    let mut states = client.states();
    // Also while there is a connection: one on which nothing of ours is answered is as good as none.
    let mut lease = client.clock().sleep_until(hold.lease_end(client));
    let mut suspect = false;
    loop {
        let next = tokio::select! {
            biased;
            next = states.next() => next,
            () = &mut lease => {
                let end = hold.lease_end(client);
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
            // Once it is to be closed, the next holder may come before we are told that it is.
            Some(SessionState::Closing | SessionState::Closed) | None => {
                return hold.lose(LostReason::SessionClosed);
            }
            // Also a server that answers reads only is cut off: it shows our znode long after it is gone.
            Some(_) => {
                if policy == SuspendPolicy::Lost {
                    return hold.lose(LostReason::Suspended);
                }
                if !suspect {
                    suspect = true;
                    lease.reset(hold.lease_end(client));
                    hold.set(HoldState::Suspect { since: client.clock().now() });
                }
            }
        }
    }
}

/// Shows by a write, each third of the session timeout, that the session lives, if nothing less counts; ends if that shows
/// that the lock is lost. Where a write is not answered the lease ends by itself.
async fn prove_alive(setup: &Setup, standing: &Standing, hold: &Hold) {
    if !setup.strict {
        return std::future::pending().await;
    }
    let clock = setup.client.clock();
    loop {
        let latest = hold.locked().proven.unwrap_or_else(|| clock.now());
        clock.sleep_until(latest + setup.client.session_timeout() / 3).await;
        let sent = clock.now();
        match FencedTxn::new(setup, standing, None).commit().await {
            Ok(_) => hold.prove(sent),
            Err(LockError::NotHeld { .. }) => return,
            Err(LockError::Client(error)) => {
                if setup.retry(error).await.is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    std::future::pending().await
}

/// Waits for the deletion of one of the holder's own znodes, if that is wanted; the end of the session is for others to
/// tell.
async fn follow_nodes(setup: &Setup, standing: &Standing) {
    if !setup.watch_own_node {
        return std::future::pending().await;
    }
    let nodes = standing.nodes.iter();
    let mut followed: Vec<Pin<Box<_>>> =
        nodes.map(|node| Box::pin(follow_node(setup, node, standing))).collect();
    std::future::poll_fn(|cx| {
        let gone = followed.iter_mut().any(|followed| followed.as_mut().poll(cx).is_ready());
        if gone { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

async fn follow_node(setup: &Setup, node: &str, standing: &Standing) {
    loop {
        match setup.client.get_data(node).watch().await {
            Ok((_, stat, _)) if !standing.is_of(&stat) => return,
            Ok((_, _, watch)) => match watch.changed().await {
                Ok(event) if event.kind == EventType::NodeDeleted => return,
                Ok(_) | Err(Error::WatchRemoved(_)) => {}
                Err(_) => break,
            },
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return,
            Err(error) => {
                if setup.retry(error).await.is_err() {
                    break;
                }
            }
        }
    }
    std::future::pending().await
}
