//! The state machine of a ZooKeeper server, sans-IO: inputs and the time go in; transactions to log and messages to
//! send come out. It has no socket, file, clock, lock or runtime, so the same inputs always give the same outputs.
//!
//! Invariants:
//! - Inputs are executed in the order of the [`Core::handle`] calls: one total order. Replies of a session are in request
//!   order.
//! - The reply that sets a watch precedes its event, and the event precedes every reply that shows the change.
//! - `prepare` makes every decision; [`Tree::apply`] has no checks and cannot fail. A [`Txn`] that is read back from a log
//!   does exactly what it did the first time.
//! - A request for which [`OpCode::takes_zxid`](zoolet_proto::OpCode::takes_zxid) takes exactly one zxid, whether it is
//!   granted or refused. `tests/it/zxids.rs` lists the exceptions: bodies that do not decode.
//!
//! [`Core`] is one server. Another one can follow it by [replaying](Core::replay) its transactions.
//!
//! ```
//! use std::net::IpAddr;
//! use zoolet_server_core::{ConnId, Core, CoreConfig, Input, Message, Millis, Output, StateMachine};
//! use zoolet_proto::{SessionId, Zxid, records::ConnectRequest};
//!
//! let mut core = Core::new(CoreConfig::default(), Millis(1_000));
//! let conn = ConnId(1);
//! core.handle(Millis(1_000), conn, Input::Open(IpAddr::from([127, 0, 0, 1]).into()));
//! let request = ConnectRequest {
//!     protocol_version: 0,
//!     last_zxid_seen: Zxid(0),
//!     timeout: 10_000,
//!     session: SessionId(0),
//!     password: None,
//!     read_only: Some(false),
//! };
//! core.handle(Millis(1_000), conn, Input::Connect(request));
//! let effects = core.take_effects();
//! assert!(matches!(&effects.outbound[..], [Output::To(_, Message::Connected(response))] if response.timeout == 10_000));
//! ```

mod access;
mod address;
mod admin_access;
mod audit;
mod auth_config;
mod config;
mod container_cleaner;
mod control;
mod core;
mod digest;
mod handshake;
mod identity;
mod load;
mod machine;
mod message;
mod nodes;
mod paths;
mod pending;
mod prepare;
mod quota;
mod read;
mod record;
mod recursive_watches;
mod replay;
mod replica;
mod restore;
mod sasl;
mod session;
mod snapshot;
mod tracker;
mod tree;
mod txn;
mod undurable;
mod view;
mod watch;
mod watch_events;
mod watchers;
mod write;
mod x500_name;
mod znode;

pub use admin_access::AdminAccess;
pub use auth_config::{AuthConfig, AuthScheme, SaslServer};
pub use config::CoreConfig;
pub use core::Core;
pub use load::{LoadError, TreeLoader};
pub use machine::{EXPIRED_AT_ONCE, ServerMode, StateMachine};
pub use message::{ConnId, Effects, Input, Message, Millis, Origin, Output, Recipients, SharedEvent};
pub use quota::QuotaView;
pub use record::ZnodeRecord;
pub use session::{SessionSecret, SessionTable, SessionView};
pub use snapshot::SnapshotHeader;
pub use tree::{Change, Tree};
pub use txn::{Txn, TxnOp};
pub use view::Viewer;
pub use watch::{WatchTable, WatchView};
pub use znode::{Owner, Znode};
