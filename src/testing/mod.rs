//! For tests of whatever talks ZooKeeper.
//!
//! - [`TestServer`] is a server of the test's own with clients that share its clock: time stands still until the test moves
//!   it, faults are placed by matcher and action, and the state is in sight.
//! - [`History`] records what passes between clients and a server, and checks it against the rules of ZooKeeper: one
//!   order that agrees with real time, all-or-nothing multis, watches that miss nothing.
//! - [`Tap`] sits on a client's end of a connection, and counts or records what passes.
//! - [`Model`] is a naive tree to compare a server with.

mod builder;
mod check;
mod history;
mod lines;
mod listing;
mod model;
mod recorder;
mod tap;
mod test_server;

pub use builder::{TestServerBuilder, TestServerError};
pub use check::{CheckError, Checker, Operation, Rule, Undecided, Verdict, Violation};
pub use history::{Conn, History, HistoryEntry, HistoryEvent, Side};
pub use lines::{Dialing, Stream};
pub use listing::ListingError;
pub use model::{Model, Outcome, Unmodelled};
pub use tap::{Tap, TapCounts};
pub use test_server::TestServer;
pub use zoolet_proto::OpCode;
#[doc(no_inline)]
pub use zoolet_server::fault::{
    Action, FaultError, FaultId, Faults, Matcher, connection, create, handshake, op, request,
};
#[doc(no_inline)]
pub use zoolet_server::fixture::{
    self, Endpoint, Fixture, FixtureError, Node, SessionInfo, TreeView, WatchInfo, WatchKind,
};
