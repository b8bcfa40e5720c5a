//! What a server records while it measures. Without the feature `metrics` it never does, and the compiler knows it.

use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;
use zoolet_proto::{EventType, Zxid};
use zoolet_server_core::{Effects, Input, Message, Output, Recipients, SharedEvent, TxnOp};

use super::distribution::{Distribution, WindowTimer};
use super::keys::{Access, Keys};
use super::snapshot::{ServerMetrics, Summaries};
use crate::durable::Submitted;

/// Times are recorded in microseconds, and read in milliseconds.
const MILLIS: f64 = 1_000.0;
/// Of what is only counted.
const ONES: f64 = 1.0;

/// A part of what is recorded. Without the feature there is no value of it: what records is compiled, and left out of a program.
#[cfg(feature = "metrics")]
type IfMeasured = ();
#[cfg(not(feature = "metrics"))]
type IfMeasured = std::convert::Infallible;

/// What is recorded in turns. Boxed, as it is large and most servers have none.
#[derive(Clone)]
pub(crate) struct Measures(Box<TurnMeasures>, IfMeasured);

#[derive(Clone)]
struct TurnMeasures {
    timer: WindowTimer,
    /// When the turn began, and how many others were open then.
    began: Instant,
    open: usize,
    /// What it has executed: requests, and ends of sessions.
    reads: u64,
    writes: u64,
    closes: u64,
    keys: Keys,
    recorded: TurnDistributions,
}

/// Defines a set of distributions: each with its unit, and the field of [`Summaries`] that it is read into.
macro_rules! distributions {
    ($set:ident { $($name:ident in $unit:ident as $summary:ident,)* }) => {
        #[derive(Clone, Default)]
        struct $set {
            $($name: Distribution,)*
        }

        impl $set {
            /// Notes that windows have ended.
            fn move_on(&mut self, windows: usize) {
                $(self.$name.move_on(windows);)*
            }

            fn write(&self, summaries: &mut Summaries) {
                $(summaries.$summary = self.$name.value($unit);)*
            }
        }
    };
}

distributions! {
    TurnDistributions {
        read_latency in MILLIS as read_latency_ms,
        update_latency in MILLIS as update_latency_ms,
        queue_time in MILLIS as queue_time_ms,
        process_time in MILLIS as process_time_ms,
        close_time in MILLIS as close_time_ms,
        propagation in MILLIS as propagation_ms,
        turn in MILLIS as turn_ms,
        turns_open in ONES as turns_open,
        created in ONES as created_watchers,
        deleted in ONES as deleted_watchers,
        changed in ONES as changed_watchers,
        children in ONES as children_watchers,
    }
}

distributions! {
    DiskDistributions {
        sync in MILLIS as sync_ms,
        batch in ONES as sync_batch,
        queue in MILLIS as log_queue_ms,
        all in MILLIS as log_ms,
        process in MILLIS as log_process_ms,
        snapshot in MILLIS as snapshot_ms,
    }
}

impl Measures {
    #[cfg(feature = "metrics")]
    pub(crate) fn new(now: Instant, with_quotas: bool) -> Self {
        Self(Box::new(TurnMeasures::new(now, Keys::new(with_quotas))), ())
    }

    /// Begins a turn; with it, as many are open.
    pub(crate) fn begin_turn(&mut self, now: Instant, open: usize) {
        self.move_on(now);
        (self.0.began, self.0.open) = (now, open.saturating_sub(1));
    }

    /// When the turn began.
    pub(crate) fn began(&self) -> Instant {
        self.0.began
    }

    /// Looks what a request is about that is executed next, if its reply counts.
    pub(crate) fn begin(&mut self, input: &Input) -> Option<Access> {
        self.0.keys.begin(input)
    }

    /// Counts a request that was executed; this is its last output.
    pub(crate) fn executed(&mut self, access: Access, output: Option<&Output>) {
        if let Some(Output::To(_, Message::Reply(header, reply))) = output {
            self.0.keys.executed(access, header, reply);
        }
    }

    /// Counts requests of this turn that were read then.
    pub(crate) fn taken(&mut self, read: Instant, reads: u64, writes: u64) {
        let requests = reads + writes;
        self.0.reads += reads;
        self.0.writes += writes;
        self.0.recorded.queue_time.record_time(self.0.began.saturating_duration_since(read), requests);
        self.0.recorded.turns_open.record(self.0.open as u64, requests);
    }

    /// Counts requests that were answered after this time.
    pub(crate) fn answered(&mut self, took: Duration, reads: u64, writes: u64) {
        self.0.recorded.read_latency.record_time(took, reads);
        self.0.recorded.update_latency.record_time(took, writes);
    }

    /// Counts what executed requests have led to.
    pub(crate) fn effects(&mut self, effects: &Effects) {
        for txn in &effects.txns {
            self.0.closes += u64::from(matches!(txn.op, TxnOp::CloseSession { .. }));
            self.0.keys.written(&txn.op);
        }
        let events = effects.outbound.iter().filter_map(|output| match output {
            Output::Event(event) => Some(event),
            Output::To(..) => None,
        });
        // An event is in several lists if it has watchers of several kinds. No connection is in two of them: one that is gets another
        // event of the same znode in the same transaction.
        let mut last: Option<(Zxid, EventType, &str)> = None;
        let mut lists: SmallVec<[&Recipients; 4]> = SmallVec::new();
        for SharedEvent { to, zxid, kind, path } in events {
            let this = (*zxid, *kind, &**path);
            let is_in = |list: &&Recipients| to.first().is_some_and(|first| list.contains(first));
            if last != Some(this) || lists.iter().any(is_in) {
                self.watched(last, &mut lists);
            }
            lists.push(to);
            last = Some(this);
        }
        self.watched(last, &mut lists);
    }

    /// Counts the connections that got an event.
    fn watched(&mut self, event: Option<(Zxid, EventType, &str)>, lists: &mut SmallVec<[&Recipients; 4]>) {
        let watchers = lists.drain(..).map(|list| list.len() as u64).sum();
        let of = &mut self.0.recorded;
        match event.map(|(_, kind, _)| kind) {
            Some(EventType::NodeCreated) => of.created.record(watchers, 1),
            Some(EventType::NodeDeleted) => of.deleted.record(watchers, 1),
            Some(EventType::NodeDataChanged) => of.changed.record(watchers, 1),
            Some(EventType::NodeChildrenChanged) => of.children.record(watchers, 1),
            _ => {}
        }
    }

    /// Ends a turn.
    pub(crate) fn end_turn(&mut self, now: Instant) {
        let TurnMeasures { reads, writes, closes, .. } = *self.0;
        let took = now.saturating_duration_since(self.0.began);
        self.0.recorded.turn.record_time(took, 1);
        let requests = reads + writes;
        // Sessions that expire end without a request.
        let share = took / u32::try_from(requests.max(closes).max(1)).unwrap_or(u32::MAX);
        self.0.recorded.process_time.record_time(share, requests);
        self.0.recorded.close_time.record_time(share, closes);
        self.0.recorded.propagation.record_time(took, writes);
        (self.0.reads, self.0.writes, self.0.closes) = (0, 0, 0);
    }

    fn move_on(&mut self, now: Instant) {
        let windows = self.0.timer.ended(now);
        if windows > 0 {
            self.0.recorded.move_on(windows);
            self.0.keys.distributions().for_each(|of| of.move_on(windows));
        }
    }

    /// Forgets what was recorded.
    pub(crate) fn reset(&mut self, now: Instant) {
        let mut keys = self.0.keys.clone();
        keys.reset();
        *self.0 = TurnMeasures::new(now, keys);
    }

    /// A copy, to be looked at when the engine is free again.
    pub(crate) fn copy(&mut self, now: Instant) -> Self {
        self.move_on(now);
        self.clone()
    }

    pub(crate) fn write(&self, metrics: &mut ServerMetrics) {
        metrics.is_measured = true;
        self.0.keys.write(&mut metrics.summaries, &mut metrics.quota_exceeded);
        self.0.recorded.write(&mut metrics.summaries);
    }
}

impl TurnMeasures {
    fn new(now: Instant, keys: Keys) -> Self {
        Self {
            timer: WindowTimer::new(now),
            began: now,
            open: 0,
            reads: 0,
            writes: 0,
            closes: 0,
            keys,
            recorded: TurnDistributions::default(),
        }
    }
}

/// What is recorded of the log and of snapshots.
#[derive(Clone)]
pub(crate) struct LogMeasures(Box<DiskMeasures>, IfMeasured);

#[derive(Clone)]
struct DiskMeasures {
    timer: WindowTimer,
    recorded: DiskDistributions,
}

impl LogMeasures {
    #[cfg(feature = "metrics")]
    pub(crate) fn new(now: Instant) -> Self {
        Self(Box::new(DiskMeasures::new(now)), ())
    }

    /// Counts a sync: what it has made durable, when the log took that, and when the sync began and ended.
    pub(crate) fn synced(&mut self, submitted: &Submitted, taken: Instant, begun: Instant, ended: Instant) {
        self.move_on(ended);
        let of = &mut self.0.recorded;
        let mut batch = 0;
        for (at, txns) in submitted {
            batch += txns;
            of.queue.record_time(taken.saturating_duration_since(*at), *txns);
            of.all.record_time(ended.saturating_duration_since(*at), *txns);
        }
        of.process.record_time(ended.saturating_duration_since(taken), batch);
        of.sync.record_time(ended.saturating_duration_since(begun), 1);
        of.batch.record(batch, u64::from(batch > 0));
    }

    pub(crate) fn snapshot(&mut self, now: Instant, took: Duration) {
        self.move_on(now);
        self.0.recorded.snapshot.record_time(took, 1);
    }

    fn move_on(&mut self, now: Instant) {
        let windows = self.0.timer.ended(now);
        if windows > 0 {
            self.0.recorded.move_on(windows);
        }
    }

    /// Forgets what was recorded.
    pub(crate) fn reset(&mut self, now: Instant) {
        *self.0 = DiskMeasures::new(now);
    }

    /// A copy, to be looked at when the log may go on.
    pub(crate) fn copy(&mut self, now: Instant) -> Self {
        self.move_on(now);
        self.clone()
    }

    pub(crate) fn write(&self, metrics: &mut ServerMetrics) {
        let summaries = &mut metrics.summaries;
        self.0.recorded.write(summaries);
        // A transaction is shown when it is on disk.
        summaries.propagation_ms = summaries.log_ms.clone();
    }
}

impl DiskMeasures {
    fn new(now: Instant) -> Self {
        Self { timer: WindowTimer::new(now), recorded: DiskDistributions::default() }
    }
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use zoolet_proto::{SessionId, Xid};
    use zoolet_server_core::{Millis, Txn};

    use super::*;

    fn close() -> Txn {
        let op = TxnOp::CloseSession { ephemerals: Vec::new() };
        Txn { session: SessionId(1), xid: Xid(0), zxid: Zxid(1), time: Millis(0), op, digest: None }
    }

    #[test]
    fn the_ends_of_sessions_in_a_turn_take_no_longer_than_the_turn() {
        let now = Instant::now();
        let mut measures = Measures::new(now, false);
        // Expired, among requests, and closed by them.
        for (requests, closes) in [(0, 100), (3, 30), (60, 6)] {
            measures.begin_turn(now, 1);
            measures.taken(now, requests, 0);
            let mut effects = Effects::default();
            effects.txns.resize_with(closes, close);
            measures.effects(&effects);
            measures.end_turn(now + Duration::from_millis(30));
        }
        let mut metrics = ServerMetrics::default();
        measures.write(&mut metrics);
        let Summaries { close_time_ms: closes, process_time_ms: requests, .. } = metrics.summaries;
        assert_eq!((closes.count, closes.sum, closes.max.round()), (136, 63.0, 1.0));
        assert_eq!((requests.count, requests.sum), (63, 33.0));
    }
}
