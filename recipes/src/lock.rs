//! [`Lock`]: the fair lock.

use std::convert::identity;
use std::sync::Arc;

use zoolet_client::Client;

use crate::acquire::{Acquire, ClaimPlan};
use crate::claim::names::{KAZOO_LOCK, LOCK};
use crate::claim::queue_entry::{QueuePlan, WatchTarget};
use crate::config::{Algorithm, Compat, LockBuilder, LockConfig};
use crate::contender::{self, Contender};
use crate::error::LockError;
use crate::guard::Guard;

/// A fair lock: first come, first served.
///
/// Every handle to the same directory of the same ensemble is the same lock, in this process and in others. Creating a
/// handle is cheap and sends no request. Not reentrant: acquiring a lock that you already hold waits forever; use
/// [`Guard::reenter`].
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_recipes::LockError> {
/// let lock = zoolet_recipes::Lock::new(&zk, "/locks/ledger");
/// let guard = lock.acquire().await?;
/// guard.fenced().set_data("/ledger", "v2").commit().await?;
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Lock {
    config: Arc<LockConfig>,
}

impl Lock {
    /// The lock whose contenders queue in `dir`, with the default settings.
    pub fn new(client: &Client, dir: impl Into<String>) -> Self {
        Self::builder(client, dir).build()
    }

    /// Settings for the lock whose contenders queue in `dir`.
    pub fn builder(client: &Client, dir: impl Into<String>) -> LockBuilder<Lock> {
        LockBuilder::new(LockConfig::new(client, vec![dir.into()]), |config| Self { config })
    }

    /// Waits for the lock. `.await` the result, or set a timeout or data first.
    pub fn acquire(&self) -> Acquire {
        let styles = match self.config.compat {
            Compat::Curator => vec![LOCK],
            Compat::DualKazoo => vec![LOCK, KAZOO_LOCK],
        };
        let dirs = styles.into_iter().map(|style| (self.config.dir().to_owned(), style)).collect();
        let plan = QueuePlan::exclusive(dirs);
        let plan = match self.config.algorithm {
            Algorithm::SingleNode => ClaimPlan::SingleNode,
            Algorithm::Predecessor => ClaimPlan::Queue(plan),
            Algorithm::ChildrenWatch => ClaimPlan::Queue(QueuePlan { watch: WatchTarget::Children, ..plan }),
        };
        Acquire::new(&self.config, plan, identity)
    }

    /// Takes the lock if nobody holds it or waits for it; `None` otherwise. Does not queue, so it wakes nobody. It rests on
    /// a read that may be stale: it may return `None` for a lock that was just released.
    ///
    /// # Errors
    /// The errors of [`Acquire`] except [`LockError::Timeout`] and [`LockError::QueueFull`]; and [`LockError::Client`] with
    /// `NotReadOnly` at a server that is cut off from its ensemble.
    /// # Cancel safety
    /// The same as for [`Acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.acquire().attempt().await
    }

    /// The holder and the waiters, in the order in which they get the lock. Contenders of other clients are included. For
    /// [`Algorithm::SingleNode`] only the holder is known.
    ///
    /// # Errors
    /// [`LockError::SessionOver`], [`LockError::NoAuth`], [`LockError::Client`].
    pub async fn contenders(&self) -> Result<Vec<Contender>, LockError> {
        match self.config.algorithm {
            Algorithm::SingleNode => contender::read(&self.config, self.config.dirs.clone()).await,
            Algorithm::Predecessor | Algorithm::ChildrenWatch => {
                contender::contenders(&self.config, self.config.dir()).await
            }
        }
    }
}

impl LockBuilder<Lock> {
    /// How contenders queue. Default: [`Algorithm::Predecessor`].
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.config.algorithm = algorithm;
        self
    }

    /// Which other clients the lock is compatible with. Default: [`Compat::Curator`].
    pub fn compat(mut self, compat: Compat) -> Self {
        self.config.compat = compat;
        self
    }
}
