//! Tools for tests of programs that use ZooKeeper. Feature `testing`.
//!
//! - [`TestServer`]: a server for one test, with clients that share its clock. Time stands still until the test advances it,
//!   faults are placed by matcher and action, and the server's state is visible.
//! - [`History`]: records requests, replies and events, and checks them against the rules of ZooKeeper: one order that
//!   agrees with real time, atomic multis, no missed watch event. [`Checker`] has the settings of the check.
//! - [`Tap`]: wraps a client's end of a connection, and counts or records what passes.
//! - [`Model`]: a naive tree to compare a server with.
//!
//! # Histories
//!
//! A history of one's own connections is enough if every request has a reply and nobody else used the server:
//!
//! ```
//! use zoolet::testing::History;
//! use zoolet::{Client, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().start().await?;
//! let history = History::starting_at(server.initial_zxid());
//! let zk = Client::connect(history.tap(server.in_process())).await?;
//! zk.create("/a", "1").await?;
//! let (_, _, watch) = zk.get_data("/a").watch().await?;
//! zk.set_data("/a", "2").await?;
//! watch.changed().await?;
//! zk.close().await?;
//!
//! let verdict = history.check()?;        // the error names the broken rule and the operations
//! assert_eq!((verdict.writes, verdict.reads, verdict.events), (3, 1, 1));
//! # Ok(())
//! # }
//! ```
//!
//! Otherwise the transactions of the server decide:
//!
//! ```
//! use zoolet::testing::{Checker, TestServer, decided};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let zk = TestServer::builder().record_history().start().await?;
//! let client = zk.client().await;
//! client.create("/a", "1").await?;
//! zk.expire_session(client.session_id()).await?;     // a write of the server, not of a client
//!
//! let history = zk.history().expect("it is recorded").entries();
//! let verdict = Checker::new().transactions(decided(&zk.transactions())).check(&history)?;
//! assert_eq!(verdict.writes, 1);
//! # Ok(())
//! # }
//! ```

mod builder;
mod connections;
#[cfg(feature = "admin")]
mod inspect;
mod listing;
mod test_server;
mod time;
mod transactions;

pub use builder::{TestServerBuilder, TestServerError};
pub use connections::{ByteStream, TestConnector};
pub use listing::ListingError;
pub use test_server::TestServer;
pub use transactions::decided;
pub use zoolet_conformance::{
    CheckError, Checker, Conn, Decided, Decision, History, HistoryEntry, HistoryEvent, Model, Operation,
    Outcome, Rule, Side, Tap, TapCounts, Tapping, Undecided, Unmodelled, Verdict, Violation,
};
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
