//! [`LogWriter`]: appends transactions to the log, batch by batch.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_server_core::Txn;

use super::format::{FILE_HEADER, MAGIC, VERSION, follows};
use super::{SpareJob, SpareLog, entry};
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::names;
use crate::options::{Durability, StorageOptions};

/// How much of a batch is kept in memory before it is written.
const WRITE_AT: usize = 1 << 20;
/// Room is reserved as soon as less than this is left, as Apache does.
const MARGIN: u64 = 4096;
/// A spare file is made once this part of the room of a file is used: a server with little to write does without.
const SPARE_AFTER: u64 = 16;
/// How much the disk is given at once if commits do not sync.
const PIECE: u64 = 1 << 20;
/// The name of a log file that is not complete yet.
const TEMPORARY: &str = ".zoolet-log.tmp";

/// Writes the log.
///
/// What is appended is durable after [`LogWriter::commit`]. It must not be called again after an error, which
/// [`Storage`](crate::Storage) sees to: what is on disk is then unknown, and a write that is repeated could succeed without what came
/// before it.
#[derive(Debug)]
pub struct LogWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: StorageOptions,
    /// `None` until the next transaction.
    file: Option<OpenLog>,
    /// What the next file is made of, if it is ready.
    spare: Option<SpareLog>,
    /// Whether none was asked for since the file began.
    spare_is_due: bool,
    /// How long the file before became.
    length_before: Option<u64>,
    /// The entries that are not written yet.
    batch: Vec<u8>,
    last: Zxid,
    /// Whether the transaction after the last one of an epoch is refused. A server without an ensemble counts on into the next epoch,
    /// which nobody minds unless the directory has files that say which epoch it is.
    pub(crate) keeps_epoch: bool,
}

/// The file that is written to.
#[derive(Debug)]
struct OpenLog {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// Where the next write begins.
    end: u64,
    /// Where the batch began that is not durable yet.
    batch_start: u64,
    /// How long the file is, with the room that is reserved.
    reserved: u64,
    /// By how much more room is reserved at once.
    pre_alloc: u64,
    /// Whether something is written and not synced.
    dirty: bool,
    /// Up to where the disk was given what was written, without a sync.
    begun: u64,
}

impl LogWriter {
    /// A writer for the log in `dir`, whose last transaction is `last`. It creates a file with its first transaction.
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf, options: &StorageOptions, last: Zxid) -> Self {
        Self {
            disk,
            dir,
            options: options.clone(),
            file: None,
            spare: None,
            spare_is_due: true,
            length_before: None,
            batch: Vec::new(),
            last,
            keeps_epoch: false,
        }
    }

    /// Ends the file, and goes on after a later transaction than the last one: a snapshot of it is durable, and nothing before it is
    /// needed. What is between them is in no log, so that nobody takes an older snapshot and the log after it for the same history.
    pub fn go_on_after(&mut self, zxid: Zxid) -> Result<(), StorageError> {
        self.roll()?;
        self.last = self.last.max(zxid);
        Ok(())
    }

    /// Whether it has begun a file.
    pub(crate) fn has_begun(&self) -> bool {
        self.file.is_some() || self.length_before.is_some()
    }

    /// The last transaction.
    pub fn last_zxid(&self) -> Zxid {
        self.last
    }

    /// What makes a spare file, if it is time for one.
    pub fn spare_job(&mut self) -> Option<SpareJob> {
        let log = self.file.as_ref()?;
        let StorageOptions { durability, pre_alloc, .. } = self.options;
        let is_due = self.spare_is_due && self.spare.is_none() && log.end > pre_alloc / SPARE_AFTER;
        if !is_due || pre_alloc == 0 || durability != Durability::Sync {
            return None;
        }
        self.spare_is_due = false;
        // The files of a server are about as long as each other, unless one was ended early.
        let len = self.length_before.unwrap_or(pre_alloc / 2).max(log.end);
        let len = len.clamp(MARGIN, pre_alloc.max(MARGIN));
        Some(SpareJob::new(Arc::clone(&self.disk), self.dir.clone(), len))
    }

    /// Takes a spare file.
    pub fn put_spare(&mut self, spare: SpareLog) {
        self.spare = Some(spare);
    }

    /// Appends a transaction to the batch, and returns the bytes of its entry.
    pub fn append(&mut self, txn: &Txn) -> Result<u64, StorageError> {
        let unloggable = |reason| StorageError::Unloggable { zxid: txn.zxid, reason };
        if !follows(self.last, txn.zxid) {
            return Err(unloggable(format!("it does not follow {}", self.last)));
        }
        if self.keeps_epoch && txn.zxid.0 & 0xffff_ffff == 0 {
            return Err(unloggable(
                "the epoch has no zxid left; start the ensemble, which begins another".to_owned(),
            ));
        }
        if self.batch.len() >= WRITE_AT {
            self.write_batch()?;
        }
        let distance = match self.file.as_ref().and_then(|log| log.distance(self.batch.len())) {
            Some(distance) => distance,
            None => {
                self.begin_batch(txn.zxid)?;
                0
            }
        };
        let start = self.batch.len();
        entry::encode(txn, distance, self.options.max_entry, &mut self.batch).map_err(unloggable)?;
        self.last = txn.zxid;
        Ok((self.batch.len() - start) as u64)
    }

    /// Writes the batch, and makes it durable.
    pub fn commit(&mut self) -> Result<(), StorageError> {
        self.write_batch()?;
        let Some(log) = &mut self.file else { return Ok(()) };
        match self.options.durability {
            Durability::Sync => {
                log.sync()?;
                log.batch_start = log.end;
            }
            // The whole file is one batch: after a power loss any part of it may be missing.
            Durability::Os => log.begin_write(),
        }
        if self.options.log_size_limit.is_some_and(|limit| log.end > limit) {
            self.roll()?;
        }
        Ok(())
    }

    /// Ends the file. The next transaction begins a new one.
    pub fn roll(&mut self) -> Result<(), StorageError> {
        self.write_batch()?;
        // Even if transactions are not synced: only the last file may have a torn end.
        if let Some(mut log) = self.file.take() {
            log.sync()?;
            self.length_before = Some(log.end);
        }
        Ok(())
    }

    /// Begins a batch, and the file if there is none.
    fn begin_batch(&mut self, first: Zxid) -> Result<(), StorageError> {
        self.write_batch()?;
        let log = match &mut self.file {
            Some(log) => log,
            None => {
                let (spare, pre_alloc) = (self.spare.take(), self.options.pre_alloc);
                self.spare_is_due = true;
                self.file.insert(OpenLog::create(&*self.disk, &self.dir, first, pre_alloc, spare)?)
            }
        };
        log.sync()?;
        log.batch_start = log.end;
        Ok(())
    }

    fn write_batch(&mut self) -> Result<(), StorageError> {
        if let (Some(log), false) = (&mut self.file, self.batch.is_empty()) {
            log.write(&self.batch, &mut self.spare)?;
            self.batch.clear();
            self.batch.shrink_to(2 * WRITE_AT);
        }
        Ok(())
    }
}

impl OpenLog {
    /// Creates the file whose first transaction is `first`. It gets its name when its header is durable, and keeps it if the power
    /// is lost.
    fn create(
        disk: &dyn Disk,
        dir: &Path,
        first: Zxid,
        pre_alloc: u64,
        spare: Option<SpareLog>,
    ) -> Result<Self, StorageError> {
        let name = dir.join(names::log(first));
        match disk.open(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StorageError::io("create", &name)(error)),
            Ok(_) => return Err(StorageError::io("create", &name)(io::ErrorKind::AlreadyExists.into())),
        }
        let (temporary, file, reserved) = match spare.and_then(SpareLog::take) {
            Some(spare) => spare,
            None => {
                let temporary = dir.join(TEMPORARY);
                let file = disk.create(&temporary).map_err(StorageError::io("create", &temporary))?;
                (temporary, file, 0)
            }
        };
        let (path, batch_start) = (temporary, FILE_HEADER);
        let mut log = Self { path, file, end: 0, batch_start, reserved, pre_alloc, dirty: false, begun: 0 };
        // The last eight bytes are the id of the database, which is 0.
        let header = [MAGIC, VERSION.to_be_bytes(), [0; 4], [0; 4]].concat();
        log.write(&header, &mut None)?;
        log.sync()?;
        disk.rename(&log.path, &name).map_err(StorageError::io("rename", &log.path))?;
        disk.sync_dir(dir).map_err(StorageError::io("sync", dir))?;
        log.path = name;
        Ok(log)
    }

    /// How far after the start of the batch the next write begins, after `pending` bytes that are not written yet.
    fn distance(&self, pending: usize) -> Option<u32> {
        u32::try_from(self.end + pending as u64 - self.batch_start).ok()
    }

    fn write(&mut self, bytes: &[u8], spare: &mut Option<SpareLog>) -> Result<(), StorageError> {
        self.reserve(bytes.len() as u64, spare)?;
        self.dirty = true;
        self.file.write_at(bytes, self.end).map_err(StorageError::io("write", &self.path))?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Reserves room before it is needed, so that a sync has no length to store.
    fn reserve(&mut self, len: u64, spare: &mut Option<SpareLog>) -> Result<(), StorageError> {
        let (end, pre_alloc) = (self.end + len, self.pre_alloc);
        if pre_alloc == 0 || end + MARGIN < self.reserved {
            return Ok(());
        }
        let more = if end <= self.reserved { self.reserved + pre_alloc } else { end + pre_alloc };
        let mut reserved = self.file.reserve(more);
        if reserved.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull) && spare.is_some()
        {
            // This file needs the room now.
            *spare = None;
            reserved = self.file.reserve(more);
        }
        self.reserved = match reserved {
            Ok(()) => more,
            // A small disk may be full to the last byte before the server stops. It is asked again later.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => end + (1 << 20),
            Err(error) => return Err(StorageError::io("reserve room in", &self.path)(error)),
        };
        Ok(())
    }

    /// Gives the disk what was written, piece by piece, or a snapshot would give it all at once when it begins.
    fn begin_write(&mut self) {
        if self.end - self.begun >= PIECE {
            self.file.begin_write(self.begun, self.end - self.begun);
            self.begun = self.end;
        }
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        if self.dirty {
            self.file.sync().map_err(StorageError::io("sync", &self.path))?;
            self.dirty = false;
        }
        Ok(())
    }
}
