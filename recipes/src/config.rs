//! The configuration of every lock: [`LockConfig`], the builder that makes it, and the settings in it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Acl, Client, Error};

use crate::error::LockError;
use crate::retry::RecipeError as _;
use crate::unique::unique_number;
use crate::warning::{LockWarning, Warnings, least_timeout};

/// How a missing lock directory is handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParentMode {
    /// It is created as a container, as are its missing parents. The server removes it some time after its last contender.
    /// Persistent on servers before 3.5.3, which have no containers.
    #[default]
    Container,
    /// It is created persistent, as are its missing parents.
    Persistent,
    /// It must exist: acquiring creates no directory, and fails with [`LockError::NoParent`] if there is none. For
    /// directories with an ACL or a quota of their own, and against mistyped paths.
    MustExist,
}

/// How children that no known client would have created are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForeignPolicy {
    /// Children whose names end in a number are contenders and wait their turn; others are ignored. The safe choice.
    #[default]
    Exclusive,
    /// Foreign children are ignored.
    Ignore,
    /// Acquiring fails with [`LockError::Foreign`].
    Reject,
}

/// What a lost connection means for a held lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SuspendPolicy {
    /// The lock counts as held until no server was reached for so long that it may have expired the session.
    #[default]
    UntilLeaseEnd,
    /// The lock counts as lost at once, and is given up.
    Lost,
}

/// How the contenders of a [`Lock`](crate::Lock) queue. All contenders of one directory must use the same algorithm, or
/// one of the first two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Each contender watches the one in front of it: a release wakes one contender, an arrival none.
    #[default]
    Predecessor,
    /// Each contender watches the directory: every arrival and departure wakes all waiters, and each lists all contenders.
    /// For comparison, and for few contenders.
    ChildrenWatch,
    /// The path is not a directory but the lock itself: an ephemeral znode that the holder has created. Not fair: a
    /// release wakes all waiters, and the fastest gets the lock. For compatibility with programs that lock in this way.
    /// A persistent znode beside it, `<path>.epoch`, counts the holders. It distinguishes a late release and a late
    /// [fenced](crate::Guard::fenced) write from those of the present holder.
    ///
    /// A program that does not know the epoch does not count in it. If somebody deletes the znode of the holder and such a
    /// program creates it, [`Guard::verify`](crate::Guard::verify) and fenced writes of the former holder **continue to
    /// succeed** until the next holder that does count. Beside such programs set
    /// [`watch_own_node`](crate::LockBuilder::watch_own_node), so that the guard is lost soon, and use
    /// [`revoke`](crate::revoke()) instead of deleting the znode. A late release leaves the znode of the other program
    /// alone, unless that was written exactly once since it was created.
    SingleNode,
}

/// Whose contenders a [`Lock`](crate::Lock) excludes and is excluded by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compat {
    /// The names of Curator, go-zookeeper/zk, the crate zookeeper-client, the recipes of ZooKeeper in Java and C, and of kazoo
    /// with `extra_lock_patterns=("-",)`.
    #[default]
    Curator,
    /// Also those of kazoo with its default settings, at the price of a second znode per contender. Kazoo and Curator
    /// both exclude this lock, but not each other.
    DualKazoo,
}

/// The names of readers and writers of an [`RwLock`](crate::RwLock). Curator and kazoo do not recognise each other's
/// names, so all users of one directory must choose the same. Plain locks must not use the same directory, except that
/// kazoo's writers have the names of its plain locks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Markers {
    /// `_c_<uuid>-__READ__`, `_c_<uuid>-__WRIT__`: those of Curator's `InterProcessReadWriteLock`.
    #[default]
    Curator,
    /// `<hex>__rlock__`, `<hex>__lock__`: those of kazoo's `ReadLock` and `WriteLock`.
    Kazoo,
}

/// The configuration of a lock of any kind.
#[derive(Clone)]
pub(crate) struct LockConfig {
    pub(crate) client: Client,
    /// For the deletes of what a contender has created, which are sent whatever waits for a reply.
    pub(crate) cleanup: Client,
    /// The directories; more than one for a `MultiLock`.
    pub(crate) dirs: Vec<String>,
    /// What errors and log messages call the lock: all directories.
    pub(crate) label: String,
    /// The number of permits of a semaphore.
    pub(crate) permits: usize,
    pub(crate) acl: Vec<Acl>,
    pub(crate) parent: ParentMode,
    pub(crate) foreign: ForeignPolicy,
    pub(crate) on_suspend: SuspendPolicy,
    pub(crate) algorithm: Algorithm,
    pub(crate) compat: Compat,
    pub(crate) markers: Markers,
    pub(crate) max_queue: Option<usize>,
    pub(crate) watch_own_node: bool,
    pub(crate) strict: bool,
    pub(crate) warnings: Warnings,
}

impl LockConfig {
    pub(crate) fn new(client: &Client, dirs: Vec<String>) -> Self {
        Self {
            client: client.clone(),
            cleanup: client.unlimited(),
            label: dirs.join(", "),
            dirs,
            permits: 0,
            acl: Acl::open(),
            parent: ParentMode::default(),
            foreign: ForeignPolicy::default(),
            on_suspend: SuspendPolicy::default(),
            algorithm: Algorithm::default(),
            compat: Compat::default(),
            markers: Markers::default(),
            max_queue: None,
            watch_own_node: false,
            strict: false,
            warnings: Warnings::default(),
        }
    }

    /// The directory; the first of several.
    pub(crate) fn dir(&self) -> &str {
        &self.dirs[0]
    }

    /// What a client's error means for this lock.
    pub(crate) fn error(&self, error: Error) -> LockError {
        LockError::of(&self.label, error)
    }

    /// A guid that no other contender has: with the guid of another, this one would mistake that one's znode for its own.
    pub(crate) fn generate_guid(&self) -> String {
        let mut bytes = unique_number(&self.client).to_be_bytes();
        // Without dashes it may begin a kazoo name, which Curator compares as text with the numbers of its own
        // contenders: a name that begins with 0, 1 or 2 could come before them.
        bytes[0] |= 0x80;
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }
}

impl fmt::Debug for LockConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockConfig")
            .field("client", &self.client)
            .field("dirs", &self.dirs)
            .field("parent", &self.parent)
            .field("foreign", &self.foreign)
            .finish_non_exhaustive()
    }
}

/// The settings of a lock of any kind; from [`Lock::builder`](crate::Lock::builder) and the `builder` of the other recipes.
///
/// ```no_run
/// # use zoolet_recipes::{Lock, ParentMode, SuspendPolicy};
/// # fn example(zk: &zoolet_client::Client) {
/// let lock = Lock::builder(zk, "/locks/ledger")
///     .parent(ParentMode::Persistent)
///     .on_suspend(SuspendPolicy::Lost)
///     .on_warning(|warning| eprintln!("{warning}"))
///     .build();
/// # drop(lock) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a lock is made by `.build()`"]
pub struct LockBuilder<L> {
    pub(crate) config: LockConfig,
    finish: fn(Arc<LockConfig>) -> L,
}

impl<L> LockBuilder<L> {
    pub(crate) fn new(config: LockConfig, finish: fn(Arc<LockConfig>) -> L) -> Self {
        Self { config, finish }
    }

    /// The ACL of the znodes of contenders, and of the directory if it is created. It must grant every contender READ,
    /// CREATE and DELETE, and WRITE for [`Algorithm::SingleNode`]. Default: open to everybody.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.config.acl = acl;
        self
    }

    /// How a missing directory is handled: created as a container or persistent, or refused with
    /// [`ParentMode::MustExist`]. Default: [`ParentMode::Container`].
    pub fn parent(mut self, mode: ParentMode) -> Self {
        self.config.parent = mode;
        self
    }

    /// How children that no known client would have created are handled. Default: [`ForeignPolicy::Exclusive`].
    pub fn foreign(mut self, policy: ForeignPolicy) -> Self {
        self.config.foreign = policy;
        self
    }

    /// What a lost connection means for a held lock. Default: [`SuspendPolicy::UntilLeaseEnd`].
    pub fn on_suspend(mut self, policy: SuspendPolicy) -> Self {
        self.config.on_suspend = policy;
        self
    }

    /// Whether a guard notices that somebody else deleted its znode, at the price of one more read per acquisition.
    /// Default: no. The next [`Guard::fenced`](crate::Guard::fenced) write notices it in any case.
    pub fn watch_own_node(mut self, yes: bool) -> Self {
        self.config.watch_own_node = yes;
        self
    }

    /// Whether only writes extend the lease, which only a server that has a leader can answer. One write, a check of the
    /// holder's znode, is sent before the guard is returned, and one every third of the session timeout. Then
    /// [`Guard::lost`](crate::Guard::lost) is in time even if a member of an ensemble has lost its leader without
    /// knowing, and an eviction is noticed by the next of these writes. Default: no, any reply extends the lease.
    pub fn strict(mut self, yes: bool) -> Self {
        self.config.strict = yes;
        self
    }

    /// How many contenders may be in the way. If there are more, acquiring fails with [`LockError::QueueFull`]. A listing
    /// of many thousands is more than most clients can read. Default: any number.
    pub fn max_queue(mut self, contenders: usize) -> Self {
        self.config.max_queue = Some(contenders);
        self
    }

    /// Calls `callback` with conditions that the owner of the lock should know before they cause failures, each once.
    /// Warnings are also logged. `callback` runs on the runtime and should not block.
    pub fn on_warning(mut self, callback: impl Fn(&LockWarning) + Send + Sync + 'static) -> Self {
        self.config.warnings.callback = Some(Arc::new(callback));
        self
    }

    /// The settings of the ensemble's servers, which decide whether the session timeout is too short
    /// ([`LockWarning::TimeoutUnsafe`]). Default: `tickTime` 2 s and `syncLimit` 5 if the client knows several servers; no
    /// warning if it knows one.
    pub fn ensemble(mut self, tick_time: Duration, sync_limit: u32) -> Self {
        self.config.warnings.least_timeout = Some(least_timeout(tick_time, sync_limit));
        self
    }

    /// The lock.
    pub fn build(self) -> L {
        (self.finish)(Arc::new(self.config))
    }
}
