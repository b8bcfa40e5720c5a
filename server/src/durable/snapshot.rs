//! Snapshots of a server that goes on serving.
//!
//! The end of a turn fixes the zxid. From then on the tree keeps what later writes change until it is copied. It is copied in
//! slices under the engine's lock, so a writer waits for one slice at most, and written under a temporary name until it is
//! complete. The log comes first: it has everything up to the zxid before the snapshot has its name, or it would have a hole if the
//! snapshot is damaged later, and has ended its file before the snapshot begins to sync: otherwise each waits for the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, mem, thread};

use tokio::sync::oneshot;
use tokio::task::yield_now;
use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{SnapshotHeader, ZnodeRecord};
use zoolet_storage::{CompleteSnapshot, SnapshotDir, SnapshotWriter, StorageError};

use crate::durable::queue::CommitQueue;
use crate::engine::{Engine, locked};

/// How much is copied at once: so many znodes, or so many bytes of paths and data.
const SLICE: usize = 500;
const SLICE_BYTES: usize = 256 << 10;
/// After so much work its thread rests for a multiple of it while others write: their syncs wait for all that the disk was given
/// before, and they may need the processor.
const WORK: Duration = Duration::from_micros(500);
const REST: u32 = 4;
/// How long it waits at most until the log has begun its next file.
const LONGEST_BEGIN: Duration = Duration::from_millis(10);

/// A snapshot to be written.
pub(crate) struct Job {
    pub(crate) engine: Arc<Mutex<Engine>>,
    pub(crate) queue: Arc<CommitQueue>,
    pub(crate) dir: SnapshotDir,
    /// How many snapshots are kept.
    pub(crate) retain: Option<usize>,
    /// How often the directory was opened anew before: after another time this is about nothing.
    pub(crate) opened: u64,
    /// Set if it is given up.
    pub(crate) is_cancelled: Arc<AtomicBool>,
}

/// What has become of it: its zxid, or why there is none; `None` if it was given up.
pub(crate) type Outcome = Option<Result<Zxid, StorageError>>;

/// A job that is under way.
pub(crate) enum Running {
    Thread(thread::JoinHandle<()>),
    Task(tokio::task::JoinHandle<()>),
}

/// Reports the end of a job, also by a panic: the log waits for it.
struct Report {
    queue: Arc<CommitQueue>,
    opened: u64,
    outcome: Outcome,
}

impl Report {
    fn new(job: &Job) -> Self {
        Self { queue: Arc::clone(&job.queue), opened: job.opened, outcome: None }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.queue.end_snapshot(self.opened, self.outcome.take());
    }
}

/// What a snapshot begins with: the sessions are not part of the tree.
type Head = (SnapshotHeader, Vec<(SessionId, i32)>);

/// The tree being copied. It keeps what changes meanwhile until this is dropped.
struct Copy<'j> {
    job: &'j Job,
    writer: Option<SnapshotWriter>,
    slice: Vec<ZnodeRecord>,
}

/// Lets others have the processor and the disk again and again.
struct Pace<'j> {
    engine: &'j Mutex<Engine>,
    /// When it last rested.
    begun: Instant,
    /// The last transaction then.
    last: Zxid,
}

impl Job {
    /// Starts it on a thread of its own.
    pub(crate) fn spawn(self) -> io::Result<Running> {
        let span = tracing::Span::current();
        let run = move || {
            let mut report = Report::new(&self);
            report.outcome = span.in_scope(|| self.write()).transpose();
        };
        Ok(Running::Thread(thread::Builder::new().name("zoolet-snapshot".to_owned()).spawn(run)?))
    }

    /// Starts it as a task, which lets others run between two slices.
    pub(crate) fn spawn_task(self) -> Running {
        Running::Task(tokio::spawn(async move {
            let mut report = Report::new(&self);
            report.outcome = self.write_in_task().await.transpose();
        }))
    }

    pub(super) fn write(&self) -> Result<Option<Zxid>, StorageError> {
        let Some((mut copy, head, rolled)) = self.begin()? else { return Ok(None) };
        let asked = Instant::now();
        if rolled.blocking_recv().is_err() {
            return Ok(None);
        }
        // The log begins its next file now, which takes it about as long as to end this one.
        thread::sleep(asked.elapsed().min(LONGEST_BEGIN));
        let mut pace = Pace { engine: &self.engine, begun: Instant::now(), last: head.0.zxid };
        copy.create(head)?;
        while copy.next_slice()? {
            pace.keep();
        }
        let Some(complete) = copy.finish()? else { return Ok(None) };
        self.publish(complete, &mut |_| pace.keep()).map(Some)
    }

    pub(super) async fn write_in_task(&self) -> Result<Option<Zxid>, StorageError> {
        let Some((mut copy, head, rolled)) = self.begin()? else { return Ok(None) };
        if rolled.await.is_err() {
            return Ok(None);
        }
        copy.create(head)?;
        while copy.next_slice()? {
            yield_now().await;
        }
        let Some(complete) = copy.finish()? else { return Ok(None) };
        self.publish(complete, &mut |_| {}).map(Some)
    }

    /// Writes it at once, after the last turn and the last commit.
    pub(crate) fn write_last(&self) -> Result<Option<Zxid>, StorageError> {
        let Some((mut copy, head, _)) = self.begin()? else { return Ok(None) };
        copy.create(head)?;
        while copy.next_slice()? {}
        let Some(complete) = copy.finish()? else { return Ok(None) };
        self.publish(complete, &mut |_| {}).map(Some)
    }

    /// Fixes the zxid, and asks for a new log file after it. `None` if it is given up.
    fn begin(&self) -> Result<Option<(Copy<'_>, Head, oneshot::Receiver<()>)>, StorageError> {
        if let Err(error) = self.dir.sync_log() {
            self.queue.end_failed(self.opened, error);
            return Ok(None);
        }
        let (head, rolled) = {
            let mut engine = locked(&self.engine);
            // A turn that has panicked leaves a state that nobody may rely on.
            if engine.in_turn || self.is_given_up() {
                return Ok(None);
            }
            let head = engine.bus.machine_mut().begin_snapshot();
            let rolled = self.queue.roll(head.0.zxid);
            (head, rolled)
        };
        let copy = Copy { job: self, writer: None, slice: Vec::with_capacity(SLICE) };
        Ok(Some((copy, head, rolled)))
    }

    fn is_given_up(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed) || self.queue.opened() != self.opened
    }

    /// Gives it its name, and removes old files. `progress` is called again and again while older snapshots are read.
    fn publish(
        &self,
        complete: CompleteSnapshot,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Zxid, StorageError> {
        let published = complete.publish()?;
        let zxid = published.zxid;
        tracing::info!(%zxid, znodes = published.znodes, bytes = published.len, "snapshot written");
        if let Some(retain) = self.retain {
            if let Err(error) = self.dir.purge_with(retain, progress) {
                tracing::warn!(%error, "cannot remove old snapshots and logs");
            }
        }
        Ok(zxid)
    }
}

impl Copy<'_> {
    /// Creates its file.
    fn create(&mut self, (header, sessions): Head) -> Result<(), StorageError> {
        self.writer = Some(self.job.dir.create(header.zxid, header.digest, &sessions, header.acls)?);
        Ok(())
    }

    /// Copies the next znodes. Returns whether there are more.
    fn next_slice(&mut self) -> Result<bool, StorageError> {
        let Self { job, writer: Some(writer), slice } = self else {
            return Ok(false);
        };
        let more = {
            let mut engine = locked(&job.engine);
            if job.is_given_up() {
                return Ok(false);
            }
            engine.bus.machine_mut().next_slice(SLICE, SLICE_BYTES, &mut |record| slice.push(record))
        };
        for record in slice.drain(..) {
            writer.add(&record)?;
        }
        Ok(more)
    }

    /// Makes what was written durable, under its temporary name. `None` if it was given up.
    fn finish(&mut self) -> Result<Option<CompleteSnapshot>, StorageError> {
        let writer = self.writer.take().filter(|_| !self.job.is_given_up());
        writer.map(SnapshotWriter::sync).transpose()
    }
}

impl Pace<'_> {
    fn keep(&mut self) {
        let worked = self.begun.elapsed();
        if worked < WORK {
            return;
        }
        let now = locked(self.engine).bus.core().tree().last_zxid();
        if mem::replace(&mut self.last, now) != now {
            thread::sleep(worked * REST);
        }
        self.begun = Instant::now();
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        let mut engine = locked(&self.job.engine);
        // Otherwise it is the state machine of another directory.
        if self.job.queue.opened() == self.job.opened {
            engine.bus.machine_mut().end_snapshot();
        }
    }
}
