//! Snapshots of a server that goes on serving.
//!
//! The end of a turn fixes the zxid. From then on the tree keeps what later writes change until it is copied. It is copied in
//! slices under the engine's lock, so a writer waits for one slice at most, and written under a temporary name until it is
//! complete. The log comes first: it has everything up to the zxid before the snapshot has its name, or it would have a hole if the
//! snapshot is damaged later, and has ended its file before the snapshot begins to sync, or the two syncs slow each other down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{mem, thread};

use tokio::sync::oneshot;
use tokio::task::yield_now;
use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{SnapshotHeader, ZnodeRecord};
use zoolet_storage::{CompleteSnapshot, SnapshotDir, StorageError};

use crate::durable::queue::{CommitQueue, Work};

/// How much is copied at once: a number of znodes, or of bytes of paths and data.
pub(crate) const SLICE: usize = 500;
pub(crate) const SLICE_BYTES: usize = 256 << 10;
/// After this much work its thread rests for a multiple of it while others write: their syncs wait for all that the disk was given
/// before, and they may need the processor.
const WORK: Duration = Duration::from_micros(500);
const REST: u32 = 4;
/// It rests no longer, however long the disk was busy: a server that stops waits for it.
const LONGEST_REST: Duration = Duration::from_millis(50);
/// How long it sleeps at most, so that the log can create its next file first.
const LONGEST_BEGIN: Duration = Duration::from_millis(10);

/// The state that snapshots are taken of, one at a time.
pub(crate) trait SnapshotSource: Send + Sync {
    /// Begins a snapshot between two turns, and calls `begun` before the next one. `None` if a turn has panicked, which has stopped
    /// the server: nobody may rely on the state that it has left.
    fn begin(&self, begun: Box<dyn FnOnce() + '_>) -> Option<SnapshotStart>;

    /// Passes the next [`SLICE`] of znodes on. Returns whether there are more; `None` if a turn has panicked.
    fn slice(&self, take: &mut dyn FnMut(ZnodeRecord)) -> Option<bool>;

    /// Ends the snapshot, complete or not.
    fn end(&self);

    /// The last transaction. Waits for the end of a turn that is under way.
    fn last_zxid(&self) -> Zxid;
}

/// What a snapshot begins with: the sessions are not part of the tree.
pub(crate) type SnapshotStart = (SnapshotHeader, Vec<(SessionId, i32)>);

/// A snapshot to be written.
pub(crate) struct SnapshotJob {
    pub(crate) source: Arc<dyn SnapshotSource>,
    pub(crate) queue: Arc<CommitQueue>,
    pub(crate) dir: SnapshotDir,
    /// How many snapshots are kept.
    pub(crate) retain: Option<usize>,
    /// Of the directory. If it is opened anew meanwhile, the snapshot is given up.
    pub(crate) generation: u64,
    /// How often the tree was replaced before. A snapshot of one that is replaced meanwhile is given up: it would not be whole.
    pub(crate) restores: u64,
    /// Set if it is given up.
    pub(crate) is_cancelled: Arc<AtomicBool>,
}

/// How a snapshot has ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Written(Zxid),
    GivenUp,
    Failed(StorageError),
    /// The log before it could not be synced. What is on disk of it is unknown.
    LogFailed(StorageError),
}

/// How a snapshot lets others have the processor and the disk.
pub(crate) enum Pace {
    /// On a thread: it rests.
    Rest,
    /// In a task: others run between two slices.
    Yield,
    /// After the last turn and the last commit nobody else needs them.
    AtOnce,
}

impl SnapshotJob {
    /// Writes it.
    pub(crate) async fn write(&self, pace: Pace) -> Outcome {
        self.copy(pace).await.unwrap_or_else(Outcome::Failed)
    }

    /// Copies the tree to a file.
    async fn copy(&self, pace: Pace) -> Result<Outcome, StorageError> {
        // If commits are not synced. The inner error stops the server, as what is on disk of the log is unknown; the outer does not.
        if let Err(error) = self.dir.sync_log()? {
            return Ok(Outcome::LogFailed(error));
        }
        if self.is_given_up() {
            return Ok(Outcome::GivenUp);
        }
        let (roll, rolled) = oneshot::channel();
        // Asked for before the next turn, so that the next file begins with the first transaction after the snapshot.
        let Some((header, sessions)) = self.source.begin(Box::new(|| self.queue.send(Work::Roll(roll))))
        else {
            return Ok(Outcome::GivenUp);
        };
        let copy = SnapshotCopy(&*self.source);
        let mut throttle = None;
        if !matches!(pace, Pace::AtOnce) {
            let asked = Instant::now();
            // Fails if the log ends, or the directory is opened anew, before everything up to the snapshot is durable.
            if rolled.await.is_err() {
                return Ok(Outcome::GivenUp);
            }
            if matches!(pace, Pace::Rest) {
                // The log begins its next file now, which takes it about as long as to end this one.
                thread::sleep(asked.elapsed().min(LONGEST_BEGIN));
                let (source, queue) = (&*self.source, &*self.queue);
                throttle = Some(Throttle { source, queue, begun: Instant::now(), last: header.zxid });
            }
        }
        let mut rest = || {
            if let Some(throttle) = &mut throttle {
                throttle.pause_if_due();
            }
        };
        let mut writer = self.dir.begin(header, &sessions)?;
        let mut slice = Vec::with_capacity(SLICE);
        loop {
            let more = self.source.slice(&mut |record| slice.push(record));
            // After the slice: a directory that was opened anew has no more znodes of this snapshot, which is then not whole.
            let Some(more) = more.filter(|_| !self.is_given_up()) else { return Ok(Outcome::GivenUp) };
            for record in slice.drain(..) {
                writer.add(&record)?;
            }
            if !more {
                break;
            }
            rest();
            if matches!(pace, Pace::Yield) {
                yield_now().await;
            }
        }
        drop(copy);
        let complete = writer.sync()?;
        // Older snapshots may be read before they are removed, which takes as long as to write one.
        self.publish(complete, &mut |_| rest()).map(Outcome::Written)
    }

    fn is_given_up(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
            || self.queue.generation() != self.generation
            || self.queue.restores() != self.restores
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
        if let Some(retain) = self.retain.filter(|_| !self.is_given_up()) {
            if let Err(error) = self.dir.purge_with(retain, progress) {
                tracing::warn!(%error, "cannot remove old snapshots and logs");
            }
        }
        Ok(zxid)
    }
}

/// The tree being copied. It keeps what changes meanwhile until this is dropped.
pub(crate) struct SnapshotCopy<'s>(pub(crate) &'s dyn SnapshotSource);

impl Drop for SnapshotCopy<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Lets others have the processor and the disk again and again.
struct Throttle<'j> {
    source: &'j dyn SnapshotSource,
    queue: &'j CommitQueue,
    /// When it last rested.
    begun: Instant,
    /// The last transaction then.
    last: Zxid,
}

impl Throttle<'_> {
    fn pause_if_due(&mut self) {
        let worked = self.begun.elapsed();
        if worked < WORK {
            return;
        }
        let now = self.source.last_zxid();
        if mem::replace(&mut self.last, now) != now {
            let rest = (worked * REST).min(LONGEST_REST);
            thread::sleep(rest);
            self.queue.count(|counts| counts.snapshot_rest_ms += rest.as_secs_f64() * 1_000.0);
        }
        self.begun = Instant::now();
    }
}
