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

mod contender;
mod error;
mod fenced;
mod guard;
mod hold;
mod lock;
mod name;

pub use contender::{ForeignPolicy, ParentMode};
pub use error::LockError;
pub use fenced::FencedTxn;
pub use guard::{FencingToken, Guard, HoldState, LostReason, Released};
pub use hold::SuspendPolicy;
pub use lock::{Acquire, Contender, Lock, LockBuilder};
