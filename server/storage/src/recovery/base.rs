//! [`Base`]: the state that the log is replayed over.

use std::collections::BTreeMap;
use std::path::PathBuf;

use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{Tree, TreeLoader};

use super::Recovery;
use super::report::RecoveryWarning;
use crate::disk::Disk;
use crate::error::{Damage, StorageError};
use crate::names::Layout;
use crate::options::StorageOptions;
use crate::progress::Meter;
use crate::snapshot::{MissingAcl, SnapshotDigest, SnapshotFile, SnapshotReader};

/// A tree and sessions as of a transaction.
#[derive(Debug)]
pub(crate) struct Base {
    /// The snapshot, if it is one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) tree: Tree,
    pub(crate) sessions: BTreeMap<SessionId, i32>,
    /// Replay begins after this transaction.
    pub(crate) zxid: Zxid,
    /// The last transaction of which the tree may show something: later than `zxid` if the snapshot was written while the
    /// tree changed, as Apache does.
    pub(crate) shows: Zxid,
    /// The digest that the snapshot has for itself.
    pub(crate) digest: Option<SnapshotDigest>,
    pub(crate) missing_acls: Vec<MissingAcl>,
}

/// The zxids of snapshots, and why they are not used.
pub(super) type Skipped = Vec<(Zxid, Damage)>;

impl Base {
    fn empty(options: &StorageOptions) -> Self {
        let tree = Tree::default();
        Self {
            file: None,
            tree: if options.digests { tree.keeping_digest() } else { tree },
            sessions: BTreeMap::new(),
            zxid: Zxid(0),
            shows: Zxid(0),
            digest: None,
            missing_acls: Vec::new(),
        }
    }

    /// Loads a snapshot.
    pub(crate) fn load(
        disk: &dyn Disk,
        file: &SnapshotFile,
        options: &StorageOptions,
        warnings: &mut Vec<RecoveryWarning>,
        meter: &mut Meter<'_>,
    ) -> Result<Self, StorageError> {
        let mut reader = SnapshotReader::open(disk, &file.path)?;
        let mut loader = TreeLoader::new(options.digests);
        // Of a later transaction than that of the name it says nothing.
        loader.restored_at(reader.restored_at().filter(|restored| *restored <= file.zxid));
        while let Some(znode) = reader.next_znode()? {
            loader.insert(znode).map_err(|error| reader.refuse(error.to_string()))?;
            meter.at(reader.progress().0);
        }
        // The name says what the snapshot has in full. Its znodes and its last sections may show later transactions.
        let zxid = file.zxid;
        let digest = reader.digest();
        let sections = [reader.last_zxid(), digest.map(|digest| digest.zxid)];
        let shows = sections.into_iter().flatten().fold(loader.newest().max(zxid), Zxid::max);
        let tree = loader.finish(zxid).map_err(|error| reader.refuse(error.to_string()))?;
        if let (Some(digest), Some(actual)) = (digest.filter(|digest| digest.zxid == shows), tree.digest()) {
            if digest.digest.is_some_and(|digest| digest != actual) && shows == zxid && zxid > Zxid(0) {
                // A warning, as Apache does: nothing in the file says who wrote it, and digests of Apache may be wrong. An entry of
                // the log has a mark of ours, so one with another digest is refused; also the one after this snapshot.
                warnings.push(RecoveryWarning::SnapshotDigest { file: file.path.clone() });
            }
        }
        Ok(Self {
            file: Some(file.path.clone()),
            tree,
            sessions: reader.sessions().iter().copied().collect(),
            zxid,
            shows,
            digest,
            missing_acls: reader.missing_acls().to_vec(),
        })
    }
}

impl Recovery<'_, '_> {
    /// Loads the newest valid snapshot that is not one of `unfit`, and returns the newer ones, too. Without any data the base is empty.
    pub(super) fn choose_base(&mut self, unfit: &[Damage]) -> Result<(Base, Skipped), StorageError> {
        let (mut skipped, mut has_later) = (Vec::new(), false);
        for file in &self.listing.snapshots {
            if let Some(damage) = unfit.iter().find(|damage| damage.file == file.path) {
                skipped.push((file.zxid, damage.clone()));
                continue;
            }
            self.meter.expect(file.len);
            let loaded = Base::load(self.disk, file, self.options, &mut self.report.warnings, self.meter);
            self.meter.end(file.len);
            match loaded {
                // It shows transactions that are not wanted, as Apache writes a snapshot while the tree changes.
                Ok(base) if self.until.is_some_and(|until| base.shows > until) => has_later = true,
                Ok(base) => return Ok((base, skipped)),
                Err(StorageError::Damaged(damage)) => skipped.push((file.zxid, damage)),
                // The disk may work the next time. An older snapshot would be an excuse for it.
                Err(error) => return Err(error),
            }
        }
        if let (Some(until), true) = (self.until, has_later) {
            return Err(too_early(self.layout, until).into());
        }
        self.without_snapshot(skipped)
    }

    fn without_snapshot(&mut self, skipped: Skipped) -> Result<(Base, Skipped), StorageError> {
        let base = Base::empty(self.options);
        let has_log = !self.listing.logs.is_empty();
        if has_log && self.options.trust_empty_snapshot {
            self.report.warnings.push(RecoveryWarning::NoSnapshot);
            return Ok((base, skipped));
        }
        // Snapshot 0 has no transaction. Apache may not have finished the first thing that it writes.
        let had_data = has_log || skipped.iter().any(|(zxid, _)| *zxid > Zxid(0));
        if let (true, Some((_, damage))) = (had_data, skipped.first()) {
            return Err(damage.clone().into());
        }
        let damage = |reason, hint| Err(Damage::new(&self.layout.snapshot_dir, reason, hint).into());
        if has_log {
            let hint = "restore the snapshots; only if the data began empty and the log is complete, \
                        set --trust-empty-snapshot (snapshot.trust.empty)";
            return damage("there is a log, and no snapshot", hint);
        }
        if self.listing.has_epochs && skipped.is_empty() {
            let hint =
                "restore the data, or remove currentEpoch and acceptedEpoch to begin with an empty tree";
            return damage("it is of an ensemble member, and has no snapshot and no log", hint);
        }
        Ok((base, skipped))
    }
}

/// Why a directory cannot be read up to a transaction that no snapshot comes before.
pub(super) fn too_early(layout: &Layout, until: Zxid) -> Damage {
    let reason = format!("no snapshot is of transaction {until} or before it");
    let hint = "name a later transaction, or restore an older snapshot and the log after it";
    Damage::new(&layout.snapshot_dir, reason, hint)
}
