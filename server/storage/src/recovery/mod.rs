//! [`open`] and [`read`]: from the files of a data directory to a tree and sessions.
//!
//! Recovery loads the newest valid snapshot and replays the log after it. It refuses everything that could hide the loss of an
//! acknowledged transaction; what it takes as it is, and is not in order, is in the [`RecoveryReport`].

mod base;
mod epochs;
mod replay;
mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::Tree;

use crate::disk::Disk;
use crate::error::{Damage, StorageError};
use crate::marks::{self, NoLog};
use crate::names::{Layout, Listing};
use crate::options::StorageOptions;
use crate::progress::Meter;
use crate::snapshot::{MissingAcl, SnapshotDir};
use crate::storage::Storage;
pub(crate) use base::Base;
pub(crate) use epochs::read as read_epoch;
pub(crate) use replay::{RESTORE, gap};
use replay::{Repairs, Replay};

pub use report::{Cut, RecoveryReport, RecoveryWarning};

/// What a data directory held.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recovered {
    /// The tree after the last transaction.
    pub tree: Tree,
    /// The sessions that are open, with their timeouts in milliseconds.
    pub sessions: Vec<(SessionId, i32)>,
    /// The id of the session that was given last, as far as the files show.
    pub highest_session: Option<SessionId>,
    /// How it was found.
    pub report: RecoveryReport,
}

/// Opens a data directory to write it. A directory that has no data, or does not exist, becomes one with an empty tree.
///
/// It is locked until the [`Storage`] is dropped. What a torn write left at the end of the log is cut off, and so is what a server
/// was writing when it ended; the report says so. Everything that is recovered is durable on return.
///
/// # Errors
/// [`StorageError::InUse`] if another server has it. [`StorageError::Damaged`] if what is in it is not what a server leaves behind,
/// whatever happens to it: nothing is changed then.
pub fn open(disk: Arc<dyn Disk>, options: StorageOptions) -> Result<(Storage, Recovered), StorageError> {
    open_with(disk, options, &mut |_, _| {})
}

/// As [`open`]. `progress` gets the bytes that are read, and those that there are in all.
///
/// # Errors
/// As [`open`].
pub fn open_with(
    disk: Arc<dyn Disk>,
    options: StorageOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Storage, Recovered), StorageError> {
    let mut meter = Meter::new(progress);
    let layout = Layout::new(&options);
    // Before anything is created: it may be the wrong directory.
    layout.list(&*disk)?;
    let locks = layout.lock(&*disk, options.create_directories)?;
    let listing = layout.list(&*disk)?;
    marks::check(&*disk, &layout, &listing, NoLog::Refused)?;
    let mut findings = Recovery::new(&*disk, &options, &layout, &listing, None, &mut meter).run()?;
    if findings.is_new && !options.create_database && listing.initialize.is_none() {
        return Err(StorageError::NoData(options.data_dir));
    }
    repair(&*disk, &layout, &listing, &findings)?;
    check_writable(&*disk, &layout)?;
    // Those that are removed have no transaction.
    let has_log = listing.logs.len() > findings.repairs.remove.len();
    marks::update(&*disk, &layout, has_log, findings.recovered.report.last_zxid)?;
    remove_empty_logs(&*disk, &layout, &findings.repairs.remove)?;
    let snapshots = SnapshotDir::new(Arc::clone(&disk), &options);
    if let Some(path) = &findings.valid {
        snapshots.add_valid(path);
    }
    if findings.is_new {
        write_first_snapshot(&snapshots, &mut findings.recovered.tree)?;
    }
    // It is used up now, and not before.
    if let Some(path) = &listing.initialize {
        disk.remove(path).map_err(StorageError::io("remove", path))?;
    }
    let Recovered { report, .. } = &findings.recovered;
    let mut storage = Storage::new(disk, &options, &layout, listing.has_epochs, snapshots, report, locks);
    storage.has_log = has_log;
    Ok((storage, findings.recovered))
}

/// Reads a data directory, changes nothing in it, and takes no lock: another server may be using it.
///
/// # Errors
/// [`StorageError::NoData`] if there is no data. [`StorageError::Damaged`] as [`open`].
pub fn read(disk: &dyn Disk, options: &StorageOptions) -> Result<Recovered, StorageError> {
    read_with(disk, options, None, &mut |_, _| {})
}

/// As [`read`], but only as far as the transaction `until`, if one is given. What is after it may be damaged. The report says
/// whether there was as much as that. `progress` gets the bytes that are read, and those that there are in all.
///
/// # Errors
/// As [`read`], and [`StorageError::Damaged`] if all snapshots are later than `until`.
pub fn read_with(
    disk: &dyn Disk,
    options: &StorageOptions,
    until: Option<Zxid>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Recovered, StorageError> {
    read_until(disk, options, until, NoLog::Refused, &mut Meter::new(progress))
}

/// As [`read_with`], as a part of something longer.
pub(crate) fn read_until(
    disk: &dyn Disk,
    options: &StorageOptions,
    until: Option<Zxid>,
    no_log: NoLog,
    meter: &mut Meter<'_>,
) -> Result<Recovered, StorageError> {
    let layout = Layout::new(options);
    let mut listing = layout.list(disk)?;
    if let Some(until) = until {
        let had = listing.snapshots.len();
        listing.snapshots.retain(|file| file.zxid <= until);
        if listing.snapshots.is_empty() && had > 0 {
            return Err(base::too_early(&layout, until).into());
        }
    }
    let no_log = marks::check(disk, &layout, &listing, no_log)?;
    let recovery = Recovery::new(disk, options, &layout, &listing, until, meter);
    let Findings { mut recovered, is_new, .. } = recovery.run()?;
    if is_new {
        return Err(StorageError::NoData(options.data_dir.clone()));
    }
    recovered.report.warnings.extend(no_log);
    Ok(recovered)
}

/// A recovery: what it reads, and how far.
pub(super) struct Recovery<'r, 'm> {
    disk: &'r dyn Disk,
    options: &'r StorageOptions,
    layout: &'r Layout,
    listing: &'r Listing,
    /// The last transaction that is wanted.
    until: Option<Zxid>,
    meter: &'r mut Meter<'m>,
    report: RecoveryReport,
}

/// What is found, and what is to be done to the files.
struct Findings {
    recovered: Recovered,
    repairs: Repairs,
    is_new: bool,
    /// The snapshot that was read, unless it lacks access control lists.
    valid: Option<PathBuf>,
}

impl<'r, 'm> Recovery<'r, 'm> {
    fn new(
        disk: &'r dyn Disk,
        options: &'r StorageOptions,
        layout: &'r Layout,
        listing: &'r Listing,
        until: Option<Zxid>,
        meter: &'r mut Meter<'m>,
    ) -> Self {
        Self { disk, options, layout, listing, until, meter, report: RecoveryReport::default() }
    }

    /// Recovers from the newest snapshot that will do.
    ///
    /// Apache has znodes whose access control list it has lost, and writes them so. The log after an older snapshot has the list.
    fn run(mut self) -> Result<Findings, StorageError> {
        let mut unfit = Vec::new();
        loop {
            match self.run_without(&unfit)? {
                Ok(findings) => return Ok(findings),
                Err(damage) => unfit.push(damage),
            }
        }
    }

    /// Recovers from the newest snapshot that is valid and not one of `unfit`, or returns why it is unfit, too.
    fn run_without(&mut self, unfit: &[Damage]) -> Result<Result<Findings, Damage>, StorageError> {
        self.report = RecoveryReport { warnings: self.listing.warnings().collect(), ..Default::default() };
        let (base, skipped) = self.choose_base(unfit)?;
        self.report.snapshot = base.file.clone().map(|file| (file, base.zxid));
        let mut replay = Replay::new(base);
        replay.run(self).map_err(|error| with_skipped(error, &skipped))?;
        let Replay { state, highest_session, last, repairs, .. } = replay;
        let Base { file, tree, sessions, shows, missing_acls, .. } = state;
        self.report.last_zxid = last;
        // An older snapshot will do only if the log leads from it to what the newer ones had.
        for (zxid, damage) in skipped {
            if zxid > last {
                let reason = format!("{}, and the log ends before it, with {last}", damage.reason);
                return Err(Damage { reason, ..damage }.into());
            }
            self.report.warnings.push(RecoveryWarning::SnapshotSkipped(damage));
        }
        // Apache writes a snapshot while the tree changes: without the log up to there it is a mixture of states.
        if let Some(file) = file.as_ref().filter(|_| shows > last) {
            let reason = format!("it shows transaction {shows}, and the log ends with {last}");
            return Err(Damage::new(file, reason, "restore the log that belongs to it").into());
        }
        let valid = file.filter(|_| missing_acls.is_empty());
        if let Err(damage) = check_acls(&tree, missing_acls) {
            return Ok(Err(damage));
        }
        if self.until.is_none() {
            epochs::check(self.disk, self.layout, last)?;
        }
        let (sessions, report) = (sessions.into_iter().collect(), std::mem::take(&mut self.report));
        let is_new = report.snapshot.is_none() && self.listing.logs.is_empty();
        let recovered = Recovered { tree, sessions, highest_session, report };
        Ok(Ok(Findings { recovered, repairs, is_new, valid }))
    }
}

/// The damage of a newer snapshot is the cause of what is wrong with the log after an older one.
fn with_skipped(error: StorageError, skipped: &[(Zxid, Damage)]) -> StorageError {
    match (error, skipped.first()) {
        (StorageError::Damaged(log), Some((_, snapshot))) => {
            let mut damage = snapshot.clone();
            damage.reason = format!("{}, and it cannot be done without: {log}", damage.reason);
            damage.into()
        }
        (error, _) => error,
    }
}

/// Refuses a tree with a znode whose access control list is nowhere.
fn check_acls(tree: &Tree, missing: Vec<MissingAcl>) -> Result<(), Damage> {
    // An empty list is refused when it is set, so it is still that of the snapshot.
    let lost = |missing: &MissingAcl| tree.get(&missing.path).is_some_and(|node| node.acl().is_empty());
    missing.into_iter().find(lost).map_or(Ok(()), |missing| Err(missing.damage))
}

/// Creates a file in each directory, and removes it: a server that finds only at the first write that it cannot would end then, and be
/// started again, for ever.
fn check_writable(disk: &dyn Disk, layout: &Layout) -> Result<(), StorageError> {
    for dir in layout.dirs() {
        let path = dir.join(PROBE);
        disk.create(&path).map_err(StorageError::io("create", &path))?;
        disk.remove(&path).map_err(StorageError::io("remove", &path))?;
    }
    Ok(())
}

/// If a server ends while it has this file, the next one removes it with all others that have such names.
const PROBE: &str = ".zoolet-writable.tmp";

/// Does what makes the files those of a server that ended cleanly, and durable.
fn repair(
    disk: &dyn Disk,
    layout: &Layout,
    listing: &Listing,
    findings: &Findings,
) -> Result<(), StorageError> {
    let Repairs { cut, sync, last_batch, .. } = &findings.repairs;
    if let Some((path, offset)) = cut {
        let mut file = disk.open_to_write(path).map_err(StorageError::io("open", path))?;
        file.set_len(*offset).map_err(StorageError::io("cut", path))?;
        file.sync().map_err(StorageError::io("sync", path))?;
    }
    // A server may have ended between a write and its sync.
    for path in sync {
        sync_file(disk, path)?;
    }
    if let Some((path, start, end)) = last_batch {
        write_again(disk, path, *start, *end)?;
    }
    if let Some((path, _)) = &findings.recovered.report.snapshot {
        // Apache does not sync its snapshots.
        sync_file(disk, path)?;
    }
    // Of an empty directory the snapshot 0 that Apache did not finish.
    let unfinished = listing.snapshots.iter().filter(|_| findings.is_new).map(|file| &file.path);
    for path in listing.leftovers.iter().chain(unfinished) {
        disk.remove(path).map_err(StorageError::io("remove", path))?;
    }
    for dir in layout.dirs() {
        disk.sync_dir(dir).map_err(StorageError::io("sync", dir))?;
    }
    Ok(())
}

/// Removes logs without a transaction. If none is left, the mark that the snapshot needs none must be there already: a crash between
/// the two would keep the next server from starting.
fn remove_empty_logs(disk: &dyn Disk, layout: &Layout, logs: &[PathBuf]) -> Result<(), StorageError> {
    for path in logs {
        disk.remove(path).map_err(StorageError::io("remove", path))?;
    }
    if logs.is_empty() {
        return Ok(());
    }
    disk.sync_dir(&layout.log_dir).map_err(StorageError::io("sync", &layout.log_dir))
}

fn sync_file(disk: &dyn Disk, path: &Path) -> Result<(), StorageError> {
    let mut file = disk.open_to_write(path).map_err(StorageError::io("open", path))?;
    file.sync().map_err(StorageError::io("sync", path))
}

/// Writes bytes of a file again, and syncs them. A page whose sync failed in an earlier process is in the page cache, looks written
/// and is not: a sync alone does nothing about it.
fn write_again(disk: &dyn Disk, path: &Path, start: u64, end: u64) -> Result<(), StorageError> {
    const CHUNK: usize = 1 << 20;
    let mut file = disk.open_to_write(path).map_err(StorageError::io("open", path))?;
    let most = |left| usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
    let mut buffer = vec![0; most(end.saturating_sub(start))];
    let mut at = start;
    while at < end {
        let want = most(end - at);
        let read = file.read_at(&mut buffer[..want], at).map_err(StorageError::io("read", path))?;
        if read == 0 {
            break;
        }
        file.write_at(&buffer[..read], at).map_err(StorageError::io("write", path))?;
        at += read as u64;
    }
    file.sync().map_err(StorageError::io("sync", path))
}

/// Before any log: Apache refuses a log without a snapshot.
fn write_first_snapshot(snapshots: &SnapshotDir, tree: &mut Tree) -> Result<(), StorageError> {
    let header = tree.begin_snapshot();
    let mut writer = snapshots.begin(header, &[])?;
    writer.add_tree(tree, |_| {})?;
    writer.finish().map(drop)
}
