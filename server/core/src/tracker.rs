//! [`ChangeTracker`]: what has to know of each change of a znode, before it and after it.
//!
//! Only a server with a log has one. The digest needs both sides of a change, a snapshot being taken what was before it.

use crate::digest::{checksum, checksum_of_data, is_counted};
use crate::snapshot::SnapshotWalk;
use crate::tree::Tree;
use crate::znode::Znode;

/// Keeps the digest, and saves for a snapshot what it has not passed yet.
#[derive(Debug, Default)]
pub(crate) struct ChangeTracker {
    /// The digest of the tree, if it keeps one.
    pub(crate) digest: Option<u64>,
    /// The snapshot that is being taken.
    pub(crate) snapshot: Option<SnapshotWalk>,
}

impl ChangeTracker {
    /// A znode is about to be changed or deleted. Its list of children may have changed already.
    #[inline(never)]
    pub(crate) fn before(&mut self, node: &Znode) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.save(node);
        }
        if let Some(digest) = self.digest.as_mut().filter(|_| is_counted(&node.path)) {
            *digest = digest.wrapping_sub(checksum(node));
        }
    }

    /// A znode was changed, but not its data.
    #[inline(never)]
    pub(crate) fn after(&mut self, node: &Znode) {
        if let Some(digest) = self.digest.as_mut().filter(|_| is_counted(&node.path)) {
            *digest = digest.wrapping_add(checksum(node));
        }
    }

    /// A znode was inserted, or its data was changed, and maybe more.
    #[inline(never)]
    pub(crate) fn after_data(&mut self, node: &mut Znode) {
        if self.digest.is_some() && is_counted(&node.path) {
            node.checksum = checksum_of_data(&node.path, node.data.as_ref());
            self.after(node);
        }
    }
}

impl Tree {
    /// The digest of the tree (`DigestCalculator`, version 2), if it keeps one.
    pub fn digest(&self) -> Option<u64> {
        self.tracker.as_ref()?.digest
    }

    /// Makes the tree keep its digest from now on. Costs a walk over all znodes.
    #[must_use]
    pub fn keeping_digest(mut self) -> Self {
        let tracker = self.tracker.get_or_insert_default();
        tracker.digest = Some(0);
        self.nodes.for_each_mut(|node| tracker.after_data(node));
        self
    }
}
