//! Why a lock was not acquired, or a guard could not do what it was asked.

use zoolet_client::{Error, ErrorCode};

use crate::guard::LostReason;

/// Why a lock was not acquired, or a guard could not do what it was asked.
///
/// When acquiring fails, nothing is left behind: the znode is deleted in the background, or goes with the session if that
/// is over.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The time was up. Try again later, or with more time; somebody else holds the lock.
    #[error("lock {dir}: not acquired in time")]
    Timeout {
        /// The directory of the lock.
        dir: String,
    },
    /// The session is over, and every lock of it. Open a new client and start over.
    #[error("lock {dir}: the session is over: {reason}")]
    SessionOver {
        /// The directory of the lock.
        dir: String,
        /// How it ended.
        reason: LostReason,
        /// Whether it ended while a write was under way, whose outcome is unknown by that. It matters to a
        /// [fenced](crate::Guard::fenced) write; what the lock itself writes goes with the session.
        may_have_applied: bool,
    },
    /// Somebody deleted the znode of this contender, most often an operator who evicted it. Acquire again if that was
    /// a mistake.
    #[error("lock {dir}: the znode of this contender was deleted")]
    NodeDeleted {
        /// The directory of the lock.
        dir: String,
    },
    /// The guard does not hold the lock any more. Stop what it protects.
    #[error("lock {dir}: not held any more: {reason}")]
    NotHeld {
        /// The directory of the lock.
        dir: String,
        /// Why not.
        reason: LostReason,
    },
    /// An ACL denies what the lock needs: READ, CREATE and DELETE on its directory, READ on the znodes in it.
    #[error("lock {dir}: not authorized")]
    NoAuth {
        /// The directory of the lock.
        dir: String,
    },
    /// The directory, or one above it, does not exist and was not to be created, or its place cannot have children.
    /// Create it, or choose another [`ParentMode`](crate::ParentMode).
    #[error("lock {dir}: the directory is not there: {code}")]
    NoParent {
        /// The directory of the lock.
        dir: String,
        /// What the server said.
        code: ErrorCode,
    },
    /// Something in the directory is no contender, and [`ForeignPolicy::Reject`](crate::ForeignPolicy::Reject) is set.
    /// Remove it, or choose another policy.
    #[error("lock {dir}: {name} is no contender that is known here")]
    Foreign {
        /// The directory of the lock.
        dir: String,
        /// Its name.
        name: String,
    },
    /// More contenders wait than [`max_queue`](crate::LockBuilder::max_queue) allows. Try again later.
    #[error("lock {dir}: {len} contenders wait already")]
    QueueFull {
        /// The directory of the lock.
        dir: String,
        /// How many there are.
        len: usize,
    },
    /// A reader that wants to become the writer is not alone, or others stand in front of it. Release it, and acquire
    /// the lock for writing; what was read is to be read again then.
    #[error("lock {dir}: there are other readers or writers")]
    NotAlone {
        /// The directory of the lock.
        dir: String,
    },
    /// There are other guards of the same acquisition, made by [`Guard::reenter`](crate::Guard::reenter), whose owners
    /// count on what it is. Drop them first.
    #[error("lock {dir}: there are other guards of the same acquisition")]
    Reentered {
        /// The directory of the lock.
        dir: String,
    },
    /// The counter of the directory is so near its end that a reader could not keep the place of the writer it was. Release
    /// the lock and acquire it for reading; see [`Warning::CounterLow`](crate::Warning::CounterLow).
    #[error("lock {dir}: the counter of the directory is near its end")]
    CounterLow {
        /// The directory of the lock.
        dir: String,
    },
    /// No permits are wanted, or more than there are in all. Ask for fewer.
    #[error("semaphore {dir}: {wanted} permits are wanted of {limit}")]
    PermitLimit {
        /// The directory of the semaphore.
        dir: String,
        /// What was asked for.
        wanted: usize,
        /// What there is.
        limit: usize,
    },
    /// The semaphore was made for another number of permits: all users of one directory must agree on it. Use that number;
    /// or, to change it for all, set the data of the directory while nobody uses it.
    #[error("semaphore {dir}: made for {theirs} permits, not for {ours}")]
    PermitsDiffer {
        /// The directory of the semaphore.
        dir: String,
        /// What this one was told.
        ours: usize,
        /// What the directory says.
        theirs: usize,
    },
    /// Any other refusal, which says what was asked and what the answer was; or a [fenced](crate::Guard::fenced) write whose
    /// connection was lost, of which [`may_have_applied`](LockError::may_have_applied) says whether it may have happened.
    #[error(transparent)]
    Client(#[from] Error),
}

impl LockError {
    /// Whether it is that of a write whose outcome is unknown: a server may have received it, and no reply said what
    /// became of it. Where this is `false`, a [fenced](crate::Guard::fenced) write has changed nothing.
    pub fn may_have_applied(&self) -> bool {
        match self {
            Self::SessionOver { may_have_applied, .. } => *may_have_applied,
            Self::Client(error) => error.may_have_applied(),
            _ => false,
        }
    }

    /// What a client's error means to the lock in `dir`.
    pub(crate) fn of(dir: &str, error: Error) -> Self {
        let dir = dir.to_owned();
        let may_have_applied = error.may_have_applied();
        let over = |dir, reason| Self::SessionOver { dir, reason, may_have_applied };
        match &error {
            Error::SessionExpired(_) => over(dir, LostReason::SessionExpired),
            Error::AuthFailed(_) => over(dir, LostReason::AuthFailed),
            Error::Closed(_) => over(dir, LostReason::SessionClosed),
            _ if error.code() == Some(ErrorCode::NoAuth) => Self::NoAuth { dir },
            _ => Self::Client(error),
        }
    }
}
