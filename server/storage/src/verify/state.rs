//! [`ReplayedTree`]: the tree while the log is read, compared with the digests in log and snapshots.

use zoolet_proto::Zxid;
use zoolet_server_core::Tree;

use super::Verifier;
use crate::log::{LogEntry, follows};
use crate::names::LogFile;
use crate::progress::Meter;
use crate::recovery::{Base, RecoveryWarning};

/// The tree after a transaction, as long as nothing is missing since a snapshot.
#[derive(Default)]
pub(super) struct ReplayedTree {
    known: Option<Known>,
    /// The first entry of Apache with another digest than the tree, and how many there are.
    wrong_digests: Option<(Zxid, u64)>,
}

struct Known {
    tree: Tree,
    /// The last transaction in it.
    last: Zxid,
    /// From this transaction on the tree is what the log says.
    consistent_from: Zxid,
}

impl ReplayedTree {
    pub(super) fn apply(&mut self, verifier: &mut Verifier<'_>, log: &LogFile, entry: &LogEntry) {
        let zxid = entry.txn.zxid;
        if self.known.as_ref().is_some_and(|known| zxid > known.last && !follows(known.last, zxid)) {
            self.known = None;
        }
        if self.known.is_none() {
            self.known = load(verifier, zxid);
        }
        let Some(known) = self.known.as_mut().filter(|known| zxid > known.last) else { return };
        known.tree.replay(&entry.txn);
        known.last = zxid;
        let Some(actual) = known.tree.digest().filter(|_| zxid >= known.consistent_from) else { return };
        if let Some(logged) = entry.txn.digest.filter(|logged| *logged != actual) {
            if entry.batch.is_some() {
                let reason =
                    format!("after transaction {zxid} the digest of the tree is {actual}, not {logged}");
                verifier.damage(log.path.clone(), Some(entry.offset), reason);
                // Later ones probably differ too.
                self.known = None;
                return;
            }
            self.wrong_digests.get_or_insert((zxid, 0)).1 += 1;
        }
        for at in 0..verifier.snapshots.len() {
            let snapshot = &verifier.snapshots[at];
            let expected = snapshot.digest.filter(|digest| digest.zxid == zxid && zxid >= snapshot.file.zxid);
            if expected.and_then(|digest| digest.digest).is_some_and(|expected| expected != actual) {
                let reason =
                    format!("the log does not lead to this snapshot: at {zxid} its tree has another digest");
                verifier.damage(snapshot.file.path.clone(), None, reason);
            }
        }
    }

    pub(super) fn report(self, verifier: &mut Verifier<'_>) {
        if let Some((zxid, count)) = self.wrong_digests {
            verifier.note(&RecoveryWarning::Digest { zxid, count });
        }
    }
}

/// The state of the snapshot that the transaction follows.
fn load(verifier: &Verifier<'_>, zxid: Zxid) -> Option<Known> {
    let snapshots = &verifier.snapshots;
    let snapshot = snapshots.iter().find(|snapshot| follows(snapshot.file.zxid, zxid))?;
    // It was loaded before, so its faults are reported.
    let (mut warnings, mut meter) = (Vec::new(), |_, _| {});
    let meter = &mut Meter::new(&mut meter);
    let base = Base::load(verifier.disk, &snapshot.file, verifier.options, &mut warnings, meter).ok()?;
    Some(Known { tree: base.tree, last: base.zxid, consistent_from: base.shows })
}
