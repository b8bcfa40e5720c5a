//! [`Acquire`]: an acquisition of any lock, from the call to the guard.

use std::convert::identity;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use zoolet_client::SessionState;
use zoolet_client::internal::{ClientExt as _, locked};

use crate::claim::order::blockers;
use crate::claim::permits::{PermitClaim, PermitPlan};
use crate::claim::queue_entry::{QueueEntry, QueuePlan};
use crate::claim::single_node::SingleNodeClaim;
use crate::claim::{WaitReport, life, listing};
use crate::config::LockConfig;
use crate::contender::Contender;
use crate::error::LockError;
use crate::guard::Guard;
use crate::requests::or_never;
use crate::state::LostReason;

/// How a lock is won.
#[derive(Debug, Clone)]
pub(crate) enum ClaimPlan {
    /// By the queue of a directory, or of several.
    Queue(QueuePlan),
    /// By creating a znode.
    SingleNode,
    /// By a queue whose first member waits for permits.
    Permits(PermitPlan),
}

/// An acquisition that has not begun; from [`Lock::acquire`](crate::Lock::acquire) and the like. `.await` begins it and
/// waits for the guard.
///
/// ```no_run
/// # use std::time::Duration;
/// # use zoolet_recipes::{Lock, LockError};
/// # async fn example(lock: Lock) -> Result<(), LockError> {
/// let guard = lock
///     .acquire()
///     .data("worker 7")
///     .timeout(Duration::from_secs(5))
///     .on_queued(|ahead| println!("{ahead} in front"))
///     .await?;
/// # drop(guard); Ok(()) }
/// ```
///
/// # Errors
/// The documentation of each [`LockError`] says what to do. Nothing is left behind.
/// # Cancel safety
/// Dropping the future at any time gives up the place in the queue, or the lock if it was won meanwhile: no znode and no
/// watch is left. The delete of a znode that is known is sent before the drop returns. A znode whose create is in flight is
/// looked for and deleted in the background.
#[must_use = "an acquisition begins when it is awaited"]
pub struct Acquire<G = Guard> {
    config: Arc<LockConfig>,
    plan: ClaimPlan,
    data: Bytes,
    /// How many contenders may be in the way.
    limit: Option<usize>,
    /// With the place that asked for it, to name it if it waits for a clock that nobody moves.
    timeout: Option<(Duration, &'static Location<'static>)>,
    confirmed: bool,
    on_queued: Option<Box<dyn FnOnce(usize) + Send>>,
    wrap: fn(Guard) -> G,
}

impl<G> Acquire<G> {
    pub(crate) fn new(config: &Arc<LockConfig>, plan: ClaimPlan, wrap: fn(Guard) -> G) -> Self {
        let (config, data, limit) = (Arc::clone(config), Bytes::new(), config.max_queue);
        Self { config, plan, data, limit, timeout: None, confirmed: false, on_queued: None, wrap }
    }

    /// The data of the contender's znode, for others to see. Default: empty.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Fails with [`LockError::Timeout`] after `timeout`, counted from the first poll by the client's clock.
    #[track_caller]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some((timeout, Location::caller()));
        self
    }

    /// Confirms the grant by a write before the guard is returned. Without it a grant rests on a read, which may be stale.
    pub fn confirmed(mut self) -> Self {
        self.confirmed = true;
        self
    }

    /// Calls `callback` once with the number of contenders in the way, if the lock is not free.
    pub fn on_queued(mut self, callback: impl FnOnce(usize) + Send + 'static) -> Self {
        self.on_queued = Some(Box::new(callback));
        self
    }

    /// As an acquisition of a plain guard, and what makes one of the kind of this from that.
    pub(crate) fn unwrapped(self) -> (Acquire, fn(Guard) -> G) {
        let Self { config, plan, data, limit, timeout, confirmed, on_queued, wrap } = self;
        (Acquire { config, plan, data, limit, timeout, confirmed, on_queued, wrap: identity }, wrap)
    }

    /// Takes a lock if it is free, without queueing for it; `None` otherwise.
    pub(crate) async fn attempt(self) -> Result<Option<G>, LockError> {
        let config = &self.config;
        if config.client.state() == SessionState::ConnectedReadOnly {
            // A read may be stale there, and an acquisition would wait for a server that takes writes. A sync is refused at
            // once.
            config.client.sync(config.dir()).await.map_err(|error| config.error(error))?;
        }
        if !looks_free(config, &self.plan).await? {
            return Ok(None);
        }
        // A contender that came meanwhile is in front, so none may be in the way.
        match (Acquire { limit: Some(0), ..self }).run().await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::QueueFull { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn run(self) -> Result<G, LockError> {
        let Self { config, plan, data, limit, timeout, confirmed, mut on_queued, wrap } = self;
        let dir = config.label.clone();
        for dir in &config.dirs {
            config.client.check_path("lock", dir)?;
        }
        let clock = config.client.clock().clone();
        let deadline = timeout.and_then(|(timeout, place)| {
            let name =
                |dir| format!("acquire {dir}, timeout {timeout:?}, at {}:{}", place.file(), place.line());
            // The clock's timers may need the runtime of the session.
            let _entered = config.client.runtime().enter();
            Some(clock.sleep_until(clock.now().checked_add(timeout)?).named(|| name(&dir)))
        });
        let mut deadline = pin!(or_never(deadline));
        let (sender, guard) = oneshot::channel();
        let (queued, mut reported) = oneshot::channel();
        let in_front: Arc<Mutex<Option<Box<Contender>>>> = Arc::default();
        let report = WaitReport { queued: Some(queued), in_front: Arc::clone(&in_front) };
        let client = config.client.clone();
        // A task of its own, so that everything is completed or undone even if this future is dropped. The claim generates
        // its name here, so that contenders are named in the order of the calls.
        let task = match plan {
            ClaimPlan::Queue(plan) => {
                life::spawn(QueueEntry::new(config, plan, data, limit), confirmed, report, sender)
            }
            ClaimPlan::SingleNode => {
                life::spawn(SingleNodeClaim::new(config, data, limit), confirmed, report, sender)
            }
            ClaimPlan::Permits(plan) => {
                life::spawn(PermitClaim::new(config, plan, data, limit), confirmed, report, sender)
            }
        };
        let mut guard = task.output(guard);
        let outcome = loop {
            tokio::select! {
                biased;
                // The callback runs here and not in the claim's task, so that a panic in it does not prevent the cleanup.
                ahead = &mut reported, if on_queued.is_some() => {
                    if let (Ok(ahead), Some(callback)) = (ahead, on_queued.take()) {
                        callback(ahead);
                    }
                }
                outcome = &mut guard => break outcome,
                () = &mut deadline => {
                    // A guard that arrives at the last moment is as good as an earlier one.
                    return guard.close().unwrap_or_else(|| {
                        let in_front = locked(&in_front).clone();
                        let own = client.session_id();
                        let is_own = in_front.as_ref().is_some_and(|contender| contender.session == own);
                        let unreachable =
                                client.last_connection_error().filter(|_| !client.state().is_connected());
                            Err(LockError::Timeout { dir, in_front, is_own, unreachable })
                    }).map(wrap);
                }
            }
        };
        // If the task is gone without an outcome, its runtime was shut down, and the session with it.
        let (reason, may_have_applied) = (LostReason::SessionClosed, false);
        outcome.unwrap_or(Err(LockError::SessionOver { dir, reason, may_have_applied })).map(wrap)
    }
}

impl<G: 'static> IntoFuture for Acquire<G> {
    type Output = Result<G, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Whether the lock is free, by a read. It may be stale, so that a lock that was just released does not look free.
async fn looks_free(config: &LockConfig, plan: &ClaimPlan) -> Result<bool, LockError> {
    let plan = match plan {
        ClaimPlan::Queue(plan) => plan,
        ClaimPlan::SingleNode => return Ok(config.stat(config.dir()).await?.is_none()),
        ClaimPlan::Permits(plan) => return plan.looks_free(config).await,
    };
    for same_dir in plan.dirs.chunk_by(|(one, _), (other, _)| one == other) {
        let queue = listing::queue(config, &same_dir[0].0).await?;
        if blockers(&queue, plan.mode).next().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

impl<G> fmt::Debug for Acquire<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("config", &self.config)
            .field("plan", &self.plan)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
