//! [`Log`]: takes transactions from the queue, writes them, and syncs once for all of them.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use zoolet_clock::Clock;
use zoolet_proto::Zxid;
use zoolet_storage::{Storage, StorageError};

use crate::durable::queue::{Close, CommitQueue, Roll, SnapshotRequest, Work};
use crate::durable::snapshot::{Job, Outcome, Running};
use crate::durable::spare::SpareThread;
use crate::engine::{Engine, locked};

/// A snapshot that nobody has asked for begins so long after the one before, or later. With its new files it costs a busy writer
/// more than it saves the next start, if it comes several times a second.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(1);

/// The log of a server. Owns its files, and decides when a snapshot is written: one at a time.
pub(crate) struct Log {
    storage: Storage,
    queue: Arc<CommitQueue>,
    engine: Arc<Mutex<Engine>>,
    settings: LogSettings,
    /// The newest snapshot.
    snapshot: Option<Zxid>,
    running: Option<Running>,
    /// When the last snapshot on a thread began.
    begun: Option<Instant>,
    /// Who waits for the snapshot that is under way, and for the next one.
    waiting: Vec<SnapshotRequest>,
    requests: Vec<SnapshotRequest>,
    is_cancelled: Arc<AtomicBool>,
    spare: SpareThread,
    /// How often the directory was opened anew.
    opened: u64,
    close: Option<Close>,
    has_failed: bool,
    /// What it has done last, emptied: kept for its memory.
    work: Work,
}

pub(crate) struct LogSettings {
    /// A sync that takes longer is worth a warning.
    pub(crate) slow_sync: Duration,
    /// How many snapshots are kept.
    pub(crate) retain: Option<usize>,
    pub(crate) clock: Clock,
    /// Cancelled when the log ends: a server that cannot keep what it acknowledges must stop.
    pub(crate) stop: CancellationToken,
    pub(crate) span: Span,
}

impl Log {
    pub(crate) fn new(
        storage: Storage,
        queue: Arc<CommitQueue>,
        engine: Arc<Mutex<Engine>>,
        settings: LogSettings,
    ) -> Self {
        let snapshot = storage.loaded_snapshot();
        Self {
            storage,
            queue,
            engine,
            settings,
            snapshot,
            running: None,
            begun: None,
            waiting: Vec::new(),
            requests: Vec::new(),
            is_cancelled: Arc::default(),
            spare: SpareThread::default(),
            opened: 0,
            close: None,
            has_failed: false,
            work: Work::default(),
        }
    }

    /// Starts it: on a thread of its own or, if the disk does not block, as a task. The token that it returns is cancelled when
    /// the log has ended and its files are closed.
    pub(crate) fn start(self) -> io::Result<CancellationToken> {
        let ended = CancellationToken::new();
        let guard = ended.clone().drop_guard();
        let span = self.settings.span.clone();
        if !self.storage.disk().blocks() {
            let run = async move {
                self.run_as_task().await;
                drop(guard);
            };
            tokio::spawn(run.instrument(span));
        } else {
            thread::Builder::new().name("zoolet-log".to_owned()).spawn(move || {
                span.in_scope(|| self.run());
                drop(guard);
            })?;
        }
        Ok(ended)
    }

    fn run(self) {
        let queue = Arc::clone(&self.queue);
        let mut log = Box::new(self);
        loop {
            let Some(next) = queue.wait(log) else { return };
            log = next;
            if log.has_ended() {
                break;
            }
            log.handle();
        }
        queue.end();
        if let Some(Running::Thread(thread)) = log.running.take() {
            // It was given up, or has panicked.
            let _ = thread.join();
        }
        log.write_last();
    }

    /// As `run`, on a disk that does not block.
    async fn run_as_task(self) {
        let queue = Arc::clone(&self.queue);
        let _retire = Retire(&queue);
        let mut log = Box::new(self);
        loop {
            let Some(next) = queue.wait_in_task(log).await else { return };
            log = next;
            if log.has_ended() {
                break;
            }
            log.handle();
        }
        queue.end();
        if let Some(Running::Task(task)) = log.running.take() {
            let _ = task.await;
        }
        log.write_last();
    }

    /// Whether nothing is left to do. A clean end waits for a snapshot that is under way.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_failed || self.close == Some(Close::Drop) || self.close.is_some() && self.running.is_none()
    }

    /// Does what is queued.
    pub(crate) fn handle(&mut self) {
        let mut work = mem::take(&mut self.work);
        self.queue.take_work(&mut work);
        self.settings.span.clone().in_scope(|| self.handle_work(&mut work));
        self.work = work;
    }

    fn handle_work(&mut self, work: &mut Work) {
        if let Some(storage) = work.reopened.take() {
            self.reopen(*storage, work.opened);
        }
        let outcome = work.failed.take().map_or(Ok(()), Err).and_then(|()| self.commit(work));
        if let Err(error) = outcome {
            // What is not written is nothing for later.
            work.txns.clear();
            self.fail(error);
        }
        if self.has_failed {
            *work = Work::default();
            return;
        }
        if let Some(outcome) = work.snapshot.take() {
            self.running = None;
            self.answer(outcome);
        }
        self.requests.append(&mut work.requests);
        let is_wanted = !self.requests.is_empty() || self.snapshot_is_due();
        if is_wanted && self.running.is_none() && self.close.is_none() {
            self.begin_snapshot();
        }
        self.spare.work(&mut self.storage);
        self.close = self.close.max(work.close.take());
        if self.close == Some(Close::Drop) {
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    fn commit(&mut self, work: &mut Work) -> Result<(), StorageError> {
        let mut roll = work.roll.take();
        if let Some(last) = work.txns.last().map(|txn| txn.zxid) {
            let begun = self.settings.clock.now();
            for txn in work.txns.drain(..) {
                if let Some(roll) = roll.take_if(|roll| roll.after < txn.zxid) {
                    self.storage.commit()?;
                    self.roll(roll)?;
                }
                self.storage.append(&txn)?;
            }
            self.storage.commit()?;
            let took = self.settings.clock.now() - begun;
            if took > self.settings.slow_sync {
                tracing::warn!(?took, zxid = %last, "slow sync of the transaction log");
            }
            self.queue.advance(work, last);
        }
        roll.map_or(Ok(()), |roll| self.roll(roll))
    }

    fn roll(&mut self, roll: Roll) -> Result<(), StorageError> {
        self.storage.roll()?;
        // Nobody waits for it if the snapshot was given up.
        let _ = roll.done.send(());
        Ok(())
    }

    fn snapshot_is_due(&self) -> bool {
        let is_early = |begun| self.settings.clock.now() - begun < SNAPSHOT_INTERVAL;
        self.storage.snapshot_is_due() && !self.begun.is_some_and(is_early)
    }

    fn begin_snapshot(&mut self) {
        self.waiting = mem::take(&mut self.requests);
        if let Some(zxid) = self.snapshot.filter(|zxid| *zxid == self.last_zxid()) {
            return self.answer(Some(Ok(zxid)));
        }
        let job = self.job();
        self.running = if !self.storage.disk().blocks() {
            Some(job.spawn_task())
        } else {
            match job.spawn() {
                Ok(running) => {
                    self.begun = Some(self.settings.clock.now());
                    Some(running)
                }
                Err(source) => {
                    let path = self.storage.snapshots().path().to_owned();
                    let error =
                        StorageError::Io { action: "start a thread to write a snapshot in", path, source };
                    return self.answer(Some(Err(error)));
                }
            }
        };
    }

    fn job(&self) -> Job {
        Job {
            engine: Arc::clone(&self.engine),
            queue: Arc::clone(&self.queue),
            dir: self.storage.snapshots(),
            retain: self.settings.retain,
            opened: self.opened,
            is_cancelled: Arc::clone(&self.is_cancelled),
        }
    }

    /// A snapshot that fails is no danger: the log has everything.
    fn answer(&mut self, outcome: Outcome) {
        let answer = match outcome {
            Some(Ok(zxid)) => {
                self.snapshot = Some(zxid);
                Ok(zxid)
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot write a snapshot; the log is kept");
                Err(Arc::new(error))
            }
            // Those who wait learn that the server has stopped.
            None => return self.waiting.clear(),
        };
        for request in self.waiting.drain(..) {
            let _ = request.send(answer.clone());
        }
    }

    /// Writes the snapshot of a clean end.
    fn write_last(&mut self) {
        if self.close != Some(Close::Clean) || self.has_failed {
            return;
        }
        if self.snapshot != Some(self.last_zxid()) {
            let outcome = self.job().write_last().transpose();
            self.answer(outcome);
        }
    }

    /// Goes on with the directory as it is after a simulated crash.
    fn reopen(&mut self, storage: Storage, opened: u64) {
        // A snapshot that was under way finds that out by itself.
        self.opened = opened;
        self.running = None;
        self.waiting.clear();
        self.requests.clear();
        self.snapshot = storage.loaded_snapshot();
        self.storage = storage;
    }

    fn last_zxid(&self) -> Zxid {
        locked(&self.engine).bus.core().tree().last_zxid()
    }

    fn fail(&mut self, error: StorageError) {
        let reason = error.to_string();
        // Otherwise it was the end of a simulated disk, which was opened anew.
        if self.queue.fail(self.opened, error) {
            tracing::error!(reason, "the transaction log has failed; the server stops");
            self.has_failed = true;
            self.is_cancelled.store(true, Ordering::Relaxed);
            self.settings.stop.cancel();
        }
    }
}

/// Nobody waits for a log that is gone, and no server runs without one, also if it has panicked.
impl Drop for Log {
    fn drop(&mut self) {
        if thread::panicking() {
            self.queue.fail(self.opened, StorageError::Failed("the log has panicked".to_owned()));
        }
        self.queue.end();
        self.spare.end();
        self.settings.stop.cancel();
    }
}

/// Drops the log if the runtime drops its task.
struct Retire<'q>(&'q CommitQueue);

impl Drop for Retire<'_> {
    fn drop(&mut self) {
        self.0.retire();
    }
}
