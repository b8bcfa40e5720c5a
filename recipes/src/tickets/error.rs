//! Why a ticket was not executed, or it is not known whether it was.

use std::sync::Arc;

use zoolet_client::{Error, ErrorCode};

use super::ticket::Ticket;
use crate::LostReason;

/// What the work of a ticket may fail with: anything.
pub type WorkError = Box<dyn std::error::Error + Send + Sync>;

/// Why a ticket was not executed, or it is not known whether it was.
///
/// Whatever the error, running the same ticket with the same parameters again is safe: it is executed once or not at all.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// The ticket was used with other parameters before; nothing was executed. A bug of the caller: draw a ticket for each
    /// thing that is to be done, and store it with the parameters.
    #[error("ticket {ticket}: it was used with other parameters")]
    OtherParameters {
        /// Which.
        ticket: Ticket,
    },
    /// The ticket is so old that its record may have been collected; nothing was executed. Whether it was once, only the
    /// caller's own books can tell. To do it in any case, draw a new one.
    #[error("ticket {ticket}: older than the floor, {floor} seconds since the Unix epoch")]
    Collected {
        /// Which.
        ticket: Ticket,
        /// What is older than this is refused, in seconds since the Unix epoch.
        floor: u64,
    },
    /// The ticket was begun by [`Tickets::begin`](crate::Tickets::begin) and is not finished. Go on with it by `begin`.
    #[error("ticket {ticket}: begun and not finished")]
    Pending {
        /// Which.
        ticket: Ticket,
    },
    /// What the work has read was changed by others, again and again; nothing was executed. Run the ticket again, under
    /// a lock if this happens often.
    #[error("ticket {ticket}: others were always quicker to change what it has read")]
    Contended {
        /// Which.
        ticket: Ticket,
    },
    /// The guard does not hold its lock any more, or another holder has taken the ticket over; nothing was written. Acquire
    /// the lock again and run or begin the ticket again.
    #[error("ticket {ticket}: the lock is not held any more")]
    NotHeld {
        /// Which.
        ticket: Ticket,
    },
    /// No reply came, and it is not known whether the ticket was executed, nor does what was asked after that tell. Run it
    /// again: it tells then.
    #[error("ticket {ticket}: its outcome is unknown: {cause}")]
    Unknown {
        /// Which.
        ticket: Ticket,
        /// What came in the place of a reply.
        #[source]
        cause: Error,
    },
    /// A write of the work was refused, for a reason that trying again does not change; nothing was executed. Mend the
    /// work, or the tree, and run the ticket again.
    #[error("ticket {ticket}: refused: {cause}")]
    Refused {
        /// Which.
        ticket: Ticket,
        /// Which write, and why.
        #[source]
        cause: Error,
    },
    /// The work itself failed, and the ticket is not used up. Run it again when the reason is gone. A work that wants its
    /// refusal to be remembered returns [`TicketTxn::refuse`](crate::TicketTxn::refuse).
    #[error("ticket {ticket}: {cause}")]
    Work {
        /// Which.
        ticket: Ticket,
        /// What the work returned.
        #[source]
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The writes and the outcome are more than one request may carry; nothing was executed. Keep the outcome small: a
    /// number or a path, and the rest elsewhere.
    #[error("scope {scope}: {size} bytes in one request, where {max} are allowed")]
    TooLarge {
        /// The scope.
        scope: String,
        /// How large the request is.
        size: usize,
        /// How large it may be.
        max: usize,
    },
    /// A znode of the scope holds something that no version known here has written; nothing was executed. Choose another
    /// path for the scope if that is somebody else's, or update this program.
    #[error("{path}: holds no record of tickets that is known here")]
    Foreign {
        /// Which znode.
        path: String,
    },
    /// An ACL denies what tickets need: READ, WRITE, CREATE and DELETE on the scope and what is below it. Add the identity
    /// that has them, or mend the ACL; nothing was executed.
    #[error("scope {scope}: not authorized")]
    NoAuth {
        /// The scope.
        scope: String,
    },
    /// The session is over, and it is not known whether the ticket was executed. Open a new client and run it again.
    #[error("scope {scope}: the session is over: {reason}")]
    SessionOver {
        /// The scope.
        scope: String,
        /// How it ended.
        reason: LostReason,
    },
    /// Anything else; it says what was asked and what the answer was. Nothing was executed, unless
    /// [`Error::may_have_applied`] says otherwise.
    #[error(transparent)]
    Client(#[from] Error),
}

impl TicketError {
    /// The same, or that the outcome is unknown: where `doubt` is left of whether an earlier request was executed, and
    /// this tells nothing of that.
    pub(super) fn in_doubt(self, ticket: Ticket, doubt: Option<Error>) -> Self {
        match (self, doubt) {
            (
                Self::NoAuth { .. }
                | Self::TooLarge { .. }
                | Self::Foreign { .. }
                | Self::Work { .. }
                | Self::Client(_),
                Some(cause),
            ) => Self::Unknown { ticket, cause },
            // The others say of themselves what became of the ticket.
            (error, _) => error,
        }
    }

    /// What a client's error means to the tickets of `scope`, if nothing is made of it before.
    pub(super) fn of(scope: &str, error: Error) -> Self {
        let scope = scope.to_owned();
        match error {
            Error::SessionExpired(_) => Self::SessionOver { scope, reason: LostReason::SessionExpired },
            Error::AuthFailed(_) => Self::SessionOver { scope, reason: LostReason::AuthFailed },
            Error::Closed(_) => Self::SessionOver { scope, reason: LostReason::SessionClosed },
            Error::RequestTooLarge { size, max, .. } => Self::TooLarge { scope, size, max },
            error if error.code() == Some(ErrorCode::NoAuth) => Self::NoAuth { scope },
            error => Self::Client(error),
        }
    }
}
