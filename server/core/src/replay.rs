//! [`Tree::replay`]: applies what a log has.
//!
//! The snapshot that the log is replayed over may be fuzzy: a real server writes it while it goes on, so it shows effects of
//! transactions that the log has again. Each transaction is therefore applied leniently, as a real server does
//! (`DataTree.processTxn`), so that the end is the same: what was created exists already, what was deleted is gone already.

use std::sync::Arc;

use zoolet_proto::{AclList, SessionId, Zxid, path};

use crate::message::Millis;
use crate::paths::is_below_root;
use crate::tree::{Tree, tracked};
use crate::txn::{Txn, TxnOp};
use crate::znode::Znode;

/// The counter of children in the log of an old server, which does not write it.
const UNKNOWN: i64 = -1;

impl Tree {
    /// Applies a transaction that is read back from a log. Nothing is checked and nothing can fail.
    ///
    /// Where the tree differs from the one that it was decided for:
    /// - A create below a missing parent does nothing. If the znode exists, it gets the ACL, and its parent the counters if the
    ///   counter of children is larger. A counter of −1, of an old server, counts one more child.
    /// - A delete of a missing znode only changes the pzxid of its parent. Whatever is below a deleted znode goes with it.
    /// - A change of a missing znode does nothing.
    /// - The end of a session deletes the paths that it lists, and then all that the session still owns.
    pub fn replay(&mut self, txn: &Txn) {
        self.last_zxid = self.last_zxid.max(txn.zxid);
        self.replay_step(txn.session, txn.zxid, txn.time, &txn.op);
    }

    fn replay_step(&mut self, session: SessionId, zxid: Zxid, time: Millis, op: &TxnOp) {
        match op {
            TxnOp::Create { path, data, acl, owner, parent_creates } => {
                let node = Znode::new(Arc::clone(path), data.clone(), acl.clone(), *owner, zxid, time.0);
                self.replay_create(node, *parent_creates);
            }
            TxnOp::Delete { path } => self.replay_delete(zxid, path),
            TxnOp::SetData { .. } | TxnOp::SetAcl { .. } => self.step(zxid, time, op, &mut |_, _| {}),
            TxnOp::Multi(ops) => ops.iter().for_each(|op| self.replay_step(session, zxid, time, op)),
            TxnOp::CloseSession { ephemerals } => {
                ephemerals.iter().for_each(|path| self.replay_delete(zxid, path));
                let others: Vec<_> = self.ephemerals(session).cloned().collect();
                others.iter().for_each(|path| self.replay_delete(zxid, path));
            }
            TxnOp::Check { .. } | TxnOp::CreateSession { .. } | TxnOp::Error(_) => {}
        }
    }

    /// On a real server only a create without a Stat in its reply changes the counters of the parent of an existing znode. A
    /// transaction does not say here which one it was, and the counters of the parent are right with either.
    fn replay_create(&mut self, node: Znode, parent_creates: i64) {
        let (path, acl, zxid) = (Arc::clone(&node.path), node.acl.clone(), node.czxid);
        let at = self.parent_of(&path);
        let Some(parent) = self.nodes.at(at).filter(|_| is_below_root(&path)) else { return };
        let creates = parent.creates();
        let parent_creates = if parent_creates == UNKNOWN { creates + 1 } else { parent_creates };
        if !self.create(node, at) {
            self.replace_acl(&path, &acl);
        }
        if parent_creates > creates {
            self.count_creates(at, parent_creates, zxid);
        }
    }

    fn replace_acl(&mut self, path: &str, acl: &AclList) {
        if let Some(node) = self.nodes.get_mut(path) {
            let keep = |node: &mut Znode| std::mem::replace(&mut node.acl, self.acls.keep(acl));
            let old = tracked(&mut self.tracker, node, keep);
            self.acls.release(&old);
        }
    }

    fn replay_delete(&mut self, zxid: Zxid, path: &Arc<str>) {
        match self.nodes.get(path).filter(|_| is_below_root(path)) {
            None => self.raise_pzxid(path::parent(path), zxid),
            Some(node) => {
                // The children come from later transactions, which create them again.
                let mut below: Vec<_> = node.children().cloned().collect();
                let mut at = 0;
                while let Some(node) = below.get(at).and_then(|path| self.nodes.get(path)) {
                    below.extend(node.children().cloned());
                    at += 1;
                }
                below.iter().rev().chain([path]).for_each(|path| self.delete(zxid, path, &mut |_, _| {}));
            }
        }
    }
}
