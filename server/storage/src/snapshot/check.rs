//! [`SnapshotReader::check`]: whether a snapshot is valid, and a [`SnapshotSummary`] of it.

use std::path::Path;

use zoolet_proto::Zxid;

use super::path_check::PathCheck;
use super::{MissingAcl, SnapshotDigest, SnapshotReader};
use crate::disk::Disk;
use crate::error::StorageError;

/// What a whole snapshot has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotSummary {
    /// The zxid in the name of the file, if it has one.
    pub zxid: Option<Zxid>,
    /// The length of the file.
    pub file_len: u64,
    /// Its length uncompressed.
    pub len: u64,
    /// The number of sessions.
    pub sessions: u64,
    /// The number of access control lists in the table.
    pub acls: u64,
    /// The number of znodes, the root and the system's included.
    pub znodes: u64,
    /// The number of ephemerals.
    pub ephemerals: u64,
    /// The bytes of data of all znodes.
    pub data_len: u64,
    /// The latest time at which a znode was created or set, in milliseconds since the Unix epoch.
    pub latest: i64,
    /// The section of the digest.
    pub digest: Option<SnapshotDigest>,
    /// The section of the last zxid.
    pub last_zxid: Option<Zxid>,
    /// The znodes whose list is not in the table.
    pub missing_acls: Vec<MissingAcl>,
}

impl SnapshotReader {
    /// Reads to the end, and checks that the znodes form a tree. A missing access control list is not an error.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn check(self) -> Result<SnapshotSummary, StorageError> {
        self.check_with(&mut |_| {})
    }

    /// Checks a snapshot. Returns `None` if it is damaged, or if it lacks access control lists and so may need the log for them.
    pub(super) fn validate(
        disk: &dyn Disk,
        path: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<SnapshotSummary>, StorageError> {
        match Self::open(disk, path).and_then(|reader| reader.check_with(progress)) {
            Ok(summary) => Ok(Some(summary).filter(|summary| summary.missing_acls.is_empty())),
            Err(StorageError::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`check`](Self::check), and reports how many bytes of the file are read.
    pub(crate) fn check_with(
        mut self,
        progress: &mut dyn FnMut(u64),
    ) -> Result<SnapshotSummary, StorageError> {
        let mut paths = PathCheck::default();
        let (mut ephemerals, mut data_len, mut latest) = (0, 0, 0);
        while let Some(znode) = self.next_znode()? {
            paths.insert(&znode.path).map_err(|reason| self.refuse(reason))?;
            ephemerals += u64::from(znode.owner.as_session().is_some());
            data_len += znode.data.as_ref().map_or(0, |data| data.len() as u64);
            latest = latest.max(znode.ctime).max(znode.mtime);
            progress(self.progress().0);
        }
        Ok(SnapshotSummary {
            zxid: self.named,
            file_len: self.progress().1,
            len: self.source.offset(),
            sessions: self.sessions.len() as u64,
            acls: self.acls.len() as u64 - 1,
            znodes: self.znodes,
            ephemerals,
            data_len,
            latest,
            digest: self.digest,
            last_zxid: self.last_zxid,
            missing_acls: self.missing_acls,
        })
    }
}
