//! The state machine of a ZooKeeper server, sans-IO: inputs and the time go in, transactions to log and messages to
//! send come out. It knows no socket, file, clock, lock or runtime, so the same inputs give the same outputs, always.
//!
//! What holds here:
//! - All inputs are executed in the order of the [`Core::handle`] calls: one total order, and per session the
//!   replies are in request order.
//! - The reply that sets a watch precedes its event, and the event precedes every reply that shows the change.
//! - Whatever is decided is decided in `prepare`; [`Tree::apply`] has no checks and cannot fail, so that a
//!   [`Txn`] read back from a log does exactly what it did the first time.
//! - Each request that `server-semantics` says takes a zxid takes exactly one, refused writes included.
//!
//! [`Core`] is one server. [`Ensemble`] is several that pretend to be an ensemble, for tests of clients that fail over.
//!
//! ```
//! use std::net::Ipv4Addr;
//! use zoolet_server_core::{ConnId, Core, CoreConfig, Input, Message, Millis};
//! use zoolet_proto::{SessionId, Zxid, records::ConnectRequest};
//!
//! let mut core = Core::new(CoreConfig::default(), Millis(1_000));
//! let conn = ConnId(1);
//! core.handle(Millis(1_000), conn, Input::Open { peer: Ipv4Addr::LOCALHOST.into() });
//! let hello = ConnectRequest {
//!     protocol_version: 0,
//!     last_zxid_seen: Zxid(0),
//!     timeout: 10_000,
//!     session: SessionId(0),
//!     password: None,
//!     read_only: Some(false),
//! };
//! core.handle(Millis(1_000), conn, Input::Connect(hello));
//! let effects = core.take_effects();
//! assert!(matches!(&effects.outbound[..], [(_, Message::Connected(welcome))] if welcome.timeout == 10_000));
//! ```

mod access;
mod address;
mod config;
mod control;
mod ensemble;
mod handshake;
mod machine;
mod message;
mod nodes;
mod pending;
mod prepare;
mod quota;
mod read;
mod replica;
mod session;
mod sweep;
mod tree;
mod txn;
mod watch;
mod watching;
mod write;
mod znode;

pub use config::CoreConfig;
pub use ensemble::{EndpointView, Ensemble};
pub use machine::Core;
pub use message::{ConnId, Effects, Input, Message, Millis};
pub use session::{SessionTable, SessionView};
pub use tree::{Change, Tree};
pub use txn::{Txn, TxnOp};
pub use watch::{WatchTable, WatchView};
pub use znode::{Owner, Znode};
