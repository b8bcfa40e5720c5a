//! A ZooKeeper you embed: a server in your process, an async client, and locks that run unchanged on it and on a real
//! ensemble.
//!
//! - [`Server`]: a standalone server that existing clients cannot tell from Apache ZooKeeper 3.9.
//! - [`Client`]: pipelined, cancel-safe, resumes its session over reconnects.
//! - [`Lock`]: the fair lock, with a fencing token and a notice of loss.
//!
//! ```
//! use zoolet::{Client, Lock, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().start().await?;                      // no port, in memory
//! let zk = Client::connect(server.in_process()).await?;
//!
//! zk.create("/config", "v1").await?;
//! let (data, _stat, watch) = zk.get_data("/config").watch().await?;
//! zk.set_data("/config", "v2").await?;
//! println!("{data:?} is out of date: {:?}", watch.changed().await?);
//!
//! let guard = Lock::new(&zk, "/locks/ledger").acquire().await?;
//! println!("held, fencing token {}", guard.token());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The three crates behind it can be used on their own: [`server`], [`client`], [`recipes`].

#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "client")]
#[doc(no_inline)]
pub use zoolet_client as client;
#[cfg(feature = "recipes")]
#[doc(no_inline)]
pub use zoolet_recipes as recipes;
#[cfg(feature = "server")]
#[doc(no_inline)]
pub use zoolet_server as server;

#[cfg(feature = "client")]
pub use zoolet_client::{
    Acl, AddWatchMode, Client, Clock, Error, ErrorCode, EventType, Perms, SessionId, SessionState, Stat,
    WatchEvent, WatchUpdate, Zxid,
};
#[cfg(feature = "recipes")]
pub use zoolet_recipes::{
    Barrier, DoubleBarrier, Election, FencingToken, Guard, HoldState, Leadership, Lock, LockError,
    LostReason, MultiLock, Permit, ReadGuard, RwLock, Semaphore, Tickets, WriteGuard,
};
#[cfg(all(feature = "server", not(feature = "client")))]
pub use zoolet_server::Clock;
#[cfg(feature = "server")]
pub use zoolet_server::{Server, ServerBuilder, StartError};
