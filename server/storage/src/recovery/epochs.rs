//! The epochs that an ensemble member keeps beside its data. They are checked, as Apache does, and left alone.

use std::path::PathBuf;

use zoolet_proto::Zxid;

use crate::disk::{Disk, files};
use crate::error::{Damage, StorageError};
use crate::names::{ACCEPTED_EPOCH, CURRENT_EPOCH, Layout};

/// Refuses data of another epoch than the files say: an ensemble would refuse the directory, or elect the wrong leader.
pub(super) fn check(disk: &dyn Disk, layout: &Layout, last: Zxid) -> Result<(), StorageError> {
    let dir = &layout.snapshot_dir;
    let current = read(disk, dir.join(CURRENT_EPOCH))?;
    let accepted = read(disk, dir.join(ACCEPTED_EPOCH))?;
    // What is in it replaces `currentEpoch` when an ensemble member starts.
    let coming = read(disk, dir.join(format!("{CURRENT_EPOCH}.tmp"))).ok().flatten();
    let damage = |file: &str, reason: String, hint| Damage::new(dir.join(file), reason, hint);
    let epoch = last.0 >> 32;
    if let Some(current) = current.max(coming).filter(|current| *current < epoch) {
        let reason = format!("the epoch is {current}, and the last transaction, {last}, is of epoch {epoch}");
        let hint = "restore files of one time; if these are of one time, write the later epoch into currentEpoch and acceptedEpoch";
        return Err(damage(CURRENT_EPOCH, reason, hint).into());
    }
    if let (Some(current), Some(accepted)) = (current, accepted) {
        if accepted < current {
            let reason = format!("the accepted epoch is {accepted}, and the current one is {current}");
            return Err(damage(ACCEPTED_EPOCH, reason, "restore files of one time").into());
        }
    }
    if current.is_some() && last.0 & 0xffff_ffff == 0xffff_ffff {
        let reason = format!("epoch {epoch} has no zxid after {last}");
        let hint = "start the ensemble once: it begins an epoch";
        return Err(damage(CURRENT_EPOCH, reason, hint).into());
    }
    Ok(())
}

/// The number in a file; `None` if there is no such file.
pub(crate) fn read(disk: &dyn Disk, path: PathBuf) -> Result<Option<i64>, StorageError> {
    const LONGEST: usize = 64;
    let Some(bytes) = files::read(disk, &path, LONGEST)? else { return Ok(None) };
    let epoch = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
    if let Some(epoch) = epoch.filter(|epoch| (0..=i64::from(i32::MAX)).contains(epoch)) {
        return Ok(Some(epoch));
    }
    let hint = "restore it, or write the epoch of the last transaction into it: its upper 32 bits";
    Err(Damage::new(path, "this is not an epoch", hint).into())
}
