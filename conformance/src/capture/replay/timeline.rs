//! [`Timeline`]: how far the captured server was at each record, as the zxids of replies and events show it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many unexplained transactions are looked at: each may cost a refused request. What comes after them is waited for in vain.
const MOST: usize = 100_000;

/// A zxid, and the record that shows that its transaction is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) zxid: i64,
    pub(super) time: Duration,
    pub(super) at: usize,
}

/// All sightings, in the order of the records.
#[derive(Debug, Default)]
pub(super) struct Timeline(Vec<Sighting>);

impl Timeline {
    /// Notes the zxid of a reply or an event. Events of servers before 3.9, and replies to what has no zxid, have none.
    pub(super) fn saw(&mut self, sighting: Sighting) {
        if sighting.zxid > 0 {
            self.0.push(sighting);
        }
    }

    /// The transactions after `base` that are not `explained`, each with the first record that shows that it is over.
    pub(super) fn unexplained(&self, base: i64, explained: &BTreeSet<i64>) -> Vec<Sighting> {
        // Replies overtake events: how far the server was after each record is the largest zxid up to there.
        let mut furthest = self.0.clone();
        for at in 1..furthest.len() {
            furthest[at].zxid = furthest[at].zxid.max(furthest[at - 1].zxid);
        }
        // An ensemble begins each epoch far from the end of the one before.
        let lasts: BTreeMap<_, _> = furthest.iter().map(|seen| (seen.zxid >> 32, seen.zxid)).collect();
        let epochs = lasts.into_iter().map(|(epoch, last)| base.max(epoch << 32) + 1..=last);
        let unexplained = epochs.flatten().filter(|zxid| !explained.contains(zxid)).take(MOST);
        let shown = |zxid| furthest[furthest.partition_point(|seen| seen.zxid < zxid)];
        unexplained.map(|zxid| Sighting { zxid, ..shown(zxid) }).collect()
    }

    /// Tells the last time at which the server had not come to a zxid yet.
    pub(super) fn last_before(&self) -> impl Fn(i64) -> Option<Duration> {
        let mut latest: Vec<_> = self.0.iter().map(|seen| (seen.zxid, seen.time)).collect();
        latest.sort_unstable();
        for at in 1..latest.len() {
            latest[at].1 = latest[at].1.max(latest[at - 1].1);
        }
        move |zxid| {
            let next = latest.partition_point(|(seen, _)| *seen < zxid);
            next.checked_sub(1).map(|last| latest[last].1)
        }
    }
}
