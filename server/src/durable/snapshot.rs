//! Snapshots of a server that goes on serving.
//!
//! The end of a turn fixes the zxid. From then on the tree keeps what later writes change until it is copied. It is copied in
//! slices under the engine's lock, so a writer waits for one slice at most, and written under a temporary name. It takes its own
//! name when the log has everything up to its zxid: the log must not have a hole if the snapshot is damaged later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::{io, thread};

use tokio::sync::oneshot;
use tokio::task::yield_now;
use zoolet_proto::Zxid;
use zoolet_server_core::ZnodeRecord;
use zoolet_storage::{CompleteSnapshot, SnapshotDir, SnapshotWriter, StorageError};

use crate::durable::queue::CommitQueue;
use crate::engine::{Engine, locked};

/// How much is copied at once: so many znodes, or so many bytes of paths and data.
const SLICE: usize = 500;
const SLICE_BYTES: usize = 256 << 10;

/// A snapshot to be written.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) engine: Arc<Mutex<Engine>>,
    pub(crate) queue: Arc<CommitQueue>,
    pub(crate) dir: SnapshotDir,
    /// How many snapshots are kept.
    pub(crate) retain: Option<usize>,
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

/// The tree being copied. It keeps what changes meanwhile until this is dropped.
struct Copy<'j> {
    job: &'j Job,
    writer: Option<SnapshotWriter>,
    slice: Vec<ZnodeRecord>,
}

impl Job {
    /// Starts it on a thread of its own.
    pub(crate) fn spawn(self) -> io::Result<Running> {
        let span = tracing::Span::current();
        let run = move || {
            let outcome = span.in_scope(|| self.write());
            self.queue.end_snapshot(outcome.transpose());
        };
        Ok(Running::Thread(thread::Builder::new().name("zoolet-snapshot".to_owned()).spawn(run)?))
    }

    /// Starts it as a task, which lets others run between two slices.
    pub(crate) fn spawn_task(self) -> Running {
        Running::Task(tokio::spawn(async move {
            let outcome = self.write_in_task().await;
            self.queue.end_snapshot(outcome.transpose());
        }))
    }

    fn write(&self) -> Result<Option<Zxid>, StorageError> {
        let (mut copy, rolled) = self.begin()?;
        while copy.next_slice()? {}
        let Some(complete) = copy.finish()? else { return Ok(None) };
        match rolled.blocking_recv() {
            Ok(()) => self.publish(complete).map(Some),
            Err(_) => Ok(None),
        }
    }

    async fn write_in_task(&self) -> Result<Option<Zxid>, StorageError> {
        let (mut copy, rolled) = self.begin()?;
        while copy.next_slice()? {
            yield_now().await;
        }
        let Some(complete) = copy.finish()? else { return Ok(None) };
        match rolled.await {
            Ok(()) => self.publish(complete).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Writes it at once, after the last turn and the last commit.
    pub(crate) fn write_last(&self) -> Result<Option<Zxid>, StorageError> {
        let (mut copy, _) = self.begin()?;
        while copy.next_slice()? {}
        let Some(complete) = copy.finish()? else { return Ok(None) };
        self.publish(complete).map(Some)
    }

    /// Fixes the zxid, and asks for a new log file after it.
    fn begin(&self) -> Result<(Copy<'_>, oneshot::Receiver<()>), StorageError> {
        let (header, sessions, rolled) = {
            let mut engine = locked(&self.engine);
            if engine.in_turn {
                // It has panicked, and left a state that nobody may rely on.
                self.is_cancelled.store(true, Ordering::Relaxed);
            }
            let (header, sessions) = engine.bus.machine_mut().begin_snapshot();
            let rolled = self.queue.roll(header.zxid);
            (header, sessions, rolled)
        };
        let mut copy = Copy { job: self, writer: None, slice: Vec::with_capacity(SLICE) };
        copy.writer = Some(self.dir.create(header.zxid, header.digest, &sessions, header.acls)?);
        Ok((copy, rolled))
    }

    fn publish(&self, complete: CompleteSnapshot) -> Result<Zxid, StorageError> {
        let published = complete.publish()?;
        let zxid = published.zxid;
        tracing::info!(%zxid, znodes = published.znodes, bytes = published.len, "snapshot written");
        if let Some(retain) = self.retain {
            if let Err(error) = self.dir.purge(retain) {
                tracing::warn!(%error, "cannot remove old snapshots and logs");
            }
        }
        Ok(zxid)
    }
}

impl Copy<'_> {
    /// Copies the next znodes. Returns whether there are more.
    fn next_slice(&mut self) -> Result<bool, StorageError> {
        let slice = &mut self.slice;
        let more = locked(&self.job.engine)
            .bus
            .machine_mut()
            .next_slice(SLICE, SLICE_BYTES, &mut |record| slice.push(record));
        let writer = self.writer.as_mut().filter(|_| !self.job.is_cancelled.load(Ordering::Relaxed));
        let Some(writer) = writer else { return Ok(false) };
        for record in self.slice.drain(..) {
            writer.add(&record)?;
        }
        Ok(more)
    }

    /// Makes what was written durable, under its temporary name. `None` if it was given up.
    fn finish(&mut self) -> Result<Option<CompleteSnapshot>, StorageError> {
        let writer = self.writer.take().filter(|_| !self.job.is_cancelled.load(Ordering::Relaxed));
        writer.map(SnapshotWriter::sync).transpose()
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        locked(&self.job.engine).bus.machine_mut().end_snapshot();
    }
}
