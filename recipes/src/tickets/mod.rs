//! Tickets: idempotency keys. What has a ticket is executed once, however often it is tried.
//!
//! A ticket has one record. Its create is the first operation of the multi that also holds the effect. So neither exists
//! without the other, of two copies one creates the record and the other reads it, and a request whose reply was lost
//! is simply sent again. Each such multi checks the version of the scope, which changes when the watermark is raised:
//! from that transaction on no ticket below the watermark is executed, and deleting their records is mere cleanup that
//! may stop anywhere and be continued by anybody.

mod call;
mod collect;
mod error;
mod outside;
mod record;
mod run;
mod scope;
mod ticket;
mod txn;

pub(crate) use call::RunNotes;
pub use collect::Collected;
pub use error::{TicketError, WorkError};
pub use outside::{InProgress, PendingTicket, Started};
pub(crate) use record::Partition;
pub use scope::{Tickets, TicketsBuilder};
pub use ticket::{InvalidTicket, Ticket};
pub use txn::{TicketDecision, TicketOutcome, TicketTxn};
