//! [`CommitQueue`]: what waits for the log, and how far the log is.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use zoolet_proto::Zxid;
use zoolet_server_core::{Txn, TxnOp};
use zoolet_storage::{Storage, StorageError};

use crate::durable::log::Log;
use crate::durable::snapshot::Outcome;

/// How many bytes of transactions may wait for the disk before connections that write have to wait.
const MAX_BYTES: usize = 32 << 20;

/// What a transaction takes beside its data.
const TXN: usize = 128;

/// Gets the zxid of a snapshot that was asked for.
pub(crate) type SnapshotRequest = oneshot::Sender<Result<Zxid, Arc<StorageError>>>;

/// Turns submit transactions to it, one turn after the other; the log takes all of them at once.
pub(crate) struct CommitQueue {
    state: Mutex<State>,
    /// Notified when there is work: the first if the log is a thread, the second if it is a task.
    work: Condvar,
    task_work: Notify,
    durable: AtomicI64,
    /// The last transaction whose messages have left.
    released: AtomicI64,
    /// Notified when the durable zxid has advanced: for the driver.
    advanced: Notify,
    /// Whether too much waits.
    is_full: AtomicBool,
    /// Notified when the log has come further, or has failed or ended.
    progress: Notify,
    /// Notified when the log has failed. Apart from `progress`, or each sync would wake who waits for a failure.
    failed: Notify,
}

#[derive(Default)]
struct State {
    work: Work,
    /// The log, while nobody works with it. Who takes it does what is queued, and puts it back.
    idle: Option<Box<Log>>,
    bytes: usize,
    /// The last transaction that was submitted.
    last: Zxid,
    /// Whether the thread of the log waits.
    sleeps: bool,
    /// Whether the log has ended: it takes nothing more.
    has_ended: bool,
    /// How often the directory was opened anew. What an earlier log reports is void.
    opened: u64,
    failure: Option<Arc<StorageError>>,
}

impl State {
    /// Whether the thread of the log has something to do.
    fn is_log_wanted(&self) -> bool {
        match &self.idle {
            Some(log) => !self.work.is_empty() || log.has_ended(),
            None => self.has_ended,
        }
    }
}

/// What the log is to do.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) txns: Vec<Txn>,
    pub(crate) roll: Option<Roll>,
    pub(crate) requests: Vec<SnapshotRequest>,
    /// What has become of the snapshot that was under way.
    pub(crate) snapshot: Option<Outcome>,
    /// The log could not be synced by the thread of a snapshot.
    pub(crate) failed: Option<StorageError>,
    /// The directory, opened anew, in the place of the one before.
    pub(crate) reopened: Option<Box<Storage>>,
    pub(crate) close: Option<Close>,
    /// How often the directory was opened anew when this was taken.
    pub(crate) opened: u64,
}

/// Asks for a new log file after a transaction.
#[derive(Debug)]
pub(crate) struct Roll {
    pub(crate) after: Zxid,
    /// Sent when everything up to that transaction is in the log.
    pub(crate) done: oneshot::Sender<()>,
}

/// How the log ends: after everything that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Close {
    /// At once.
    Drop,
    /// With a snapshot.
    Clean,
}

impl Work {
    fn is_empty(&self) -> bool {
        self.txns.is_empty()
            && self.roll.is_none()
            && self.requests.is_empty()
            && self.snapshot.is_none()
            && self.failed.is_none()
            && self.reopened.is_none()
            && self.close.is_none()
    }
}

impl CommitQueue {
    /// A queue in front of a log that ends at `last`.
    pub(crate) fn new(last: Zxid) -> Self {
        Self {
            state: Mutex::new(State { last, ..State::default() }),
            work: Condvar::new(),
            task_work: Notify::new(),
            durable: AtomicI64::new(last.0),
            released: AtomicI64::new(last.0),
            advanced: Notify::new(),
            is_full: AtomicBool::new(false),
            progress: Notify::new(),
            failed: Notify::new(),
        }
    }

    /// Submits transactions. Returns the zxid of the last one.
    pub(crate) fn submit(&self, txns: impl Iterator<Item = Txn>) -> Option<Zxid> {
        let mut state = self.lock();
        let before = state.work.txns.len();
        state.work.txns.extend(txns);
        let added = &state.work.txns[before..];
        let last = added.last()?.zxid;
        let bytes: usize = added.iter().map(|txn| TXN + size(&txn.op)).sum();
        state.last = last;
        state.bytes += bytes;
        if state.bytes > MAX_BYTES {
            self.is_full.store(true, Ordering::Release);
        }
        self.wake(state);
        Some(last)
    }

    /// Asks for a new log file after everything that was submitted, of which `after` is the last. The answer comes when all of
    /// it is durable.
    pub(crate) fn roll(&self, after: Zxid) -> oneshot::Receiver<()> {
        let (done, rolled) = oneshot::channel();
        let mut state = self.lock();
        if !state.has_ended {
            state.work.roll = Some(Roll { after, done });
            self.wake(state);
        }
        rolled
    }

    /// Asks for a snapshot.
    pub(crate) fn request_snapshot(&self, request: SnapshotRequest) {
        let mut state = self.lock();
        if !state.has_ended {
            state.work.requests.push(request);
            self.wake(state);
        }
    }

    /// Reports what has become of a snapshot of the directory as it was opened then.
    pub(crate) fn end_snapshot(&self, opened: u64, outcome: Outcome) {
        let mut state = self.lock();
        if state.opened == opened {
            state.work.snapshot = Some(outcome);
            self.wake(state);
        }
    }

    /// Ends the log, of the directory as it was opened then, as it could not be synced: what is on disk is unknown.
    pub(crate) fn end_failed(&self, opened: u64, error: StorageError) {
        let mut state = self.lock();
        if state.opened == opened {
            state.work.failed = Some(error);
            self.wake(state);
        }
    }

    /// How often the directory was opened anew. Changes under the engine's lock only.
    pub(crate) fn opened(&self) -> u64 {
        self.lock().opened
    }

    /// Notes that the log has ended. Nobody waits for it any longer.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        state.work = Work::default();
        self.wake(state);
        self.is_full.store(false, Ordering::Release);
        self.progress.notify_waiters();
    }

    /// Asks the log to end. A later call can make it a clean end, if the log has not ended by then.
    pub(crate) fn close(&self, how: Close) {
        let mut state = self.lock();
        state.work.close = state.work.close.max(Some(how));
        self.wake(state);
    }

    /// Puts the log back, and takes it when there is work for it or it has ended. For the thread of the log. `None` if it is gone.
    pub(crate) fn wait(&self, log: Box<Log>) -> Option<Box<Log>> {
        let mut state = self.lock();
        state.idle = Some(log);
        state.sleeps = true;
        while !state.is_log_wanted() {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.sleeps = false;
        state.idle.take()
    }

    /// As [`CommitQueue::wait`], for a task.
    pub(crate) async fn wait_in_task(&self, log: Box<Log>) -> Option<Box<Log>> {
        self.put_back(log);
        loop {
            {
                let mut state = self.lock();
                if state.is_log_wanted() {
                    return state.idle.take();
                }
            }
            self.task_work.notified().await;
        }
    }

    /// Puts the log back: its thread takes it if there is something left to do. If nobody waits for a log any longer, it is dropped.
    pub(crate) fn put_back(&self, log: Box<Log>) {
        // Unlocked before the log is dropped, as a local goes before a parameter: the end of a log locks it as well.
        let mut state = self.lock();
        if !state.has_ended {
            state.idle = Some(log);
            self.wake(state);
        }
    }

    /// Ends the log, whatever is queued, and drops it once nobody works with it.
    pub(crate) fn retire(&self) {
        let idle = self.lock().idle.take();
        self.end();
        drop(idle);
    }

    /// Swaps what is queued for `work`, which is done with: its memory is used again.
    pub(crate) fn take_work(&self, work: &mut Work) {
        let mut state = self.lock();
        mem::swap(&mut state.work, work);
        work.opened = state.opened;
        state.bytes = 0;
    }

    /// Begins anew with a directory that ends at `last`: what was submitted and is not durable is lost.
    pub(crate) fn reopen(&self, storage: Storage, last: Zxid) {
        let mut state = self.lock();
        let close = state.work.close;
        state.opened += 1;
        state.work = Work { reopened: Some(Box::new(storage)), close, ..Work::default() };
        (state.last, state.bytes) = (last, 0);
        self.durable.store(last.0, Ordering::Release);
        self.released.store(last.0, Ordering::Release);
        self.wake(state);
        // Who waits for the log as it was would wait for transactions that nobody submits again.
        self.is_full.store(false, Ordering::Release);
        self.progress.notify_waiters();
    }

    /// Notes that everything up to `durable` is in the log, of which `work` was a part.
    pub(crate) fn advance(&self, work: &Work, durable: Zxid) {
        let state = self.lock();
        if state.opened != work.opened {
            return;
        }
        self.durable.store(durable.0, Ordering::Release);
        drop(state);
        self.advanced.notify_one();
        self.is_full.store(false, Ordering::Release);
        self.progress.notify_waiters();
    }

    /// The last transaction that is in the log.
    pub(crate) fn durable(&self) -> Zxid {
        Zxid(self.durable.load(Ordering::Acquire))
    }

    /// Notes that the messages of everything up to `durable` have left.
    pub(crate) fn note_released(&self, durable: Zxid) {
        self.released.store(durable.0, Ordering::Release);
    }

    /// Waits until there are transactions in the log whose messages have not left.
    pub(crate) async fn advanced(&self) {
        while self.durable.load(Ordering::Acquire) == self.released.load(Ordering::Acquire) {
            self.advanced.notified().await;
        }
    }

    /// Whether everything that was submitted is durable, and its messages have left.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.last.0 <= self.released.load(Ordering::Acquire) && state.work.is_empty()
    }

    /// Whether too much waits for the disk.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Waits until it is no longer too much.
    pub(crate) async fn has_room(&self) {
        while self.is_full() {
            let progress = self.progress.notified();
            if self.is_full() {
                progress.await;
            }
        }
    }

    /// Waits until everything that was submitted so far is durable, and returns whether it is: the log may end or fail before, or
    /// the directory may be opened anew without it.
    pub(crate) async fn all_durable(&self) -> bool {
        let (last, opened) = {
            let state = self.lock();
            (state.last, state.opened)
        };
        loop {
            let progress = self.progress.notified();
            let (is_durable, is_over) = {
                let state = self.lock();
                let is_over = state.has_ended || state.failure.is_some() || state.opened != opened;
                (self.durable() >= last, is_over)
            };
            if is_durable || is_over {
                return is_durable;
            }
            progress.await;
        }
    }

    /// Notes that the log has failed, with the directory as it was opened then. Nothing more becomes durable. False if it was
    /// opened anew meanwhile.
    pub(crate) fn fail(&self, opened: u64, error: StorageError) -> bool {
        let mut state = self.lock();
        if state.opened != opened {
            return false;
        }
        state.failure.get_or_insert_with(|| Arc::new(error));
        drop(state);
        self.is_full.store(false, Ordering::Release);
        self.progress.notify_waiters();
        self.failed.notify_waiters();
        true
    }

    /// Waits until the log has failed.
    pub(crate) async fn failed(&self) -> Arc<StorageError> {
        loop {
            let failed = self.failed.notified();
            if let Some(failure) = &self.lock().failure {
                return Arc::clone(failure);
            }
            failed.await;
        }
    }

    /// Wakes the thread or task of the log. While somebody works with the log this is left to `put_back`.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let (sleeps, is_wanted) = (state.sleeps, state.is_log_wanted());
        drop(state);
        if !is_wanted {
            return;
        }
        if sleeps {
            self.work.notify_one();
        } else {
            self.task_work.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
