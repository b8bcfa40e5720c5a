//! The tree as a write sees it while it is being decided: as it is, with what the earlier parts of the same multi will
//! have changed laid over it.

use std::collections::HashMap;
use std::sync::Arc;

use zoolet_proto::{Acl, parent_of};

use crate::quota::{HardLimits, Quota, Usage};
use crate::tree::Tree;
use crate::txn::TxnOp;
use crate::znode::{Owner, Znode};

/// What the checks of a write need to know of a znode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'v> {
    pub(crate) acl: &'v Arc<[Acl]>,
    pub(crate) owner: Owner,
    pub(crate) creates: i64,
    pub(crate) children: usize,
    pub(crate) version: i32,
    pub(crate) aversion: i32,
    pub(crate) data_len: usize,
}

/// The facts of a znode that an earlier part has changed.
#[derive(Debug)]
struct Shadow {
    acl: Arc<[Acl]>,
    owner: Owner,
    creates: i64,
    children: usize,
    version: i32,
    aversion: i32,
    data_len: usize,
}

/// The view of one write.
pub(crate) struct Pending<'t> {
    tree: &'t Tree,
    shadows: HashMap<Arc<str>, Option<Shadow>>,
    /// How far each quota has moved, by the path of its statistics.
    moved: HashMap<String, Usage>,
}

impl<'t> Pending<'t> {
    /// The tree as it is.
    pub(crate) fn new(tree: &'t Tree) -> Self {
        Self { tree, shadows: HashMap::new(), moved: HashMap::new() }
    }

    pub(crate) fn tree(&self) -> &'t Tree {
        self.tree
    }

    /// What is known of the znode at `path`, if it exists.
    pub(crate) fn get(&self, path: &str) -> Option<Facts<'_>> {
        // Only a multi has shadows; everything else should not pay for hashing the path twice.
        if !self.shadows.is_empty() {
            if let Some(shadow) = self.shadows.get(path) {
                return shadow.as_ref().map(Shadow::facts);
            }
        }
        self.tree.get(path).map(facts)
    }

    /// The usage and the hard limits of the quota over `path`, if it has one.
    pub(crate) fn quota(&self, path: &str) -> Option<(Usage, HardLimits)> {
        let quota = self.tree.quotas().over(path)?;
        let data = |path: &str| self.tree.get(path).and_then(Znode::data);
        let limits = HardLimits::parse(data(&quota.limits_path())?);
        // Without statistics nothing is refused; ones that do not parse are counted anew by the next change.
        let usage = Usage::parse(data(&quota.stats_path())?).unwrap_or_default();
        let moved = self.moved.get(&quota.stats_path()).copied().unwrap_or_default();
        Some((usage.plus(moved.count, moved.bytes), limits))
    }

    /// Lays a decided part over the view.
    pub(crate) fn record(&mut self, op: &TxnOp) {
        match op {
            TxnOp::Create { path, data, acl, owner, parent_creates } => {
                let data_len = data.as_ref().map_or(0, bytes::Bytes::len);
                self.shadow(parent_of(path), |parent| {
                    parent.creates = *parent_creates;
                    parent.children += 1;
                });
                let shadow = Shadow {
                    acl: Arc::clone(acl),
                    owner: *owner,
                    creates: 0,
                    children: 0,
                    version: 0,
                    aversion: 0,
                    data_len,
                };
                self.shadows.insert(Arc::clone(path), Some(shadow));
                self.move_quota(path, 1, signed(data_len));
            }
            TxnOp::Delete { path } => {
                let data_len = self.get(path).map_or(0, |facts| facts.data_len);
                self.shadow(parent_of(path), |parent| parent.children = parent.children.saturating_sub(1));
                self.shadows.insert(Arc::clone(path), None);
                self.move_quota(path, -1, -signed(data_len));
            }
            TxnOp::SetData { path, data, version } => {
                let data_len = data.as_ref().map_or(0, bytes::Bytes::len);
                let old_len = self.get(path).map_or(0, |facts| facts.data_len);
                self.shadow(path, |node| {
                    node.version = *version;
                    node.data_len = data_len;
                });
                self.move_quota(path, 0, signed(data_len) - signed(old_len));
            }
            // Nothing else is legal in a multi, or changes nothing that a check looks at.
            _ => {}
        }
    }

    fn shadow(&mut self, path: &str, change: impl FnOnce(&mut Shadow)) {
        if !self.shadows.contains_key(path) {
            let shadow = self.tree.get(path).map(|node| {
                let Facts { acl, owner, creates, children, version, aversion, data_len } = facts(node);
                Shadow { acl: Arc::clone(acl), owner, creates, children, version, aversion, data_len }
            });
            self.shadows.insert(path.into(), shadow);
        }
        if let Some(Some(shadow)) = self.shadows.get_mut(path) {
            change(shadow);
        }
    }

    fn move_quota(&mut self, path: &str, count: i64, bytes: i64) {
        if let Some(stats) = self.tree.quotas().over(path).map(Quota::stats_path) {
            let moved = self.moved.entry(stats).or_default();
            *moved = moved.plus(count, bytes);
        }
    }
}

impl Shadow {
    fn facts(&self) -> Facts<'_> {
        let Self { acl, owner, creates, children, version, aversion, data_len } = self;
        Facts {
            acl,
            owner: *owner,
            creates: *creates,
            children: *children,
            version: *version,
            aversion: *aversion,
            data_len: *data_len,
        }
    }
}

fn facts(node: &Znode) -> Facts<'_> {
    Facts {
        acl: &node.acl,
        owner: node.owner,
        creates: node.creates,
        children: node.children().len(),
        version: node.version,
        aversion: node.aversion,
        data_len: node.data_len(),
    }
}

#[allow(clippy::cast_possible_wrap, reason = "no data is that long")]
pub(crate) fn signed(len: usize) -> i64 {
    len as i64
}
