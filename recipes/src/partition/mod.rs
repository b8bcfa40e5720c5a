//! [`Partitioner`]: items that are divided among the members of a group, each of which works under the locks of its share.

mod assign;
mod builder;
mod share;
mod worker;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;
use zoolet_client::Sessions;

use crate::guard::Guard;
pub use builder::PartitionerBuilder;
use share::PartitionProgress;
pub use share::{PartitionError, PartitionShare};

/// Divides items among the members of a group: each works on its share, and holds a [`Lock`](crate::Lock) for each item of it.
///
/// ```no_run
/// use zoolet_client::{Client, Sessions};
/// use zoolet_recipes::{PartitionItem, PartitionError, Partitioner};
///
/// # async fn next_job(shard: &str) -> String { shard.to_owned() }
/// async fn work(item: PartitionItem) {
///     loop {
///         let job = next_job(&item.name).await;
///         // Executed only if this member still has the item.
///         if item.guard.fenced().set_data("/progress", job).commit().await.is_err() {
///             return;
///         }
///     }
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = Sessions::open(Client::options(), "zk1:2181,zk2:2181,zk3:2181")?;
/// let shards = (0..64).map(|number| format!("shard-{number}"));
/// let mut partitioner = Partitioner::builder(&sessions, "/jobs", "10.0.0.7:80").items(shards).start(work)?;
/// println!("{:?}", partitioner.next_share().await?.items());
/// partitioner.leave().await;
/// # Ok(()) }
/// ```
///
/// # How items are divided
/// The members are ephemeral znodes in `members` below the directory; the locks are in `locks`. Each member computes by itself
/// which items are its own, from a [snapshot](crate::Snapshot) of the members: an item belongs to the member with the highest
/// weight for it. So when a member comes, it takes its share from all others, when one leaves, its share goes to all others,
/// and nothing else moves. Shares are as even as random ones: of 1,000 items among 10 members, 100 each, most often within 20.
///
/// The weight is the finalizer of SplitMix64 on the exclusive or of the numbers of both names; the number of a name is the first
/// eight bytes of its SHA-256, big-endian. This does not change between releases, so members may differ in theirs.
///
/// # What is certain
/// - Two members never hold one item: snapshots of two members may differ for a moment, and the lock decides. A new owner waits
///   for the lock until the old one has given it up, or until its session has ended.
/// - When an item is no longer its own, a member drops the work first, and then releases the lock. So it does if the lock
///   is lost; then it acquires the lock again, if need be in the next session.
/// - How late a loss may be noticed is said at [`Guard::lost`]. Effects that must not overlap are fenced, by
///   [`Guard::fenced`] or by the token.
/// - While there is no connection, a member keeps its share as long as it holds the locks.
///
/// All members should have the same items. An item that only some have belongs to one of all members, which may not have it.
///
/// Dropping this leaves the group in the background.
#[must_use = "the member leaves when this is dropped"]
pub struct Partitioner {
    progress: watch::Receiver<PartitionProgress>,
    /// What `next_share` has returned last.
    seen: Option<Arc<PartitionShare>>,
    /// Closed when this is dropped: the member is to leave.
    leave: watch::Sender<()>,
}

/// An item that this member holds, for the work on it.
#[derive(Debug)]
#[non_exhaustive]
pub struct PartitionItem {
    /// The name of the item.
    pub name: Arc<str>,
    /// Its lock.
    pub guard: Guard,
}

impl Partitioner {
    /// Begins to configure the member with this name of the group in `dir`. The name should be the same after a restart of the
    /// program, so that it gets the same items again. Two members with one name have one share between them: each item is with one of
    /// them, and the other waits for its lock.
    pub fn builder(
        sessions: &Sessions,
        dir: impl Into<String>,
        member: impl Into<String>,
    ) -> PartitionerBuilder {
        PartitionerBuilder::new(sessions, dir.into(), member.into())
    }

    /// The present share.
    pub fn share(&self) -> Arc<PartitionShare> {
        Arc::clone(&self.progress.borrow().share)
    }

    /// The present share at first, and then the next one after it that differs. If changes follow each other quickly, only the
    /// latest may be returned.
    ///
    /// # Errors
    /// Why this member has left.
    /// # Ordering and cancel safety
    /// Dropping the future loses nothing.
    pub async fn next_share(&mut self) -> Result<Arc<PartitionShare>, PartitionError> {
        loop {
            {
                let progress = self.progress.borrow_and_update();
                if let Some(error) = &progress.ended {
                    return Err(error.clone());
                }
                if self.seen.as_ref() != Some(&progress.share) {
                    return Ok(Arc::clone(self.seen.insert(Arc::clone(&progress.share))));
                }
            }
            if self.progress.changed().await.is_err() {
                return Err(PartitionError::Gone);
            }
        }
    }

    /// Leaves the group: drops all work, releases the locks, and deletes the znode of the member. Returns when that is done.
    ///
    /// # Ordering and cancel safety
    /// Begins with the call. Dropping the future does not cancel it.
    pub fn leave(self) -> impl Future<Output = ()> + Send + use<> {
        let Self { mut progress, leave, .. } = self;
        drop(leave);
        async move { while progress.borrow_and_update().ended.is_none() && progress.changed().await.is_ok() {} }
    }
}

impl fmt::Debug for Partitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Partitioner").field(&self.share()).finish()
    }
}
