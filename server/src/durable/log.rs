//! [`Log`]: takes transactions from the queue, writes them, and syncs once for all of them.

use std::future::pending;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use zoolet_clock::Clock;
use zoolet_proto::Zxid;
use zoolet_storage::{Storage, StorageError};

use crate::durable::disk_thread::spawn;
use crate::durable::queue::{Amount, Close, CommitQueue, RestoredState, SnapshotRequest, Submitted, Work};
use crate::durable::snapshot::{Outcome, Pace, SnapshotJob, SnapshotSource};
use crate::durable::spare::SpareThread;

/// A snapshot that nobody has asked for begins so long after the one before, or later. With its new files it costs a busy writer
/// more than it saves the next start, if it comes several times a second.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(1);

/// The log of a server. Owns its files, and decides when a snapshot is written: one at a time.
pub(crate) struct Log {
    storage: Storage,
    queue: Arc<CommitQueue>,
    work: mpsc::UnboundedReceiver<Work>,
    source: Arc<dyn SnapshotSource>,
    settings: LogSettings,
    /// The last transaction that was appended and not synced, and the number and bytes of all of them.
    unsynced: Option<Zxid>,
    unsynced_amount: Amount,
    /// When the turns began that submitted them, and when the log took the first, if that is measured.
    submitted: Submitted,
    taken: Option<Instant>,
    /// How often the directory was opened anew.
    generation: u64,
    /// The newest snapshot.
    snapshot: Option<Zxid>,
    running: Option<Running>,
    /// When the last one began, and the last transaction then.
    snapshot_begun: Option<(Instant, Zxid)>,
    /// Those who wait for the snapshot that is under way, and for the next one.
    current_requests: Vec<SnapshotRequest>,
    next_requests: Vec<SnapshotRequest>,
    is_cancelled: Arc<AtomicBool>,
    spare: SpareThread,
    close: Option<Close>,
    has_failed: bool,
}

/// A snapshot that is under way.
struct Running {
    outcome: oneshot::Receiver<Outcome>,
    generation: u64,
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
        (queue, work): (Arc<CommitQueue>, mpsc::UnboundedReceiver<Work>),
        source: Arc<dyn SnapshotSource>,
        settings: LogSettings,
    ) -> Self {
        let snapshot = storage.loaded_snapshot();
        Self {
            storage,
            queue,
            work,
            source,
            settings,
            unsynced: None,
            unsynced_amount: Amount::default(),
            submitted: Submitted::new(),
            taken: None,
            generation: 0,
            snapshot,
            running: None,
            snapshot_begun: None,
            current_requests: Vec::new(),
            next_requests: Vec::new(),
            is_cancelled: Arc::default(),
            spare: SpareThread::default(),
            close: None,
            has_failed: false,
        }
    }

    /// Starts it. The token `ended` is cancelled when the log has ended and its files are closed.
    pub(crate) fn start(self, ended: &CancellationToken) -> io::Result<()> {
        let guard = ended.clone().drop_guard();
        let (disk, span) = (Arc::clone(self.storage.disk()), self.settings.span.clone());
        let run = async move {
            self.run().await;
            drop(guard);
        };
        spawn(&*disk, "zoolet-log", run.instrument(span)).map(|_| ())
    }

    async fn run(mut self) {
        let mut batch = Vec::new();
        while !self.has_ended() {
            tokio::select! {
                biased;
                outcome = ended(&mut self.running) => self.end_snapshot(outcome),
                // All that there is: it is synced together. Never 0, as `self.queue` has a sender: `Work::Close` ends the loop.
                _ = self.work.recv_many(&mut batch, usize::MAX) => {}
            }
            self.handle(&mut batch);
        }
        // A snapshot that is given up may still wait for its new log file: this drops its request.
        self.queue.close(&mut self.work);
        if self.running.is_some() {
            ended(&mut self.running).await;
        }
        self.write_last().await;
    }

    /// Whether nothing is left to do. A clean end waits for a snapshot that is under way.
    fn has_ended(&self) -> bool {
        self.has_failed || self.close == Some(Close::Drop) || (self.close.is_some() && self.running.is_none())
    }

    /// Does a batch of work, and syncs once for all of its transactions.
    pub(crate) fn handle(&mut self, batch: &mut Vec<Work>) {
        for work in batch.drain(..) {
            self.do_work(work).unwrap_or_else(|error| self.fail(error));
        }
        self.commit().unwrap_or_else(|error| self.fail(error));
        if self.has_failed {
            return;
        }
        if self.settings.stop.is_cancelled() || self.close.is_some() {
            // They learn that the server has stopped. If it has by a turn that panicked, every snapshot would be given up.
            self.next_requests.clear();
        } else if self.running.is_none() && (!self.next_requests.is_empty() || self.snapshot_is_due()) {
            self.begin_snapshot();
        }
        self.spare.work(&mut self.storage, &self.is_cancelled);
    }

    fn do_work(&mut self, work: Work) -> Result<(), StorageError> {
        match work {
            // After a failure nothing is tried: it would follow a hole.
            _ if self.has_failed => {}
            Work::Txns(txns, bytes, began) => {
                if let Some(began) = began {
                    self.taken.get_or_insert_with(|| self.settings.clock.now());
                    self.submitted.push((began, txns.len() as u64));
                }
                for txn in &txns {
                    self.storage.append(txn)?;
                }
                self.unsynced = txns.last().map(|txn| txn.zxid);
                self.unsynced_amount.txns += txns.len() as u64;
                self.unsynced_amount.bytes += bytes;
            }
            Work::Roll(done) => {
                self.commit()?;
                self.storage.roll()?;
                // Nobody waits for this if the snapshot was given up.
                let _ = done.send(());
            }
            Work::Snapshot(request) => self.next_requests.push(request),
            Work::Restore(restored) => self.restore(&restored)?,
            Work::Reopen(generation, storage) => self.reopen(generation, *storage),
            Work::Close(how) => {
                self.close = self.close.max(Some(how));
                self.is_cancelled.store(self.close == Some(Close::Drop), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Writes what was appended, syncs it if commits are synced, and reports it to the queue.
    fn commit(&mut self) -> Result<(), StorageError> {
        let Some(last) = self.unsynced.take().filter(|_| !self.has_failed) else { return Ok(()) };
        let begun = self.settings.clock.now();
        self.storage.commit()?;
        let ended = self.settings.clock.now();
        let took = ended - begun;
        if took > self.settings.slow_sync {
            tracing::warn!(?took, zxid = %last, "slow sync of the transaction log");
            self.queue.count(|counts| counts.slow_syncs += 1);
        }
        let taken = self.taken.take().unwrap_or(begun);
        self.queue.advance(self.generation, last, mem::take(&mut self.unsynced_amount), |measures| {
            measures.synced(&self.submitted, taken, begun, ended);
        });
        self.submitted.clear();
        Ok(())
    }

    /// Makes another state durable than what the log leads to: at any moment a crash leaves the one or the other, as the name of the
    /// snapshot decides.
    fn restore(&mut self, restored: &RestoredState) -> Result<(), StorageError> {
        let RestoredState { spool, header, sessions, .. } = restored;
        let zxid = header.zxid;
        self.commit()?;
        self.storage.begin_restore(zxid)?;
        let published = spool.publish(&self.storage.snapshots(), header.clone(), sessions)?;
        self.storage.go_on_after(zxid)?;
        tracing::info!(%zxid, znodes = published.znodes, bytes = published.len, "state restored from a snapshot");
        self.snapshot = Some(zxid);
        self.queue.note_snapshot(zxid, self.settings.clock.wall_millis() / 1_000);
        self.queue.advance(self.generation, zxid, Amount::default(), |_| {});
        Ok(())
    }

    fn snapshot_is_due(&self) -> bool {
        let is_early = |(begun, last)| {
            // One that cannot begin is not tried again and again.
            last == self.storage.last_zxid()
                // A simulated run does not depend on time.
                || self.storage.disk().blocks() && self.settings.clock.now() - begun < SNAPSHOT_INTERVAL
        };
        self.storage.snapshot_is_due() && !self.snapshot_begun.is_some_and(is_early)
    }

    fn begin_snapshot(&mut self) {
        self.current_requests = mem::take(&mut self.next_requests);
        if let Some(zxid) = self.snapshot.filter(|zxid| *zxid == self.source.last_zxid()) {
            return self.answer(Outcome::Written(zxid));
        }
        // Also if it cannot begin: the next attempt is not made at once.
        self.note_snapshot_begun();
        let job = self.job();
        let disk = self.storage.disk();
        let pace = if disk.blocks() { Pace::Rest } else { Pace::Yield };
        match spawn(&**disk, "zoolet-snapshot", async move { job.write(pace).await }) {
            Ok(outcome) => {
                self.running = Some(Running { outcome, generation: self.generation });
            }
            Err(source) => {
                let dir = self.storage.snapshots();
                let fail = StorageError::io("start a thread to write a snapshot in", dir.path());
                self.answer(Outcome::Failed(fail(source)));
            }
        }
    }

    fn note_snapshot_begun(&mut self) {
        self.snapshot_begun = Some((self.settings.clock.now(), self.storage.last_zxid()));
    }

    fn job(&self) -> SnapshotJob {
        SnapshotJob {
            source: Arc::clone(&self.source),
            queue: Arc::clone(&self.queue),
            dir: self.storage.snapshots(),
            retain: self.settings.retain,
            generation: self.generation,
            restores: self.queue.restores(),
            is_cancelled: Arc::clone(&self.is_cancelled),
        }
    }

    /// Takes note of the end of the snapshot that was under way.
    fn end_snapshot(&mut self, outcome: Outcome) {
        // After a simulated crash it says nothing of the directory as it is now, and nobody waits for it.
        if self.running.take().is_some_and(|running| running.generation == self.generation) {
            self.answer(outcome);
        }
    }

    /// Answers those who wait for a snapshot, but for a log that fails: its end drops them. A snapshot that fails is no danger: the log
    /// has everything.
    fn answer(&mut self, outcome: Outcome) {
        let answer = match outcome {
            Outcome::Written(zxid) => {
                if self.snapshot.replace(zxid) != Some(zxid) {
                    self.queue.note_snapshot(zxid, self.settings.clock.wall_millis() / 1_000);
                    let now = self.settings.clock.now();
                    self.queue.count_snapshot(now, now - self.snapshot_begun.map_or(now, |(begun, _)| begun));
                }
                Ok(zxid)
            }
            Outcome::Failed(error) => {
                tracing::warn!(%error, "cannot write a snapshot; the log is kept");
                self.queue.count(|counts| counts.snapshot_errors += 1);
                Err(Arc::new(error))
            }
            Outcome::LogFailed(error) => return self.fail(error),
            // The tree was replaced meanwhile: they get the next one. Or the server has stopped: there is none.
            Outcome::GivenUp => return self.next_requests.append(&mut self.current_requests),
        };
        for request in self.current_requests.drain(..) {
            let _ = request.send(answer.clone());
        }
    }

    /// Writes the snapshot of a clean end.
    async fn write_last(&mut self) {
        if self.close != Some(Close::Clean) || self.has_failed {
            return;
        }
        if self.snapshot != Some(self.source.last_zxid()) {
            self.note_snapshot_begun();
            let outcome = self.job().write(Pace::AtOnce).await;
            self.answer(outcome);
        }
    }

    /// Goes on with the directory as it is after a simulated crash. A snapshot that is under way gives up by itself; until then no
    /// other one begins.
    fn reopen(&mut self, generation: u64, storage: Storage) {
        self.generation = generation;
        (self.unsynced, self.unsynced_amount) = (None, Amount::default());
        (self.submitted, self.taken) = (Submitted::new(), None);
        self.current_requests.clear();
        self.next_requests.clear();
        (self.snapshot, self.snapshot_begun) = (storage.loaded_snapshot(), None);
        self.storage = storage;
    }

    fn fail(&mut self, error: StorageError) {
        // Asked only to wait for the end of the turn under way: it may be that of a simulated crash, which ends the disk first, and
        // then opens the next directory.
        self.source.last_zxid();
        // Otherwise it was the end of that disk.
        if self.queue.generation() == self.generation {
            tracing::error!(reason = %error, "the transaction log has failed; the server stops");
            self.has_failed = true;
            self.is_cancelled.store(true, Ordering::Relaxed);
            // Before anybody learns of the failure: no turn shows what is not durable.
            self.settings.stop.cancel();
            self.queue.fail(error);
        }
    }
}

/// Waits for the end of the snapshot that is under way; for ever if there is none.
async fn ended(running: &mut Option<Running>) -> Outcome {
    match running {
        Some(running) => (&mut running.outcome).await.unwrap_or_else(|_| {
            // The job was dropped with the runtime, or has panicked.
            Outcome::Failed(StorageError::Failed("the snapshot has not come to its end".to_owned()))
        }),
        None => pending().await,
    }
}

/// Nobody waits for a log that is gone, and no server runs without one, also if it has panicked or its runtime was dropped.
impl Drop for Log {
    fn drop(&mut self) {
        self.settings.stop.cancel();
        if thread::panicking() {
            self.queue.fail(StorageError::Failed("the log has panicked".to_owned()));
        }
        self.queue.close(&mut self.work);
        // What still writes to the directory ends before that is unlocked. After a panic a snapshot may be a moment late.
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.spare.end();
    }
}
