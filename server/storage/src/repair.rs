//! [`copy`]: the data of one directory into another one, all of it or as far as a transaction.

use std::path::PathBuf;
use std::sync::Arc;

use zoolet_proto::Zxid;

use crate::disk::{Disk, files};
use crate::error::{Damage, StorageError};
use crate::marks::{self, NoLog};
use crate::names::{ACCEPTED_EPOCH, CURRENT_EPOCH, Layout};
use crate::options::StorageOptions;
use crate::progress::Meter;
use crate::recovery::{self, Recovered, RecoveryReport};
use crate::snapshot::{SnapshotDir, SnapshotReader};

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
    let (source_layout, target_layout) = (Layout::new(from), Layout::new(to));
    check_empty(&**target, &target_layout)?;
    let mut meter = Meter::new(progress);
    let mut source = from.clone();
    source.digests = to.digests;
    let Recovered { mut tree, sessions, report, .. } =
        recovery::read_until(disk, &source, cut_at, NoLog::Accepted, &mut meter)?;
    if let Some(cut_at) = cut_at.filter(|cut_at| report.last_zxid < *cut_at) {
        let reason = format!("the last transaction is {}, which is before {cut_at}", report.last_zxid);
        return Err(Damage::new(source_layout.log_dir, reason, "name this one, or an earlier one").into());
    }

    // A line `server.N=...` for each member of an ensemble.
    let config = tree.get("/zookeeper/config").and_then(|node| node.data());
    let names_members = config.is_some_and(|config| config.starts_with(b"server."));

    let _locks = target_layout.lock(&**target, true)?;
    // Another process may have been quicker.
    check_empty(&**target, &target_layout)?;
    let snapshots = SnapshotDir::new(Arc::clone(target), to);
    let header = tree.begin_snapshot();
    let zxid = header.zxid;
    let mut writer = snapshots.begin(header, &sessions)?;
    // The number of znodes is known, but not their length, so 200 bytes are assumed for each.
    let expected = 200 * tree.len() as u64;
    meter.expect(expected);
    writer.add_tree(&mut tree, |znodes| meter.at(200 * znodes))?;
    // The snapshot gets its name last: until then a crash leaves a directory that no server takes for a copy.
    let complete = writer.sync()?;
    for name in [CURRENT_EPOCH, ACCEPTED_EPOCH] {
        const LONGEST: usize = 64;
        if let Some(bytes) = files::read(disk, &source_layout.snapshot_dir.join(name), LONGEST)? {
            files::write(&**target, &target_layout.snapshot_dir.join(name), &bytes)?;
        }
    }
    marks::complete(&**target, &target_layout.snapshot_dir, &[zxid])?;
    let published = complete.publish()?;
    // Reads back what was written: a copy that cannot be read is worse than none.
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

/// Refuses a directory that has data, also in the wrong place.
fn check_empty(disk: &dyn Disk, layout: &Layout) -> Result<(), StorageError> {
    layout.list(disk)?;
    for dir in layout.dirs() {
        if !files::list(disk, dir)?.is_empty() {
            return Err(StorageError::NotEmpty(dir.to_owned()));
        }
    }
    Ok(())
}
