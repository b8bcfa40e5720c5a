//! Checks a history against the rules of ZooKeeper, in time linear in its length.
//!
//! Every reply of a ZooKeeper server carries the zxid of the state that it reflects. So the order of operations need not be
//! searched for, as in other linearizability checkers: writes are ordered by zxid, and a read follows the write of its zxid.
//! What remains is to check that this order agrees with real time and with the order of each connection, and that a naive
//! [`Model`] that applies the writes in this order gives the same replies as the server.

mod compare;
mod events;
mod operations;
mod order;
mod replay;
mod unanswered;
mod watches;

use zoolet_proto::Zxid;

use super::decided::Decided;
use super::entry::HistoryEntry;
use super::model::Model;
use super::verdict::{CheckError, Verdict};
use operations::Operations;
use replay::Replay;

/// Checks whether a history is one that a ZooKeeper server may produce.
///
/// The history must cover all clients of one standalone server of version 3.9 or later, from its empty start, which is
/// zxid 0 unless [`initial_zxid`](Checker::initial_zxid) says otherwise. If replies were
/// lost, or the server acted by itself or for other clients, the check needs the server's own
/// [`transactions`](Checker::transactions) too.
///
/// Time and memory grow with the length of the history and the size of the replies: a listing costs one step per name, a
/// getAllChildrenNumber one per znode that it counts.
#[derive(Debug, Clone, Default)]
#[must_use = "settings check nothing before `check`"]
pub struct Checker {
    txns: Option<Vec<Decided>>,
    initial_zxid: Zxid,
    extended_types: bool,
    lossy: bool,
}

impl Checker {
    /// A check of the history alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// All transactions of the server, from the first one. They show the outcome of requests without a reply, and what the
    /// server did by itself; each of them must have a cause.
    pub fn transactions(mut self, txns: Vec<Decided>) -> Self {
        self.txns = Some(txns);
        self
    }

    /// The zxid of the empty server. Default: 0, as of an Apache ZooKeeper.
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
    pub fn check(&self, entries: &[HistoryEntry]) -> Result<Verdict, CheckError> {
        let mut all = Operations::of(entries, self.lossy)?;
        let steps = match &self.txns {
            Some(txns) => order::by_transactions(&mut all, self.initial_zxid, txns)?,
            None => order::by_replies(&all, self.initial_zxid)?,
        };
        Replay::new(&all, Model::new(self.extended_types)).run(&steps)
    }
}

#[cfg(test)]
mod tests;
