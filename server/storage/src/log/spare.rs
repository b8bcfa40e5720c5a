//! [`SpareJob`]: makes the next log file ready before it is needed.
//!
//! A sync of blocks that were never written has to store first that they are now, which takes as long again as the sync itself. So
//! the room of a file is filled with zeros, beside the writer and apart from its file, as a sync waits for all that a file was given.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::disk::{Disk, DiskFile};

/// Its name until it is used.
const NAME: &str = ".zoolet-log-next.tmp";
/// So much is written between two syncs: a sync of the log waits for what the disk was given before.
const PIECE: u64 = 256 << 10;

/// Makes a file of zeros. To be run on another thread than the log's.
#[derive(Debug)]
pub struct SpareJob {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    len: u64,
}

/// A file of zeros, all of them written. It is removed unless it is used.
#[derive(Debug)]
pub struct SpareLog {
    job: SpareJob,
    file: Option<Box<dyn DiskFile>>,
}

impl SpareJob {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: PathBuf, len: u64) -> Self {
        Self { disk, path: dir.join(NAME), len }
    }

    /// Makes the file. `None` if it is cancelled, or if there is no room for it: the log does without.
    pub fn run(self, is_cancelled: &AtomicBool) -> Option<SpareLog> {
        let file = self.disk.create(&self.path).ok()?;
        let mut spare = SpareLog { job: self, file: Some(file) };
        spare.fill(is_cancelled).then_some(spare)
    }
}

impl SpareLog {
    /// Whether all of it is written.
    fn fill(&mut self, is_cancelled: &AtomicBool) -> bool {
        let Self { job: SpareJob { len, .. }, file: Some(file) } = self else { return false };
        let zeros = vec![0; PIECE as usize];
        let mut at = 0;
        // All the room first, so that it is in one piece.
        let mut result = file.reserve(*len);
        while at < *len && result.is_ok() && !is_cancelled.load(Ordering::Relaxed) {
            let piece = PIECE.min(*len - at);
            result = file.write_at(&zeros[..piece as usize], at).and_then(|()| file.sync());
            at += piece;
        }
        at >= *len && result.is_ok()
    }

    /// Its path, the file, and its length, for a log file that takes its place.
    pub(super) fn take(mut self) -> Option<(PathBuf, Box<dyn DiskFile>, u64)> {
        self.file.take().map(|file| (self.job.path.clone(), file, self.job.len))
    }
}

impl Drop for SpareLog {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Otherwise the next start does. Its room is free once the directory is synced.
            let SpareJob { disk, path, .. } = &self.job;
            let _ = disk.remove(path).and_then(|()| disk.sync_dir(path.parent().unwrap_or(path)));
        }
    }
}
