//! [`Semaphore`]: a limited number of permits.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zoolet_client::Client;

use crate::acquire::{Acquire, ClaimPlan};
use crate::claim::permits::{PermitPlan, leases, locks};
use crate::config::{LockBuilder, LockConfig};
use crate::contender::{Contender, contenders};
use crate::error::LockError;
use crate::guard::{Guard, typed_guard};

/// A number of permits, of which each holder has one or several.
///
/// First come, first served: a contender that wants many permits is not overtaken by those that want few. Compatible with
/// Curator's `InterProcessSemaphoreV2` on the same path. If this crate creates the directory, it stores the number of
/// permits in its data; all users must agree on that number.
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_recipes::LockError> {
/// let slots = zoolet_recipes::Semaphore::new(&zk, "/slots", 10);
/// let three = slots.acquire(3).await?;
/// assert_eq!(three.count(), 3);
/// three.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Semaphore {
    config: Arc<LockConfig>,
    agreed: Arc<AtomicBool>,
}

/// Held permits of a [`Semaphore`], which are released together. Dereferences to a [`Guard`].
#[derive(Debug)]
#[must_use = "the permits are released when this is dropped"]
pub struct Permit(Guard);

typed_guard!(Permit, release);

impl Semaphore {
    /// The semaphore of `max` permits in `dir`, with the default settings.
    pub fn new(client: &Client, dir: impl Into<String>, max: usize) -> Self {
        Self::builder(client, dir, max).build()
    }

    /// Settings for the semaphore of `max` permits in `dir`.
    pub fn builder(client: &Client, dir: impl Into<String>, max: usize) -> LockBuilder<Semaphore> {
        let config = LockConfig { permits: max, ..LockConfig::new(client, vec![dir.into()]) };
        LockBuilder::new(config, |config| Self { config, agreed: Arc::default() })
    }

    /// Waits for `permits` permits, which are taken together. Fails with [`LockError::PermitLimit`] for more permits than
    /// the semaphore has, and for none; with [`LockError::PermitsDiffer`] if another user has set another number.
    pub fn acquire(&self, permits: usize) -> Acquire<Permit> {
        let plan = PermitPlan { wanted: permits, agreed: Arc::clone(&self.agreed) };
        Acquire::new(&self.config, ClaimPlan::Permits(plan), Permit)
    }

    /// Takes `permits` permits if as many are free and nobody waits; `None` otherwise. Does not queue.
    ///
    /// # Errors
    /// The same as for [`Lock::try_acquire`](crate::Lock::try_acquire), and [`LockError::PermitLimit`].
    /// # Cancel safety
    /// The same as for [`Acquire`].
    pub async fn try_acquire(&self, permits: usize) -> Result<Option<Permit>, LockError> {
        self.acquire(permits).attempt().await
    }

    /// The waiters, in the order in which they are served.
    ///
    /// # Errors
    /// The same as for [`Lock::contenders`](crate::Lock::contenders).
    pub async fn contenders(&self) -> Result<Vec<Contender>, LockError> {
        contenders(&self.config, &locks(&self.config)).await
    }

    /// The held permits, one entry for each.
    ///
    /// # Errors
    /// The same as for [`Lock::contenders`](crate::Lock::contenders).
    pub async fn holders(&self) -> Result<Vec<Contender>, LockError> {
        contenders(&self.config, &leases(&self.config)).await
    }
}

impl Permit {
    /// How many permits these are.
    pub fn count(&self) -> usize {
        self.0.nodes().len()
    }
}
