//! [`MultiLock`]: several locks at once.

use std::sync::Arc;

use zoolet_client::Client;

use crate::acquire::{Acquire, Plan, attempt};
use crate::builder::LockBuilder;
use crate::contender::{Entry, Waiting};
use crate::error::LockError;
use crate::guard::Guard;
use crate::name::LOCK;
use crate::queue::Role;
use crate::setup::Setup;

/// Several locks that are held together or not at all.
///
/// A contender enters all queues in one transaction, so that of any two contenders one is in front of the other in every queue
/// that both are in. So no two wait for each other, whatever the order in which they name the locks. Whoever acquires it
/// while holding another lock still needs an order that everybody keeps to.
///
/// In each directory it is a contender as [`Lock`](crate::Lock) makes them, and excludes everybody that one does.
#[derive(Debug, Clone)]
pub struct MultiLock {
    pub(crate) setup: Arc<Setup>,
    dirs: Vec<String>,
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
        // Errors that concern all of them name all of them.
        let setup = Arc::new(Setup::new(client, dirs.join(", ")));
        LockBuilder { lock: Self { setup, dirs } }
    }

    /// Waits for all of the locks. The guard has a znode in each, and one token.
    pub fn acquire(&self) -> Acquire {
        Acquire::new(Arc::clone(&self.setup), self.plan())
    }

    /// Takes all of the locks if nobody holds or waits for any of them; `None` otherwise. Does not queue.
    ///
    /// # Errors
    /// As of [`Lock::try_acquire`](crate::Lock::try_acquire).
    /// # Cancel safety
    /// As of [`Acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        attempt(&self.setup, self.plan()).await
    }

    fn plan(&self) -> Plan {
        Plan::Queue(Entry {
            places: self.dirs.iter().map(|dir| (dir.clone(), LOCK)).collect(),
            role: Role::Exclusive,
            waiting: Waiting::ForNearest,
            limit: self.setup.max_queue,
        })
    }
}
