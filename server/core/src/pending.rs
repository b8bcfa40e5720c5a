//! The tree as a write sees it while it is decided: the tree, overlaid with the changes of the earlier operations of the same
//! multi.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_proto::{AclList, path};

use crate::quota::{HardLimits, Usage, limits_path, signed, stats_path};
use crate::tree::Tree;
use crate::txn::TxnOp;
use crate::znode::{Owner, Znode};

/// What the checks of a write look at in a znode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingNode<'v> {
    pub(crate) path: &'v Arc<str>,
    pub(crate) acl: &'v AclList,
    pub(crate) state: NodeState,
}

/// Of these, what the operations of a multi change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeState {
    pub(crate) owner: Owner,
    pub(crate) creates: i64,
    pub(crate) children: usize,
    pub(crate) version: i32,
    pub(crate) aversion: i32,
    pub(crate) data_len: usize,
}

/// A znode that an earlier operation has created or changed: its ACL and its state.
type Changed = (AclList, NodeState);

/// The view of one write.
pub(crate) struct Pending<'t> {
    pub(crate) tree: &'t Tree,
    overlay: HashMap<Arc<str>, Option<Changed>>,
    /// The change of each usage under a quota, by the path of its statistics.
    usage_change: HashMap<String, Usage>,
}

impl<'t> Pending<'t> {
    /// The tree as it is.
    pub(crate) fn new(tree: &'t Tree) -> Self {
        Self { tree, overlay: HashMap::new(), usage_change: HashMap::new() }
    }

    /// The znode at `path`, if it exists.
    pub(crate) fn get(&self, path: &str) -> Option<PendingNode<'_>> {
        // Only a multi has an overlay; other writes do not hash the path twice.
        if !self.overlay.is_empty() {
            if let Some((path, node)) = self.overlay.get_key_value(path) {
                return node.as_ref().map(|(acl, state)| PendingNode { path, acl, state: *state });
            }
        }
        let node = self.tree.get(path)?;
        Some(PendingNode { path: &node.path, acl: &node.acl, state: NodeState::of(node) })
    }

    /// The usage and the hard limits of the quota over `path`, if it has one.
    pub(crate) fn quota(&self, path: &str) -> Option<(Usage, HardLimits)> {
        let top = self.tree.quotas.over(path)?;
        let data = |path: &str| self.tree.get(path).and_then(Znode::data);
        let limits = HardLimits::parse(data(&limits_path(top))?);
        // Without statistics nothing is refused. Ones that do not parse are recounted by the next change.
        let usage = Usage::parse(data(&stats_path(top))?).unwrap_or_default();
        let change = self.usage_change.get(&stats_path(top)).copied().unwrap_or_default();
        Some((usage.plus(change.count, change.bytes), limits))
    }

    /// Overlays the view with a decided operation.
    pub(crate) fn record(&mut self, op: &TxnOp) {
        match op {
            TxnOp::Create { path, data, acl, owner, parent_creates } => {
                let data_len = data.as_ref().map_or(0, Bytes::len);
                self.change(path::parent(path), |parent| {
                    parent.creates = *parent_creates;
                    parent.children += 1;
                });
                let owner = *owner;
                let state = NodeState { owner, creates: 0, children: 0, version: 0, aversion: 0, data_len };
                self.overlay.insert(Arc::clone(path), Some((acl.clone(), state)));
                self.change_usage(path, 1, signed(data_len));
            }
            TxnOp::Delete { path } => {
                let data_len = self.get(path).map_or(0, |node| node.state.data_len);
                self.change(path::parent(path), |parent| parent.children = parent.children.saturating_sub(1));
                self.overlay.insert(Arc::clone(path), None);
                self.change_usage(path, -1, -signed(data_len));
            }
            TxnOp::SetData { path, data, version } => {
                let data_len = data.as_ref().map_or(0, Bytes::len);
                let old_len = self.get(path).map_or(0, |node| node.state.data_len);
                self.change(path, |node| {
                    node.version = *version;
                    node.data_len = data_len;
                });
                self.change_usage(path, 0, signed(data_len) - signed(old_len));
            }
            // A check changes nothing, and the others are not legal in a multi.
            TxnOp::Check { .. }
            | TxnOp::SetAcl { .. }
            | TxnOp::Multi(_)
            | TxnOp::CreateSession { .. }
            | TxnOp::CloseSession { .. }
            | TxnOp::Error(_) => {}
        }
    }

    fn change(&mut self, path: &str, change: impl FnOnce(&mut NodeState)) {
        if !self.overlay.contains_key(path) {
            let Some(node) = self.tree.get(path) else { return };
            let changed = (node.acl.clone(), NodeState::of(node));
            self.overlay.insert(Arc::clone(&node.path), Some(changed));
        }
        if let Some(Some((_, state))) = self.overlay.get_mut(path) {
            change(state);
        }
    }

    fn change_usage(&mut self, path: &str, count: i64, bytes: i64) {
        if let Some(stats) = self.tree.quotas.over(path).map(stats_path) {
            let change = self.usage_change.entry(stats).or_default();
            *change = change.plus(count, bytes);
        }
    }
}

impl NodeState {
    fn of(node: &Znode) -> Self {
        Self {
            owner: node.owner,
            creates: node.creates(),
            children: node.children().len(),
            version: node.version,
            aversion: node.aversion,
            data_len: node.data_len(),
        }
    }
}
