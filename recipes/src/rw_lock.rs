//! [`RwLock`]: many readers, or one writer.

use std::ops::Deref;
use std::sync::Arc;

use zoolet_client::{Client, Created, ErrorCode};

use crate::acquire::{Acquire, Plan, attempt};
use crate::builder::LockBuilder;
use crate::claim::{Change, Standing};
use crate::contender::{Entrant, Entry, Waiting};
use crate::error::LockError;
use crate::guard::{Guard, Released};
use crate::lock::{Contender, contenders};
use crate::name::{self, KAZOO_LOCK, KAZOO_READ, READ, Style, WRITE};
use crate::queue::{Role, child};
use crate::setup::Setup;
use crate::warning::is_low;

/// Whose names the readers and writers of an [`RwLock`] have. Curator's and kazoo's do not see each other, so all users
/// of one directory must have the same. Neither may share a directory with plain locks, but for kazoo's writers, which
/// are named as its plain locks are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Markers {
    /// `_c_<uuid>-__READ__`, `_c_<uuid>-__WRIT__`: those of Curator's `InterProcessReadWriteLock`.
    #[default]
    Curator,
    /// `<hex>__rlock__`, `<hex>__lock__`: those of kazoo's `ReadLock` and `WriteLock`.
    Kazoo,
}

/// A lock that many may hold to read, or one to write.
///
/// First come, first served, so neither side starves: a reader that comes behind a waiting writer waits for it. A reader
/// watches the nearest writer in front, a writer the nearest contender, so no release wakes anybody in vain.
#[derive(Debug, Clone)]
pub struct RwLock {
    pub(crate) setup: Arc<Setup>,
    pub(crate) markers: Markers,
}

/// An [`RwLock`] held to read. Everything else is that of a [`Guard`].
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct ReadGuard(Guard);

/// An [`RwLock`] held to write. Everything else is that of a [`Guard`].
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct WriteGuard(Guard);

impl RwLock {
    /// The lock whose readers and writers queue in `dir`, with the default settings.
    pub fn new(client: &Client, dir: impl Into<String>) -> Self {
        Self::builder(client, dir).build()
    }

    /// Settings for the lock whose readers and writers queue in `dir`.
    pub fn builder(client: &Client, dir: impl Into<String>) -> LockBuilder<RwLock> {
        let setup = Arc::new(Setup::new(client, dir));
        LockBuilder { lock: Self { setup, markers: Markers::default() } }
    }

    /// Waits until no writer is in front, and holds the lock beside other readers.
    pub fn read(&self) -> Acquire<ReadGuard> {
        Acquire::new(Arc::clone(&self.setup), self.plan(Role::Shared))
    }

    /// Waits until nobody is in front, and holds the lock alone.
    pub fn write(&self) -> Acquire<WriteGuard> {
        Acquire::new(Arc::clone(&self.setup), self.plan(Role::Exclusive))
    }

    /// Holds the lock to read if nobody writes or waits to; `None` otherwise. Does not queue.
    ///
    /// # Errors
    /// As of [`Lock::try_acquire`](crate::Lock::try_acquire).
    /// # Cancel safety
    /// As of [`Acquire`].
    pub async fn try_read(&self) -> Result<Option<ReadGuard>, LockError> {
        attempt(&self.setup, self.plan(Role::Shared)).await
    }

    /// Holds the lock to write if nobody else is there at all; `None` otherwise. Does not queue.
    ///
    /// # Errors
    /// As of [`Lock::try_acquire`](crate::Lock::try_acquire).
    /// # Cancel safety
    /// As of [`Acquire`].
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, LockError> {
        attempt(&self.setup, self.plan(Role::Exclusive)).await
    }

    /// Who reads, writes and waits, in the order in which they came. Their names tell readers from writers.
    ///
    /// # Errors
    /// As of [`Lock::contenders`](crate::Lock::contenders).
    pub async fn contenders(&self) -> Result<Vec<Contender>, LockError> {
        contenders(&self.setup, &self.setup.dir).await
    }

    fn plan(&self, role: Role) -> Plan {
        let style = match (self.markers, role) {
            (Markers::Curator, Role::Shared) => READ,
            (Markers::Curator, Role::Exclusive) => WRITE,
            (Markers::Kazoo, Role::Shared) => KAZOO_READ,
            (Markers::Kazoo, Role::Exclusive) => KAZOO_LOCK,
        };
        let places = vec![(self.setup.dir.clone(), style)];
        Plan::Queue(Entry { places, role, waiting: Waiting::ForNearest, limit: self.setup.max_queue })
    }
}

impl ReadGuard {
    /// Makes a writer of this reader if it is the only contender in front of which nobody stands: of two readers that want to
    /// write, each would wait for the other for ever. Readers that come meanwhile wait behind it. Its token is a new
    /// one, that of the writer.
    ///
    /// # Errors
    /// The reader, held as before unless the error says otherwise, and [`LockError::NotAlone`] if there is another reader or
    /// a writer waits; [`LockError::NodeDeleted`] if the reader was evicted, as others may have written since;
    /// [`LockError::Reentered`], [`LockError::NotHeld`], and those of [`Acquire`].
    /// # Cancel safety
    /// Dropping the future releases the lock, as it has the guard.
    pub async fn try_upgrade(self) -> Result<WriteGuard, (ReadGuard, LockError)> {
        match self.0.change(Change::Upgrade).await {
            Ok(guard) => Ok(WriteGuard(guard)),
            Err((guard, error)) => Err((Self(guard), error)),
        }
    }

    /// As [`Guard::release`].
    pub fn release(self) -> impl Future<Output = Result<Released, LockError>> + Send + 'static + use<> {
        self.0.release()
    }
}

impl WriteGuard {
    /// Makes a reader of this writer, in one transaction: no other writer comes in between, and the readers behind it may
    /// read along. It keeps the place and the token of the writer, as a higher one would shut out the writers that queue
    /// already.
    ///
    /// # Errors
    /// The writer, held as before unless the error says otherwise, and [`LockError::CounterLow`],
    /// [`LockError::Reentered`], [`LockError::NotHeld`] or [`LockError::NodeDeleted`] if it was lost.
    /// # Cancel safety
    /// Dropping the future releases the lock, as it has the guard.
    pub async fn downgrade(self) -> Result<ReadGuard, (WriteGuard, LockError)> {
        match self.0.change(Change::Downgrade).await {
            Ok(guard) => Ok(ReadGuard(guard)),
            Err((guard, error)) => Err((Self(guard), error)),
        }
    }

    /// As [`Guard::release`].
    pub fn release(self) -> impl Future<Output = Result<Released, LockError>> + Send + 'static + use<> {
        self.0.release()
    }
}

impl Entrant {
    /// Puts a reader in the place of this writer.
    pub(crate) async fn downgrade(&mut self) -> Result<Standing, LockError> {
        let setup = Arc::clone(&self.setup);
        let slot = &mut self.slots[0];
        let dir = slot.dir.clone();
        let gone = || LockError::NodeDeleted { dir: dir.clone() };
        let Some(reader) = name::reader_of(&slot.prefix, &self.guid) else {
            return Err(LockError::NotAlone { dir });
        };
        let writer = slot.node.clone().ok_or_else(gone)?;
        let number = writer.path.strip_prefix(&child(&dir, &slot.prefix)).unwrap_or_default();
        if name::parse(&writer.path).is_none_or(|parsed| is_low(parsed.sequence)) {
            // Contenders are told apart by the transactions that made them then, and this one would be a late one.
            return Err(LockError::CounterLow { dir });
        }
        let path = format!("{}{number}", child(&dir, &reader));
        // From here on it may be under either name.
        self.uncertain = true;
        loop {
            let create = setup.client.create(&path, self.data.clone()).ephemeral().acl(setup.acl.clone());
            match setup.client.multi().add(create).delete(&writer.path).commit().await {
                Ok(_) => break,
                // Done before, by a try whose reply was lost: nobody else has this name.
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => break,
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Err(gone()),
                Err(error) => setup.retry(error).await?,
            }
        }
        // The transaction is that of the writer still, and so the token.
        slot.node = Some(Created::new(path, writer.stat));
        slot.prefix = reader;
        self.role = Role::Shared;
        self.uncertain = false;
        self.standing()
    }

    /// Puts a writer in the place of this reader, if nobody else is there.
    pub(crate) async fn upgrade(&mut self) -> Result<Standing, LockError> {
        let setup = Arc::clone(&self.setup);
        let slot = &self.slots[0];
        let writer: Style = if slot.prefix == READ.prefix(&self.guid) { WRITE } else { KAZOO_LOCK };
        let entry = Entry {
            places: vec![(slot.dir.clone(), writer)],
            role: Role::Exclusive,
            waiting: Waiting::ForNearest,
            limit: Some(0),
        };
        let reader = slot.node.as_ref().map(|node| node.path.clone());
        let mut rival = Entrant::new(Arc::clone(&setup), entry, self.data.clone());
        rival.beside = reader.as_deref().and_then(|path| path.rsplit('/').next()).map(str::to_owned);
        // Kept where leaving finds it, whatever becomes of this future.
        let rival = self.rival.insert(Box::new(rival));
        let entered = match rival.enter().await {
            Ok(_) => rival.take_over(reader.as_deref()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = entered {
            rival.leave_queue().await?;
            self.rival = None;
            return Err(match error {
                LockError::QueueFull { dir, .. } => LockError::NotAlone { dir },
                error => error,
            });
        }
        if let Some(rival) = self.rival.take() {
            *self = *rival;
            self.beside = None;
        }
        self.standing()
    }

    /// Deletes the reader that this writer is to replace, unless the writer is gone itself by then.
    async fn take_over(&self, reader: Option<&str>) -> Result<(), LockError> {
        let writer = self.standing()?.nodes.remove(0);
        let Some(reader) = reader else { return Ok(()) };
        loop {
            match self.setup.client.multi().check(&writer, None).delete(reader).commit().await {
                Ok(_) => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    return match error.failed_operation() {
                        Some(0) => Err(LockError::NodeDeleted { dir: self.setup.dir.clone() }),
                        // By an earlier try, or by somebody else: nobody came in between, as the writer stands there.
                        _ => Ok(()),
                    };
                }
                Err(error) => self.setup.retry(error).await?,
            }
        }
    }
}

impl From<Guard> for ReadGuard {
    fn from(guard: Guard) -> Self {
        Self(guard)
    }
}

impl From<Guard> for WriteGuard {
    fn from(guard: Guard) -> Self {
        Self(guard)
    }
}

impl Deref for ReadGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

impl Deref for WriteGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}
