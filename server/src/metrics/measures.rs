//! What a server records while it measures. Without the feature `metrics` it never does, see `unmeasured.rs`.

use std::time::Duration;

use tokio::time::Instant;
use zoolet_proto::{EventType, Zxid};
use zoolet_server_core::{Effects, Input, Message, Output, SharedEvent, TxnOp};

use super::distribution::{Distribution, WindowTimer};
use super::keys::Keys;
use super::snapshot::{ServerMetrics, Summaries};
use crate::durable::Submitted;

/// Times are recorded in microseconds, and read in milliseconds.
const MILLIS: f64 = 1_000.0;

/// What is recorded in turns. Boxed, as it is large and most servers have none.
#[derive(Clone)]
pub(crate) struct Measures(Box<TurnMeasures>);

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
    read_latency: Distribution,
    update_latency: Distribution,
    queue_time: Distribution,
    process_time: Distribution,
    close_time: Distribution,
    propagation: Distribution,
    turn: Distribution,
    turns_open: Distribution,
    created: Distribution,
    deleted: Distribution,
    changed: Distribution,
    children: Distribution,
    keys: Keys,
}

impl Measures {
    pub(crate) fn new(now: Instant, with_quotas: bool) -> Self {
        let new = Distribution::new;
        Self(Box::new(TurnMeasures {
            timer: WindowTimer::new(now),
            began: now,
            open: 0,
            reads: 0,
            writes: 0,
            closes: 0,
            read_latency: new(),
            update_latency: new(),
            queue_time: new(),
            process_time: new(),
            close_time: new(),
            propagation: new(),
            turn: new(),
            turns_open: new(),
            created: new(),
            deleted: new(),
            changed: new(),
            children: new(),
            keys: Keys::new(with_quotas),
        }))
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

    /// Notes what a request is about that is executed next.
    pub(crate) fn begin(&mut self, input: &Input) {
        self.0.keys.begin(input);
    }

    /// Counts the request that was begun last; this is its last output.
    pub(crate) fn executed(&mut self, output: Option<&Output>) {
        if let Some(Output::To(_, Message::Reply(header, reply))) = output {
            self.0.keys.executed(header, reply);
        }
    }

    /// Counts requests of this turn that were read then.
    pub(crate) fn taken(&mut self, read: Instant, reads: u64, writes: u64) {
        let requests = reads + writes;
        self.0.reads += reads;
        self.0.writes += writes;
        self.0.queue_time.record_time(self.0.began.saturating_duration_since(read), requests);
        self.0.turns_open.record(self.0.open as u64, requests);
    }

    /// Counts requests that were answered after this time.
    pub(crate) fn answered(&mut self, took: Duration, reads: u64, writes: u64) {
        self.0.read_latency.record_time(took, reads);
        self.0.update_latency.record_time(took, writes);
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
        // An event is in several lists if it has watchers of several kinds.
        let mut last: Option<(Zxid, EventType, &str)> = None;
        let mut watchers = 0;
        for SharedEvent { to, zxid, kind, path } in events {
            let this = (*zxid, *kind, &**path);
            if let Some((_, kind, _)) = last.filter(|last| *last != this) {
                self.watched(kind, watchers);
                watchers = 0;
            }
            watchers += to.len() as u64;
            last = Some(this);
        }
        if let Some((_, kind, _)) = last {
            self.watched(kind, watchers);
        }
    }

    fn watched(&mut self, kind: EventType, watchers: u64) {
        match kind {
            EventType::NodeCreated => self.0.created.record(watchers, 1),
            EventType::NodeDeleted => self.0.deleted.record(watchers, 1),
            EventType::NodeDataChanged => self.0.changed.record(watchers, 1),
            EventType::NodeChildrenChanged => self.0.children.record(watchers, 1),
            _ => {}
        }
    }

    /// Ends a turn.
    pub(crate) fn end_turn(&mut self, now: Instant) {
        let TurnMeasures { reads, writes, closes, .. } = *self.0;
        let took = now.saturating_duration_since(self.0.began);
        self.0.turn.record_time(took, 1);
        let requests = reads + writes;
        let share = took / u32::try_from(requests.max(1)).unwrap_or(u32::MAX);
        self.0.process_time.record_time(share, requests);
        self.0.close_time.record_time(share, closes);
        self.0.propagation.record_time(took, writes);
        (self.0.reads, self.0.writes, self.0.closes) = (0, 0, 0);
    }

    fn move_on(&mut self, now: Instant) {
        let windows = self.0.timer.ended(now);
        if windows > 0 {
            self.0.distributions().for_each(|distribution| distribution.move_on(windows));
        }
    }

    /// Forgets what was recorded.
    pub(crate) fn reset(&mut self, now: Instant) {
        *self = Self::new(now, self.0.keys.with_quotas());
    }

    /// A copy, to be looked at when the engine is free again.
    pub(crate) fn copy(&mut self, now: Instant) -> Self {
        self.move_on(now);
        self.clone()
    }

    pub(crate) fn write(&self, metrics: &mut ServerMetrics) {
        let of = &*self.0;
        metrics.is_measured = true;
        of.keys.write(&mut metrics.summaries, &mut metrics.quota_exceeded);
        metrics.summaries = Summaries {
            read_latency_ms: of.read_latency.value(MILLIS),
            update_latency_ms: of.update_latency.value(MILLIS),
            queue_time_ms: of.queue_time.value(MILLIS),
            process_time_ms: of.process_time.value(MILLIS),
            close_time_ms: of.close_time.value(MILLIS),
            propagation_ms: of.propagation.value(MILLIS),
            turn_ms: of.turn.value(MILLIS),
            turns_open: of.turns_open.value(1.0),
            created_watchers: of.created.value(1.0),
            deleted_watchers: of.deleted.value(1.0),
            changed_watchers: of.changed.value(1.0),
            children_watchers: of.children.value(1.0),
            ..std::mem::take(&mut metrics.summaries)
        };
    }
}

impl TurnMeasures {
    fn distributions(&mut self) -> impl Iterator<Item = &mut Distribution> {
        let own = [
            &mut self.read_latency,
            &mut self.update_latency,
            &mut self.queue_time,
            &mut self.process_time,
            &mut self.close_time,
            &mut self.propagation,
            &mut self.turn,
            &mut self.turns_open,
            &mut self.created,
            &mut self.deleted,
            &mut self.changed,
            &mut self.children,
        ];
        own.into_iter().chain(self.keys.distributions())
    }
}

/// What is recorded of the log and of snapshots.
#[derive(Clone)]
pub(crate) struct LogMeasures(Box<DiskMeasures>);

#[derive(Clone)]
struct DiskMeasures {
    timer: WindowTimer,
    sync: Distribution,
    batch: Distribution,
    queue: Distribution,
    all: Distribution,
    process: Distribution,
    snapshot: Distribution,
}

impl LogMeasures {
    pub(crate) fn new(now: Instant) -> Self {
        let new = Distribution::new;
        Self(Box::new(DiskMeasures {
            timer: WindowTimer::new(now),
            sync: new(),
            batch: new(),
            queue: new(),
            all: new(),
            process: new(),
            snapshot: new(),
        }))
    }

    /// Counts a sync: what it has made durable, when the log took that, and when the sync began and ended.
    pub(crate) fn synced(&mut self, submitted: &Submitted, taken: Instant, begun: Instant, ended: Instant) {
        self.move_on(ended);
        let mut batch = 0;
        for (at, txns) in submitted {
            batch += txns;
            self.0.queue.record_time(taken.saturating_duration_since(*at), *txns);
            self.0.all.record_time(ended.saturating_duration_since(*at), *txns);
        }
        self.0.process.record_time(ended.saturating_duration_since(taken), batch);
        self.0.sync.record_time(ended.saturating_duration_since(begun), 1);
        self.0.batch.record(batch, u64::from(batch > 0));
    }

    pub(crate) fn snapshot(&mut self, now: Instant, took: Duration) {
        self.move_on(now);
        self.0.snapshot.record_time(took, 1);
    }

    fn move_on(&mut self, now: Instant) {
        let DiskMeasures { timer, sync, batch, queue, all, process, snapshot } = &mut *self.0;
        let windows = timer.ended(now);
        if windows > 0 {
            let all = [sync, batch, queue, all, process, snapshot];
            all.into_iter().for_each(|distribution| distribution.move_on(windows));
        }
    }

    /// Forgets what was recorded.
    pub(crate) fn reset(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// A copy, to be looked at when the log may go on.
    pub(crate) fn copy(&mut self, now: Instant) -> Self {
        self.move_on(now);
        self.clone()
    }

    pub(crate) fn write(&self, metrics: &mut ServerMetrics) {
        let DiskMeasures { sync, batch, queue, all, process, snapshot, .. } = &*self.0;
        let summaries = &mut metrics.summaries;
        summaries.sync_ms = sync.value(MILLIS);
        summaries.sync_batch = batch.value(1.0);
        summaries.log_queue_ms = queue.value(MILLIS);
        summaries.log_ms = all.value(MILLIS);
        summaries.log_process_ms = process.value(MILLIS);
        summaries.snapshot_ms = snapshot.value(MILLIS);
        // A transaction is shown when it is on disk.
        summaries.propagation_ms = summaries.log_ms.clone();
    }
}
