//! [`Acquire`]: an acquisition of any lock, from the call to the guard.

use std::fmt;
use std::future::{Future, IntoFuture, pending};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use zoolet_client::SessionState;
use zoolet_client::internal::ClientExt as _;

use crate::claim::{Notice, own};
use crate::contender::{Entrant, Entry};
use crate::error::LockError;
use crate::guard::{Guard, LostReason};
use crate::permits::{PermitPlan, Permits};
use crate::queue::in_the_way;
use crate::setup::Setup;
use crate::single::Single;

/// How a lock is won.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    /// By the queue of a directory, or of several.
    Queue(Entry),
    /// By creating a znode, with so many who may be in front.
    Single(Option<usize>),
    /// By a queue in which the first waits for permits.
    Permits(PermitPlan),
}

/// An acquisition that has not begun; from [`Lock::acquire`](crate::Lock::acquire) and its like. `.await` begins it and
/// waits for the guard.
///
/// # Errors
/// [`LockError`] says of each what to do. Nothing is left behind.
/// # Cancel safety
/// Dropping the future at any time gives up the place in the queue, or the lock if it was won meanwhile, in the
/// background: no znode and no watch is left.
/// # Panics
/// When awaited outside of a tokio runtime.
#[must_use = "an acquisition begins when it is awaited"]
pub struct Acquire<G = Guard> {
    setup: Arc<Setup>,
    plan: Plan,
    data: Bytes,
    timeout: Option<Duration>,
    confirmed: bool,
    on_queued: Option<Notice>,
    guard: PhantomData<fn() -> G>,
}

impl<G> Acquire<G> {
    pub(crate) fn new(setup: Arc<Setup>, plan: Plan) -> Self {
        Self {
            setup,
            plan,
            data: Bytes::new(),
            timeout: None,
            confirmed: false,
            on_queued: None,
            guard: PhantomData,
        }
    }

    /// What stands in the znode of the contender, for others to see. Default: nothing.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Gives up after `timeout`, counted from the first poll by the client's clock, with [`LockError::Timeout`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Asks the ensemble once more, by a write, before the guard is given: a grant that rests on a read alone may be
    /// old news by then.
    pub fn confirmed(mut self) -> Self {
        self.confirmed = true;
        self
    }

    /// Calls `notice` with the number of contenders in the way, once, if the lock is not free.
    pub fn on_queued(mut self, notice: impl FnOnce(usize) + Send + 'static) -> Self {
        self.on_queued = Some(Box::new(notice));
        self
    }

    async fn run(self) -> Result<Guard, LockError> {
        let Self { setup, plan, data, timeout, confirmed, on_queued, guard: _ } = self;
        let dir = setup.dir.clone();
        let clock = setup.client.clock().clone();
        let deadline = timeout.and_then(|timeout| clock.now().checked_add(timeout));
        let mut deadline = pin!(async {
            match deadline {
                Some(deadline) => clock.sleep_until(deadline).await,
                None => pending().await,
            }
        });
        let (give, mut given) = oneshot::channel();
        // Called by whoever waits, not by the claim's task: a panic in it must not keep that from cleaning up.
        let (tell, told) = oneshot::channel();
        let mut told = on_queued.map(|notice| (notice, told));
        let queued = told.is_some().then(|| -> Notice { Box::new(|ahead| _ = tell.send(ahead)) });
        // A task of its own, so that what was begun is brought to an end whatever becomes of this future; and with the runtime
        // of the session, as what is left behind goes with that. The claim is named here, so that contenders are named in
        // the order in which they were asked for.
        let runtime = setup.client.runtime().clone();
        match plan {
            Plan::Queue(entry) => {
                runtime.spawn(own(Entrant::new(setup, entry, data), confirmed, queued, give))
            }
            Plan::Single(limit) => {
                runtime.spawn(own(Single::new(setup, data, limit), confirmed, queued, give))
            }
            Plan::Permits(plan) => {
                runtime.spawn(own(Permits::new(setup, plan, data), confirmed, queued, give))
            }
        };
        let outcome = loop {
            tokio::select! {
                biased;
                (notice, ahead) = heard(&mut told) => notice(ahead),
                outcome = &mut given => break outcome,
                () = &mut deadline => {
                    // A guard that came at the last moment is as good as one that came before.
                    given.close();
                    return given.try_recv().unwrap_or(Err(LockError::Timeout { dir }));
                }
            }
        };
        // A task that is gone without a word went with its runtime, and so did the session.
        let (reason, may_have_applied) = (LostReason::SessionClosed, false);
        outcome.unwrap_or(Err(LockError::SessionOver { dir, reason, may_have_applied }))
    }
}

/// Waits until there is something to call, which is once at most; the number is what it is to be called with.
async fn heard(told: &mut Option<(Notice, oneshot::Receiver<usize>)>) -> (Notice, usize) {
    let ahead = match told {
        Some((_, ahead)) => ahead.await.ok(),
        None => None,
    };
    match (ahead, told.take()) {
        (Some(ahead), Some((notice, _))) => (notice, ahead),
        // The lock was free, or nobody asks.
        _ => pending().await,
    }
}

impl<G: From<Guard> + 'static> IntoFuture for Acquire<G> {
    type Output = Result<G, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.run().await.map(G::from) })
    }
}

/// Takes a lock if it is free, without queueing for it; `None` otherwise.
pub(crate) async fn attempt<G: From<Guard> + 'static>(
    setup: &Arc<Setup>,
    mut plan: Plan,
) -> Result<Option<G>, LockError> {
    if setup.client.state() == SessionState::ConnectedReadOnly {
        // What it sees there may be old, and it would wait for a server that takes writes. This is refused at once.
        setup.client.sync(&setup.dir).await.map_err(|error| setup.error(error))?;
    }
    if !looks_free(setup, &plan).await? {
        return Ok(None);
    }
    // Whoever came in between is in front, so nobody at all may be.
    match &mut plan {
        Plan::Queue(entry) => entry.limit = Some(0),
        Plan::Single(limit) => *limit = Some(0),
        Plan::Permits(permits) => permits.limit = Some(0),
    }
    match Acquire::new(Arc::clone(setup), plan).await {
        Ok(guard) => Ok(Some(guard)),
        Err(LockError::QueueFull { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a read says: it may be old, by which a lock that was just released may not look free.
async fn looks_free(setup: &Setup, plan: &Plan) -> Result<bool, LockError> {
    let entry = match plan {
        Plan::Queue(entry) => entry,
        Plan::Single(_) => return Ok(setup.stat(&setup.dir).await?.is_none()),
        Plan::Permits(permits) => return permits.looks_free(setup).await,
    };
    let mut seen = "";
    for (dir, _) in &entry.places {
        if std::mem::replace(&mut seen, dir) != dir {
            let queue = setup.queue(dir, setup.list(dir).await?).await?;
            if in_the_way(&queue, queue.len(), entry.role).next().is_some() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

impl<G> fmt::Debug for Acquire<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("setup", &self.setup)
            .field("plan", &self.plan)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
