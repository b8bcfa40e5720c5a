//! Checks a history against the rules of ZooKeeper, in time linear in its length.
//!
//! Every reply of a ZooKeeper server carries the zxid of the state that it reflects. So the order of operations need not be
//! searched for, as in other linearizability checkers: writes are ordered by zxid, and a read follows the write of its zxid.
//! What remains is to check that this order agrees with real time and with the order of each connection, and that a naive
//! [`Model`] that applies the writes in this order gives the same replies as the server.

mod compare;
mod events;
mod foreign;
mod operations;
mod order;
mod replay;
mod unanswered;
mod violation;
mod watches;

use zoolet_proto::Zxid;
use zoolet_server_core::Txn;

use super::history::HistoryEntry;
use super::model::Model;
use operations::Operations;
use replay::Replay;

pub use violation::{CheckError, Operation, Rule, Undecided, Violation};

/// Checks whether a history is one that a ZooKeeper server may produce.
///
/// The history must cover all clients of one standalone server of version 3.9 or later, from its empty start, which is
/// zxid 0 unless [`initial_zxid`](Checker::initial_zxid) says otherwise. If replies were
/// lost, or the server acted by itself or for other clients, the check needs the server's own
/// [`transactions`](Checker::transactions) too.
///
/// Time and memory grow with the length of the history and the size of the replies: a listing costs one step per name, a
/// getAllChildrenNumber one per znode that it counts.
///
/// ```
/// use zoolet::testing::{Checker, TestServer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let zk = TestServer::builder().record_history().start().await?;
/// let client = zk.client().await;
/// client.create("/a", "1").await?;
/// zk.expire_session(client.session_id()).await?;     // a write of the server, not of a client
///
/// let history = zk.history().expect("it is recorded").entries();
/// let verdict = Checker::new().transactions(&zk.transactions()).check(&history)?;
/// assert_eq!(verdict.writes, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[must_use = "settings check nothing before `check`"]
pub struct Checker<'t> {
    txns: Option<&'t [Txn]>,
    initial_zxid: Zxid,
    extended_types: bool,
    lossy: bool,
}

/// A history that passed the check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Verdict {
    /// Requests that took a zxid, successful or refused.
    pub writes: usize,
    /// Other requests that got a reply.
    pub reads: usize,
    /// Requests without a reply, unless a transaction shows that they were executed.
    pub unanswered: usize,
    /// Watch events.
    pub events: usize,
    /// The tree after the last transaction.
    pub model: Model,
}

impl<'t> Checker<'t> {
    /// A check of the history alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// All transactions of the server, from the first one. They show the outcome of requests without a reply, and what the
    /// server did by itself; each of them must have a cause.
    pub fn transactions(mut self, txns: &'t [Txn]) -> Self {
        self.txns = Some(txns);
        self
    }

    /// The zxid of the empty server: [`Server::initial_zxid`](crate::Server::initial_zxid). Default: 0, as of an Apache
    /// ZooKeeper and of a server on a manual clock that has not moved.
    pub fn initial_zxid(mut self, zxid: Zxid) -> Self {
        self.initial_zxid = zxid;
        self
    }

    /// Whether the server has extended types enabled, and so supports znodes with a time to live. Default: no.
    pub fn extended_types(mut self, enabled: bool) -> Self {
        self.extended_types = enabled;
        self
    }

    /// Accepts that replies are missing on a connection that continues, as a fault can cause it. Otherwise this breaks the
    /// order of requests.
    pub fn replies_may_be_withheld(mut self) -> Self {
        self.lossy = true;
        self
    }

    /// Checks a history.
    ///
    /// # Errors
    /// The first broken rule, or why the check is undecided.
    pub fn check(self, entries: &[HistoryEntry]) -> Result<Verdict, CheckError> {
        let mut all = Operations::of(entries, self.lossy)?;
        let steps = match self.txns {
            Some(txns) => order::by_transactions(&mut all, self.initial_zxid, txns)?,
            None => order::by_replies(&all, self.initial_zxid)?,
        };
        Replay::new(&all, Model::new(self.extended_types)).run(&steps)
    }
}
