//! Locks on any ZooKeeper: the embedded server or a real ensemble.
//!
//! [`Lock`] is the fair lock: contenders stand in a queue of ephemeral sequential znodes, each watches the one
//! before it, so a release wakes one of them. Its names are Apache Curator's, byte for byte, so that programs in other
//! languages may contend for the same lock.
//!
//! ```no_run
//! use std::time::Duration;
//! use zoolet_client::Client;
//! use zoolet_recipes::Lock;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let zk = Client::connect("127.0.0.1:2181").await?;
//! let lock = Lock::new(&zk, "/locks/ledger");
//! let guard = lock.acquire().timeout(Duration::from_secs(5)).await?;
//!
//! // Inside ZooKeeper: done only if the lock is still held.
//! guard.fenced().set_data("/ledger", "v2").commit().await?;
//! // Outside: the store refuses a token lower than one it has seen.
//! println!("write with token {}", guard.token());
//!
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! What a lock can promise: at most one contender is head of the queue at any transaction. What it cannot: that a program
//! which was paused for longer than its session timeout knows that it is not. So effects are fenced, by
//! [`Guard::fenced`] or by a store that looks at [`Guard::token`]; [`Guard::lost`] and [`Guard::state`] are advice.

mod acquire;
mod barrier;
mod builder;
mod claim;
mod contender;
mod counter;
mod creating;
mod directory;
mod election;
mod error;
mod fenced;
mod guard;
mod hold;
mod lock;
mod multi_lock;
mod name;
mod patience;
mod permits;
mod queue;
mod revoke;
mod rw_lock;
mod semaphore;
mod setup;
mod single;
mod tickets;
mod warning;

pub use acquire::Acquire;
pub use barrier::{Barrier, BarrierError, DoubleBarrier, Inside};
pub use builder::LockBuilder;
pub use election::{Election, Leader, Leaders, Leadership};
pub use error::LockError;
pub use fenced::FencedTxn;
pub use guard::{FencingToken, Guard, HoldState, LostReason, Released};
pub use hold::SuspendPolicy;
pub use lock::{Algorithm, Compat, Contender, Lock};
pub use multi_lock::MultiLock;
pub use revoke::revoke;
pub use rw_lock::{Markers, ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use setup::{ForeignPolicy, ParentMode};
pub use tickets::{
    Begun, Collected, Decision, InvalidTicket, Outcome, Pending, Running, Ticket, TicketError, TicketTxn,
    Tickets, TicketsBuilder, WorkError,
};
pub use warning::Warning;
