//! [`RwLock`]: many readers, or one writer.

use std::sync::Arc;

use zoolet_client::Client;

use crate::acquire::{Acquire, ClaimPlan};
use crate::claim::HoldChange;
use crate::claim::names::{KAZOO_LOCK, KAZOO_READ, NameStyle, READ, WRITE};
use crate::claim::order::LockMode;
use crate::claim::queue_entry::QueuePlan;
use crate::config::{LockBuilder, LockConfig, Markers};
use crate::contender::{Contender, contenders};
use crate::error::LockError;
use crate::guard::{Guard, typed_guard};

/// A lock that many may hold to read, or one to write.
///
/// First come, first served, so neither side starves: a reader that comes after a waiting writer waits for it. A reader
/// watches the nearest writer in front, a writer the nearest contender, so no release wakes anybody in vain.
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_recipes::LockError> {
/// let lock = zoolet_recipes::RwLock::new(&zk, "/locks/settings");
/// let reader = lock.read().await?;
/// reader.release().await?;
/// let writer = lock.write().await?;
/// writer.fenced().set_data("/settings", "v2").commit().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct RwLock {
    config: Arc<LockConfig>,
}

/// An [`RwLock`] held to read. Dereferences to a [`Guard`].
///
/// ```no_run
/// # use zoolet_recipes::{LockError, ReadGuard, RwLock, WriteGuard};
/// # async fn example(lock: RwLock, reader: ReadGuard) -> Result<WriteGuard, LockError> {
/// match reader.try_upgrade().await {
///     Ok(writer) => Ok(writer),
///     Err((reader, LockError::NotAlone { .. })) => {
///         reader.release().await?;
///         lock.write().await                          // and read again what it protects
///     }
///     Err((_, error)) => Err(error),
/// }
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct ReadGuard(Guard);

/// An [`RwLock`] held to write. Dereferences to a [`Guard`].
///
/// ```no_run
/// # use zoolet_recipes::{LockError, ReadGuard, WriteGuard};
/// # async fn example(writer: WriteGuard) -> Result<ReadGuard, LockError> {
/// writer.fenced().set_data("/settings", "v2").commit().await?;
/// writer.downgrade().await.map_err(|(_, error)| error)
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct WriteGuard(Guard);

typed_guard!(ReadGuard, release);
typed_guard!(WriteGuard, release);

impl RwLock {
    /// The lock whose readers and writers queue in `dir`, with the default settings.
    pub fn new(client: &Client, dir: impl Into<String>) -> Self {
        Self::builder(client, dir).build()
    }

    /// Settings for the lock whose readers and writers queue in `dir`.
    pub fn builder(client: &Client, dir: impl Into<String>) -> LockBuilder<RwLock> {
        LockBuilder::new(LockConfig::new(client, vec![dir.into()]), |config| Self { config })
    }

    /// Waits until no writer is in front, and holds the lock together with other readers.
    pub fn read(&self) -> Acquire<ReadGuard> {
        Acquire::new(&self.config, self.plan(LockMode::Shared), ReadGuard)
    }

    /// Waits until nobody is in front, and holds the lock alone.
    pub fn write(&self) -> Acquire<WriteGuard> {
        Acquire::new(&self.config, self.plan(LockMode::Exclusive), WriteGuard)
    }

    /// Holds the lock to read if nobody writes or waits to write; `None` otherwise. Does not queue.
    ///
    /// # Errors
    /// The same as for [`Lock::try_acquire`](crate::Lock::try_acquire).
    /// # Cancel safety
    /// The same as for [`Acquire`].
    pub async fn try_read(&self) -> Result<Option<ReadGuard>, LockError> {
        self.read().attempt().await
    }

    /// Holds the lock to write if there is no other contender; `None` otherwise. Does not queue.
    ///
    /// # Errors
    /// The same as for [`Lock::try_acquire`](crate::Lock::try_acquire).
    /// # Cancel safety
    /// The same as for [`Acquire`].
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, LockError> {
        self.write().attempt().await
    }

    /// The holders and waiters, in the order in which they came. Their names distinguish readers from writers.
    ///
    /// # Errors
    /// The same as for [`Lock::contenders`](crate::Lock::contenders).
    pub async fn contenders(&self) -> Result<Vec<Contender>, LockError> {
        contenders(&self.config, self.config.dir()).await
    }

    fn plan(&self, mode: LockMode) -> ClaimPlan {
        let style: NameStyle = match (self.config.markers, mode) {
            (Markers::Curator, LockMode::Shared) => READ,
            (Markers::Curator, LockMode::Exclusive) => WRITE,
            (Markers::Kazoo, LockMode::Shared) => KAZOO_READ,
            (Markers::Kazoo, LockMode::Exclusive) => KAZOO_LOCK,
        };
        let dirs = vec![(self.config.dir().to_owned(), style)];
        ClaimPlan::Queue(QueuePlan { mode, ..QueuePlan::exclusive(dirs) })
    }
}

impl LockBuilder<RwLock> {
    /// The names of readers and writers. Default: [`Markers::Curator`].
    pub fn markers(mut self, markers: Markers) -> Self {
        self.config.markers = markers;
        self
    }
}

impl ReadGuard {
    /// Turns this reader into a writer, if it is the only reader and nobody is in front of it. It never waits, because two
    /// readers that both waited to write would wait for each other forever. Readers that come meanwhile wait after it.
    /// The token is a new one, that of the writer.
    ///
    /// # Errors
    /// The reader, held as before unless the error says otherwise, and [`LockError::NotAlone`] if there is another reader or
    /// a writer waits; [`LockError::NodeDeleted`] if the reader was evicted, as others may have written since;
    /// [`LockError::Reentered`], [`LockError::NotHeld`], and those of [`Acquire`].
    /// # Cancel safety
    /// Dropping the future releases the lock, because it owns the guard.
    pub async fn try_upgrade(self) -> Result<WriteGuard, (ReadGuard, LockError)> {
        match self.0.change(HoldChange::Upgrade).await {
            Ok(guard) => Ok(WriteGuard(guard)),
            Err((guard, error)) => Err((Self(guard), error)),
        }
    }
}

impl WriteGuard {
    /// Turns this writer into a reader, in one transaction: no other writer comes in between, and the readers after it may
    /// read too. It keeps the place and the token of the writer, because a higher token would lock out the writers that
    /// already queue.
    ///
    /// # Errors
    /// The writer, held as before unless the error says otherwise, and [`LockError::CounterLow`],
    /// [`LockError::Reentered`], [`LockError::NotHeld`], or [`LockError::NodeDeleted`] if it was lost.
    /// # Cancel safety
    /// Dropping the future releases the lock, because it owns the guard.
    pub async fn downgrade(self) -> Result<ReadGuard, (WriteGuard, LockError)> {
        match self.0.change(HoldChange::Downgrade).await {
            Ok(guard) => Ok(ReadGuard(guard)),
            Err((guard, error)) => Err((Self(guard), error)),
        }
    }
}
