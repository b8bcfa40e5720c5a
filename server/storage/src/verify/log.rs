//! The log: every file, every entry, their order, and what they make of the tree.

use zoolet_proto::Zxid;

use super::{ReplayedTree, Verifier};
use crate::error::StorageError;
use crate::log::{Fault, LogEnd, LogEntry, LogItem, LogReader, follows};
use crate::names::LogFile;
use crate::progress::Meter;
use crate::recovery::{Cut, RecoveryWarning, gap};

/// Where in the log the scan is.
#[derive(Debug, Default)]
struct Scan {
    /// The last transaction.
    last: Option<Zxid>,
    /// Whether damage was reported between the last transaction and here. The report names the transactions that are missing.
    after_damage: bool,
    /// Whether a transaction of this file was read.
    in_file: bool,
}

impl Verifier<'_> {
    pub(super) fn read_logs(&mut self, logs: &[LogFile], meter: &mut Meter<'_>) {
        self.found.log_files = logs.len() as u64;
        let mut state = ReplayedTree::default();
        let mut scan = Scan::default();
        for (at, log) in logs.iter().enumerate() {
            scan.in_file = false;
            if let Err(error) = self.read_log(log, logs.get(at + 1), &mut scan, &mut state, meter) {
                self.found.faults.push(error);
                scan.after_damage = true;
            }
            meter.end(log.len);
        }
        state.report(self);
    }

    fn read_log(
        &mut self,
        log: &LogFile,
        next: Option<&LogFile>,
        scan: &mut Scan,
        state: &mut ReplayedTree,
        meter: &mut Meter<'_>,
    ) -> Result<(), StorageError> {
        let mut reader = LogReader::open(self.disk, &log.path)?;
        loop {
            match reader.next()? {
                LogItem::Entry(entry) => {
                    meter.at(entry.offset);
                    self.found.txns += 1;
                    // Apache gives a refused write that it cannot decode the zxid of the one before.
                    if scan.last.is_some_and(|last| entry.repeats(last)) {
                        scan.in_file = true;
                        continue;
                    }
                    self.check_order(log, scan, &entry);
                    state.apply(self, log, &entry);
                }
                LogItem::End(end) => {
                    if self.is_harmless(log, end, next, scan) {
                        return Ok(());
                    }
                    let offset = end.offset();
                    let following = reader.find_after(offset)?;
                    let later = following.map(|(_, zxid)| zxid).or(next.map(|next| next.first));
                    let (LogEnd::Torn { fault, .. } | LogEnd::Damaged { fault, .. }) = end else {
                        return Ok(());
                    };
                    self.damage(log.path.clone(), Some(offset), reason(fault, scan.last, later));
                    scan.after_damage = true;
                    match following {
                        Some((offset, _)) => reader.resume_at(offset),
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    fn check_order(&mut self, log: &LogFile, scan: &mut Scan, entry: &LogEntry) {
        let zxid = entry.txn.zxid;
        if !scan.in_file && !scan.after_damage && zxid != log.first {
            let reason = format!("the first transaction is {zxid}, and the name says {}", log.first);
            self.damage(log.path.clone(), Some(entry.offset), reason);
        }
        let continues = scan.last.is_some_and(|last| follows(last, zxid));
        match (scan.last, self.runs.last_mut()) {
            (Some(_), Some(run)) if continues => run.1 = zxid,
            (Some(last), _) => {
                // The report of the damage includes missing transactions, but not an overlap.
                if (!scan.after_damage || zxid <= last) && !self.was_restored(last, zxid) {
                    self.damage(log.path.clone(), Some(entry.offset), gap(last, zxid));
                }
                self.runs.push((zxid, zxid));
            }
            _ => self.runs.push((zxid, zxid)),
        }
        *scan = Scan { last: Some(zxid), after_damage: false, in_file: true };
    }

    /// Whether a server takes this for the end of the file, and loses nothing.
    fn is_harmless(&mut self, log: &LogFile, end: LogEnd, next: Option<&LogFile>, scan: &Scan) -> bool {
        let file = || log.path.clone();
        let follows = |last, next| follows(last, next) || self.was_restored(last, next);
        let continues = |next: &LogFile| scan.last.is_some_and(|last| follows(last, next.first));
        match (end, next) {
            (LogEnd::Clean { .. }, _) => {
                if !scan.in_file {
                    self.note(&RecoveryWarning::EmptyLog { file: file() });
                }
            }
            (LogEnd::Torn { offset, fault }, None) => self.note(&Cut { file: file(), offset, fault }),
            (LogEnd::Torn { offset, fault }, Some(next)) if continues(next) => {
                self.note(&RecoveryWarning::TornEnd { file: file(), offset, fault, ignored: None });
            }
            // Apache stopped here, and went on in the next file.
            (LogEnd::Damaged { offset, fault, next: later }, Some(next)) if continues(next) => {
                let ignored = later.map(|(_, zxid)| zxid);
                self.note(&RecoveryWarning::TornEnd { file: file(), offset, fault, ignored });
            }
            _ => return false,
        }
        true
    }
}

/// What is wrong with an entry, and which transactions cannot be read therefore.
fn reason(fault: Fault, last: Option<Zxid>, later: Option<Zxid>) -> String {
    match (last, later) {
        (Some(last), Some(zxid)) => {
            format!("{fault}: after transaction {last} the next one that can be read is {zxid}")
        }
        (Some(last), None) => format!("{fault}: nothing can be read after transaction {last}"),
        (None, Some(zxid)) => format!("{fault}: the first transaction that can be read is {zxid}"),
        (None, None) => fault.to_string(),
    }
}
