//! [`Lock`]: the fair lock.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use zoolet_client::{Acl, Client, SessionId, Zxid};

use crate::contender::{Entrant, ForeignPolicy, ParentMode, Setup};
use crate::error::LockError;
use crate::guard::{Guard, LostReason};
use crate::hold::{Hold, Holder, SuspendPolicy};

/// A fair lock: who comes first gets it first.
///
/// Every handle to the same directory of the same ensemble is the same lock, in this process and in others. Making one
/// costs nothing and asks no server. A lock is not reentrant: whoever holds it and acquires it again waits for itself.
#[derive(Debug, Clone)]
pub struct Lock {
    setup: Setup,
    policy: SuspendPolicy,
    watch_own_node: bool,
}

/// Settings of a [`Lock`]; from [`Lock::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct LockBuilder {
    lock: Lock,
}

/// A contender of a lock, as [`Lock::contenders`] tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// The name of its znode in the directory of the lock.
    pub name: String,
    /// The data it left there.
    pub data: Bytes,
    /// The session whose end would remove it; 0 if it is no ephemeral.
    pub session: SessionId,
    /// The transaction that put it in the queue: its fencing token.
    pub czxid: Zxid,
    /// When that was, in milliseconds since the Unix epoch by the server's clock.
    pub since: i64,
}

impl Lock {
    /// The lock whose contenders queue in `dir`, with the default settings.
    pub fn new(client: &Client, dir: impl Into<String>) -> Self {
        Self::builder(client, dir).build()
    }

    /// Settings for the lock whose contenders queue in `dir`.
    pub fn builder(client: &Client, dir: impl Into<String>) -> LockBuilder {
        let setup = Setup {
            client: client.clone(),
            dir: dir.into(),
            acl: Acl::open(),
            parent: ParentMode::default(),
            foreign: ForeignPolicy::default(),
            max_queue: None,
        };
        LockBuilder { lock: Lock { setup, policy: SuspendPolicy::default(), watch_own_node: false } }
    }

    /// Waits for the lock. `.await` the result, or give it a timeout or data first.
    pub fn acquire(&self) -> Acquire {
        Acquire { lock: self.clone(), data: Bytes::new(), timeout: None, confirmed: false, on_queued: None }
    }

    /// Takes the lock if nobody holds it or waits for it; `None` otherwise. Does not queue, so nobody behind is woken
    /// for nothing. What it sees may be older than the answer, by which it may say `None` of a lock that is just free.
    ///
    /// # Errors
    /// Those of [`Acquire`], but for [`LockError::Timeout`] and [`LockError::QueueFull`].
    /// # Cancel safety
    /// As of [`Acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        let names = self.setup.list().await?;
        if !self.setup.queue(names).await?.is_empty() {
            return Ok(None);
        }
        // It looks free. Whoever came in between is in front, so nobody at all may be.
        let mut lock = self.clone();
        lock.setup.max_queue = Some(0);
        match lock.acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::QueueFull { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Who holds the lock and who waits for it, in the order in which they get it. Contenders of other clients are
    /// among them.
    ///
    /// # Errors
    /// [`LockError::SessionOver`], [`LockError::NoAuth`], [`LockError::Client`].
    pub async fn contenders(&self) -> Result<Vec<Contender>, LockError> {
        let client = &self.setup.client;
        let names = self.setup.list().await?;
        let queue = self.setup.queue(names).await?;
        let reads: Vec<_> = queue
            .iter()
            .map(|queued| {
                client.get_data(format!("{}/{}", self.setup.dir.trim_end_matches('/'), queued.name)).send()
            })
            .collect();
        let mut contenders = Vec::with_capacity(queue.len());
        for (queued, read) in queue.into_iter().zip(reads) {
            match read.await {
                Ok((data, stat)) => contenders.push(Contender {
                    name: queued.name,
                    data,
                    session: stat.ephemeral_owner,
                    czxid: stat.czxid,
                    since: stat.ctime,
                }),
                // It has left meanwhile.
                Err(error) if error.code() == Some(zoolet_client::ErrorCode::NoNode) => {}
                Err(error) => return Err(self.setup.error(error)),
            }
        }
        Ok(contenders)
    }
}

impl LockBuilder {
    /// The ACL of the znodes of contenders, and of the directory if it is created. Every contender needs READ, CREATE
    /// and DELETE by it. Default: open to everybody.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.lock.setup.acl = acl;
        self
    }

    /// What becomes of a directory that is not there. Default: [`ParentMode::Container`].
    pub fn parent(mut self, mode: ParentMode) -> Self {
        self.lock.setup.parent = mode;
        self
    }

    /// What is thought of children that no client known here would have made. Default: [`ForeignPolicy::Exclusive`].
    pub fn foreign(mut self, policy: ForeignPolicy) -> Self {
        self.lock.setup.foreign = policy;
        self
    }

    /// What a lost connection means to a held lock. Default: [`SuspendPolicy::UntilLeaseEnd`].
    pub fn on_suspend(mut self, policy: SuspendPolicy) -> Self {
        self.lock.policy = policy;
        self
    }

    /// Whether a guard notices that its znode was deleted by somebody else, for one more read per acquisition.
    /// Default: no; the next [`Guard::fenced`] finds it out in any case.
    pub fn watch_own_node(mut self, yes: bool) -> Self {
        self.lock.watch_own_node = yes;
        self
    }

    /// How many contenders may be in front; with more, acquiring fails with [`LockError::QueueFull`]. A listing of many
    /// thousands is more than most clients can read. Default: any number.
    pub fn max_queue(mut self, contenders: usize) -> Self {
        self.lock.setup.max_queue = Some(contenders);
        self
    }

    /// The lock.
    pub fn build(self) -> Lock {
        self.lock
    }
}

type Notice = Box<dyn FnOnce(usize) + Send>;

/// An acquisition that has not begun; from [`Lock::acquire`]. `.await` begins it and waits for the guard.
///
/// # Errors
/// [`LockError`] says of each what to do. Nothing is left behind.
/// # Cancel safety
/// Dropping the future at any time gives up the place in the queue, or the lock if it was won meanwhile, in the
/// background: no znode and no watch is left.
/// # Panics
/// When awaited outside of a tokio runtime.
#[must_use = "an acquisition begins when it is awaited"]
pub struct Acquire {
    lock: Lock,
    data: Bytes,
    timeout: Option<Duration>,
    confirmed: bool,
    on_queued: Option<Notice>,
}

impl Acquire {
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

    /// Calls `notice` with the number of contenders in front, once, if the lock is not free.
    pub fn on_queued(mut self, notice: impl FnOnce(usize) + Send + 'static) -> Self {
        self.on_queued = Some(Box::new(notice));
        self
    }

    async fn run(self) -> Result<Guard, LockError> {
        let Self { lock, data, timeout, confirmed, on_queued } = self;
        let dir = lock.setup.dir.clone();
        let clock = lock.setup.client.clock();
        let mut patience = timeout
            .and_then(|timeout| clock.now().checked_add(timeout))
            .map(|deadline| clock.sleep_until(deadline));
        // Named here and not in the task, so that contenders are named in the order in which they were asked for.
        let entrant = Entrant::new(lock.setup.clone(), data);
        let (give, mut given) = oneshot::channel();
        // A task of its own, so that what was begun is brought to an end whatever becomes of this future.
        tokio::spawn(own(lock, entrant, confirmed, on_queued, give));
        let outcome = match &mut patience {
            None => (&mut given).await,
            Some(patience) => tokio::select! {
                biased;
                outcome = &mut given => outcome,
                () = patience => {
                    // A guard that came at the last moment is as good as one that came before.
                    given.close();
                    return given.try_recv().unwrap_or(Err(LockError::Timeout { dir }));
                }
            },
        };
        // A task that is gone without a word went with its runtime, and so did the session.
        outcome.unwrap_or(Err(LockError::SessionOver { dir, reason: LostReason::SessionClosed }))
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Guard, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("lock", &self.lock)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// The owner of one contender from the first request to the last: acquires, hands out the guard, and cleans up when the
/// guard or whoever waited for it is gone.
async fn own(
    lock: Lock,
    mut entrant: Entrant,
    confirmed: bool,
    mut on_queued: Option<Notice>,
    mut give: oneshot::Sender<Result<Guard, LockError>>,
) {
    let won = tokio::select! {
        biased;
        () = give.closed() => None,
        won = win(&mut entrant, confirmed, &mut on_queued) => Some(won),
    };
    let error = match (won, entrant.node().cloned()) {
        (Some(Ok(())), Some(node)) => {
            let hold = Arc::new(Hold::new());
            let (order, ordered) = oneshot::channel();
            let guard = Guard::new(lock.setup, node.path.clone(), node.stat.czxid, Arc::clone(&hold), order);
            // A guard that nobody takes is dropped here, and so released below.
            let _ = give.send(Ok(guard));
            let (policy, watch_own_node) = (lock.policy, lock.watch_own_node);
            let node = node.path;
            return Holder { entrant, node, policy, watch_own_node, hold, order: ordered }.run().await;
        }
        (Some(Err(error)), _) => Some(error),
        (Some(Ok(())) | None, _) => None,
    };
    if let Err(error) = entrant.leave().await {
        tracing::debug!(dir = lock.setup.dir, %error, "cannot leave the queue; the znode goes with the session");
    }
    if let Some(error) = error {
        let _ = give.send(Err(error));
    }
}

async fn win(
    entrant: &mut Entrant,
    confirmed: bool,
    on_queued: &mut Option<Notice>,
) -> Result<(), LockError> {
    let place = entrant.enter().await?;
    if place.ahead > 0 {
        if let Some(notice) = on_queued.take() {
            notice(place.ahead);
        }
    }
    entrant.wait(place).await?;
    if confirmed {
        let setup = entrant.setup();
        if let Some(node) = entrant.node() {
            crate::FencedTxn::new(setup, &node.path, None).commit().await?;
        }
    }
    Ok(())
}
