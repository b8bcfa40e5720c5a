//! [`Cache`]: a znode or a subtree in memory, exact at a zxid that it names.

mod builder;
mod change;
mod entry;
mod error;
mod mirror;
mod publish;
mod scope;
mod snapshot;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use zoolet_client::internal::SessionsExt as _;
use zoolet_client::{Sessions, Zxid};

pub use builder::CacheBuilder;
pub use change::CacheChange;
pub use entry::{Entry, Undecodable, UnreadableReason};
pub use error::CacheError;
use publish::Board;
pub use publish::CacheChanges;
pub use snapshot::Snapshot;
use worker::SyncWaiter;

/// How long to wait before asking again whether a transaction has reached the server.
const AGAIN: Duration = Duration::from_millis(100);

/// A znode, or a subtree, that is kept in memory and follows its changes, over lost connections and lost sessions.
///
/// It never mixes states: it publishes immutable [snapshots](Snapshot), each of which has everything as it was after one
/// transaction, and says which one ([`Snapshot::as_of`]). If two znodes are changed in one multi, no snapshot has one change
/// without the other. While changes do not arrive, the last snapshot stays, and says so ([`Snapshot::stale_since`]).
///
/// ```no_run
/// use zoolet_client::{Client, Sessions};
/// use zoolet_recipes::{Cache, CacheChange};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = Sessions::open(Client::options(), "zk1:2181,zk2:2181")?;
/// let config = Cache::builder(&sessions, "/config").open().await?;
///
/// let snapshot = config.snapshot();
/// if let Some(entry) = snapshot.get("/config/rate") {
///     println!("{:?}, exact at {}", entry.value(), snapshot.as_of());
/// }
/// let mut changes = config.changes();
/// while let Some(change) = changes.next().await {
///     match change {
///         CacheChange::Created(new) | CacheChange::Changed { new, .. } => println!("{} is {:?}", new.path(), new.value()),
///         CacheChange::Deleted(old) => println!("{} is gone", old.path()),
///         _ => {}
///     }
/// }
/// # Ok(()) }
/// ```
///
/// # How fresh
/// A snapshot follows its server by the time that an event and one read take. To read what was written elsewhere, wait for
/// it: [`at_least`](Cache::at_least) with the zxid of that write, or [`fresh`](Cache::fresh) for every write up to now. While
/// znodes of the subtree change all the time, faster than they are read, there may be no snapshot for a while: the cache
/// waits for a moment in which none is being read, and does not guess.
///
/// # What it costs
/// To open: a getData for each znode, and a getChildren for each that has children. A change: one read. A reconnect: an
/// exists for each znode, and data only of those that changed. Servers before 3.6 have no recursive watch; there it is two
/// watches for each znode, and a listing for each child that comes or goes.
///
/// # What it cannot know
/// - Values between two snapshots: events say that a znode has changed, and not to what.
/// - What its session may not read. Such a znode is [reported](CacheChange::Unreadable) if a listing names it, and asked for
///   again once a minute; what is below it may be missing. Servers report no change of an ACL, and since 3.8.4 and 3.9.2
///   no event of a znode that may not be read (ZOOKEEPER-4799), so a cache keeps what it has read before the right was lost.
/// - `/zookeeper` is left out of a cache of `/`: servers change data there without an event.
/// - On servers of 3.6 to 3.8, a one-shot watch on the root by the same session replaces the watch of the cache
///   (ZOOKEEPER-4466). Use another session for such watches there.
///
/// A handle is cheap to clone. The cache ends, and its watch is removed, when the last one is dropped.
pub struct Cache<T = Bytes>(Arc<CacheHandle<T>>);

struct CacheHandle<T> {
    sessions: Sessions,
    board: Arc<Board<T>>,
    syncs: mpsc::UnboundedSender<SyncWaiter>,
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Cache {
    /// Begins to configure a cache of the znode at `root` and all that is below it. The root need not exist, and may come
    /// and go.
    pub fn builder(sessions: &Sessions, root: impl Into<String>) -> CacheBuilder<Bytes> {
        CacheBuilder::new(sessions, root.into())
    }
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// The latest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot<T>> {
        // There is one since it was opened.
        self.0.board.latest().unwrap_or_else(|| Arc::new(Snapshot::empty(0)))
    }

    /// Waits for a snapshot that has everything up to the transaction `zxid`, such as one's own write
    /// ([`with_zxid`](zoolet_client::ReplyFuture::with_zxid), [`Client::last_zxid`](zoolet_client::Client::last_zxid)) or one
    /// that another program has named. Asks the server for it if need be.
    ///
    /// A zxid does not name its epoch, and is taken for one of the latest snapshot's. For a write right after the servers went
    /// back to an older state, which the cache may not show yet, use [`fresh`](Cache::fresh).
    ///
    /// # Errors
    /// `Reset` if the servers have gone back to an older state since the latest snapshot, or do so meanwhile; otherwise why
    /// the cache has ended. Without a connection it waits.
    /// # Ordering and cancel safety
    /// Dropping the future has no effect.
    pub async fn at_least(&self, zxid: Zxid) -> Result<Arc<Snapshot<T>>, CacheError> {
        let epoch = self.snapshot().epoch();
        loop {
            let latest = self.snapshot();
            if latest.epoch() != epoch {
                return Err(CacheError::Reset);
            }
            if latest.as_of() >= zxid {
                return Ok(latest);
            }
            let (synced, of_epoch) = self.sync().await?;
            if of_epoch != epoch {
                return Err(CacheError::Reset);
            }
            if synced < zxid {
                // Not committed, or the server has not heard of it.
                self.0.sessions.clock().sleep(AGAIN).await;
            } else {
                self.0.board.wait_for(|latest| latest.as_of >= zxid || latest.epoch != epoch).await?;
            }
        }
    }

    /// Waits for a snapshot that has everything that was committed when this is called, by anybody: sends a `sync`, and waits
    /// for a snapshot from after it.
    ///
    /// # Errors
    /// Why the cache has ended. Without a connection it waits.
    /// # Ordering and cancel safety
    /// Dropping the future has no effect.
    pub async fn fresh(&self) -> Result<Arc<Snapshot<T>>, CacheError> {
        let synced = self.sync().await?;
        // Zxids of different epochs cannot be compared.
        self.0.board.wait_for(|latest| (latest.epoch, latest.as_of) >= (synced.1, synced.0)).await
    }

    /// What is there, as [`CacheChange::Created`], then [`CacheChange::Initialized`], then every change.
    pub fn changes(&self) -> CacheChanges<T> {
        CacheChanges::from_nothing(&self.0.board)
    }

    /// Every change since `snapshot`, which is one of this cache.
    pub fn changes_since(&self, snapshot: &Arc<Snapshot<T>>) -> CacheChanges<T> {
        CacheChanges::since(&self.0.board, Arc::clone(snapshot))
    }

    /// The zxid of a sync that is sent after this call, and its epoch.
    async fn sync(&self) -> Result<(Zxid, u64), CacheError> {
        let (waiting, synced) = oneshot::channel();
        // Without the task, the receiver fails.
        let _ = self.0.syncs.send(waiting);
        match synced.await {
            Ok(synced) => Ok(synced),
            Err(_) => Err(self.0.board.wait_for(|_| false).await.err().unwrap_or(CacheError::Gone)),
        }
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cache").field(&self.0.board.latest()).finish()
    }
}
