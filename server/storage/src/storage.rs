//! [`Storage`]: a data directory that is open.

use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_server_core::Txn;

use crate::disk::{DirLock, Disk};
use crate::error::StorageError;
use crate::log::{LogWriter, SpareJob, SpareLog};
use crate::marks;
use crate::names::Layout;
use crate::options::StorageOptions;
use crate::recovery::RecoveryReport;
use crate::snapshot::SnapshotDir;

/// How many log files may follow the newest snapshot when a directory is opened. Each start begins one, so a server that is killed
/// again and again before it has logged enough for a snapshot would leave one file a time.
const MAX_LOG_FILES: usize = 3;

/// A data directory that is open, and locked until this is dropped.
///
/// [`append`](Self::append) every transaction in order; after [`commit`](Self::commit) all of them are durable. After the first
/// error every call fails: see [`StorageError::Failed`].
#[derive(Debug)]
pub struct Storage {
    disk: Arc<dyn Disk>,
    log: LogWriter,
    snapshots: SnapshotDir,
    snapshot_after_txns: u64,
    snapshot_after_bytes: Option<u64>,
    /// Since the last snapshot began.
    txns: u64,
    bytes: u64,
    /// Whether the log since the snapshot that was loaded is in many files.
    is_scattered: bool,
    loaded_snapshot: Option<Zxid>,
    /// Whether there is a log. Until then a snapshot may be marked as all of the data.
    pub(crate) has_log: bool,
    failure: Option<String>,
    _locks: Vec<DirLock>,
}

impl Storage {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        options: &StorageOptions,
        layout: &Layout,
        has_epochs: bool,
        snapshots: SnapshotDir,
        report: &RecoveryReport,
        locks: Vec<DirLock>,
    ) -> Self {
        let mut log = LogWriter::new(Arc::clone(&disk), layout.log_dir.clone(), options, report.last_zxid);
        log.keeps_epoch = has_epochs;
        Self {
            disk,
            log,
            snapshots,
            snapshot_after_txns: options.snapshot_after_txns,
            snapshot_after_bytes: options.snapshot_after_bytes,
            txns: report.replayed,
            bytes: report.replayed_bytes,
            is_scattered: report.replayed > 0 && report.log_files > MAX_LOG_FILES,
            loaded_snapshot: report.snapshot.as_ref().map(|(_, zxid)| *zxid),
            has_log: true,
            failure: None,
            _locks: locks,
        }
    }

    /// Appends a transaction, which follows the one before. It may be on disk or not until [`commit`](Self::commit).
    ///
    /// # Errors
    /// If it cannot be written, or has no place in the log.
    pub fn append(&mut self, txn: &Txn) -> Result<(), StorageError> {
        self.bytes += self.unless_failed(|storage| storage.log.append(txn))?;
        self.txns += 1;
        Ok(())
    }

    /// Makes everything that was appended as durable as the options ask for.
    ///
    /// # Errors
    /// If it cannot be written or synced. It may be on disk in part.
    pub fn commit(&mut self) -> Result<(), StorageError> {
        self.unless_failed(|storage| {
            storage.log.commit()?;
            storage.note_begun_log()
        })
    }

    /// Takes the mark away that no log is needed, if there is a log now.
    fn note_begun_log(&mut self) -> Result<(), StorageError> {
        if !self.has_log && self.log.has_begun() {
            marks::log_has_begun(&*self.disk, self.snapshots.path())?;
            self.has_log = true;
        }
        Ok(())
    }

    /// Prepares for a snapshot of this transaction, which replaces everything: see [`SnapshotSpool`](crate::SnapshotSpool). To be called
    /// before it is published, and [`go_on_after`](Self::go_on_after) then. A crash at any moment leaves the one state or the other.
    ///
    /// # Errors
    /// As [`roll`](Self::roll).
    pub fn begin_restore(&mut self, zxid: Zxid) -> Result<(), StorageError> {
        self.roll()?;
        if self.has_log {
            return Ok(());
        }
        // No log comes with the snapshot, and it needs none.
        self.unless_failed(|Self { disk, snapshots, log, .. }| {
            marks::complete(&**disk, snapshots.path(), &[log.last_zxid(), zxid])
        })
    }

    /// Goes on after the transaction of a snapshot that is durable, for which [`begin_restore`](Self::begin_restore) has prepared.
    ///
    /// # Errors
    /// If what was appended before cannot be written or synced.
    pub fn go_on_after(&mut self, zxid: Zxid) -> Result<(), StorageError> {
        self.unless_failed(|storage| storage.log.go_on_after(zxid))
    }

    /// Whether the directory is that of an ensemble member: its zxids must stay in their epoch.
    pub fn keeps_epoch(&self) -> bool {
        self.log.keeps_epoch
    }

    /// The last transaction appended, or recovered if none was.
    pub fn last_zxid(&self) -> Zxid {
        self.log.last_zxid()
    }

    /// Whether the options ask for a snapshot, as enough was logged since the last [`roll`](Self::roll), or the log that was found was
    /// in many files.
    pub fn snapshot_is_due(&self) -> bool {
        self.is_scattered
            || self.txns >= self.snapshot_after_txns
            || self.snapshot_after_bytes.is_some_and(|bytes| self.bytes >= bytes)
    }

    /// Commits, and ends the log file: the next transaction begins a new one. To be called when a snapshot begins, between the last
    /// transaction in it and the next one, so that older files can be removed some day.
    ///
    /// # Errors
    /// As [`commit`](Self::commit). It syncs even if the options say not to.
    pub fn roll(&mut self) -> Result<(), StorageError> {
        self.unless_failed(|storage| {
            storage.log.roll()?;
            storage.note_begun_log()
        })?;
        (self.txns, self.bytes, self.is_scattered) = (0, 0, false);
        Ok(())
    }

    /// What makes the next log file ready, if it is time for that. Syncs are faster in such a file.
    pub fn spare_job(&mut self) -> Option<SpareJob> {
        if self.failure.is_some() { None } else { self.log.spare_job() }
    }

    /// Takes the file that a job has made, for the time after the next [`roll`](Self::roll).
    pub fn put_spare(&mut self, spare: SpareLog) {
        self.log.put_spare(spare);
    }

    /// The snapshot that was loaded when the directory was opened.
    pub fn loaded_snapshot(&self) -> Option<Zxid> {
        self.loaded_snapshot
    }

    /// The disk that it is on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The snapshots of the directory.
    pub fn snapshots(&self) -> SnapshotDir {
        self.snapshots.clone()
    }

    fn unless_failed<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        if let Some(reason) = &self.failure {
            return Err(StorageError::Failed(reason.clone()));
        }
        run(self).inspect_err(|error| self.failure = Some(error.to_string()))
    }
}
