//! A ZooKeeper that you embed: a server in your process, an async client, and locks that run unchanged on it and on an
//! Apache ensemble.
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
//! zk.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//!
//! | to | use | in |
//! | --- | --- | --- |
//! | run a server | [`Server`], [`ServerBuilder`] | [`server`] |
//! | connect, read, write, watch | [`Client`], [`ConnectOptions`](client::ConnectOptions), [`Create`](client::Create), [`Multi`](client::Multi), [`Watch`](client::Watch) | [`client`], [`client::path`] |
//! | go on after the session has ended | [`Sessions`], [`SessionTerm`](client::SessionTerm), [`SessionsChange`](client::SessionsChange) | [`client`] |
//! | lock, elect, count, wait for each other | [`Lock`], [`RwLock`], [`MultiLock`], [`Semaphore`], [`Election`], [`Barrier`], [`DoubleBarrier`] | [`recipes`] |
//! | count, hand out work, change a value, each once | [`Counter`], [`Queue`], [`SharedValue`] | [`recipes`] |
//! | keep a subtree in memory | [`Cache`], [`Snapshot`](recipes::Snapshot), [`CacheChange`](recipes::CacheChange) | [`recipes`] |
//! | divide items among the members of a group | [`Partitioner`], [`PartitionShare`](recipes::PartitionShare) | [`recipes`] |
//! | say that this program is there | [`KeepNode`], [`KeepState`](recipes::KeepState); [`Group`], [`Members`](recipes::Members) | [`recipes`] |
//! | register and find services | `Registration`, `Services`, `Instance` (feature `discovery`) | [`recipes`] |
//! | do something exactly once | [`Tickets`] (idempotency keys) | [`recipes`] |
//! | test with a clock of your own | [`TestServer`](testing::TestServer), [`TestServerBuilder`](testing::TestServerBuilder) | [`testing`] |
//! | inject faults | [`Faults`](testing::Faults), [`Matcher`](testing::Matcher), [`Action`](testing::Action) | [`testing`] |
//! | inspect and control a server | [`Fixture`](testing::Fixture), [`FixtureExt`](testing::FixtureExt), [`EnsembleExt`](testing::EnsembleExt) | [`testing::fixture`], [`testing::fixture::fault`] |
//! | extend the server for a test harness | [`Interceptor`](server::extension::Interceptor), [`StateMachine`](server::extension::StateMachine) | [`server::extension`] |
//! | check a history of requests | [`History`](testing::History), [`Checker`](testing::Checker), [`Model`](testing::Model) | [`testing`] |
//!
//! # Features
//!
//! `server`, `client` and `recipes` are on by default, `testing` is not. Without default features each works alone; `recipes`
//! includes `client`, and `testing` includes `server` and `client`. The module of a feature has all its public items; the
//! most common ones are here as well. `dns-srv` reads the hosts of a connect string from SRV records.

#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "admin")]
#[doc(inline)]
pub use zoolet_admin as admin;
#[cfg(feature = "client")]
#[doc(inline)]
pub use zoolet_client as client;
#[cfg(feature = "recipes")]
#[doc(inline)]
pub use zoolet_recipes as recipes;
#[cfg(feature = "server")]
#[doc(inline)]
pub use zoolet_server as server;

#[cfg(feature = "client")]
pub use zoolet_client::{
    Acl, AddWatchMode, Client, Clock, Error, ErrorCode, EventType, Perms, SessionId, SessionPassword,
    SessionState, Sessions, Stat, WatchEvent, WatchUpdate, Zxid,
};
#[cfg(feature = "discovery")]
pub use zoolet_recipes::discovery::{Instance, Registration, Services};
#[cfg(feature = "recipes")]
pub use zoolet_recipes::{
    Barrier, Cache, Counter, DoubleBarrier, Election, FencingToken, Group, Guard, HoldState, KeepNode,
    Leadership, Lock, LockError, LostReason, MultiLock, Partitioner, Permit, Queue, ReadGuard, RwLock,
    Semaphore, SharedValue, Tickets, WriteGuard,
};
#[cfg(all(feature = "server", not(feature = "client")))]
pub use zoolet_server::Clock;
#[cfg(feature = "server")]
pub use zoolet_server::{Server, ServerBuilder, StartError};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(all(doctest, feature = "recipes", feature = "server"))]
#[doc = include_str!("../docs/caches.md")]
mod caches {}

#[cfg(all(doctest, feature = "discovery", feature = "server"))]
#[doc = include_str!("../docs/discovery.md")]
mod discovery {}
#[cfg(all(doctest, feature = "recipes", feature = "server"))]
#[doc = include_str!("../docs/queues.md")]
mod queues {}
