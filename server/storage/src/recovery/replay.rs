//! [`Replay`]: applies the log to the state of a snapshot, and checks that nothing is missing in it.

use std::path::{Path, PathBuf};

use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{SessionTable, TxnOp};

use super::Recovery;
use super::base::Base;
use super::report::{Cut, RecoveryReport, RecoveryWarning};
use crate::error::{Damage, StorageError};
use crate::log::{Fault, LogEnd, LogEntry, LogItem, LogReader, follows};
use crate::names::LogFile;

pub(crate) const RESTORE: &str = "restore the file, or copy what comes before this place, up to the transaction that `zoolet data verify DIR` names: \
     zoolet data repair DIR --cut-at ZXID --to NEW";

/// The state as it is replayed.
#[derive(Debug)]
pub(super) struct Replay {
    /// Tree and sessions, after [`last`](Self::last); the rest is as of the snapshot.
    pub(super) state: Base,
    pub(super) highest_session: Option<SessionId>,
    /// The last transaction that is applied.
    pub(super) last: Zxid,
    /// The first difference between the digests of tree and log, and how many there are.
    wrong_digests: Option<(Zxid, u64)>,
    pub(super) repairs: Repairs,
}

/// What an open to write does to the files.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// The end of this file is cut off.
    pub(super) cut: Option<(PathBuf, u64)>,
    /// These have no transaction.
    empty: Vec<LogFile>,
    /// These files are removed.
    pub(super) remove: Vec<PathBuf>,
    /// These are synced: they have transactions that may be in no more than the page cache.
    pub(super) sync: Vec<PathBuf>,
    /// The last batch of the log: file, start and end.
    pub(super) last_batch: Option<(PathBuf, u64, u64)>,
}

impl Replay {
    pub(super) fn new(base: Base) -> Self {
        Self {
            highest_session: base.sessions.keys().copied().reduce(SessionTable::later),
            last: base.zxid,
            state: base,
            wrong_digests: None,
            repairs: Repairs::default(),
        }
    }

    /// Applies all log files of the directory, in order. Ends after the last transaction that is wanted.
    pub(super) fn run(&mut self, recovery: &mut Recovery<'_, '_>) -> Result<(), StorageError> {
        let (logs, until, start) = (&recovery.listing.logs, recovery.until, self.state.zxid);
        // The newest one that begins before the snapshot may go on after it.
        let from = logs.iter().rposition(|log| log.first <= start).unwrap_or(0);
        recovery.meter.expect(logs[from..].iter().map(|log| log.len).sum());
        for (at, log) in logs.iter().enumerate().skip(from) {
            if until.is_some_and(|until| self.last >= until || log.first > until) {
                break;
            }
            // The first entry of a file may repeat the last transaction: it is judged when it is read.
            if log.first > start && log.first != self.last && !follows(self.last, log.first) {
                return Err(Damage::new(&log.path, gap(self.last, log.first), RESTORE).into());
            }
            self.file(recovery, log, logs.get(at + 1))?;
            recovery.meter.end(log.len);
            recovery.report.log_files += 1;
        }
        let warnings = &mut recovery.report.warnings;
        for LogFile { path, first, .. } in std::mem::take(&mut self.repairs.empty) {
            warnings.push(RecoveryWarning::EmptyLog { file: path.clone() });
            // The next transaction may need a name before this one.
            if first > self.last {
                self.repairs.remove.push(path);
            }
        }
        warnings.extend(self.wrong_digests.map(|(zxid, count)| RecoveryWarning::Digest { zxid, count }));
        Ok(())
    }

    /// Applies one log file, which `next` follows.
    fn file(
        &mut self,
        recovery: &mut Recovery<'_, '_>,
        log: &LogFile,
        next: Option<&LogFile>,
    ) -> Result<(), StorageError> {
        let (path, until, start) = (&log.path, recovery.until, self.state.zxid);
        let report = &mut recovery.report;
        let mut reader = LogReader::open(recovery.disk, path)?;
        let mut previous = Previous::None;
        let mut applied = false;
        loop {
            match reader.next()? {
                LogItem::Entry(entry) if until.is_some_and(|until| entry.txn.zxid > until) => return Ok(()),
                LogItem::Entry(entry) => {
                    let zxid = entry.txn.zxid;
                    recovery.meter.at(entry.offset);
                    // At the beginning of a file, the one before is the last of the file before.
                    let before = match previous {
                        Previous::Is(zxid) => Some(zxid),
                        Previous::None | Previous::Unknown => (zxid == log.first).then_some(self.last),
                    };
                    let repeats = before.is_some_and(|before| entry.repeats(before));
                    if !repeats {
                        self.check_order(log, previous, &entry)?;
                    }
                    previous = Previous::Is(zxid);
                    self.repairs.last_batch = Some(last_batch(path, &entry));
                    // What the snapshot has is checked and not applied again.
                    if repeats || zxid <= start {
                        report.skipped += 1;
                        continue;
                    }
                    applied = true;
                    self.apply(path, &entry)?;
                    report.replayed += 1;
                    report.replayed_bytes += entry.len;
                    if until == Some(self.last) {
                        return Ok(());
                    }
                }
                // The snapshot has everything up to the next valid entry: nothing of what is damaged is needed.
                LogItem::End(LogEnd::Damaged { offset, next: Some((at, zxid)), fault })
                    if log.first <= start && zxid <= start.next() =>
                {
                    report.warnings.push(RecoveryWarning::OldDamage { file: path.clone(), offset, fault });
                    previous = Previous::Unknown;
                    reader.resume_at(at);
                }
                LogItem::End(end) => {
                    if applied || next.is_none() {
                        self.repairs.sync.push(path.clone());
                    }
                    self.end(log, end, next, matches!(previous, Previous::None), report)?;
                    return Ok(());
                }
            }
        }
    }

    /// Refuses an entry that is out of order, in its file or after what is applied.
    fn check_order(&self, log: &LogFile, previous: Previous, entry: &LogEntry) -> Result<(), Damage> {
        let zxid = entry.txn.zxid;
        let reason = match previous {
            Previous::None if zxid != log.first => {
                format!("the first transaction is {zxid}, and the name says {}", log.first)
            }
            Previous::Is(previous) if !follows(previous, zxid) => gap(previous, zxid),
            _ if zxid > self.state.zxid && !follows(self.last, zxid) => gap(self.last, zxid),
            _ => return Ok(()),
        };
        Err(Damage::new(&log.path, reason, RESTORE).at(entry.offset))
    }

    fn apply(&mut self, file: &Path, entry: &LogEntry) -> Result<(), Damage> {
        let txn = &entry.txn;
        self.state.tree.replay(txn);
        self.last = txn.zxid;
        match txn.op {
            TxnOp::CreateSession { timeout } => {
                self.state.sessions.insert(txn.session, timeout);
                let highest = self.highest_session.get_or_insert(txn.session);
                *highest = SessionTable::later(*highest, txn.session);
            }
            TxnOp::CloseSession { .. } => drop(self.state.sessions.remove(&txn.session)),
            TxnOp::Create { .. }
            | TxnOp::Delete { .. }
            | TxnOp::SetData { .. }
            | TxnOp::SetAcl { .. }
            | TxnOp::Check { .. }
            | TxnOp::Multi(_)
            | TxnOp::Error(_) => {}
        }
        let (Some(logged), Some(actual)) = (txn.digest, self.state.tree.digest()) else { return Ok(()) };
        // From there on the tree is what the log says.
        if logged == actual || txn.zxid < self.state.shows {
            return Ok(());
        }
        if entry.batch.is_some() {
            let reason =
                format!("after transaction {} the digest of the tree is {actual}, not {logged}", txn.zxid);
            return Err(Damage::new(file, reason, RESTORE).at(entry.offset));
        }
        self.wrong_digests.get_or_insert((txn.zxid, 0)).1 += 1;
        Ok(())
    }

    /// Decides what the end of a log file means.
    fn end(
        &mut self,
        log: &LogFile,
        end: LogEnd,
        next: Option<&LogFile>,
        is_empty: bool,
        report: &mut RecoveryReport,
    ) -> Result<(), Damage> {
        let file = || log.path.clone();
        let (offset, fault, ignored) = match end {
            LogEnd::Clean { offset } => {
                if is_empty {
                    self.repairs.empty.push(log.clone());
                } else if next.is_none() && offset < log.len {
                    // The room that is reserved: nothing is appended to this file any more.
                    self.repairs.cut = Some((file(), offset));
                }
                return Ok(());
            }
            LogEnd::Torn { offset, fault } => (offset, fault, None),
            // Apache reads up to the first bad entry and goes on in a new file, so this need not be damage.
            LogEnd::Damaged { offset, fault, next } => (offset, fault, next.map(|(_, zxid)| zxid)),
        };
        match next {
            // A server went on here: it took this for the end, and so do we.
            Some(next) if follows(self.last, next.first) => {
                report.warnings.push(RecoveryWarning::TornEnd { file: file(), offset, fault, ignored });
                Ok(())
            }
            Some(next) => Err(damaged(log, offset, fault, &format!(", and {}", gap(self.last, next.first)))),
            None if matches!(end, LogEnd::Damaged { .. }) => {
                let and = match ignored {
                    Some(zxid) => format!(", and valid ones follow, the first of them transaction {zxid}"),
                    None => String::new(),
                };
                Err(damaged(log, offset, fault, &and))
            }
            // The last write before a crash. It was not acknowledged, so it is cut off.
            None => {
                report.cut = Some(Cut { file: file(), offset, fault });
                if is_empty {
                    self.repairs.remove.push(file());
                } else {
                    self.repairs.cut = Some((file(), offset));
                }
                Ok(())
            }
        }
    }
}

/// The transaction before an entry in its file.
#[derive(Debug, Clone, Copy)]
enum Previous {
    /// It is the first.
    None,
    Is(Zxid),
    /// It is damaged.
    Unknown,
}

/// The bytes that were written last, from those of an entry on.
fn last_batch(path: &Path, entry: &LogEntry) -> (PathBuf, u64, u64) {
    /// Apache does not say where its batch began.
    const GUESS: u64 = 1 << 20;
    /// The batch is the whole file if nothing was synced.
    const MOST: u64 = 64 << 20;
    let end = entry.offset + entry.len;
    let start = entry.batch.unwrap_or_else(|| end.saturating_sub(GUESS));
    (path.to_owned(), start.max(end.saturating_sub(MOST)), end)
}

fn damaged(log: &LogFile, offset: u64, fault: Fault, and: &str) -> Damage {
    Damage::new(&log.path, format!("{fault}{and}"), RESTORE).at(offset)
}

/// Why `next` cannot come after `last`.
pub(crate) fn gap(last: Zxid, next: Zxid) -> String {
    if next <= last {
        format!("transaction {next} comes after {last}: two histories overlap")
    } else {
        format!("transaction {next} comes after {last}: what was between them is missing")
    }
}
