//! [`Semaphore`]: so many permits, and no more.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zoolet_client::Client;

use crate::acquire::{Acquire, Plan, attempt};
use crate::builder::LockBuilder;
use crate::error::LockError;
use crate::guard::{Guard, Released};
use crate::lock::{Contender, contenders};
use crate::permits::PermitPlan;
use crate::queue::child;
use crate::setup::Setup;

/// A number of permits that many may hold, each some of them.
///
/// First come, first served: whoever wants many permits is not passed by those who want few. Made to stand beside Curator's
/// `InterProcessSemaphoreV2` on the same path. The number of permits stands in the data of the directory, where it is
/// made by this crate; everybody must use the same.
#[derive(Debug, Clone)]
pub struct Semaphore {
    pub(crate) setup: Arc<Setup>,
    max: usize,
    agreed: Arc<AtomicBool>,
}

/// Held permits of a [`Semaphore`]. Everything else is that of a [`Guard`]; all of them are released together.
#[derive(Debug)]
#[must_use = "the permits are released when this is dropped"]
pub struct Permit(Guard);

impl Semaphore {
    /// The semaphore of `max` permits in `dir`, with the default settings.
    pub fn new(client: &Client, dir: impl Into<String>, max: usize) -> Self {
        Self::builder(client, dir, max).build()
    }

    /// Settings for the semaphore of `max` permits in `dir`.
    pub fn builder(client: &Client, dir: impl Into<String>, max: usize) -> LockBuilder<Semaphore> {
        let setup = Arc::new(Setup::new(client, dir));
        LockBuilder { lock: Self { setup, max, agreed: Arc::default() } }
    }

    /// Waits for `permits` of them, which are taken together. More than there are in all is
    /// [`LockError::PermitLimit`], as is none, and a semaphore that somebody else made for another number.
    pub fn acquire(&self, permits: usize) -> Acquire<Permit> {
        Acquire::new(Arc::clone(&self.setup), self.plan(permits))
    }

    /// Takes `permits` if so many are free and nobody waits; `None` otherwise. Does not queue.
    ///
    /// # Errors
    /// As of [`Lock::try_acquire`](crate::Lock::try_acquire), and [`LockError::PermitLimit`].
    /// # Cancel safety
    /// As of [`Acquire`].
    pub async fn try_acquire(&self, permits: usize) -> Result<Option<Permit>, LockError> {
        attempt(&self.setup, self.plan(permits)).await
    }

    /// Who waits, in the order in which they are served.
    ///
    /// # Errors
    /// As of [`Lock::contenders`](crate::Lock::contenders).
    pub async fn contenders(&self) -> Result<Vec<Contender>, LockError> {
        contenders(&self.setup, &child(&self.setup.dir, "locks")).await
    }

    /// Who holds permits, one entry for each.
    ///
    /// # Errors
    /// As of [`Lock::contenders`](crate::Lock::contenders).
    pub async fn holders(&self) -> Result<Vec<Contender>, LockError> {
        contenders(&self.setup, &child(&self.setup.dir, "leases")).await
    }

    fn plan(&self, wanted: usize) -> Plan {
        let (max, agreed) = (self.max, Arc::clone(&self.agreed));
        Plan::Permits(PermitPlan { max, wanted, limit: self.setup.max_queue, agreed })
    }
}

impl Permit {
    /// How many permits these are.
    pub fn count(&self) -> usize {
        self.0.nodes().len()
    }

    /// As [`Guard::release`].
    pub fn release(self) -> impl Future<Output = Result<Released, LockError>> + Send + 'static + use<> {
        self.0.release()
    }
}

impl From<Guard> for Permit {
    fn from(guard: Guard) -> Self {
        Self(guard)
    }
}

impl Deref for Permit {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}
