//! [`TxnFeed`]: the latest transactions, kept while somebody follows them. A turn of a server that nobody follows pays a test of an
//! `Option` for that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use zoolet_clock::Clock;
use zoolet_proto::{ErrorCode, SessionId, Zxid};
use zoolet_server_core::{Millis, Txn, TxnOp};

use crate::locked::locked;

/// Transactions that are kept.
const KEPT: usize = 1_000;
/// Steps of each that are kept, and the longest path among them: both bound the memory, to about 4 MB.
const STEPS: usize = 8;
const MAX_PATH: usize = 512;
/// How long they are kept after the last call of a follower: it asks again when it has dealt with an answer.
const LEASE: Duration = Duration::from_secs(10);

/// A transaction that was decided a short time ago.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecentTxn {
    /// Its position in the order.
    pub zxid: Zxid,
    /// The session of the request; the session itself for its creation and end.
    pub session: SessionId,
    /// When it was decided, by the wall clock.
    pub time: Millis,
    /// What it is: `create`, `delete`, `setData`, `setACL`, `check`, `multi`, `createSession`, `closeSession` or `error`.
    pub kind: &'static str,
    /// Why a write was refused: the only kind that changes nothing.
    pub error: Option<ErrorCode>,
    /// The first of its steps.
    pub steps: Vec<TxnStep>,
    /// How many steps it has in all.
    pub steps_in_all: usize,
}

/// A step of a [`RecentTxn`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TxnStep {
    /// What it is: as [`RecentTxn::kind`].
    pub kind: &'static str,
    /// The path of the znode; `None` if it is longer than 512 bytes.
    pub path: Option<Arc<str>>,
    /// How many bytes of data it writes.
    pub data_len: Option<usize>,
}

/// Transactions after a zxid.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RecentTxns {
    /// The first of them, in their order.
    pub txns: Vec<RecentTxn>,
    /// The zxid to ask for next.
    pub last: Zxid,
    /// Whether some after that zxid are not kept any more.
    pub missed: bool,
}

/// The latest transactions, and who waits for the next one.
#[derive(Debug)]
pub(crate) struct TxnFeed {
    ring: Mutex<Ring>,
    changed: Notify,
}

#[derive(Debug)]
struct Ring {
    txns: VecDeque<RecentTxn>,
    /// The last transaction before the first one that is kept.
    before: Zxid,
    /// When the last follower left.
    left: Instant,
}

/// One who follows: it shares the feed with the bus alone. Dropping it ends that.
pub(crate) struct Follower {
    feed: Arc<TxnFeed>,
    clock: Clock,
}

impl TxnFeed {
    /// Begins after the transaction `last`.
    pub(super) fn new(last: Zxid, now: Instant) -> Self {
        let ring = Ring { txns: VecDeque::new(), before: last, left: now };
        Self { ring: Mutex::new(ring), changed: Notify::new() }
    }

    /// Whether somebody follows, or has a short time ago.
    pub(super) fn is_followed(self: &Arc<Self>, now: Instant) -> bool {
        Arc::strong_count(self) > 1 || now.saturating_duration_since(locked(&self.ring).left) <= LEASE
    }

    /// Notes the transactions of a turn, or of a part of one.
    pub(super) fn note(&self, txns: &[Txn]) {
        let Some(first) = txns.first() else { return };
        let mut ring = locked(&self.ring);
        let expected = ring.txns.back().map_or(ring.before, |last| last.zxid).0 + 1;
        if first.zxid.0 < expected {
            // After a simulated crash, zxids are given again.
            ring.txns.clear();
        }
        if ring.txns.is_empty() {
            ring.before = Zxid(first.zxid.0 - 1);
        }
        for txn in txns {
            if ring.txns.len() == KEPT {
                ring.before = ring.txns.pop_front().map_or(ring.before, |oldest| oldest.zxid);
            }
            ring.txns.push_back(RecentTxn::of(txn));
        }
        drop(ring);
        self.changed.notify_waiters();
    }
}

impl Follower {
    pub(super) fn new(feed: Arc<TxnFeed>, clock: Clock) -> Self {
        Self { feed, clock }
    }

    /// The first transactions after `after`, at most `max`; waits until there is one. `None` means from now on, and returns at once
    /// what is kept already.
    pub(crate) async fn after(&self, after: Option<Zxid>, max: usize) -> RecentTxns {
        loop {
            // Before the look: a transaction that comes after it is not missed.
            let changed = self.feed.changed.notified();
            let recent = locked(&self.feed.ring).after(after, max);
            if after.is_none() || recent.missed || !recent.txns.is_empty() {
                return recent;
            }
            changed.await;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        locked(&self.feed.ring).left = self.clock.now();
    }
}

impl Ring {
    fn after(&self, after: Option<Zxid>, max: usize) -> RecentTxns {
        let newest = self.txns.back().map_or(self.before, |last| last.zxid);
        // A zxid that is not given yet is of a server before a simulated crash.
        let known = after.filter(|after| (self.before..=newest).contains(after));
        let from = known.unwrap_or(self.before);
        let at = self.txns.partition_point(|txn| txn.zxid <= from);
        let txns: Vec<_> = self.txns.iter().skip(at).take(max).cloned().collect();
        let last = txns.last().map_or(newest, |last| last.zxid);
        RecentTxns { txns, last, missed: after.is_some() && known.is_none() }
    }
}

impl RecentTxn {
    fn of(txn: &Txn) -> Self {
        let Txn { session, zxid, time, ref op, .. } = *txn;
        let error = if let TxnOp::Error(code) = op { Some(*code) } else { None };
        let (steps_in_all, steps) = match op {
            TxnOp::Multi(ops) => (ops.len(), ops.iter().take(STEPS).map(TxnStep::of).collect()),
            TxnOp::CloseSession { ephemerals } => {
                let deletes = ephemerals.iter().take(STEPS);
                let deletes = deletes.map(|path| TxnOp::Delete { path: Arc::clone(path) });
                (ephemerals.len(), deletes.map(|delete| TxnStep::of(&delete)).collect())
            }
            TxnOp::CreateSession { .. } | TxnOp::Error(_) => (0, Vec::new()),
            TxnOp::Create { .. }
            | TxnOp::Delete { .. }
            | TxnOp::SetData { .. }
            | TxnOp::SetAcl { .. }
            | TxnOp::Check { .. } => (1, vec![TxnStep::of(op)]),
        };
        Self { zxid, session, time, kind: TxnStep::of(op).kind, error, steps, steps_in_all }
    }
}

impl TxnStep {
    fn of(op: &TxnOp) -> Self {
        let (kind, path, data) = match op {
            TxnOp::Create { path, data, .. } => ("create", Some(path), Some(data)),
            TxnOp::Delete { path } => ("delete", Some(path), None),
            TxnOp::SetData { path, data, .. } => ("setData", Some(path), Some(data)),
            TxnOp::SetAcl { path, .. } => ("setACL", Some(path), None),
            TxnOp::Check { path } => ("check", Some(path), None),
            TxnOp::Multi(_) => ("multi", None, None),
            TxnOp::CreateSession { .. } => ("createSession", None, None),
            TxnOp::CloseSession { .. } => ("closeSession", None, None),
            TxnOp::Error(_) => ("error", None, None),
        };
        let path = path.filter(|path| path.len() <= MAX_PATH).cloned();
        Self { kind, path, data_len: data.map(|data| data.as_ref().map_or(0, |data| data.len())) }
    }
}

#[cfg(test)]
mod tests {
    use zoolet_proto::{AclList, Xid};
    use zoolet_server_core::Owner;

    use super::*;

    fn txn(zxid: i64, op: TxnOp) -> Txn {
        Txn { session: SessionId(1), xid: Xid(1), zxid: Zxid(zxid), time: Millis(5), op, digest: None }
    }

    fn delete(path: &str) -> TxnOp {
        TxnOp::Delete { path: path.into() }
    }

    fn zxids(recent: &RecentTxns) -> Vec<i64> {
        recent.txns.iter().map(|txn| txn.zxid.0).collect()
    }

    fn feed(clock: &Clock) -> Arc<TxnFeed> {
        Arc::new(TxnFeed::new(Zxid(100), clock.now()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_follower_gets_each_transaction_once_and_waits_for_the_next() {
        let clock = Clock::tokio();
        let feed = feed(&clock);
        let follower = Follower::new(Arc::clone(&feed), clock);
        let begin = follower.after(None, 10).await;
        assert_eq!((begin.last, begin.txns.len(), begin.missed), (Zxid(100), 0, false));
        feed.note(&[txn(101, delete("/a")), txn(102, delete("/b")), txn(103, delete("/c"))]);
        let first = follower.after(Some(begin.last), 2).await;
        assert_eq!((zxids(&first), first.last, first.missed), (vec![101, 102], Zxid(102), false));
        assert_eq!(zxids(&follower.after(Some(first.last), 2).await), [103]);
        let (next, ()) = tokio::join!(follower.after(Some(Zxid(103)), 2), async {
            tokio::task::yield_now().await;
            feed.note(&[txn(104, delete("/d"))]);
        });
        assert_eq!(zxids(&next), [104]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_follower_that_is_too_slow_learns_that_it_has_missed_some() {
        let clock = Clock::tokio();
        let feed = feed(&clock);
        let follower = Follower::new(Arc::clone(&feed), clock);
        let kept = i64::try_from(KEPT).expect("a number");
        for zxid in 101..=101 + kept {
            feed.note(&[txn(zxid, delete("/a"))]);
        }
        assert_eq!(locked(&feed.ring).txns.len(), KEPT);
        let recent = follower.after(Some(Zxid(100)), 1).await;
        assert_eq!((zxids(&recent), recent.missed), (vec![102], true));
        assert!(!follower.after(Some(Zxid(101)), 1).await.missed);
        // After a simulated crash zxids are given again.
        feed.note(&[txn(50, delete("/a"))]);
        let recent = follower.after(Some(Zxid(105)), 10).await;
        assert_eq!((zxids(&recent), recent.missed), (vec![50], true));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_ten_seconds_after_the_last_follower() {
        let clock = Clock::tokio();
        let feed = feed(&clock);
        let follower = Follower::new(Arc::clone(&feed), clock.clone());
        tokio::time::advance(LEASE * 3).await;
        assert!(feed.is_followed(clock.now()));
        drop(follower);
        tokio::time::advance(LEASE).await;
        assert!(feed.is_followed(clock.now()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!feed.is_followed(clock.now()));
    }

    #[test]
    fn long_transactions_and_long_paths_are_kept_in_part() {
        let ops = (0..20).map(|_| delete("/a")).collect();
        let kept = RecentTxn::of(&txn(1, TxnOp::Multi(ops)));
        assert_eq!((kept.kind, kept.steps.len(), kept.steps_in_all), ("multi", STEPS, 20));
        let ephemerals = vec!["/e".into(); 20];
        let kept = RecentTxn::of(&txn(1, TxnOp::CloseSession { ephemerals }));
        assert_eq!((kept.kind, kept.steps.len(), kept.steps_in_all), ("closeSession", STEPS, 20));
        let long = format!("/{}", "x".repeat(MAX_PATH));
        let create = TxnOp::Create {
            path: long.into(),
            data: Some("abc".into()),
            acl: AclList::OPEN,
            owner: Owner::PERSISTENT,
            parent_creates: 1,
        };
        let kept = RecentTxn::of(&txn(1, create));
        assert_eq!(
            (kept.kind, kept.steps[0].path.is_none(), kept.steps[0].data_len),
            ("create", true, Some(3))
        );
        let kept = RecentTxn::of(&txn(1, TxnOp::Error(ErrorCode::NoNode)));
        assert_eq!((kept.kind, kept.error, kept.steps_in_all), ("error", Some(ErrorCode::NoNode), 0));
    }
}
