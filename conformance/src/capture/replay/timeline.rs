//! [`Timeline`]: how far the captured server was at each record, as the zxids of replies and events show it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many unexplained transactions are looked at: each may cost a refused request. The plan has no steps for those after them, so
/// `Player::catch_up` waits for them in vain.
const MOST: usize = 100_000;

/// A zxid, and the record that shows that its transaction is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) zxid: i64,
    pub(super) time: Duration,
    pub(super) at: usize,
}

/// The sightings in the order of the records and of the zxids. Several may be of one zxid.
#[derive(Debug, Default)]
pub(super) struct Timeline(Vec<Sighting>);

impl Timeline {
    /// Adds the zxid of a reply or an event. Events of servers before 3.9, and replies to what has no zxid, have none.
    ///
    /// Clients get messages late if they read slowly, and not in the same order. One with a smaller zxid than one before it came
    /// late, and does not show how far the server was.
    pub(super) fn add(&mut self, sighting: Sighting) {
        if sighting.zxid >= self.0.last().map_or(1, |last| last.zxid) {
            self.0.push(sighting);
        }
    }

    /// The transactions after `base` that are not `explained`, each with the first record that shows that it is over.
    pub(super) fn unexplained(&self, base: i64, explained: &BTreeSet<i64>) -> Vec<Sighting> {
        // An ensemble begins each epoch far from the end of the one before.
        let lasts: BTreeMap<_, _> = self.0.iter().map(|seen| (seen.zxid >> 32, seen.zxid)).collect();
        let epochs = lasts.into_iter().map(|(epoch, last)| base.max(epoch << 32) + 1..=last);
        let unexplained = epochs.flatten().filter(|zxid| !explained.contains(zxid)).take(MOST);
        let shown = |zxid| self.0[self.0.partition_point(|seen| seen.zxid < zxid)];
        unexplained.map(|zxid| Sighting { zxid, ..shown(zxid) }).collect()
    }

    /// The last time at which the server had not come to a zxid yet, as far as is known. It is too late if the last message before
    /// the zxid was late itself, and no other one shows that.
    pub(super) fn last_before(&self, zxid: i64) -> Option<Duration> {
        let next = self.0.partition_point(|seen| seen.zxid < zxid);
        next.checked_sub(1).map(|last| self.0[last].time)
    }
}
