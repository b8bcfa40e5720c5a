//! Locks, elections, barriers and idempotency keys on any ZooKeeper: the embedded server or a real ensemble.
//!
//! [`Lock`] is the fair lock: contenders queue as ephemeral sequential znodes, and each watches the one before it, so a
//! release wakes one of them. Its names are those of Apache Curator, byte for byte, so that programs in other languages
//! can contend for the same lock.
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
//! // Inside ZooKeeper: executed only if the lock is still held.
//! guard.fenced().set_data("/ledger", "v2").commit().await?;
//! // Outside: the store rejects a token lower than one it has seen.
//! println!("write with token {}", guard.token());
//!
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! What a lock promises: at most one contender is the head of the queue at any transaction. What no lock can promise: that
//! a program that was paused for longer than its session timeout knows that it lost the lock. So fence effects, by
//! [`Guard::fenced`] or by a store that checks [`Guard::token`]; [`Guard::lost`] and [`Guard::state`] are advisory.
//!
//! | for | use |
//! | --- | --- |
//! | one holder at a time | [`Lock`], [`MultiLock`] for several locks at once |
//! | many readers or one writer | [`RwLock`] |
//! | at most *n* holders | [`Semaphore`] |
//! | one leader that everybody can see | [`Election`] |
//! | working whenever one leads, session after session | [`Election::run`] |
//! | waiting for a signal, or for each other | [`Barrier`], [`DoubleBarrier`] |
//! | counting, over lost replies and lost sessions | [`Counter`] |
//! | a value that several programs change | [`SharedValue`] |
//! | handing out work, none of it lost or done twice | [`Queue`] |
//! | a subtree in memory that is never wrong | [`Cache`] |
//! | a znode that says that this program is there, over all sessions | [`KeepNode`] |
//! | dividing items among the members of a group | [`Partitioner`] |
//! | programs that know of each other | [`Group`] |
//! | registering instances of services, finding and choosing them | `discovery` (feature `discovery`) |
//! | executing something once, however often it is tried | [`Tickets`] |

mod acquire;
mod barrier;
mod cache;
mod claim;
mod config;
mod contender;
mod counter;
#[cfg(feature = "discovery")]
pub mod discovery;
mod election;
mod error;
mod group;
mod guard;
mod keep_node;
mod lock;
mod multi_lock;
mod once;
mod over_sessions;
mod partition;
mod path;
mod queue;
mod requests;
mod retry;
mod rw_lock;
mod semaphore;
mod shared_task;
mod shared_value;
mod state;
mod tickets;
mod unique;
mod warning;

pub use acquire::Acquire;
pub use barrier::{Barrier, BarrierError, BarrierGuard, DoubleBarrier};
pub use cache::{
    Cache, CacheBuilder, CacheChange, CacheChanges, CacheError, Entry, Snapshot, Undecodable,
    UnreadableReason,
};
pub use config::{Algorithm, Compat, ForeignPolicy, LockBuilder, Markers, ParentMode, SuspendPolicy};
pub use contender::Contender;
pub use counter::{Added, Counter, CounterError, CounterLayout};
pub use election::{Election, Leader, Leaders, Leadership};
pub use error::LockError;
pub use group::{Group, GroupLayout, Member, Members};
pub use guard::Guard;
pub use guard::fenced::FencedTxn;
pub use guard::revoke::revoke;
pub use keep_node::{KeepError, KeepNode, KeepNodeBuilder, KeepState, KeepStates};
pub use lock::Lock;
pub use multi_lock::MultiLock;
pub use partition::{PartitionError, PartitionItem, PartitionShare, Partitioner, PartitionerBuilder};
pub use queue::{
    Delivery, Drained, Queue, QueueBuilder, QueueCounts, QueueError, QueueLayout, QueuePut, UndecodableItem,
};
pub use rw_lock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use shared_value::{SeenValue, SharedValue};
pub use state::{FencingToken, HoldState, LostReason, Released};
pub use tickets::{
    Collected, InProgress, InvalidTicket, PendingTicket, Started, Ticket, TicketDecision, TicketError,
    TicketOutcome, TicketTxn, Tickets, TicketsBuilder, WorkError,
};
pub use warning::LockWarning;
