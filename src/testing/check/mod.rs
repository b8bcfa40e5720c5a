//! The check of a history against the rules of ZooKeeper, in a time that is linear in its length.
//!
//! Every reply of a ZooKeeper server says which transaction it reflects. So the order of all operations need not be
//! searched for, as in other checks of linearizability: writes stand in the order of their zxids, and a read stands
//! behind the write of its zxid. What is left is to look whether that order agrees with real time and with the order of
//! each connection, and whether a naive [`Model`] that does the writes in that order answers as the server did.

mod compare;
mod events;
mod foreign;
mod operations;
mod order;
mod replay;
#[cfg(test)]
mod tests;
mod violation;
mod watches;

use zoolet_server_core::Txn;

use super::history::HistoryEntry;
use super::model::Model;
use operations::Operations;
use replay::Replay;

pub use violation::{CheckError, Operation, Rule, Undecided, Violation};

/// The check of a history: whether what clients saw is what a ZooKeeper server may show them.
///
/// It must be the history of one server, standalone and of version 3.9 or later, from its empty start on, and of all
/// its clients. Where replies were lost, or the server did something by itself or for others, the server's own
/// [`transactions`](Checker::transactions) are needed besides.
///
/// Time and memory grow with the length of the history. What else they grow with is the size of what was asked for: a
/// listing costs as many steps as it has names, and a getAllChildrenNumber as many as it counts.
#[derive(Debug, Clone, Copy, Default)]
#[must_use = "settings check nothing before `check`"]
pub struct Checker<'t> {
    txns: Option<&'t [Txn]>,
    extended_types: bool,
    lossy: bool,
}

/// A history that was found good.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Verdict {
    /// Requests that took a zxid, granted or refused.
    pub writes: usize,
    /// Requests of other kinds that were answered.
    pub reads: usize,
    /// Requests without an answer of which nothing shows that they were executed.
    pub unanswered: usize,
    /// Watch events.
    pub events: usize,
    /// The tree after the last transaction.
    pub model: Model,
}

impl<'t> Checker<'t> {
    /// A check of what the history alone tells.
    pub fn new() -> Self {
        Self::default()
    }

    /// All transactions of the server, from the first on. They tell what became of requests without a reply, and what
    /// the server did by itself; each of them must have a reason.
    pub fn transactions(mut self, txns: &'t [Txn]) -> Self {
        self.txns = Some(txns);
        self
    }

    /// Whether the server has extended types enabled, and so makes znodes with a time to live. Default: no.
    pub fn extended_types(mut self, enabled: bool) -> Self {
        self.extended_types = enabled;
        self
    }

    /// Takes it for granted that replies are withheld on purpose while their connection goes on. Without this it breaks
    /// the order of requests.
    pub fn replies_may_be_withheld(mut self) -> Self {
        self.lossy = true;
        self
    }

    /// Checks a history.
    ///
    /// # Errors
    /// The first rule found broken, or why that cannot be told.
    pub fn check(self, entries: &[HistoryEntry]) -> Result<Verdict, CheckError> {
        let mut all = Operations::of(entries, self.lossy)?;
        let steps = match self.txns {
            Some(txns) => order::by_transactions(&mut all, txns)?,
            None => order::by_replies(&all)?,
        };
        Replay::new(&all, Model::new(self.extended_types)).run(&steps)
    }
}
