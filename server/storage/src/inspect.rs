//! [`inspect`]: what the files of a data directory have.

use std::path::PathBuf;

use zoolet_proto::Zxid;
use zoolet_server_core::TxnOp;

use crate::disk::Disk;
use crate::error::{Damage, StorageError};
use crate::log::{LogEnd, LogItem, LogReader};
use crate::marks::{self, NoLog};
use crate::names::{ACCEPTED_EPOCH, CURRENT_EPOCH, Layout, LogFile};
use crate::options::StorageOptions;
use crate::progress::Meter;
use crate::recovery;
use crate::snapshot::{SnapshotFile, SnapshotReader, SnapshotSummary};

/// What each file of a data directory has. Whether they fit together is checked by [`verify`](crate::verify).
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The snapshots, those with the highest zxid first.
    pub snapshots: Vec<InspectedSnapshot>,
    /// The log files, oldest first.
    pub logs: Vec<InspectedLog>,
    /// The epoch that an ensemble member is in.
    pub current_epoch: Result<Option<i64>, StorageError>,
    /// The epoch that an ensemble member has agreed to.
    pub accepted_epoch: Result<Option<i64>, StorageError>,
    /// Files with a name similar to that of a log or a snapshot, but not one that a server gives.
    pub foreign: Vec<PathBuf>,
    /// Files that were being written when a server ended.
    pub leftovers: Vec<PathBuf>,
    /// What is wrong with the directory as a whole.
    pub damage: Option<Damage>,
}

/// A snapshot.
#[derive(Debug)]
#[non_exhaustive]
pub struct InspectedSnapshot {
    /// The file.
    pub file: SnapshotFile,
    /// What it has, or why it cannot be read.
    pub content: Result<SnapshotSummary, StorageError>,
}

/// A log file.
#[derive(Debug)]
#[non_exhaustive]
pub struct InspectedLog {
    /// The file.
    pub file: LogFile,
    /// What it has, or why it cannot be read.
    pub content: Result<LogSummary, StorageError>,
}

/// What a log file has, as far as it can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSummary {
    /// The first transaction and its time, in milliseconds since the Unix epoch.
    pub first: Option<(Zxid, i64)>,
    /// The last transaction and its time.
    pub last: Option<(Zxid, i64)>,
    /// The number of transactions.
    pub txns: u64,
    /// How many of them are refused writes.
    pub refused: u64,
    /// How many of them open a session.
    pub sessions_opened: u64,
    /// How many of them close a session.
    pub sessions_closed: u64,
    /// The bytes of the header and of all entries. The file may be longer: room is reserved.
    pub used: u64,
    /// Whether the entries say where their batch began, as those of this crate do.
    pub has_batches: bool,
    /// How it ends.
    pub end: LogEnd,
}

/// Reads all files of a data directory, and changes nothing. `progress` gets the bytes that are done, and those that there are in all.
///
/// # Errors
/// If a directory cannot be listed. Errors of single files are in [`InspectedSnapshot::content`] and [`InspectedLog::content`].
pub fn inspect(
    disk: &dyn Disk,
    options: &StorageOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Inspection, StorageError> {
    let layout = Layout::new(options);
    let (listing, damage) = layout.survey(disk)?;
    let damage = match (damage, marks::check(disk, &layout, &listing, NoLog::Accepted)) {
        // Its files are listed all the same, without those of the log.
        (None, Err(StorageError::Damaged(damage))) => Some(damage),
        (damage, _) => damage,
    };
    let mut meter = Meter::new(progress);
    meter.expect(listing.snapshots.iter().map(|file| file.len).sum());
    meter.expect(listing.logs.iter().map(|file| file.len).sum());
    let mut snapshots = Vec::new();
    for file in listing.snapshots {
        let opened = SnapshotReader::open(disk, &file.path);
        let content = opened.and_then(|reader| reader.check_with(&mut |done| meter.at(done)));
        meter.end(file.len);
        snapshots.push(InspectedSnapshot { file, content });
    }
    let mut logs = Vec::new();
    for file in listing.logs {
        let content = log(disk, &file, &mut meter);
        meter.end(file.len);
        logs.push(InspectedLog { file, content });
    }
    meter.finish();
    let epoch = |name| recovery::read_epoch(disk, layout.snapshot_dir.join(name));
    Ok(Inspection {
        snapshots,
        logs,
        current_epoch: epoch(CURRENT_EPOCH),
        accepted_epoch: epoch(ACCEPTED_EPOCH),
        foreign: listing.foreign,
        leftovers: listing.leftovers,
        damage,
    })
}

fn log(disk: &dyn Disk, file: &LogFile, meter: &mut Meter<'_>) -> Result<LogSummary, StorageError> {
    let mut reader = LogReader::open(disk, &file.path)?;
    let mut found = LogSummary {
        first: None,
        last: None,
        txns: 0,
        refused: 0,
        sessions_opened: 0,
        sessions_closed: 0,
        used: 0,
        has_batches: false,
        end: LogEnd::Clean { offset: 0 },
    };
    loop {
        match reader.next()? {
            LogItem::Entry(entry) => {
                found.last = Some((entry.txn.zxid, entry.txn.time.0));
                found.first = found.first.or(found.last);
                found.txns += 1;
                match entry.txn.op {
                    TxnOp::Error(_) => found.refused += 1,
                    TxnOp::CreateSession { .. } => found.sessions_opened += 1,
                    TxnOp::CloseSession { .. } => found.sessions_closed += 1,
                    _ => {}
                }
                found.has_batches |= entry.batch.is_some();
                meter.at(entry.offset);
            }
            LogItem::End(end) => return Ok(LogSummary { used: end.offset(), end, ..found }),
        }
    }
}
