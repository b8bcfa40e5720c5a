//! The names in a data directory: what is a log, a snapshot or nothing of ours, and what shows that it is the wrong directory.

use std::io;
use std::path::{Path, PathBuf};

use zoolet_proto::Zxid;

use crate::disk::files::list;
use crate::disk::{DirLock, Disk, DiskEntry};
use crate::error::{Damage, StorageError};
use crate::options::StorageOptions;
use crate::recovery::RecoveryWarning;
use crate::snapshot::SnapshotFile;

/// The subdirectory that has the files. Its name has the version of the format.
pub(crate) const VERSION_DIR: &str = "version-2";
/// The epoch in which an ensemble member took part last, and the one that it has agreed to.
pub(crate) const CURRENT_EPOCH: &str = "currentEpoch";
pub(crate) const ACCEPTED_EPOCH: &str = "acceptedEpoch";
/// Beside the directory of the log.
const INITIALIZE: &str = "initialize";

const VERSION_PREFIX: &str = "version-";
const LOG_PREFIX: &str = "log.";
const SNAPSHOT_PREFIX: &str = "snapshot.";

/// The name of the log file whose first transaction is `first`.
pub(crate) fn log(first: Zxid) -> String {
    format!("{LOG_PREFIX}{:x}", first.0)
}

/// A log file, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogFile {
    /// The file.
    pub path: PathBuf,
    /// The zxid in its name: that of its first transaction.
    pub first: Zxid,
    /// Its length in bytes, reserved room included.
    pub len: u64,
}

impl LogFile {
    /// The log files of a data directory, oldest first. None of them has been opened.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn list(disk: &dyn Disk, options: &StorageOptions) -> Result<Vec<Self>, StorageError> {
        let dir = options.log_file_dir();
        let entries = disk.list(&dir).map_err(StorageError::io("list", &dir))?;
        Ok(Self::among(&dir, &entries))
    }

    /// Those among the entries of a directory, oldest first.
    fn among(dir: &Path, entries: &[DiskEntry]) -> Vec<Self> {
        let mut files: Vec<Self> = entries.iter().filter_map(|entry| Self::of(dir, entry)).collect();
        files.sort_unstable_by(|a, b| a.first.cmp(&b.first).then_with(|| a.path.cmp(&b.path)));
        files
    }

    /// The file of this entry of a directory, if it has the name of a log. Apache ignores what follows a second dot, so a copy such as
    /// `log.1.old` would be a log as well.
    fn of(dir: &Path, entry: &DiskEntry) -> Option<Self> {
        let digits = entry.name.to_str()?.strip_prefix(LOG_PREFIX)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let first = i64::from_str_radix(digits, 16).ok().filter(|first| is_hex && *first >= 0)?;
        entry.is_file.then(|| Self { path: dir.join(&entry.name), first: Zxid(first), len: entry.len })
    }
}

/// Where the files of a data directory are.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) data_dir: PathBuf,
    /// The same one, unless the options say otherwise.
    pub(crate) log_parent: PathBuf,
    /// Of the snapshots and epochs.
    pub(crate) snapshot_dir: PathBuf,
    /// Of the log. The same one, unless the options say otherwise.
    pub(crate) log_dir: PathBuf,
}

/// What a data directory has.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Newest first.
    pub(crate) snapshots: Vec<SnapshotFile>,
    /// Oldest first.
    pub(crate) logs: Vec<LogFile>,
    /// Files with a name like that of a log or a snapshot, but not one that a server gives.
    pub(crate) foreign: Vec<PathBuf>,
    /// What a server of ours was writing when it ended.
    pub(crate) leftovers: Vec<PathBuf>,
    /// The file by which an operator allows an empty database, once.
    pub(crate) initialize: Option<PathBuf>,
    /// Whether it is that of an ensemble member.
    pub(crate) has_epochs: bool,
}

impl Listing {
    /// Sorts the entries of one of the directories by their names.
    fn take(&mut self, dir: &Path, entries: &[DiskEntry]) {
        for entry in entries {
            let path = || dir.join(&entry.name);
            let text = entry.name.to_string_lossy();
            if let Some(log) = LogFile::of(dir, entry) {
                self.logs.push(log);
            } else if text.starts_with(".zoolet-") && text.ends_with(".tmp") && !entry.is_dir {
                self.leftovers.push(path());
            } else if text.starts_with(LOG_PREFIX) {
                self.foreign.push(path());
            }
        }
    }

    /// What an operator should know of the names in it.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = RecoveryWarning> {
        let foreign = self.foreign.iter().map(|file| RecoveryWarning::ForeignName { file: file.clone() });
        let leftovers = self.leftovers.iter().map(|file| RecoveryWarning::Leftover { file: file.clone() });
        foreign.chain(leftovers)
    }
}

const WRONG_DIRECTORY: &str =
    "name the directory that has them in its subdirectory version-2, or move them there";

impl Layout {
    pub(crate) fn new(options: &StorageOptions) -> Self {
        let log_parent = options.log_dir.as_ref().unwrap_or(&options.data_dir).clone();
        Self {
            snapshot_dir: options.snapshot_dir(),
            log_dir: options.log_file_dir(),
            data_dir: options.data_dir.clone(),
            log_parent,
        }
    }

    /// Both directories, which may be one.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &Path> {
        let log_dir = self.is_split().then_some(&*self.log_dir);
        std::iter::once(&*self.snapshot_dir).chain(log_dir)
    }

    /// Locks the directories, and creates them before if `create` is set.
    pub(crate) fn lock(&self, disk: &dyn Disk, create: bool) -> Result<Vec<DirLock>, StorageError> {
        let mut locks = Vec::new();
        for dir in self.dirs() {
            if create {
                disk.create_dir(dir).map_err(StorageError::io("create", dir))?;
            }
            let lock = disk.lock(dir).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    let hint = "create it, or leave datadir.autocreate out";
                    Damage::new(dir, "there is no such directory, and datadir.autocreate is false", hint)
                        .into()
                }
                _ => StorageError::io("lock", dir)(error),
            })?;
            locks.push(lock.ok_or_else(|| StorageError::InUse(dir.to_owned()))?);
        }
        Ok(locks)
    }

    /// Whether log and snapshots have a directory each.
    pub(crate) fn is_split(&self) -> bool {
        self.snapshot_dir != self.log_dir
    }

    /// Everything in it. A directory that does not exist is an empty one.
    ///
    /// # Errors
    /// If it cannot be listed, or if the directory is one that Apache takes for an empty one though it has data.
    pub(crate) fn list(&self, disk: &dyn Disk) -> Result<Listing, StorageError> {
        let Self { snapshot_dir, log_dir, .. } = self;
        let mut listing = Listing::default();
        let entries = list(disk, snapshot_dir)?;
        refuse_what_is_no_file(snapshot_dir, &entries)?;
        // The log is here as well, unless it has a directory of its own.
        listing.take(snapshot_dir, &entries);
        listing.has_epochs =
            entries.iter().any(|entry| entry.name == CURRENT_EPOCH || entry.name == ACCEPTED_EPOCH);
        let files = SnapshotFile::among(snapshot_dir, &entries);
        let (usual, others): (Vec<_>, Vec<_>) = files.into_iter().partition(SnapshotFile::has_usual_name);
        listing.snapshots = usual;
        listing.foreign.extend(others.into_iter().map(|file| file.path));
        // A server that found neither log nor snapshot where it looks for them would begin an empty database.
        if self.is_split() {
            refuse_swapped(snapshot_dir, &entries, LOG_PREFIX, "a log in the directory of the snapshots")?;
            let entries = list(disk, log_dir)?;
            refuse_what_is_no_file(log_dir, &entries)?;
            refuse_swapped(log_dir, &entries, SNAPSHOT_PREFIX, "a snapshot in the directory of the log")?;
            listing.take(log_dir, &entries);
        }
        listing.logs.sort_unstable_by(|a, b| a.first.cmp(&b.first).then_with(|| a.path.cmp(&b.path)));
        for (one, other) in listing.logs.iter().zip(listing.logs.iter().skip(1)) {
            if one.first == other.first {
                let reason = format!("{} begins with the same transaction", one.path.display());
                return Err(Damage::new(&other.path, reason, "remove the one of them that is a copy").into());
            }
        }
        // An operator puts it beside `version-2`.
        let neighbours = list(disk, &self.log_parent)?;
        let initialize = neighbours.into_iter().find(|entry| entry.name == INITIALIZE && !entry.is_dir);
        listing.initialize = initialize.map(|entry| self.log_parent.join(entry.name));
        if listing.snapshots.is_empty() && listing.logs.is_empty() {
            self.refuse_other_place(disk, &self.data_dir)?;
            if self.is_split() {
                self.refuse_other_place(disk, &self.log_parent)?;
            }
        }
        Ok(listing)
    }

    /// As [`list`](Self::list), but it lists what it can of a directory that is damaged as a whole, and returns why.
    pub(crate) fn survey(&self, disk: &dyn Disk) -> Result<(Listing, Option<Damage>), StorageError> {
        let damage = match self.list(disk) {
            Err(StorageError::Damaged(damage)) => damage,
            listing => return Ok((listing?, None)),
        };
        let snapshots = SnapshotFile::among(&self.snapshot_dir, &list(disk, &self.snapshot_dir)?);
        let logs = LogFile::among(&self.log_dir, &list(disk, &self.log_dir)?);
        Ok((Listing { snapshots, logs, ..Listing::default() }, Some(damage)))
    }

    /// Refuses a directory without a log or a snapshot whose neighbours have some.
    fn refuse_other_place(&self, disk: &dyn Disk, dir: &Path) -> Result<(), StorageError> {
        for entry in list(disk, dir)? {
            let path = dir.join(&entry.name);
            let name = entry.name.to_string_lossy();
            let has_version = name.strip_prefix(VERSION_PREFIX).is_some_and(|version| version != "2");
            if entry.is_dir && has_version && !list(disk, &path)?.is_empty() {
                let reason = "it has the data of another version of the format, and version-2 is empty";
                let hint = "use the server that wrote it, or another directory";
                return Err(Damage::new(path, reason, hint).into());
            }
            if !entry.is_dir && (begins(&entry, LOG_PREFIX) || begins(&entry, SNAPSHOT_PREFIX)) {
                let reason = "the files are in the directory itself, and its subdirectory version-2 is empty";
                return Err(Damage::new(path, reason, WRONG_DIRECTORY).into());
            }
        }
        Ok(())
    }
}

/// Refuses a directory, a pipe or a link to nothing in the place of a log or a snapshot: whatever had this name is missing.
fn refuse_what_is_no_file(dir: &Path, entries: &[DiskEntry]) -> Result<(), StorageError> {
    for entry in entries.iter().filter(|entry| !entry.is_file) {
        let file = DiskEntry { is_file: true, ..entry.clone() };
        let is_snapshot = SnapshotFile::of(dir, &file).is_some_and(|snapshot| snapshot.has_usual_name());
        if is_snapshot || LogFile::of(dir, &file).is_some() {
            let what = if entry.is_dir {
                "it is a directory"
            } else {
                "it is a pipe, a socket, or a link to nothing"
            };
            let reason = format!("{what}, and has the name of a file of the data");
            let hint = "restore the file; if there was none, move this away";
            return Err(Damage::new(dir.join(&entry.name), reason, hint).into());
        }
    }
    Ok(())
}

fn begins(entry: &DiskEntry, prefix: &str) -> bool {
    entry.name.to_string_lossy().starts_with(prefix)
}

/// Refuses a file in the directory of the other kind.
fn refuse_swapped(dir: &Path, entries: &[DiskEntry], prefix: &str, what: &str) -> Result<(), StorageError> {
    let hint = "check whether dataDir and dataLogDir are swapped, or move the file";
    let found = entries.iter().find(|entry| begins(entry, prefix));
    found.map_or(Ok(()), |entry| Err(Damage::new(dir.join(&entry.name), what, hint).into()))
}
