//! [`BarrierError`].

use zoolet_client::{Error, ErrorCode};

use crate::retry::RecipeError;
use crate::state::LostReason;

/// Why a barrier was not passed, raised or lowered. No znode of a failed member is left.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BarrierError {
    /// The session is over; for the other members of a double barrier this one is gone. Open a new client and start over.
    #[error("barrier {path}: the session is over: {reason}")]
    SessionOver {
        /// The path of the barrier.
        path: String,
        /// How it ended.
        reason: LostReason,
    },
    /// Somebody deleted the znode of this member while it waited, most often an operator. Enter again if that was a mistake.
    #[error("barrier {path}: the znode of this member was deleted")]
    NodeDeleted {
        /// The path of the barrier.
        path: String,
    },
    /// An ACL denies a right that the barrier needs: CREATE and DELETE on the parent of a [`Barrier`](crate::Barrier) and
    /// READ on its znode; READ, WRITE, CREATE and DELETE on the znode of a [`DoubleBarrier`](crate::DoubleBarrier). Add an
    /// identity that has them.
    #[error("barrier {path}: not authorized")]
    NoAuth {
        /// The path of the barrier.
        path: String,
    },
    /// Any other error, with the request; or no reply for a long time. Start over when the cause is removed.
    #[error(transparent)]
    Client(#[from] Error),
}

impl RecipeError for BarrierError {
    fn of(path: &str, error: Error) -> Self {
        let path = path.to_owned();
        match LostReason::of(&error) {
            Some(reason) => Self::SessionOver { path, reason },
            None if error.code() == Some(ErrorCode::NoAuth) => Self::NoAuth { path },
            None => Self::Client(error),
        }
    }
}
