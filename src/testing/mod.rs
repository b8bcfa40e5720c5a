//! Tools for tests of programs that use ZooKeeper. Feature `testing`.
//!
//! - [`TestServer`]: a server for one test, with clients that share its clock. Time stands still until the test advances it,
//!   faults are placed by matcher and action, and the server's state is visible.
//! - [`History`]: records requests, replies and events, and checks them against the rules of ZooKeeper: one order that
//!   agrees with real time, atomic multis, no missed watch event. [`Checker`] has the settings of the check.
//! - [`Tap`]: wraps a client's end of a connection, and counts or records what passes.
//! - [`Model`]: a naive tree to compare a server with.

mod builder;
mod check;
mod connections;
mod history;
mod listing;
mod model;
mod recorder;
mod tap;
mod test_server;
mod time;

pub use builder::{TestServerBuilder, TestServerError};
pub use check::{CheckError, Checker, Operation, Rule, Undecided, Verdict, Violation};
pub use connections::{ByteStream, TestConnector};
pub use history::{Conn, History, HistoryEntry, HistoryEvent, Side, TapConnector};
pub use listing::ListingError;
pub use model::{Model, Outcome, Unmodelled};
pub use tap::{Tap, TapCounts};
pub use test_server::TestServer;
#[doc(inline)]
pub use zoolet_fixture::fault::{
    Action, DiskFault, DiskMatcher, DiskOp, FaultError, FaultId, Faults, FiredDiskFault, Matcher,
    SimulatedDisk, connection, create, handshake, op, request,
};
#[doc(inline)]
pub use zoolet_fixture::{
    self as fixture, DiskExt, Endpoint, EnsembleExt, Fixture, FixtureError, FixtureExt, Node, SessionInfo,
    TreeView, WatchInfo, WatchKind,
};
pub use zoolet_proto::OpCode;
