//! Tickets: things that are done once, however often they are asked for.
//!
//! What holds here: a ticket has one record, whose create is the first operation of the one multi that holds the effect as
//! well. So there is never the one without the other, of two copies one creates it and the other reads it, and a request
//! whose reply was lost is simply sent again. Each such multi checks the version of the scope, which changes when the
//! floor is raised: from that transaction on, no ticket below the floor is executed, and deleting their records is mere
//! tidying that may stop anywhere and be taken up by anybody.

mod call;
mod collect;
mod error;
mod outside;
mod record;
mod run;
mod scope;
mod ticket;

pub use collect::Collected;
pub use error::{TicketError, WorkError};
pub use outside::{Begun, Pending, Running};
pub use run::{Decision, Outcome, TicketTxn};
pub use scope::{Tickets, TicketsBuilder};
pub use ticket::{InvalidTicket, Ticket};
