//! [`TicketError`].

use std::sync::Arc;

use zoolet_client::{Error, ErrorCode};

use super::ticket::Ticket;
use crate::retry::RecipeError;
use crate::state::LostReason;

/// Any error of a ticket's work.
pub type WorkError = Box<dyn std::error::Error + Send + Sync>;

/// Why a ticket was not executed, or why it is unknown whether it was.
///
/// Whatever the error, running the same ticket with the same parameters again is safe: it is executed once or not at all.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// The ticket was used with other parameters before; nothing was executed. A bug of the caller: generate a ticket for
    /// each thing that is to be executed, and store it with the parameters.
    #[error("ticket {ticket}: it was used with other parameters")]
    OtherParameters {
        /// The ticket.
        ticket: Ticket,
    },
    /// The ticket is so old that its record may have been collected; nothing was executed. Only the caller's own records
    /// show whether it was executed once. To execute it in any case, generate a new one.
    #[error("ticket {ticket}: older than the watermark, {watermark} seconds since the Unix epoch")]
    Collected {
        /// The ticket.
        ticket: Ticket,
        /// Older tickets are refused, in seconds since the Unix epoch.
        watermark: u64,
    },
    /// The ticket was begun by [`Tickets::begin`](crate::Tickets::begin) and is not finished. Continue by `begin`.
    #[error("ticket {ticket}: begun and not finished")]
    Pending {
        /// The ticket.
        ticket: Ticket,
    },
    /// Others changed what the work had read, again and again; nothing was executed so far. After a lost reply an earlier copy
    /// of the request may still be. Run the ticket again, under a lock if this happens often.
    #[error("ticket {ticket}: what the work had read was changed at every attempt")]
    Contended {
        /// The ticket.
        ticket: Ticket,
    },
    /// The guard does not hold its lock any more, or another holder has taken the ticket over; nothing was written. Acquire
    /// the lock again and run or begin the ticket again.
    #[error("ticket {ticket}: the lock is not held any more")]
    NotHeld {
        /// The ticket.
        ticket: Ticket,
    },
    /// No reply came, and later requests did not show whether the ticket was executed. Run it again to learn its outcome.
    #[error("ticket {ticket}: the outcome is unknown: {cause}")]
    Unknown {
        /// The ticket.
        ticket: Ticket,
        /// The error in place of a reply.
        #[source]
        cause: Error,
    },
    /// A write of the work was refused, for a reason that a retry does not change; nothing was executed. Correct the work,
    /// or the znodes, and run the ticket again.
    #[error("ticket {ticket}: refused: {cause}")]
    Refused {
        /// The ticket.
        ticket: Ticket,
        /// Which write, and why.
        #[source]
        cause: Error,
    },
    /// The work itself failed, and the ticket can still be executed. Run it again when the cause is removed. If the
    /// refusal is to be remembered, return [`TicketTxn::refuse`](crate::TicketTxn::refuse) instead.
    #[error("ticket {ticket}: {cause}")]
    Work {
        /// The ticket.
        ticket: Ticket,
        /// The error of the work.
        #[source]
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The writes and the outcome exceed the size of one request; nothing was executed. Keep the outcome small: a number or
    /// a path, and the rest elsewhere.
    #[error("scope {scope}: a request of {size} bytes exceeds the limit of {max}")]
    TooLarge {
        /// The scope.
        scope: String,
        /// How large the request is.
        size: usize,
        /// How large it may be.
        max: usize,
    },
    /// A znode of the scope has data in an unknown format; nothing was executed. Choose another path for the scope if the
    /// znode belongs to somebody else, or update this program.
    #[error("{path}: not a known record of tickets")]
    Foreign {
        /// The path of the znode.
        path: String,
    },
    /// An ACL denies a right that tickets need: READ, WRITE, CREATE and DELETE on the scope and everything below it. Add an
    /// identity that has them, or correct the ACL; nothing was executed.
    #[error("scope {scope}: not authorized")]
    NoAuth {
        /// The scope.
        scope: String,
    },
    /// The session is over, and it is unknown whether the ticket was executed. Open a new client and run it again.
    #[error("scope {scope}: the session is over: {reason}")]
    SessionOver {
        /// The scope.
        scope: String,
        /// How it ended.
        reason: LostReason,
    },
    /// Any other error, with the request and the reply. Nothing was executed, unless [`Error::may_have_applied`] is true.
    #[error(transparent)]
    Client(#[from] Error),
}

impl TicketError {
    /// This error, or that the outcome is unknown: if a reply was lost, and this error does not show whether that request
    /// was executed.
    pub(crate) fn or_unknown(self, ticket: Ticket, lost_reply: Option<Error>) -> Self {
        match (self, lost_reply) {
            (
                Self::NoAuth { .. }
                | Self::TooLarge { .. }
                | Self::Foreign { .. }
                | Self::Work { .. }
                | Self::Client(_),
                Some(cause),
            ) => Self::Unknown { ticket, cause },
            // The others show what became of the ticket.
            (error, _) => error,
        }
    }
}

impl RecipeError for TicketError {
    fn of(scope: &str, error: Error) -> Self {
        let scope = scope.to_owned();
        match (LostReason::of(&error), error) {
            (Some(reason), _) => Self::SessionOver { scope, reason },
            (None, Error::RequestTooLarge { size, max, .. }) => Self::TooLarge { scope, size, max },
            (None, error) if error.code() == Some(ErrorCode::NoAuth) => Self::NoAuth { scope },
            (None, error) => Self::Client(error),
        }
    }
}
