//! [`LockError`].

use zoolet_client::{ConnectionError, Error, ErrorCode};

use crate::contender::Contender;
use crate::retry::RecipeError;
use crate::state::LostReason;

/// Why a lock was not acquired, or an operation of a guard failed.
///
/// A failed acquisition leaves nothing behind: the znode is deleted in the background, or removed with the session if that
/// is over.
///
/// ```no_run
/// # use zoolet_recipes::{Lock, LockError};
/// # async fn example(lock: Lock) -> Result<(), LockError> {
/// let guard = match lock.acquire().await {
///     Ok(guard) => guard,
///     Err(LockError::NodeDeleted { .. }) => lock.acquire().await?,    // evicted by mistake
///     Err(error) => return Err(error),
/// };
/// # drop(guard); Ok(()) }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The timeout has elapsed; somebody else holds the lock, or no server is reached. Try again later, or with a longer
    /// timeout. If this session has the contender in front, use [`Guard::reenter`](crate::Guard::reenter): waiting for it could
    /// last for ever.
    #[error("lock {dir}: not acquired in time{}", blocker(.in_front.as_deref(), *.is_own, .unreachable.as_ref()))]
    Timeout {
        /// The directory of the lock.
        dir: String,
        /// The nearest contender in front, as far as it was known: the holder, or one that waits for it as well. Its data is
        /// what it has published about itself.
        in_front: Option<Box<Contender>>,
        /// Whether that contender is of the session of this client.
        is_own: bool,
        /// Why there was no connection, if there was none at that moment.
        unreachable: Option<ConnectionError>,
    },
    /// The session is over, and so is every lock of it. Open a new client and start over, as the example `new_session` does.
    #[error("lock {dir}: the session is over: {reason}")]
    SessionOver {
        /// The directory of the lock.
        dir: String,
        /// How it ended.
        reason: LostReason,
        /// Whether it ended while a write was in flight, whose outcome is therefore unknown. This matters for a
        /// [fenced](crate::Guard::fenced) write; the lock's own znodes are removed with the session.
        may_have_applied: bool,
    },
    /// Somebody deleted the znode of this contender, most often an operator to evict it. Acquire again if that was a
    /// mistake.
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
        /// Why the guard does not hold the lock.
        reason: LostReason,
    },
    /// An ACL denies a right that the lock needs: READ, CREATE and DELETE on its directory, READ on the znodes in it.
    #[error("lock {dir}: not authorized")]
    NoAuth {
        /// The directory of the lock.
        dir: String,
    },
    /// The directory, or one above it, does not exist and must not be created, or its parent cannot have children. Create
    /// it, or choose another [`ParentMode`](crate::ParentMode).
    #[error("lock {dir}: the directory does not exist: {cause}")]
    NoParent {
        /// The directory of the lock.
        dir: String,
        /// The error of the server.
        code: ErrorCode,
        /// The request that was refused. It names the chroot if that is what does not exist.
        cause: Box<Error>,
    },
    /// A child of the directory is not a known contender, and [`ForeignPolicy::Reject`](crate::ForeignPolicy::Reject) is
    /// set. Remove it, or choose another policy.
    #[error("lock {dir}: {name} is not a known contender")]
    Foreign {
        /// The directory of the lock.
        dir: String,
        /// Its name.
        name: String,
    },
    /// More contenders wait than [`max_queue`](crate::LockBuilder::max_queue) allows. Try again later.
    #[error("lock {dir}: {len} contenders are waiting already")]
    QueueFull {
        /// The directory of the lock.
        dir: String,
        /// How many there are.
        len: usize,
    },
    /// A reader that is to become the writer is not alone, or others are in front of it. Release it, acquire the lock for
    /// writing, and read again.
    #[error("lock {dir}: there are other readers or writers")]
    NotAlone {
        /// The directory of the lock.
        dir: String,
    },
    /// There are other guards of the same acquisition, from [`Guard::reenter`](crate::Guard::reenter), whose owners rely on
    /// what it is now. Drop them first.
    #[error("lock {dir}: there are other guards of the same acquisition")]
    Reentered {
        /// The directory of the lock.
        dir: String,
    },
    /// The counter of the directory is so near its end that a reader could not keep the place of the writer. Release
    /// the lock and acquire it for reading; see [`LockWarning::CounterLow`](crate::LockWarning::CounterLow).
    #[error("lock {dir}: the counter of the directory is near its end")]
    CounterLow {
        /// The directory of the lock.
        dir: String,
    },
    /// An acquisition of no permits, or of more than the semaphore has. Ask for one at least, and for fewer.
    #[error("semaphore {dir}: {wanted} permits requested of {limit}")]
    PermitLimit {
        /// The directory of the semaphore.
        dir: String,
        /// How many were requested.
        wanted: usize,
        /// How many the semaphore has.
        limit: usize,
    },
    /// The semaphore has another number of permits: all users of one directory must agree on it. Use that number; or, to
    /// change it for all, set the data of the directory while nobody uses it.
    #[error("semaphore {dir}: has {theirs} permits, not {ours}")]
    PermitsDiffer {
        /// The directory of the semaphore.
        dir: String,
        /// The number of this user.
        ours: usize,
        /// The number in the directory.
        theirs: usize,
    },
    /// Any other error, with the request and the reply; or a [fenced](crate::Guard::fenced) write whose connection was
    /// lost. [`may_have_applied`](LockError::may_have_applied) reports whether it may have been executed.
    #[error(transparent)]
    Client(#[from] Error),
}

/// The end of a message: who was in front, whether that was ourselves, and why there is no connection.
fn blocker(in_front: Option<&Contender>, is_own: bool, unreachable: Option<&ConnectionError>) -> String {
    let in_front = match in_front {
        Some(Contender { path, .. }) if is_own => {
            format!(
                "; in front is {path} of this very session: see `Guard::reenter`; in a resumed session, delete it"
            )
        }
        Some(Contender { path, session, .. }) => format!("; in front is {path} of session {session}"),
        None => String::new(),
    };
    match unreachable {
        Some(error) => format!("{in_front}; last connection error: {error}"),
        None => in_front,
    }
}

impl LockError {
    /// Whether the outcome of a write is unknown: a server may have received it, and no reply came. If this is `false`, a
    /// [fenced](crate::Guard::fenced) write has changed nothing.
    pub fn may_have_applied(&self) -> bool {
        match self {
            Self::SessionOver { may_have_applied, .. } => *may_have_applied,
            Self::Client(error) => error.may_have_applied(),
            _ => false,
        }
    }
}

impl RecipeError for LockError {
    fn of(dir: &str, error: Error) -> Self {
        let (dir, may_have_applied) = (dir.to_owned(), error.may_have_applied());
        match LostReason::of(&error) {
            Some(reason) => Self::SessionOver { dir, reason, may_have_applied },
            None if error.code() == Some(ErrorCode::NoAuth) => Self::NoAuth { dir },
            None => Self::Client(error),
        }
    }
}
