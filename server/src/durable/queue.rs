//! [`CommitQueue`]: transactions on their way to the log, and how far the log is.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, SetOnce, oneshot};
use zoolet_proto::Zxid;
use zoolet_server_core::{Txn, TxnOp};
use zoolet_storage::{Storage, StorageError};

/// How many bytes of transactions may wait for the disk before connections that write have to wait.
const MAX_BYTES: usize = 32 << 20;

/// What a transaction takes beside its data.
const TXN: usize = 128;

/// Gets the zxid of a snapshot that was asked for.
pub(crate) type SnapshotRequest = oneshot::Sender<Result<Zxid, Arc<StorageError>>>;

/// Turns submit transactions to it, one turn after the other; the log takes all of them at once.
pub(crate) struct CommitQueue {
    state: Mutex<State>,
    /// Wakes the log: there is work.
    work: Notify,
    durable: AtomicI64,
    /// The last transaction whose messages have left.
    released: AtomicI64,
    /// Wakes the driver: the durable zxid has advanced.
    advanced: Notify,
    /// Whether too much waits.
    is_full: AtomicBool,
    /// Wakes connections that wait until less is queued, and tests that wait until all of it is durable. Also when the log ends,
    /// or begins anew, as it then frees no room.
    progress: Notify,
    /// Why the log has failed.
    failure: SetOnce<Arc<StorageError>>,
}

#[derive(Default)]
struct State {
    work: Work,
    bytes: usize,
    /// The last transaction that was submitted.
    last: Zxid,
    /// Whether the log has ended: it takes nothing more.
    has_ended: bool,
    /// How often the directory was opened anew, after simulated crashes. Reports about an earlier generation are void.
    generation: u64,
}

/// What the log is to do.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The directory, opened anew, in the place of the one before, and its generation.
    pub(crate) reopened: Option<(u64, Box<Storage>)>,
    pub(crate) txns: Vec<Txn>,
    pub(crate) roll: Option<Roll>,
    pub(crate) requests: Vec<SnapshotRequest>,
    pub(crate) close: Option<Close>,
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
        self.reopened.is_none()
            && self.txns.is_empty()
            && self.roll.is_none()
            && self.requests.is_empty()
            && self.close.is_none()
    }
}

impl CommitQueue {
    /// A queue in front of a log that ends at `last`.
    pub(crate) fn new(last: Zxid) -> Self {
        Self {
            state: Mutex::new(State { last, ..State::default() }),
            work: Notify::new(),
            durable: AtomicI64::new(last.0),
            released: AtomicI64::new(last.0),
            advanced: Notify::new(),
            is_full: AtomicBool::new(false),
            progress: Notify::new(),
            failure: SetOnce::new(),
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

    /// Asks for a new log file after `after`, the last transaction that was submitted. The answer comes when all up to it is durable,
    /// and fails if that will not be: the log has ended, or the directory was opened anew.
    pub(crate) fn roll(&self, generation: u64, after: Zxid) -> oneshot::Receiver<()> {
        let (done, rolled) = oneshot::channel();
        let mut state = self.lock();
        if !state.has_ended && state.generation == generation {
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

    /// How often the directory was opened anew.
    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Notes that the log has ended. Nobody waits for it any longer.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        state.work = Work::default();
        drop(state);
        self.wake_waiters();
    }

    /// Asks the log to end. A later call can make it a clean end, if the log has not ended by then.
    pub(crate) fn close(&self, how: Close) {
        let mut state = self.lock();
        state.work.close = state.work.close.max(Some(how));
        self.wake(state);
    }

    /// Waits until there is work, and swaps it for `work`, which is done with: its memory is used again.
    pub(crate) async fn take(&self, work: &mut Work) {
        while !self.try_take(work) {
            self.work.notified().await;
        }
    }

    /// As [`take`](Self::take), if there is work.
    pub(crate) fn try_take(&self, work: &mut Work) -> bool {
        let mut state = self.lock();
        let has_work = !state.work.is_empty();
        if has_work {
            mem::swap(&mut state.work, work);
            state.bytes = 0;
        }
        has_work
    }

    /// Begins anew with a directory that ends at `last`: what was submitted and is not durable is lost.
    pub(crate) fn reopen(&self, storage: Storage, last: Zxid) {
        let mut state = self.lock();
        state.generation += 1;
        let reopened = Some((state.generation, Box::new(storage)));
        state.work = Work { reopened, close: state.work.close, ..Work::default() };
        (state.last, state.bytes) = (last, 0);
        self.durable.store(last.0, Ordering::Release);
        self.released.store(last.0, Ordering::Release);
        self.wake(state);
        self.wake_waiters();
    }

    /// Notes that everything up to `durable` is in the log of that generation.
    pub(crate) fn advance(&self, generation: u64, durable: Zxid) {
        let state = self.lock();
        if state.generation != generation {
            return;
        }
        self.durable.store(durable.0, Ordering::Release);
        drop(state);
        self.advanced.notify_one();
        self.wake_waiters();
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
        let (last, generation) = {
            let state = self.lock();
            (state.last, state.generation)
        };
        loop {
            let progress = self.progress.notified();
            let (is_durable, is_over) = {
                let state = self.lock();
                let is_over =
                    state.has_ended || self.failure.get().is_some() || state.generation != generation;
                (self.durable() >= last, is_over)
            };
            if is_durable || is_over {
                return is_durable;
            }
            progress.await;
        }
    }

    /// Notes that the log of that generation has failed. Nothing more becomes durable. False if the directory was opened anew meanwhile.
    pub(crate) fn fail(&self, generation: u64, error: StorageError) -> bool {
        let state = self.lock();
        if state.generation != generation {
            return false;
        }
        // Only the first failure is the cause.
        let _ = self.failure.set(Arc::new(error));
        drop(state);
        self.wake_waiters();
        true
    }

    /// Waits until the log has failed.
    pub(crate) async fn failed(&self) -> Arc<StorageError> {
        Arc::clone(self.failure.wait().await)
    }

    /// Wakes the log. Its lock is free by then: the log takes it at once.
    fn wake(&self, state: MutexGuard<'_, State>) {
        drop(state);
        self.work.notify_one();
    }

    /// Wakes all that wait until the log gets further: what was queued is taken, or never will be.
    fn wake_waiters(&self) {
        self.is_full.store(false, Ordering::Release);
        self.progress.notify_waiters();
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
