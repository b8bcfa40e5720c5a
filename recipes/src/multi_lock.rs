//! [`MultiLock`]: several locks at once.

use std::convert::identity;
use std::sync::Arc;

use zoolet_client::Client;

use crate::acquire::{Acquire, ClaimPlan};
use crate::claim::names::LOCK;
use crate::claim::queue_entry::QueuePlan;
use crate::config::{LockBuilder, LockConfig};
use crate::error::LockError;
use crate::guard::Guard;

/// Several locks that are held together or not at all.
///
/// A contender enters all queues in one transaction. So of any two contenders, the same one is in front in every queue
/// that both are in, and no two wait for each other, whatever the order in which they name the locks. If you acquire it
/// while you hold another lock, you still need a global order.
///
/// In each directory it queues as a contender of [`Lock`](crate::Lock), and excludes the same contenders.
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_recipes::LockError> {
/// let both = zoolet_recipes::MultiLock::over(&zk, ["/accounts/ann", "/accounts/bob"]);
/// let guard = both.acquire().await?;
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct MultiLock {
    config: Arc<LockConfig>,
}

impl MultiLock {
    /// The locks whose contenders queue in `dirs`, with the default settings. They must be of one ensemble.
    ///
    /// # Panics
    /// If `dirs` is empty.
    pub fn over<D: Into<String>>(client: &Client, dirs: impl IntoIterator<Item = D>) -> Self {
        Self::builder(client, dirs).build()
    }

    /// Settings for the locks whose contenders queue in `dirs`.
    ///
    /// # Panics
    /// If `dirs` is empty.
    pub fn builder<D: Into<String>>(
        client: &Client,
        dirs: impl IntoIterator<Item = D>,
    ) -> LockBuilder<MultiLock> {
        let mut dirs: Vec<String> = dirs.into_iter().map(Into::into).collect();
        dirs.sort_unstable();
        dirs.dedup();
        assert!(!dirs.is_empty(), "a MultiLock needs a directory");
        LockBuilder::new(LockConfig::new(client, dirs), |config| Self { config })
    }

    /// Waits for all of the locks. The guard has a znode in each directory, and one token.
    pub fn acquire(&self) -> Acquire {
        let dirs = self.config.dirs.iter().map(|dir| (dir.clone(), LOCK)).collect();
        Acquire::new(&self.config, ClaimPlan::Queue(QueuePlan::exclusive(dirs)), identity)
    }

    /// Takes all of the locks if nobody holds or waits for any of them; `None` otherwise. Does not queue.
    ///
    /// # Errors
    /// The same as for [`Lock::try_acquire`](crate::Lock::try_acquire).
    /// # Cancel safety
    /// The same as for [`Acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.acquire().attempt().await
    }
}
