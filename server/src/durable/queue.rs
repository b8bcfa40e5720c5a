//! [`CommitQueue`]: transactions on their way to the log, and how far the log is.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::{Notify, OwnedMutexGuard, SetOnce, mpsc, oneshot};
use tokio::time::Instant;
use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{SnapshotHeader, Txn, TxnOp};
use zoolet_storage::{SnapshotSpool, Storage, StorageError};

use crate::locked::locked;
use crate::metrics::{LogMeasures, LogMetrics};
use crate::net::flow::limits::COMMIT_QUEUE;

/// What a transaction takes beside its data.
const TXN: usize = 128;

/// Gets the zxid of a snapshot that was asked for.
pub(crate) type SnapshotRequest = oneshot::Sender<Result<Zxid, Arc<StorageError>>>;

/// A state that replaces what the log leads to.
pub(crate) struct RestoredState {
    pub(crate) spool: SnapshotSpool,
    /// That of the new tree; its zxid is in no log.
    pub(crate) header: SnapshotHeader,
    pub(crate) sessions: Vec<(SessionId, i32)>,
    /// The guard of [`Shared::backup`](crate::shared::Shared::backup), for which the next one waits.
    pub(crate) _permit: OwnedMutexGuard<()>,
}

/// Work for the log, which does it in this order.
pub(crate) enum Work {
    /// The transactions of a turn, or of a part of one, about how many bytes they are, and when the turn began, if that is measured. In
    /// one piece, or the log would sync the first of them while the others arrive.
    Txns(SmallVec<[Txn; 1]>, usize, Option<Instant>),
    /// Begin a new log file. The answer comes when everything before is durable; there is none if that fails.
    Roll(oneshot::Sender<()>),
    Snapshot(SnapshotRequest),
    /// Go on with another state, once it is durable.
    Restore(Box<RestoredState>),
    /// Go on with the directory as it is after a simulated crash. It has this generation.
    Reopen(u64, Box<Storage>),
    Close(Close),
}

/// The begin of each turn, and how many transactions it has submitted.
pub(crate) type Submitted = Vec<(Instant, u64)>;

/// A number of transactions, and about how many bytes they are.
#[derive(Clone, Copy, Default)]
pub(crate) struct Amount {
    pub(crate) txns: u64,
    pub(crate) bytes: usize,
}

/// How the log ends. The greater one counts: the `Drop` that follows a shutdown does not undo its `Clean`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Close {
    /// Without a snapshot, once what was submitted before is durable.
    Drop,
    /// With a snapshot.
    Clean,
}

/// Turns submit transactions to it, one turn after the other; the log takes all of them at once.
pub(crate) struct CommitQueue {
    work: mpsc::UnboundedSender<Work>,
    state: Mutex<State>,
    /// Wakes those that wait for a state, when the log gets further, fails, ends or begins anew.
    changed: Notify,
    /// Why the log has failed.
    failure: SetOnce<Arc<StorageError>>,
}

/// A snapshot in the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastSnapshot {
    /// The last transaction that it shows.
    pub zxid: Zxid,
    /// When it was written, in seconds since 1970.
    pub unix_time: i64,
}

#[derive(Default)]
struct State {
    /// The last transaction that was submitted.
    last: Zxid,
    /// The last one that is in the log.
    durable: Zxid,
    /// The last one whose messages were released to their connections.
    released: Zxid,
    /// The transactions that were submitted and are not durable.
    waiting: Amount,
    /// What was counted since the last reset. [`CommitQueue::metrics`] fills in the other fields: what waits, how far the log is and
    /// whether it has failed.
    counts: LogMetrics,
    last_snapshot: Option<LastSnapshot>,
    measures: Option<LogMeasures>,
    /// How often the directory was opened anew, after simulated crashes. Reports of an earlier generation are void.
    generation: u64,
    /// How often the tree was replaced by that of a snapshot.
    restores: u64,
}

impl CommitQueue {
    /// A queue in front of a log that ends at `last`, and the log's end of it.
    pub(crate) fn new(last: Zxid) -> (Arc<Self>, mpsc::UnboundedReceiver<Work>) {
        let (work, log) = mpsc::unbounded_channel();
        let state = State { last, durable: last, released: last, ..State::default() };
        let (state, changed, failure) = (Mutex::new(state), Notify::new(), SetOnce::new());
        (Arc::new(Self { work, state, changed, failure }), log)
    }

    /// Submits transactions of a turn, with the time at which it `began` if that is measured. Returns the zxid of the last one.
    pub(crate) fn submit(&self, txns: impl Iterator<Item = Txn>, began: Option<Instant>) -> Option<Zxid> {
        let txns: SmallVec<[Txn; 1]> = txns.collect();
        let last = txns.last()?.zxid;
        let bytes = txns.iter().map(|txn| TXN + size(&txn.op)).sum();
        let mut state = self.lock();
        state.last = last;
        state.waiting.txns += txns.len() as u64;
        state.waiting.bytes += bytes;
        state.counts.submitted += txns.len() as u64;
        self.send_locked(state, Work::Txns(txns, bytes, began));
        Some(last)
    }

    /// Submits another state than what the transactions before lead to.
    pub(crate) fn restore(&self, restored: RestoredState) {
        let mut state = self.lock();
        state.last = restored.header.zxid;
        state.restores += 1;
        self.send_locked(state, Work::Restore(Box::new(restored)));
    }

    /// How often the state was restored.
    pub(crate) fn restores(&self) -> u64 {
        self.lock().restores
    }

    /// Gives the log something to do. If it has ended, the work is dropped, and with it the sender of its answer.
    pub(crate) fn send(&self, work: Work) {
        self.send_locked(self.lock(), work);
    }

    /// Sends under the lock, under which the channel is closed as well: what is sent while it is closed would otherwise stay in it, and
    /// whoever waits for the answer would wait for ever.
    fn send_locked(&self, state: MutexGuard<'_, State>, work: Work) {
        let refused = self.work.send(work);
        drop(state);
        // Not under the lock: it may own files, and the senders of answers, which wake tasks.
        drop(refused);
    }

    /// Ends the log's end of the queue: it takes nothing more. Drops what is queued, and wakes all that wait.
    pub(crate) fn close(&self, work: &mut mpsc::UnboundedReceiver<Work>) {
        let state = self.lock();
        work.close();
        drop(state);
        while work.try_recv().is_ok() {}
        self.changed.notify_waiters();
    }

    /// Begins anew with a directory that ends at `last`: what was submitted and is not durable is lost.
    pub(crate) fn reopen(&self, storage: Storage, last: Zxid) {
        let generation = {
            let mut state = self.lock();
            (state.last, state.durable, state.released) = (last, last, last);
            state.waiting = Amount::default();
            state.generation += 1;
            state.generation
        };
        self.send(Work::Reopen(generation, Box::new(storage)));
        self.changed.notify_waiters();
    }

    /// Notes that everything up to `durable` is in the log of that generation; `amount` is what it has got since the last call. Lets
    /// `measure` record how long that took, if it is measured.
    pub(crate) fn advance(
        &self,
        generation: u64,
        durable: Zxid,
        amount: Amount,
        measure: impl FnOnce(&mut LogMeasures),
    ) {
        let mut state = self.lock();
        // In every generation: the sync was made.
        state.measures.as_mut().map(measure);
        if state.generation == generation {
            state.durable = durable;
            // Never below 0: they were added before they were sent, and reports of an earlier generation are void.
            state.waiting.txns -= amount.txns;
            state.waiting.bytes -= amount.bytes;
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Counts something that the log or a snapshot has done.
    pub(crate) fn count(&self, count: impl FnOnce(&mut LogMetrics)) {
        count(&mut self.lock().counts);
    }

    /// Notes the newest snapshot.
    pub(crate) fn note_snapshot(&self, zxid: Zxid, unix_time: i64) {
        self.lock().last_snapshot = Some(LastSnapshot { zxid, unix_time });
    }

    /// The newest snapshot.
    pub(crate) fn last_snapshot(&self) -> Option<LastSnapshot> {
        self.lock().last_snapshot
    }

    /// Counts a snapshot that was written at `now`.
    pub(crate) fn count_snapshot(&self, now: Instant, took: Duration) {
        let mut state = self.lock();
        state.counts.snapshots += 1;
        if let Some(measures) = &mut state.measures {
            measures.snapshot(now, took);
        }
    }

    /// Measures from now on.
    #[cfg(feature = "metrics")]
    pub(crate) fn measure(&self, now: Instant) {
        self.lock().measures.get_or_insert_with(|| LogMeasures::new(now));
    }

    /// What was measured by now.
    pub(crate) fn measures(&self, now: Instant) -> Option<LogMeasures> {
        self.lock().measures.as_mut().map(|measures| measures.copy(now))
    }

    /// Forgets what was counted and measured.
    pub(crate) fn reset_counts(&self, now: Instant) {
        let mut state = self.lock();
        state.counts = LogMetrics::default();
        if let Some(measures) = &mut state.measures {
            measures.reset(now);
        }
    }

    /// What was counted by now.
    pub(crate) fn metrics(&self) -> LogMetrics {
        let state = self.lock();
        LogMetrics {
            durable_zxid: state.durable,
            queued: state.waiting.txns,
            queued_bytes: state.waiting.bytes,
            has_failed: self.failure.get().is_some(),
            ..state.counts.clone()
        }
    }

    /// Notes that the log has failed: nothing more becomes durable. The server must be stopped before, as this wakes those that wait for
    /// durability.
    pub(crate) fn fail(&self, error: StorageError) {
        // A second failure follows from the first.
        let _ = self.failure.set(Arc::new(error));
        self.changed.notify_waiters();
    }

    /// How often the directory was opened anew.
    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// The last transaction that is in the log.
    pub(crate) fn durable(&self) -> Zxid {
        self.lock().durable
    }

    /// Notes that the messages of everything up to `durable` have left.
    pub(crate) fn note_released(&self, durable: Zxid) {
        self.lock().released = durable;
    }

    /// Whether everything that was submitted is durable, and its messages have left.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.last <= state.released
    }

    /// Whether too much waits for the disk. This reserves nothing: each connection that looks at once, or has waited for room, may
    /// submit a batch more.
    pub(crate) fn is_full(&self) -> bool {
        self.has_too_much(&self.lock())
    }

    /// Waits until it is no longer too much.
    pub(crate) async fn has_room(&self) {
        self.until(|state| (!self.has_too_much(state)).then_some(())).await;
    }

    /// Waits until there are transactions in the log whose messages have not left.
    pub(crate) async fn advanced(&self) {
        self.until(|state| (state.durable > state.released).then_some(())).await;
    }

    /// Waits until everything that was submitted so far is durable, and returns whether it is: the log may end or fail before, or
    /// the directory may be opened anew without it.
    pub(crate) async fn all_durable(&self) -> bool {
        let (last, generation) = {
            let state = self.lock();
            (state.last, state.generation)
        };
        self.until(|state| {
            let is_durable = state.durable >= last;
            let is_over = self.is_over() || state.generation != generation;
            (is_durable || is_over).then_some(is_durable)
        })
        .await
    }

    /// Waits until the log has failed.
    pub(crate) async fn failed(&self) -> Arc<StorageError> {
        Arc::clone(self.failure.wait().await)
    }

    /// Waits until the state yields an outcome.
    async fn until<T>(&self, outcome: impl Fn(&State) -> Option<T>) -> T {
        loop {
            // Before the look at the state, so that no change after it is missed.
            let changed = self.changed.notified();
            let outcome = outcome(&self.lock());
            if let Some(outcome) = outcome {
                return outcome;
            }
            changed.await;
        }
    }

    /// A log that is over makes no room; what is submitted to it is dropped.
    fn has_too_much(&self, state: &State) -> bool {
        state.waiting.bytes > COMMIT_QUEUE && !self.is_over()
    }

    /// Whether the log has ended or failed.
    fn is_over(&self) -> bool {
        self.work.is_closed() || self.failure.get().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

/// About how much memory a change takes.
fn size(op: &TxnOp) -> usize {
    match op {
        TxnOp::Create { path, data, .. } | TxnOp::SetData { path, data, .. } => {
            path.len() + data.as_ref().map_or(0, Bytes::len)
        }
        TxnOp::Multi(ops) => ops.iter().map(|op| TXN + size(op)).sum(),
        TxnOp::CloseSession { ephemerals } => ephemerals.iter().map(|path| path.len()).sum(),
        TxnOp::Delete { path } | TxnOp::SetAcl { path, .. } | TxnOp::Check { path } => path.len(),
        TxnOp::CreateSession { .. } | TxnOp::Error(_) => 0,
    }
}
