//! [`LockBuilder`]: the settings of every lock.

use std::sync::Arc;
use std::time::Duration;

use zoolet_client::Acl;

use crate::election::Election;
use crate::hold::SuspendPolicy;
use crate::lock::{Algorithm, Compat, Lock};
use crate::multi_lock::MultiLock;
use crate::rw_lock::{Markers, RwLock};
use crate::semaphore::Semaphore;
use crate::setup::{ForeignPolicy, ParentMode, Setup};
use crate::warning::{Warning, Warnings, least_timeout};

/// Settings of a lock of any kind; from [`Lock::builder`] and its like.
#[derive(Debug, Clone)]
#[must_use]
pub struct LockBuilder<L = Lock> {
    pub(crate) lock: L,
}

/// What every lock is made of. Sealed by being private to this crate.
pub trait Built {
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "nobody outside can call it, or implement it")]
    fn setup(&mut self) -> &mut Arc<Setup>;
}

macro_rules! built {
    ($($lock:ty),*) => {
        $(impl Built for $lock {
            #[expect(private_interfaces, reason = "as in the trait")]
            fn setup(&mut self) -> &mut Arc<Setup> {
                &mut self.setup
            }
        })*
    };
}

built!(Lock, RwLock, Semaphore, MultiLock, Election);

impl<L: Built> LockBuilder<L> {
    fn with(mut self, set: impl FnOnce(&mut Setup)) -> Self {
        set(Arc::make_mut(self.lock.setup()));
        self
    }

    fn with_warnings(self, set: impl FnOnce(&mut Warnings)) -> Self {
        self.with(|setup| {
            let old = &setup.warnings;
            let mut warnings = Warnings::new(old.notice.clone(), old.least_timeout);
            set(&mut warnings);
            setup.warnings = Arc::new(warnings);
        })
    }

    /// The ACL of the znodes of contenders, and of the directory if it is created. Every contender needs READ, CREATE
    /// and DELETE by it, and WRITE for [`Algorithm::SingleNode`]. Default: open to everybody.
    pub fn acl(self, acl: Vec<Acl>) -> Self {
        self.with(|setup| setup.acl = acl)
    }

    /// What becomes of a directory that is not there. Default: [`ParentMode::Container`].
    pub fn parent(self, mode: ParentMode) -> Self {
        self.with(|setup| setup.parent = mode)
    }

    /// What is thought of children that no client known here would have made. Default: [`ForeignPolicy::Exclusive`].
    pub fn foreign(self, policy: ForeignPolicy) -> Self {
        self.with(|setup| setup.foreign = policy)
    }

    /// What a lost connection means to a held lock. Default: [`SuspendPolicy::UntilLeaseEnd`].
    pub fn on_suspend(self, policy: SuspendPolicy) -> Self {
        self.with(|setup| setup.policy = policy)
    }

    /// Whether a guard notices that its znode was deleted by somebody else, for one more read per acquisition.
    /// Default: no; the next [`Guard::fenced`](crate::Guard::fenced) finds it out in any case.
    pub fn watch_own_node(self, yes: bool) -> Self {
        self.with(|setup| setup.watch_own_node = yes)
    }

    /// Whether the lease is counted from writes alone, which only a server with a leader behind it can answer: one before the
    /// guard is given, and one each third of the session timeout, a check of the holder's znode. Then
    /// [`Guard::lost`](crate::Guard::lost) comes in time also where a member of an ensemble has lost its leader and does not
    /// know it yet, and an eviction is noticed at the next of them. Default: no, any answer counts.
    pub fn strict(self, yes: bool) -> Self {
        self.with(|setup| setup.strict = yes)
    }

    /// How many contenders may be in the way; with more, acquiring fails with
    /// [`LockError::QueueFull`](crate::LockError::QueueFull). A listing of many thousands is more than most clients can
    /// read. Default: any number.
    pub fn max_queue(self, contenders: usize) -> Self {
        self.with(|setup| setup.max_queue = Some(contenders))
    }

    /// Calls `notice` with what the owner of this lock should know before it becomes trouble, each thing once. It is
    /// logged in any case. Called on the runtime; it should not block.
    pub fn on_warning(self, notice: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.with_warnings(|warnings| warnings.notice = Some(Arc::new(notice)))
    }

    /// Says how the servers of the ensemble are configured, by which [`Warning::TimeoutUnsafe`] tells whether the session
    /// timeout is long enough. Default: `tickTime` 2 s and `syncLimit` 5 where the client knows several servers, nothing
    /// where it knows one.
    pub fn ensemble(self, tick_time: Duration, sync_limit: u32) -> Self {
        self.with_warnings(|warnings| warnings.least_timeout = Some(least_timeout(tick_time, sync_limit)))
    }

    /// The lock.
    pub fn build(self) -> L {
        self.lock
    }
}

impl LockBuilder<Lock> {
    /// How contenders queue. Default: [`Algorithm::Predecessor`].
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.lock.algorithm = algorithm;
        self
    }

    /// Whose contenders the lock stands beside. Default: [`Compat::Curator`].
    pub fn compat(mut self, compat: Compat) -> Self {
        self.lock.compat = compat;
        self
    }
}

impl LockBuilder<RwLock> {
    /// Whose names readers and writers have. Default: [`Markers::Curator`].
    pub fn markers(mut self, markers: Markers) -> Self {
        self.lock.markers = markers;
        self
    }
}
