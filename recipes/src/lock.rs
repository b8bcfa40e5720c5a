//! [`Lock`]: the fair lock, and who is in its queue.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_client::{Client, ErrorCode, SessionId, Stat, Zxid};

use crate::acquire::{Acquire, Plan, attempt};
use crate::builder::LockBuilder;
use crate::contender::{Entry, Waiting};
use crate::error::LockError;
use crate::guard::{FencingToken, Guard};
use crate::name::{KAZOO_LOCK, LOCK};
use crate::queue::{Role, child};
use crate::setup::Setup;

/// A fair lock: who comes first gets it first.
///
/// Every handle to the same directory of the same ensemble is the same lock, in this process and in others. Making one
/// costs nothing and asks no server. Whoever holds it and acquires it again waits for itself; [`Guard::reenter`] is the way to
/// enter again.
#[derive(Debug, Clone)]
pub struct Lock {
    pub(crate) setup: Arc<Setup>,
    pub(crate) algorithm: Algorithm,
    pub(crate) compat: Compat,
}

/// How the contenders of a [`Lock`] queue. All contenders of one directory must use the same, or the first two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Each watches the contender in front of it: a release wakes one, an arrival nobody.
    #[default]
    Predecessor,
    /// Each watches the directory: every arrival and departure wakes everybody who waits, and each lists all of them. Only for
    /// comparison, and for few contenders.
    ChildrenWatch,
    /// The path is no directory but the lock itself, an ephemeral znode that whoever holds the lock has created. Not fair:
    /// a release wakes everybody, and whoever is fastest gets it. For standing beside programs that lock in this way. A
    /// persistent znode beside it, `<path>.epoch`, counts the holders, so that a late release and a late
    /// [fenced](Guard::fenced) write are told from those of the present holder.
    ///
    /// A program that knows nothing of the epoch does not count in it. If somebody deletes the znode under its holder and
    /// such a program creates it, [`Guard::verify`] and fenced writes of the former holder **go on to succeed**, until the next
    /// holder that does count. Set [`watch_own_node`](crate::LockBuilder::watch_own_node) beside such programs, so that the
    /// guard is lost soon, and do not evict: [`revoke`](crate::revoke()). A late release leaves the other's znode alone,
    /// unless that has been written to once since it was created.
    SingleNode,
}

/// Whose contenders a [`Lock`] excludes and is excluded by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compat {
    /// Those of Curator, go-zookeeper/zk, the crate zookeeper-client, the recipes of ZooKeeper in Java and C, and of kazoo
    /// if it is given `extra_lock_patterns=("-",)`.
    #[default]
    Curator,
    /// Those of kazoo with its default settings as well, for a second znode per contender. It makes kazoo and Curator
    /// exclude this lock, not each other.
    DualKazoo,
}

/// A contender of a lock, as [`Lock::contenders`] tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// The path of its znode.
    pub path: String,
    /// The name of its znode in the directory of the lock.
    pub name: String,
    /// The data it left there.
    pub data: Bytes,
    /// The session whose end would remove it; 0 if it is no ephemeral.
    pub session: SessionId,
    /// The transaction that put it in the queue.
    pub czxid: Zxid,
    /// When that was, in milliseconds since the Unix epoch by the server's clock.
    pub since: i64,
}

impl Contender {
    /// The fencing token it has, or will have once it is its turn.
    pub fn token(&self) -> FencingToken {
        FencingToken::new(self.czxid)
    }
}

impl Lock {
    /// The lock whose contenders queue in `dir`, with the default settings.
    pub fn new(client: &Client, dir: impl Into<String>) -> Self {
        Self::builder(client, dir).build()
    }

    /// Settings for the lock whose contenders queue in `dir`.
    pub fn builder(client: &Client, dir: impl Into<String>) -> LockBuilder<Lock> {
        let setup = Arc::new(Setup::new(client, dir));
        LockBuilder { lock: Self { setup, algorithm: Algorithm::default(), compat: Compat::default() } }
    }

    /// Waits for the lock. `.await` the result, or give it a timeout or data first.
    pub fn acquire(&self) -> Acquire {
        Acquire::new(Arc::clone(&self.setup), self.plan())
    }

    /// Takes the lock if nobody holds it or waits for it; `None` otherwise. Does not queue, so nobody behind is woken
    /// for nothing. What it sees may be older than the answer, by which it may say `None` of a lock that is just free.
    ///
    /// # Errors
    /// Those of [`Acquire`], but for [`LockError::Timeout`] and [`LockError::QueueFull`]; and [`LockError::Client`] with
    /// `NotReadOnly` at a server that is cut off from its ensemble.
    /// # Cancel safety
    /// As of [`Acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        attempt(&self.setup, self.plan()).await
    }

    /// Who holds the lock and who waits for it, in the order in which they get it. Contenders of other clients are
    /// among them. Of a lock that is a single znode only the holder is known.
    ///
    /// # Errors
    /// [`LockError::SessionOver`], [`LockError::NoAuth`], [`LockError::Client`].
    pub async fn contenders(&self) -> Result<Vec<Contender>, LockError> {
        if self.algorithm == Algorithm::SingleNode {
            let path = self.setup.dir.clone();
            return read(&self.setup, vec![path]).await;
        }
        contenders(&self.setup, &self.setup.dir).await
    }

    fn plan(&self) -> Plan {
        let dir = &self.setup.dir;
        let places = match self.compat {
            Compat::Curator => vec![(dir.clone(), LOCK)],
            Compat::DualKazoo => vec![(dir.clone(), LOCK), (dir.clone(), KAZOO_LOCK)],
        };
        let (role, limit) = (Role::Exclusive, self.setup.max_queue);
        match self.algorithm {
            Algorithm::SingleNode => Plan::Single(limit),
            Algorithm::Predecessor => {
                Plan::Queue(Entry { places, role, waiting: Waiting::ForNearest, limit })
            }
            Algorithm::ChildrenWatch => {
                Plan::Queue(Entry { places, role, waiting: Waiting::ForChildren, limit })
            }
        }
    }
}

/// The contenders that queue in `dir`.
pub(crate) async fn contenders(setup: &Setup, dir: &str) -> Result<Vec<Contender>, LockError> {
    let queue = setup.queue(dir, setup.list(dir).await?).await?;
    read(setup, queue.into_iter().map(|queued| child(dir, &queued.name)).collect()).await
}

/// Reads the znodes of contenders, but for those who have left meanwhile.
async fn read(setup: &Setup, paths: Vec<String>) -> Result<Vec<Contender>, LockError> {
    let reads: Vec<_> = paths.iter().map(|path| setup.client.get_data(path).send()).collect();
    let mut contenders = Vec::with_capacity(paths.len());
    for (path, read) in paths.into_iter().zip(reads) {
        match read.await {
            Ok((data, stat)) => contenders.push(contender(path, data, &stat)),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
            Err(error) => return Err(setup.error(error)),
        }
    }
    Ok(contenders)
}

fn contender(path: String, data: Bytes, stat: &Stat) -> Contender {
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    Contender { path, name, data, session: stat.ephemeral_owner, czxid: stat.czxid, since: stat.ctime }
}
