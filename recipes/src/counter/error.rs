//! [`CounterError`].

use zoolet_client::Error;

use crate::tickets::TicketError;

/// Why a counter was not changed, or why that is unknown.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CounterError {
    /// The result does not fit the layout; the counter is as it was.
    #[error("{path}: {to} does not fit into {bits} bits; it is still {from}")]
    Overflow {
        /// The counter.
        path: String,
        /// What it is.
        from: i64,
        /// What it would be.
        to: i128,
        /// The bits of the layout.
        bits: u32,
    },
    /// The data of the znode is not a number in this layout; it is left as it is. Choose the layout of the program that writes it, or
    /// correct the data.
    #[error("{path}: {bytes} bytes that are not a counter: {reason}")]
    Undecodable {
        /// The counter.
        path: String,
        /// The length of its data.
        bytes: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The change was not executed, or its outcome is unknown; see there. After [`TicketError::Unknown`] it was executed once
    /// or not at all.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// The counter could not be read.
    #[error(transparent)]
    Client(#[from] Error),
}
