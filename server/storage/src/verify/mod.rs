//! [`verify`]: everything that is wrong with a data directory.

mod log;
mod state;

use std::path::PathBuf;

use zoolet_proto::Zxid;

use crate::disk::Disk;
use crate::error::{Damage, StorageError};
use crate::log::follows;
use crate::names::{Layout, Listing};
use crate::options::StorageOptions;
use crate::progress::Meter;
use crate::recovery::{self, Base, RESTORE, RecoveryWarning, gap};
use crate::snapshot::{SnapshotDigest, SnapshotFile};
use state::ReplayedTree;

/// What to do about an old snapshot.
const NOT_NEEDED: &str = "none to open the directory, as a newer snapshot is good; restore the log to go back to this one, or remove it";

/// What is wrong with a data directory, and what is in it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Verification {
    /// Everything that is wrong: a server refuses the directory because of it, or would if it needed this file.
    pub faults: Vec<StorageError>,
    /// What an operator should know, but a server repairs or ignores.
    pub notes: Vec<String>,
    /// How many snapshots there are, damaged ones included.
    pub snapshots: u64,
    /// How many log files there are.
    pub log_files: u64,
    /// How many transactions can be read from the log.
    pub txns: u64,
    /// The last transaction, if a server can open the directory.
    pub last_zxid: Option<Zxid>,
}

/// Reads everything in a data directory, and changes nothing: all files with all checksums, the order of all transactions, the digest of the
/// tree after each of them, and whether each snapshot has the tree that the log leads to. It goes on after a fault.
///
/// `progress` gets the bytes that are done, and those that there are in all.
///
/// # Errors
/// [`StorageError::NoData`] if there is no data. [`StorageError::Io`] if a directory cannot be listed. Other errors are faults.
pub fn verify(
    disk: &dyn Disk,
    options: &StorageOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verification, StorageError> {
    let layout = Layout::new(options);
    let (listing, damage) = layout.survey(disk)?;
    if damage.is_none() && listing.snapshots.is_empty() && listing.logs.is_empty() {
        return Err(StorageError::NoData(options.data_dir.clone()));
    }
    let mut options = options.clone();
    options.digests = true;
    let mut verifier = Verifier {
        disk,
        options: &options,
        found: Verification::default(),
        snapshots: Vec::new(),
        runs: Vec::new(),
    };
    verifier.found.faults.extend(damage.map(StorageError::from));
    let mut meter = Meter::new(progress);
    verifier.run(&listing, &mut meter);
    meter.finish();
    Ok(verifier.found)
}

/// A server of Apache ZooKeeper that has its log elsewhere leaves no more than this for its first 50,000 transactions.
const EMPTY: &str = "there is no log, so the tree is empty; if the log is elsewhere, name its directory with --log-dir (dataLogDir)";

/// What is known so far.
struct Verifier<'d> {
    disk: &'d dyn Disk,
    options: &'d StorageOptions,
    found: Verification,
    /// Those that can be loaded, oldest first.
    snapshots: Vec<LoadedSnapshot>,
    /// The parts of the log in which nothing is missing: their first and their last transactions.
    runs: Vec<(Zxid, Zxid)>,
}

/// A snapshot that can be loaded.
struct LoadedSnapshot {
    file: SnapshotFile,
    /// The last transaction of which it may show something.
    shows: Zxid,
    digest: Option<SnapshotDigest>,
    restored_at: Option<Zxid>,
}

impl Verifier<'_> {
    fn run(&mut self, listing: &Listing, meter: &mut Meter<'_>) {
        let snapshots: u64 = listing.snapshots.iter().map(|file| file.len).sum();
        let logs: u64 = listing.logs.iter().map(|file| file.len).sum();
        // A recovery reads as much again, or less.
        meter.expect(2 * (snapshots + logs));
        listing.warnings().for_each(|warning| self.note(&warning));
        if listing.logs.is_empty() && listing.snapshots.iter().all(|file| file.zxid == Zxid(0)) {
            self.note(&EMPTY);
        }
        self.load_snapshots(&listing.snapshots, meter);
        self.read_logs(&listing.logs, meter);
        self.check_coverage();
        self.recover(snapshots + logs, meter);
    }

    fn load_snapshots(&mut self, files: &[SnapshotFile], meter: &mut Meter<'_>) {
        self.found.snapshots = files.len() as u64;
        for file in files.iter().rev() {
            let mut warnings = Vec::new();
            match Base::load(self.disk, file, self.options, &mut warnings, meter) {
                Ok(Base { tree, shows, mut digest, missing_acls, .. }) => {
                    if !warnings.is_empty() {
                        digest = None;
                        let reason = "the tree has another digest than the snapshot says";
                        self.damage(file.path.clone(), None, reason);
                    }
                    if !missing_acls.is_empty() {
                        let path = file.path.display();
                        let note = format!(
                            "{path}: the ACLs of {} znodes are missing, so the log must set them",
                            missing_acls.len()
                        );
                        self.found.notes.push(note);
                    }
                    let (file, restored_at) = (file.clone(), tree.restored_at());
                    self.snapshots.push(LoadedSnapshot { file, shows, digest, restored_at });
                }
                Err(error) => self.found.faults.push(error),
            }
            meter.end(file.len);
        }
    }

    /// Checks that the log goes on from each snapshot.
    fn check_coverage(&mut self) {
        // To cut the directory at an old one would lose what newer ones have.
        let mut hint = RESTORE;
        for LoadedSnapshot { file: SnapshotFile { path, zxid, .. }, shows, .. } in self.snapshots.iter().rev()
        {
            let after = self.runs.iter().find(|(_, last)| last > zxid);
            let last = after.map_or(*zxid, |(_, last)| *last);
            let reason = match after {
                Some((first, _))
                    if first > zxid && !follows(*zxid, *first) && !self.was_restored(*zxid, *first) =>
                {
                    format!("the log does not go on from this snapshot: {}", gap(*zxid, *first))
                }
                _ if last < *shows => {
                    format!("it shows transaction {shows}, and the log ends with {last}")
                }
                _ => {
                    hint = NOT_NEEDED;
                    continue;
                }
            };
            self.found.faults.push(Damage::new(path, reason, hint).into());
        }
    }

    /// Adds what keeps a server from starting, if that is not known yet.
    fn recover(&mut self, bytes: u64, meter: &mut Meter<'_>) {
        let mut progress = |done, _| meter.at(done);
        match recovery::read_with(self.disk, self.options, None, &mut progress) {
            Ok(recovered) => {
                self.found.last_zxid = Some(recovered.report.last_zxid);
                for warning in recovered.report.warnings {
                    match warning {
                        // One that lacks an ACL which the log does not have either.
                        RecoveryWarning::SnapshotSkipped(damage) => self.fault_unless_known(damage.into()),
                        // Such faults were found before.
                        RecoveryWarning::SnapshotDigest { .. } | RecoveryWarning::OldDamage { .. } => {}
                        warning => self.note(&warning),
                    }
                }
            }
            Err(error) => self.fault_unless_known(error),
        }
        meter.end(bytes);
    }

    fn fault_unless_known(&mut self, error: StorageError) {
        let is_known = |fault: &StorageError| match (fault, &error) {
            (StorageError::Damaged(known), StorageError::Damaged(damage)) => {
                known.file == damage.file && (known.offset == damage.offset || known.reason == damage.reason)
            }
            _ => fault.to_string() == error.to_string(),
        };
        if !self.found.faults.iter().any(is_known) {
            self.found.faults.push(error);
        }
    }

    /// Whether a server has replaced the tree by a snapshot between these transactions: that is in no log.
    fn was_restored(&self, last: Zxid, next: Zxid) -> bool {
        let restored = |snapshot: &LoadedSnapshot| snapshot.restored_at;
        self.snapshots.iter().filter_map(restored).any(|zxid| zxid > last && follows(zxid, next))
    }

    fn damage(&mut self, file: PathBuf, offset: Option<u64>, reason: impl Into<String>) {
        self.found.faults.push(Damage { file, offset, reason: reason.into(), hint: RESTORE }.into());
    }

    fn note(&mut self, note: &dyn std::fmt::Display) {
        let note = note.to_string();
        if !self.found.notes.contains(&note) {
            self.found.notes.push(note);
        }
    }
}
