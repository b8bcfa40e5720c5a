//! Durability: transactions go to the log, and the messages that show them wait until they are there.
//!
//! One rule: a message names a zxid, and leaves when the log has every transaction up to it. The reply to a write names its own
//! transaction, an event the one that caused it, and a read the newest that it shows (see `server/core/src/undurable.rs`).
//!
//! - [`DurabilityGate`], in the [`Bus`](crate::bus::Bus), passes the transactions of a turn on and notes which connections wait for which
//!   transaction. Their messages wait in wire form, in the outbox of the connection.
//! - [`CommitQueue`] is between turns and the log: transactions in, the durable zxid out.
//! - `Log` takes everything that is queued, writes it, and syncs once; what arrives meanwhile is the next batch. Nobody else ever
//!   writes to it. (If commits are not synced, a snapshot syncs the log's file before it begins.) It is a future, which a thread of
//!   its own runs, so that a sync holds up neither a worker of the runtime nor the engine's lock. On a disk that does not block it
//!   is a task, so that a simulated run repeats with its seed.
//! - A [snapshot] is copied in slices between turns and written beside the log, with rests while others write and sync.
//!
//! # Who waits for what, and who wakes whom
//!
//! ```text
//! turns --submit--> CommitQueue --recv_many--> Log --commit--> disk
//!  ^                                            |
//!  |  release_durable                           |  advance
//! driver <------------- advanced ---------------+
//! ```
//!
//! | who waits | for | in | woken by |
//! | --- | --- | --- | --- |
//! | the log | work | `Log::run`, the channel of the queue | `CommitQueue::submit`, `send` |
//! | the log | the end of a snapshot | `log::ended`, a channel | its job, which reports or panics |
//! | the driver | a later durable zxid | `CommitQueue::advanced` | `advance`; it takes an empty turn, `Turns::release_durable` |
//! | a connection, to send | a message that may leave | `Outbox::next` | the next turn, in any task: it begins with `DurabilityGate::advance` |
//! | a connection, to submit a write or open a session | room in 32 MiB, which a batch of each connection may exceed | `CommitQueue::has_room` | `advance`, or `fail`, `reopen` or the end |
//! | `ServerHandle::durable` | everything that was submitted | `CommitQueue::all_durable` | the same |
//! | a snapshot | the log's next file | `Work::Roll` | `Log::do_work`, or the drop of it |
//! | `Server::snapshot` | a snapshot | `Work::Snapshot` | `Log::answer`, or the drop of it |
//! | `Server::failed` | a failure | `CommitQueue::failed` | `fail` |
//! | `Server::shutdown` | closed files | `LogHandle::ended` | the drop of the future in `Log::start` |
//!
//! However the log ends, also by a panic or with its runtime, it is dropped: that wakes everybody and stops the server.

mod disk_thread;
mod gate;
mod log;
mod queue;
mod snapshot;
mod spare;
mod start;
#[cfg(test)]
mod tests;

pub(crate) use disk_thread::run as run_on_disk;
pub(crate) use gate::DurabilityGate;
#[cfg(test)]
pub(crate) use queue::Amount;
pub use queue::LastSnapshot;
pub(crate) use queue::{Close, CommitQueue, RestoredState, Submitted, Work};
pub(crate) use snapshot::{SLICE, SLICE_BYTES, SnapshotCopy, SnapshotSource, SnapshotStart};
pub use start::DirectorySizes;
pub(crate) use start::{DurableConfig, LogHandle, ReadyLog, restore};
