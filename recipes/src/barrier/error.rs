//! Why a barrier was not passed.

use zoolet_client::{Error, ErrorCode};

use crate::LostReason;

/// Why a barrier was not passed, raised or lowered. Nothing of the caller's is left at it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BarrierError {
    /// The session is over; at a double barrier the others take this member for gone. Open a new client and start over.
    #[error("barrier {path}: the session is over: {reason}")]
    SessionOver {
        /// The path of the barrier.
        path: String,
        /// How it ended.
        reason: LostReason,
    },
    /// Somebody deleted the znode of this member while it waited, most often an operator. Enter again if that was a
    /// mistake.
    #[error("barrier {path}: the znode of this member was deleted")]
    NodeDeleted {
        /// The path of the barrier.
        path: String,
    },
    /// An ACL denies what the barrier needs: CREATE and DELETE above the znode of a [`Barrier`](crate::Barrier) and READ on
    /// it; all four rights at that of a [`DoubleBarrier`](crate::DoubleBarrier). Add the identity that has them.
    #[error("barrier {path}: not authorized")]
    NoAuth {
        /// The path of the barrier.
        path: String,
    },
    /// Any other refusal, or no answer for a long time; it says what was asked. Start over when the reason is gone.
    #[error(transparent)]
    Client(#[from] Error),
}

impl BarrierError {
    pub(super) fn of(path: &str, error: Error) -> Self {
        let path = path.to_owned();
        match error {
            Error::SessionExpired(_) => Self::SessionOver { path, reason: LostReason::SessionExpired },
            Error::AuthFailed(_) => Self::SessionOver { path, reason: LostReason::AuthFailed },
            Error::Closed(_) => Self::SessionOver { path, reason: LostReason::SessionClosed },
            error if error.code() == Some(ErrorCode::NoAuth) => Self::NoAuth { path },
            error => Self::Client(error),
        }
    }
}
