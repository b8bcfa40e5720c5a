//! Small files in `version-2` that tell a log which is missing from one that never was. Apache ignores them.
//!
//! A server that keeps its log elsewhere names the place beside the snapshots, and the data directory beside the log: so a log
//! directory that was not named, or whose disk is not mounted, is noticed. A copy says that its snapshot needs no log.

use std::path::Path;

use zoolet_proto::Zxid;

use crate::disk::{Disk, files};
use crate::error::{Damage, StorageError};
use crate::log::{LogItem, LogReader};
use crate::names::{Layout, Listing, LogFile};
use crate::recovery::RecoveryWarning;

/// Beside the snapshots: where the log is, if it is in another directory.
const LOG_DIR: &str = ".zoolet-log-dir";
/// Beside such a log: where its snapshots are.
const DATA_DIR: &str = ".zoolet-data-dir";
/// The zxid of a snapshot that is all of the data, with no log after it; while it is replaced, also that of the next one.
const COMPLETE: &str = ".zoolet-complete";

/// Whether a directory without a log and without a mark is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoLog {
    /// Only if it has no transaction: a server that has had one leaves a log.
    Refused,
    /// With a warning, by an operator who asks for a copy of what is there.
    Accepted,
}

/// Refuses a directory whose log is missing, as it would be served as if nothing was written since the snapshot, and a copy beside
/// the log of the directory that it replaces, which would undo the restore.
pub(crate) fn check(
    disk: &dyn Disk,
    layout: &Layout,
    listing: &Listing,
    no_log: NoLog,
) -> Result<Option<RecoveryWarning>, StorageError> {
    let Some(newest) = listing.snapshots.first() else { return Ok(None) };
    let (last, dir) = (newest.zxid, &layout.snapshot_dir);
    let marks = read(disk, &dir.join(COMPLETE))?.unwrap_or_default();
    let is_marked = |zxid: &Zxid| marks.split(' ').any(|mark| mark == zxid.to_string());
    let copied = listing.snapshots.iter().map(|snapshot| snapshot.zxid).find(is_marked);
    let is_complete = copied == Some(last);
    if let Some(end) = copied {
        // The log of the copy itself begins after it. It may be there beside the mark after a crash: see `log_has_begun`. With a newer
        // snapshot a server of ours has removed the mark. Apache leaves it.
        let is_foreign = |log: &&LogFile| log.first <= end || !is_complete && is_of_ours(disk, log);
        if let Some(foreign) = listing.logs.iter().find(is_foreign) {
            let reason = format!("it is not the log of this directory, which is a copy that ends at {end}");
            let hint = "move the files of the former directory away, or, to go on with them, remove the file .zoolet-complete beside \
                        the snapshot";
            return Err(Damage::new(&foreign.path, reason, hint).into());
        }
    }
    if is_complete || !listing.logs.is_empty() {
        return Ok(None);
    }
    // Without one, a server may have ended before it began a log.
    let has_txns = last > Zxid(0);
    if let Some(log_dir) = read(disk, &dir.join(LOG_DIR))? {
        let is_there = layout.is_split() && read(disk, &layout.log_dir.join(DATA_DIR))?.is_some();
        if is_there && !has_txns {
            return Ok(None);
        }
        let reason = format!(
            "there is no log; the last server that used {}, or the directory that it was copied from, had it in {log_dir}",
            dir.display()
        );
        let hint = "name that directory with --log-dir (dataLogDir), or, for a copy, a copy of it; check that its disk is mounted; if \
                    the log is lost, remove the file .zoolet-log-dir and copy what is left: zoolet data import DIR --to NEW";
        return Err(Damage::new(&layout.log_dir, reason, hint).into());
    }
    match no_log {
        _ if !has_txns => return Ok(None),
        NoLog::Accepted => return Ok(Some(RecoveryWarning::NoLog { last })),
        NoLog::Refused => {}
    }
    let reason = format!(
        "there is a snapshot of transaction {last}, and no log, which a server that has written leaves beside it"
    );
    let hint = "name the directory of the log with --log-dir (dataLogDir); if there is none, copy what is there: zoolet data import DIR \
                --to NEW";
    Err(Damage::new(&layout.log_dir, reason, hint).into())
}

/// Whether a server of ours wrote a log. One that cannot be read is dealt with by the recovery.
fn is_of_ours(disk: &dyn Disk, log: &LogFile) -> bool {
    let first = LogReader::open(disk, &log.path).and_then(|mut reader| reader.next());
    matches!(first, Ok(LogItem::Entry(entry)) if entry.batch.is_some())
}

/// Writes the marks of a directory that a server is about to use, and removes those that are no longer true. Without a log that has a
/// transaction the snapshot, which is of `last`, needs none until the server begins one: see [`log_has_begun`].
pub(crate) fn update(
    disk: &dyn Disk,
    layout: &Layout,
    has_log: bool,
    last: Zxid,
) -> Result<(), StorageError> {
    let (snapshots, log) = (&layout.snapshot_dir, &layout.log_dir);
    if layout.is_split() {
        // First the one by which the log is known, so that no crash leaves the other one alone.
        write(disk, log, DATA_DIR, &absolute(&layout.data_dir))?;
        write(disk, snapshots, LOG_DIR, &absolute(&layout.log_parent))?;
    } else {
        // The log was moved here.
        remove(disk, snapshots, LOG_DIR)?;
        remove(disk, snapshots, DATA_DIR)?;
    }
    match last {
        _ if has_log => remove(disk, snapshots, COMPLETE),
        Zxid(0) => Ok(()),
        last => complete(disk, snapshots, &[last]),
    }
}

/// Notes that there is a log after a snapshot that needed none. To be called before its first transaction is acknowledged: from
/// then on the snapshot alone is not all of the data.
pub(crate) fn log_has_begun(disk: &dyn Disk, snapshots: &Path) -> Result<(), StorageError> {
    remove(disk, snapshots, COMPLETE)
}

/// Marks a directory as complete with the snapshot of the last of these transactions, which is about to get its name, as it is with
/// those before.
pub(crate) fn complete(disk: &dyn Disk, snapshots: &Path, zxids: &[Zxid]) -> Result<(), StorageError> {
    let zxids: Vec<_> = zxids.iter().map(Zxid::to_string).collect();
    write(disk, snapshots, COMPLETE, &zxids.join(" "))
}

/// The next server may have another current directory.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).as_deref().unwrap_or(path).to_string_lossy().into_owned()
}

fn write(disk: &dyn Disk, dir: &Path, name: &str, text: &str) -> Result<(), StorageError> {
    let path = dir.join(name);
    if read(disk, &path)?.is_some_and(|before| before == text) {
        return Ok(());
    }
    let temporary = dir.join(format!("{name}.tmp"));
    files::write(disk, &temporary, format!("{text}\n").as_bytes())?;
    disk.rename(&temporary, &path).map_err(StorageError::io("rename", &temporary))?;
    disk.sync_dir(dir).map_err(StorageError::io("sync", dir))
}

fn remove(disk: &dyn Disk, dir: &Path, name: &str) -> Result<(), StorageError> {
    let path = dir.join(name);
    if read(disk, &path)?.is_none() {
        return Ok(());
    }
    disk.remove(&path).map_err(StorageError::io("remove", &path))?;
    disk.sync_dir(dir).map_err(StorageError::io("sync", dir))
}

/// The text in a file, without the end of its line; `None` if there is no such file.
fn read(disk: &dyn Disk, path: &Path) -> Result<Option<String>, StorageError> {
    /// No path is longer.
    const LONGEST: usize = 4096;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
    Ok(files::read(disk, path, LONGEST)?.map(text))
}
