//! [`Deletions`]: which znodes the captured server has deleted by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::timeline::Sighting;

/// The deletions that the observer of the capture saw, by their zxids.
#[derive(Debug, Default)]
pub(super) struct Deletions(BTreeMap<i64, Vec<(Sighting, String)>>);

impl Deletions {
    /// Notes one. Servers before 3.9 do not tell its zxid, which is −1 then.
    pub(super) fn saw(&mut self, sighting: Sighting, path: String) {
        if sighting.zxid > 0 {
            self.0.entry(sighting.zxid).or_default().push((sighting, path));
        }
    }

    /// Whether the observer has seen any: then it would have seen others, too.
    pub(super) fn is_observed(&self) -> bool {
        !self.0.is_empty()
    }

    /// Those of a transaction of its own that is neither `explained` by a request nor the end of the session of an ephemeral.
    pub(super) fn of_server(
        self,
        base: i64,
        explained: &BTreeSet<i64>,
        is_of_ephemeral: impl Fn(i64) -> bool,
    ) -> Vec<(Sighting, String)> {
        let own = self.0.into_iter().filter(|(zxid, _)| *zxid > base && !explained.contains(zxid));
        // A timer of the server deletes one znode in a transaction; the end of a session deletes as many as it has.
        own.filter_map(|(zxid, mut deleted)| {
            let only = deleted.pop()?;
            (deleted.is_empty() && !is_of_ephemeral(zxid)).then_some(only)
        })
        .collect()
    }
}
