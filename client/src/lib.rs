//! An async ZooKeeper client. Requests are sent in the order of the calls, the session is resumed after a lost connection,
//! and any future can be dropped at any time.
//!
//! ```no_run
//! use zoolet_client::Client;
//!
//! # async fn example() -> Result<(), zoolet_client::Error> {
//! let zk = Client::connect("127.0.0.1:2181").await?;
//! zk.create("/jobs", "").await?;
//! let job = zk.create("/jobs/job-", "payload").ephemeral().sequential().await?;
//!
//! let (data, _stat, watch) = zk.get_data(&job.path).watch().await?;
//! assert_eq!(data, "payload");
//! zk.set_data(&job.path, "more").await?;
//! println!("{:?}", watch.changed().await?.kind);
//!
//! // Two requests, one round trip.
//! let (stat, children) = (zk.exists("/jobs").send(), zk.get_children("/jobs").send());
//! let (stat, children) = (stat.await?, children.await?);
//! # Ok(()) }
//! ```
//!
//! Start with [`Client`]: it documents sessions, ordering, and what happens when a connection is lost.

mod call;
mod call_span;
mod chroot;
mod client;
mod command;
mod connect_string;
mod connection_error;
mod context;
mod driver;
mod error;
mod features;
mod feed;
mod framed_stream;
mod hint;
#[doc(hidden)]
pub mod internal;
mod locked;
mod metrics;
mod multi;
mod op;
mod options;
mod pending;
mod server_list;
mod session;
mod session_password;
mod sessions;
#[cfg(feature = "dns-srv")]
mod srv;
mod state;
mod stream_queue;
#[cfg(feature = "tls")]
mod tls_stream;
mod transport;
mod watch;

pub use call::{Call, ReplyFuture, ReplyWithZxid};
pub use client::Client;
pub use connection_error::ConnectionError;
pub use context::ErrorContext;
pub use error::Error;
pub use features::ServerFeature;
pub use metrics::ClientMetrics;
pub use multi::{Multi, MultiOutcome, MultiRead, MultiWrite, ReadOutcome};
pub use op::{
    Create, CreateWithParents, Created, Delete, DeleteRecursive, Exists, GetChildren, GetData, Reconfig,
    SetAcl, SetData,
};
pub use options::{ConnectOptions, Connecting};
pub use session_password::SessionPassword;
pub use sessions::{SessionTerm, Sessions, SessionsChange, SessionsChanges, SessionsState};
pub use state::{SessionState, States};
pub use transport::{IntoTransport, Transport};
pub use watch::{Watch, WatchEvent, WatchStream, WatchUpdate};
pub use zoolet_clock::Clock;
pub use zoolet_proto::records::ClientInfo;
pub use zoolet_proto::{
    Acl, AddWatchMode, ErrorCode, EventType, PathError, Perms, SessionId, Stat, WatcherType, Zxid, digest_id,
    path,
};
#[cfg(feature = "tls")]
pub use zoolet_tls as tls;
