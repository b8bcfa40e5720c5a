//! What commands need to know of the files of a data directory.

use std::io;
use std::path::Path;

use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{Tree, ZnodeRecord};
use zoolet_storage::{Published, RecoveryReport, SnapshotDir, StorageError};

use crate::output::warn;

/// For `map_err`: what was to be done, and with which file.
pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
    let path = path.to_owned();
    move |source| StorageError::Io { action, path, source }
}

/// Whether a transaction may come after another one: the zxid is one higher, or the first of a later epoch, which an ensemble
/// begins when it elects a leader.
pub(super) fn follows(last: Zxid, next: Zxid) -> bool {
    let (epoch, counter) = (next.0 >> 32, next.0 & 0xffff_ffff);
    next.0.checked_sub(1) == Some(last.0) || epoch > last.0 >> 32 && counter == 1
}

/// Reports what was not in order.
pub(super) fn warn_of(report: &RecoveryReport) {
    report.cut.iter().for_each(|cut| warn(&cut.to_string()));
    report.warnings.iter().for_each(|warning| warn(&warning.to_string()));
}

/// Passes the znodes of a tree, parents first, until one is an error.
pub(super) fn each_znode<E>(
    tree: &mut Tree,
    mut take: impl FnMut(ZnodeRecord) -> Result<(), E>,
) -> Result<(), E> {
    let mut outcome = Ok(());
    let mut more = true;
    while more && outcome.is_ok() {
        more = tree.next_slice(1_000, 1 << 20, &mut |znode| {
            if outcome.is_ok() {
                outcome = take(znode);
            }
        });
    }
    tree.end_snapshot();
    outcome
}

/// Writes a snapshot of a tree.
pub(super) fn write_snapshot(
    dir: &SnapshotDir,
    tree: &mut Tree,
    sessions: &[(SessionId, i32)],
) -> Result<Published, StorageError> {
    let header = tree.begin_snapshot();
    let mut writer = dir.begin(header, sessions)?;
    each_znode(tree, |znode| writer.add(&znode))?;
    writer.finish()
}
