//! [`copy`]: the data of one directory into another one, all of it or as far as a transaction.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_server_core::Tree;

use crate::disk::{DirLock, Disk};
use crate::error::{Damage, StorageError};
use crate::marks::{self, NoLog};
use crate::names::{ACCEPTED_EPOCH, CURRENT_EPOCH, Layout};
use crate::options::StorageOptions;
use crate::progress::Meter;
use crate::recovery::{self, Recovered, RecoveryReport};
use crate::snapshot::{SnapshotDir, SnapshotReader, SnapshotWriter};

/// What [`copy`] has written.
#[derive(Debug)]
#[non_exhaustive]
pub struct Copied {
    /// The snapshot that has all the data.
    pub snapshot: PathBuf,
    /// The last transaction in it.
    pub zxid: Zxid,
    /// The number of its znodes.
    pub znodes: u64,
    /// The number of its sessions.
    pub sessions: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Whether the znode `/zookeeper/config` names the members of an ensemble. Clients may connect to them.
    pub names_members: bool,
    /// How the data was found.
    pub report: RecoveryReport,
}

/// Recovers the directory `from`, which is not changed, and writes a snapshot of it into the directory `to`, which must be empty or not
/// exist. The files with the epochs of an ensemble member are copied.
///
/// With `cut_at` the copy ends after this transaction, and what comes after it may be damaged: so it repairs a directory.
/// `progress` gets the bytes that are done, and those that there are in all.
///
/// # Errors
/// [`StorageError::NotEmpty`] for `to`, [`StorageError::NoData`] for `from`. [`StorageError::Damaged`] if `from` cannot be recovered as far as
/// that, or ends before `cut_at`. Do not use `to` after an error.
pub fn copy(
    (disk, from): (&dyn Disk, &StorageOptions),
    (target, to): (&Arc<dyn Disk>, &StorageOptions),
    cut_at: Option<Zxid>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Copied, StorageError> {
    check_empty(&**target, to)?;
    let mut meter = Meter::new(progress);
    let mut source = from.clone();
    source.digests = to.digests;
    let Recovered { mut tree, sessions, report, .. } =
        recovery::read_until(disk, &source, cut_at, NoLog::Accepted, &mut meter)?;
    if let Some(cut_at) = cut_at.filter(|cut_at| report.last_zxid < *cut_at) {
        return Err(ends_early(from, report.last_zxid, cut_at).into());
    }

    let config = tree.get("/zookeeper/config").and_then(|node| node.data());
    let names_members = config.is_some_and(|config| config.starts_with(b"server."));

    let _locks = begin(&**target, to)?;
    let snapshots = SnapshotDir::new(Arc::clone(target), to);
    let header = tree.begin_snapshot();
    let mut writer = snapshots.create(header.zxid, header.digest, &sessions, header.acls)?;
    // The number of znodes is known, but not their length, so 200 bytes are assumed for each.
    let expected = 200 * tree.len() as u64;
    meter.expect(expected);
    write(&mut tree, &mut writer, &mut meter)?;
    let complete = writer.sync()?;
    copy_epochs(disk, from, &**target, to)?;
    marks::complete(&**target, &Layout::new(to), header.zxid)?;
    let published = complete.publish()?;
    let summary = SnapshotReader::open(&**target, &published.path).and_then(SnapshotReader::check)?;
    meter.finish();
    Ok(Copied {
        snapshot: published.path,
        zxid: published.zxid,
        znodes: summary.znodes,
        sessions: summary.sessions,
        len: published.len,
        names_members,
        report,
    })
}

fn write(tree: &mut Tree, writer: &mut SnapshotWriter, meter: &mut Meter<'_>) -> Result<(), StorageError> {
    let mut records = Vec::new();
    let (mut more, mut znodes) = (true, 0);
    while more {
        more = tree.next_slice(1_000, 1 << 20, &mut |record| records.push(record));
        znodes += records.len() as u64;
        for record in records.drain(..) {
            writer.add(&record)?;
        }
        meter.at(200 * znodes);
    }
    tree.end_snapshot();
    Ok(())
}

/// Refuses a directory that has data, also in the wrong place.
fn check_empty(disk: &dyn Disk, options: &StorageOptions) -> Result<(), StorageError> {
    let layout = Layout::new(options);
    layout.list(disk)?;
    for dir in layout.dirs() {
        match disk.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StorageError::io("list", dir)(error)),
            Ok(entries) if entries.is_empty() => {}
            Ok(_) => return Err(StorageError::NotEmpty(dir.to_owned())),
        }
    }
    Ok(())
}

/// Creates the directories, and locks them.
fn begin(disk: &dyn Disk, options: &StorageOptions) -> Result<Vec<DirLock>, StorageError> {
    let layout = Layout::new(options);
    let mut locks = Vec::new();
    for dir in layout.dirs() {
        disk.create_dir(dir).map_err(StorageError::io("create", dir))?;
        let lock = disk.lock(dir).map_err(StorageError::io("lock", dir))?;
        locks.push(lock.ok_or_else(|| StorageError::InUse(dir.to_owned()))?);
    }
    // Another process may have been quicker.
    check_empty(disk, options)?;
    Ok(locks)
}

fn copy_epochs(
    disk: &dyn Disk,
    from: &StorageOptions,
    target: &dyn Disk,
    to: &StorageOptions,
) -> Result<(), StorageError> {
    let (from, to) = (Layout::new(from).snapshot_dir, Layout::new(to).snapshot_dir);
    for name in [CURRENT_EPOCH, ACCEPTED_EPOCH] {
        if let Some(bytes) = read_small(disk, &from.join(name))? {
            let path = to.join(name);
            let mut file = target.create(&path).map_err(StorageError::io("create", &path))?;
            file.write_at(&bytes, 0).map_err(StorageError::io("write", &path))?;
            file.sync().map_err(StorageError::io("sync", &path))?;
        }
    }
    Ok(())
}

/// The beginning of a file; `None` if it does not exist.
fn read_small(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>, StorageError> {
    let file = match disk.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(StorageError::io("open", path))?,
    };
    let mut bytes = vec![0; 64];
    let len = file.read_at(&mut bytes, 0).map_err(StorageError::io("read", path))?;
    bytes.truncate(len);
    Ok(Some(bytes))
}

fn ends_early(from: &StorageOptions, last: Zxid, cut_at: Zxid) -> Damage {
    Damage {
        file: Layout::new(from).log_dir,
        offset: None,
        reason: format!("the last transaction is {last}, which is before {cut_at}"),
        hint: "name this one, or an earlier one",
    }
}
