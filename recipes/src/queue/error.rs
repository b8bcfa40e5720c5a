//! [`QueueError`].

use zoolet_client::Error;

use crate::tickets::TicketError;

/// Why something was not done with a queue, or why that is unknown.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The item is not held any more: the session was over, the item was done or given back before, or somebody has deleted its
    /// znodes. Nothing was written. It is delivered again, unless it was done.
    #[error("{item}: not held any more")]
    NotHeld {
        /// The path of the item.
        item: String,
    },
    /// The session ended before the reply came. Either everything was executed, the writes of the caller included, or
    /// nothing, and the item is delivered again. A caller that must know adds a write by which it recognises it.
    #[error("{item}: it is done, or will be delivered again: {cause}")]
    Unknown {
        /// The path of the item.
        item: String,
        /// The error in place of a reply.
        #[source]
        cause: Error,
    },
    /// A write of the caller was refused; nothing was written, and the item is still held.
    #[error("{item}: refused: {cause}")]
    Refused {
        /// The path of the item.
        item: String,
        /// Which write, and why; the first two operations are those of the queue.
        #[source]
        cause: Error,
    },
    /// An item was not put, or that is unknown; see there. After [`TicketError::Unknown`] it was put once or not at all.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// Any other error, with the request and the reply.
    #[error(transparent)]
    Client(#[from] Error),
}
