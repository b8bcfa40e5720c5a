//! A standalone ZooKeeper server inside your program. Existing clients cannot tell it from Apache ZooKeeper 3.9.
//!
//! [`Server::builder`] starts one: with a port, or with no socket at all; as many in one process as you like. It
//! lives in the tokio runtime it was started in, or [on a thread of its own](ServerBuilder::on_own_thread), and leaves nothing behind
//! after [`Server::shutdown`].
//!
//! ```
//! use zoolet_server::Server;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), zoolet_server::StartError> {
//! let server = Server::builder().bind("127.0.0.1:0").start().await?;
//! println!("any ZooKeeper client may connect to {}", server.connect_string());
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! What always holds: the state changes in one turn after the other, so all requests of all sessions are executed in one order; a socket is
//! bound only when the server is ready to answer; whatever a peer sends is answered or its connection closed, and
//! nobody else notices; everything that can grow has a bound.

mod audit;
mod auth;
mod bus;
mod config;
mod durable;
mod engine;
mod epoch;
mod error;
pub mod extension;
mod four_letter_words;
#[doc(hidden)]
pub mod internal;
mod locked;
pub mod metrics;
mod net;
mod observer;
mod own_thread;
mod server;
mod shared;
mod start;

pub use auth::{JaasError, SaslUsers};
pub use bus::feed::{RecentTxn, RecentTxns, TxnStep};
pub use config::ServerBuilder;
pub use durable::{DirectorySizes, LastSnapshot};
pub use error::{SettingError, SnapshotError, StartError};
pub use net::in_process::{ConnectInProcess, InProcess, InProcessStream};
pub use observer::{
    ConnectionSource, Listing, ObservedConnection, ObservedSession, ObservedWatch, Observer, RequestLatency,
    RestoreError, ServerConfiguration, ServerLoad, ServerSummary, StateRestore, TakenSnapshot,
};
pub use server::Server;
pub use zoolet_clock::Clock;
pub use zoolet_proto::FourLetterWord;
pub use zoolet_server_core::{AuthScheme, ConnId, ServerMode, Txn, TxnOp};
pub use zoolet_storage::{Compression, Damage, Durability, RecoveryReport, StorageError, StorageOptions};
#[cfg(feature = "tls")]
pub use zoolet_tls as tls;
