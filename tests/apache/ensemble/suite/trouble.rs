//! What may go wrong under faults, and what may not.

use zoolet::{Error, ErrorCode, LockError};

/// Why a contender could not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The session is over.
    Session,
    /// The lock is not held any more, or the place in the queue is gone.
    NotHeld,
    /// It was not granted in time.
    Late,
    /// The connection was lost.
    Connection,
    /// A refusal that may be meant.
    Refused(ErrorCode),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error.code() {
            _ if error.is_session_over() => Self::Session,
            _ if error.is_retryable() => Self::Connection,
            Some(code) => Self::Refused(code),
            None => panic!("{error}"),
        }
    }
}

impl From<LockError> for Trouble {
    fn from(error: LockError) -> Self {
        match error {
            LockError::SessionOver { .. } => Self::Session,
            LockError::NotHeld { .. } | LockError::NodeDeleted { .. } => Self::NotHeld,
            LockError::Timeout { .. } => Self::Late,
            LockError::Client(error) => error.into(),
            other => panic!("{other}"),
        }
    }
}

/// Asks until there is an answer or the session is over.
pub async fn again<C, T>(mut request: impl FnMut() -> C) -> Result<T, Trouble>
where
    C: IntoFuture<Output = Result<T, Error>>,
{
    loop {
        match request().await.map_err(Trouble::from) {
            Err(Trouble::Connection) => {}
            outcome => return outcome,
        }
    }
}
