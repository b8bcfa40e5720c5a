//! [`SnapshotDir`]: where a server creates snapshots, and removes old ones.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::SnapshotHeader;

use super::{SnapshotFile, SnapshotReader, SnapshotWriter};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::names::{self, LogFile};
use crate::options::{Durability, StorageOptions};

/// The snapshots of a data directory. Clones are the same directory; a snapshot may be written by another thread than the log.
#[derive(Debug, Clone)]
pub struct SnapshotDir {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: StorageOptions,
    valid: ValidSnapshots,
}

/// Snapshots that are known to be valid, because they were written or read here.
#[derive(Debug, Clone, Default)]
pub(super) struct ValidSnapshots(Arc<Mutex<HashSet<PathBuf>>>);

impl ValidSnapshots {
    pub(super) fn add(&self, path: &Path) {
        self.with(|paths| paths.insert(path.to_owned()));
    }

    fn with<T>(&self, action: impl FnOnce(&mut HashSet<PathBuf>) -> T) -> T {
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What [`SnapshotDir::purge`] has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purged {
    /// The zxid of the oldest valid snapshot that is kept. The log from there on is kept as well.
    pub oldest: Option<Zxid>,
    /// The files that were removed.
    pub removed: Vec<PathBuf>,
    /// Snapshots that are not valid, so they are not counted.
    pub damaged: Vec<PathBuf>,
}

impl SnapshotDir {
    /// The snapshots of a data directory. The directory must exist.
    pub fn new(disk: Arc<dyn Disk>, options: &StorageOptions) -> Self {
        Self { disk, dir: options.snapshot_dir(), options: options.clone(), valid: ValidSnapshots::default() }
    }

    /// The directory of the snapshots, `version-2`.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The snapshots, those with the highest zxid first. None of them has been opened.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn list(&self) -> Result<Vec<SnapshotFile>, StorageError> {
        let entries = self.disk.list(&self.dir).map_err(StorageError::io("list", &self.dir))?;
        Ok(SnapshotFile::among(&self.dir, &entries))
    }

    /// Syncs the log if its commits do not. To be called before [`Storage::roll`](crate::Storage::roll), which does it too, but while
    /// writers wait: it then has little left to sync.
    ///
    /// # Errors
    /// If the log cannot be listed or opened, which changes nothing. The inner error is that of the sync: what is on disk is unknown then.
    pub fn sync_log(&self) -> Result<Result<(), StorageError>, StorageError> {
        if self.options.durability == Durability::Sync {
            return Ok(Ok(()));
        }
        let Some(log) = LogFile::list(&*self.disk, &self.options)?.pop() else { return Ok(Ok(())) };
        let mut file = self.disk.open(&log.path).map_err(StorageError::io("open", &log.path))?;
        Ok(file.sync().map_err(StorageError::io("sync", &log.path)))
    }

    /// Begins a snapshot of a tree of which this is the header. Without a digest the snapshot has no section of the last zxid
    /// either.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn begin(
        &self,
        header: SnapshotHeader,
        sessions: &[(SessionId, i32)],
    ) -> Result<SnapshotWriter, StorageError> {
        let (disk, valid) = (Arc::clone(&self.disk), self.valid.clone());
        SnapshotWriter::create((disk, valid), &self.dir, &self.options, sessions, header)
    }

    /// Takes a snapshot as valid that was read to its end.
    pub(crate) fn add_valid(&self, path: &Path) {
        self.valid.add(path);
    }

    /// Keeps the `retain` newest valid snapshots, at least one, and the log from the oldest of them on. Removes older snapshots
    /// and log files.
    ///
    /// A snapshot is valid if all of it can be read; one that cannot is not counted. If none is valid, nothing is removed. Each is
    /// read once: what was loaded at the start, or published or found valid through this value or a clone of it, is not read again.
    /// Other files are left alone, copies such as `snapshot.28.bak` included.
    ///
    /// # Errors
    /// If a directory cannot be listed, a snapshot not be read, or a file not be removed.
    pub fn purge(&self, retain: usize) -> Result<Purged, StorageError> {
        self.purge_with(retain, &mut |_| {})
    }

    /// As [`purge`](Self::purge), and reports how many bytes of a snapshot are read, after each of its znodes.
    ///
    /// # Errors
    /// As [`purge`](Self::purge).
    pub fn purge_with(&self, retain: usize, progress: &mut dyn FnMut(u64)) -> Result<Purged, StorageError> {
        let mut purged = Purged::default();
        let snapshots = self.list()?;
        let mut kept = Vec::new();
        for snapshot in snapshots.iter().filter(|snapshot| snapshot.has_usual_name()) {
            if kept.len() == retain.max(1) {
                break;
            }
            // Two files with the same zxid count as one snapshot.
            if kept.last() != Some(&snapshot.zxid) && self.is_valid(snapshot, &mut purged, progress)? {
                kept.push(snapshot.zxid);
            }
        }
        let Some(&oldest) = kept.last() else { return Ok(purged) };
        purged.oldest = Some(oldest);
        let old =
            snapshots.into_iter().filter(|snapshot| snapshot.zxid < oldest && snapshot.has_usual_name());
        self.remove(&self.dir, old.map(|snapshot| snapshot.path), &mut purged)?;
        let logs = LogFile::list(&*self.disk, &self.options)?;
        // The last log file that begins before the snapshot may continue after it.
        let needed = logs.iter().map(|log| log.first).filter(|first| *first <= oldest).max();
        let old = logs.into_iter().filter(|log| {
            let is_usual = log.path.file_name() == Some(names::log(log.first).as_ref());
            is_usual && needed.is_some_and(|needed| log.first < needed)
        });
        self.remove(&self.options.log_file_dir(), old.map(|log| log.path), &mut purged)?;
        Ok(purged)
    }

    fn is_valid(
        &self,
        snapshot: &SnapshotFile,
        purged: &mut Purged,
        progress: &mut dyn FnMut(u64),
    ) -> Result<bool, StorageError> {
        if self.valid.with(|paths| paths.contains(&snapshot.path)) {
            return Ok(true);
        }
        let is_valid = SnapshotReader::validate(&*self.disk, &snapshot.path, progress)?.is_some();
        if is_valid {
            self.valid.add(&snapshot.path);
        } else {
            purged.damaged.push(snapshot.path.clone());
        }
        Ok(is_valid)
    }

    fn remove(
        &self,
        dir: &Path,
        paths: impl Iterator<Item = PathBuf>,
        purged: &mut Purged,
    ) -> Result<(), StorageError> {
        let before = purged.removed.len();
        for path in paths {
            self.valid.with(|paths| paths.remove(&path));
            self.disk.remove(&path).map_err(StorageError::io("remove", &path))?;
            purged.removed.push(path);
        }
        if purged.removed.len() > before {
            self.disk.sync_dir(dir).map_err(StorageError::io("sync", dir))?;
        }
        Ok(())
    }
}
