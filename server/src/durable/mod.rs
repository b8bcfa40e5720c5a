//! Durability: what turns have decided goes to the log, and messages wait until it is there.
//!
//! One rule: a message names a zxid, and leaves when the log has every transaction up to it. The reply to a write names its own
//! transaction, an event the one that caused it, and a read the newest that it shows (see `server/core/src/undurable.rs`).
//!
//! - [`Gate`], in the [`Bus`](crate::bus::Bus), passes the transactions of a turn on and notes which connections wait for what.
//!   The messages themselves wait in wire form, in the outbox of their connection.
//! - [`CommitQueue`] is between turns and the log: transactions in, the durable zxid out.
//! - [`Log`] takes what is queued, writes it, and syncs once: what arrives meanwhile is the next batch. It runs on a thread of
//!   its own, so that a sync holds up neither a worker of the runtime nor the engine's lock. On a simulated disk, which returns at
//!   once, it is a task, so that a run repeats with its seed.
//! - A [snapshot](snapshot) is copied in slices between turns, and written beside the log, with rests while others write and sync.

mod gate;
mod log;
mod queue;
mod snapshot;
mod spare;
mod start;
#[cfg(test)]
mod tests;

pub(crate) use gate::{Gate, Hold};
pub(crate) use queue::{Close, CommitQueue};
pub(crate) use start::{Dirs, DurableConfig, LogHandle, ReadyLog};
