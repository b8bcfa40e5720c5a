//! [`Deletions`]: what the server has deleted by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The deletions that the observer saw, by their zxids.
#[derive(Debug, Default)]
pub(super) struct Deletions(BTreeMap<i64, Vec<Deletion>>);

/// A znode that was deleted.
#[derive(Debug)]
pub(super) struct Deletion {
    pub(super) path: String,
    pub(super) time: Duration,
    /// The record that shows it.
    pub(super) at: usize,
}

impl Deletions {
    /// Notes one. Servers before 3.9 do not tell its zxid, which is −1 then.
    pub(super) fn add(&mut self, zxid: i64, deletion: Deletion) {
        if zxid > 0 {
            self.0.entry(zxid).or_default().push(deletion);
        }
    }

    /// Whether the observer has seen any: then it would have seen others, too.
    pub(super) fn is_observed(&self) -> bool {
        !self.0.is_empty()
    }

    /// Those of a transaction of its own that is neither a request nor the end of the session of an ephemeral.
    pub(super) fn of_server(
        self,
        base: i64,
        known: &BTreeSet<i64>,
        is_ephemeral: impl Fn(&str) -> bool,
    ) -> BTreeMap<i64, Deletion> {
        let own = self.0.into_iter().filter(|(zxid, _)| *zxid > base && !known.contains(zxid));
        // A timer of the server deletes one in a transaction.
        own.filter_map(|(zxid, mut deletions)| {
            let only = deletions.pop().filter(|only| deletions.is_empty() && !is_ephemeral(&only.path))?;
            Some((zxid, only))
        })
        .collect()
    }
}
