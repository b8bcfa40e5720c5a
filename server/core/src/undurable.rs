//! [`UndurableChanges`]: what transactions that are not durable yet have changed. A read that shows none of it need not wait.
//!
//! A server with a log sends a message when the transaction that its header names is durable. A read could always name the
//! newest one; then every read would wait for the sync of what is written elsewhere. So it names the newest durable
//! transaction, or the last change of what it shows if that is later.
//!
//! **A read that names Z is true at Z.** Let S be the newest transaction when the read is executed, and L the last one that
//! changed what it shows, so L ≤ Z ≤ S. Nothing after L and up to S changes what it shows. So all states from L to S show
//! the same, and the state at Z is one of them. This holds for every Z between L and S, so Z may be raised:
//! - to the zxid of the last message on the connection, so that zxids on a connection do not go back. This costs no time, as
//!   messages leave in order.
//! - to S, for what is not worth an index: reads that show more than a few paths, and what is below `/zookeeper/quota`, whose
//!   statistics change with other paths.
//!
//! The same holds for refusals: whether a znode exists, and who may read it, is the state of its path. And it holds for
//! watches: a watch that is set with a read is triggered by what changes what the read shows, so it misses nothing after Z.
//! A persistent watch is set like a read of its path and its children, a recursive one like a read of everything.
//!
//! L is in the znode itself: its data and its children have the zxids of their last changes. What a znode does not tell is in an
//! index: that it was deleted, and that its ACL was replaced. The index has hashes of paths. If two are equal, a read names a
//! later zxid than it must, and waits.

use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use hashbrown::{HashMap, HashSet};
use zoolet_proto::Zxid;

use crate::core::Core;
use crate::message::{ConnId, Output, Recipients};
use crate::paths::{QUOTA, ROOT};
use crate::tree::Tree;
use crate::txn::{Txn, TxnOp};

/// The paths whose znodes undurable transactions have deleted or given another ACL, each with the last of these.
#[derive(Debug)]
pub(crate) struct UndurableChanges {
    durable: Zxid,
    /// By a hash of the path.
    last: HashMap<u64, Zxid>,
    /// The same in the order of zxids. A path that changed again is there again.
    changes: VecDeque<(Zxid, u64)>,
}

impl UndurableChanges {
    pub(crate) fn new(durable: Zxid) -> Self {
        Self { durable, last: HashMap::new(), changes: VecDeque::new() }
    }

    /// Adds the changes of a transaction, which is the newest, or of a part of it.
    pub(crate) fn record(&mut self, zxid: Zxid, op: &TxnOp) {
        match op {
            TxnOp::Delete { path } | TxnOp::SetAcl { path, .. } => self.add(zxid, path),
            TxnOp::Multi(ops) => ops.iter().for_each(|op| self.record(zxid, op)),
            TxnOp::CloseSession { ephemerals } => ephemerals.iter().for_each(|path| self.add(zxid, path)),
            TxnOp::Create { .. }
            | TxnOp::SetData { .. }
            | TxnOp::Check { .. }
            | TxnOp::CreateSession { .. }
            | TxnOp::Error(_) => {}
        }
    }

    fn add(&mut self, zxid: Zxid, path: &str) {
        let hash = hash(path);
        if self.last.insert(hash, zxid) != Some(zxid) {
            self.changes.push_back((zxid, hash));
        }
    }

    /// Takes note that the transactions up to `zxid` are durable.
    pub(crate) fn set_durable(&mut self, zxid: Zxid) {
        self.durable = self.durable.max(zxid);
        while let Some((zxid, hash)) = self.changes.front().filter(|(zxid, _)| *zxid <= self.durable) {
            if self.last.get(hash) == Some(zxid) {
                self.last.remove(hash);
            }
            self.changes.pop_front();
        }
    }

    /// The first zxid from the durable one on at which `path` was as it is now in `tree`; `None` if that is not known.
    #[inline(never)]
    pub(crate) fn unchanged_since(&self, tree: &Tree, path: &str) -> Option<Zxid> {
        if self.durable >= tree.last_zxid() {
            return Some(self.durable);
        }
        if path.strip_prefix(QUOTA).is_some_and(|rest| rest.starts_with('/')) {
            return None;
        }
        let indexed = if self.last.is_empty() { None } else { self.last.get(&hash(path)).copied() };
        let shown = tree.get(path).map(|node| node.mzxid.max(node.pzxid()));
        let last = indexed.max(shown).unwrap_or(self.durable);
        // Those that no transaction has created have zxid 0, which is later than a negative one.
        Some(last.clamp(self.durable, tree.last_zxid()))
    }
}

// What a server without a log executes is inline, the rest is not.
impl Core {
    /// What a reply names that shows nothing of the tree.
    #[inline]
    pub(crate) fn durable_zxid(&self) -> Zxid {
        self.undurable.as_ref().map_or(self.tree.last_zxid(), |undurable| undurable.durable)
    }

    /// What a reply names that shows the state of one path.
    #[inline]
    pub(crate) fn unchanged_since(&self, path: &str) -> Zxid {
        let Some(undurable) = &self.undurable else { return self.tree.last_zxid() };
        undurable.unchanged_since(&self.tree, path).unwrap_or(self.tree.last_zxid())
    }

    /// What a reply names that shows the state of these paths.
    pub(crate) fn unchanged_since_all<'p>(&self, paths: impl Iterator<Item = &'p str>) -> Zxid {
        if self.undurable.is_none() {
            return self.tree.last_zxid();
        }
        paths.map(|path| self.unchanged_since(path)).fold(self.durable_zxid(), Zxid::max)
    }

    /// What a message names instead of `zxid`, so that zxids on the connection do not go back.
    #[inline]
    pub(crate) fn raised(&mut self, conn: ConnId, zxid: Zxid) -> Zxid {
        if self.undurable.is_none() { zxid } else { self.raise(conn, zxid) }
    }

    #[inline(never)]
    fn raise(&mut self, conn: ConnId, zxid: Zxid) -> Zxid {
        let Some(state) = self.conns.get_mut(&conn) else { return zxid };
        state.named = state.named.max(zxid);
        state.named
    }

    /// Prepares an applied transaction for the log, and notes what it has changed. Its events are those from `events` on.
    #[inline(never)]
    pub(crate) fn prepare_for_log(&mut self, txn: &mut Txn, events: usize) {
        if let Some(undurable) = &mut self.undurable {
            undurable.record(txn.zxid, &txn.op);
        }
        txn.digest = self.tree.digest().filter(|_| !matches!(txn.op, TxnOp::Error(_)));
        self.note_events(events);
    }

    /// Notes the zxids of the events that a transaction has queued, from this one on.
    fn note_events(&mut self, from: usize) {
        // Events of a multi have few lists of recipients, each shared.
        let mut noted = HashSet::new();
        for output in &self.effects.outbound[from..] {
            let Output::Event(event) = output else { continue };
            if let Recipients::Shared(list) = &event.to {
                if !noted.insert(list.as_ptr().addr()) {
                    continue;
                }
            }
            for conn in event.to.iter() {
                if let Some(state) = self.conns.get_mut(conn) {
                    state.named = event.zxid;
                }
            }
        }
    }
}

/// The same in each run, as zxids in replies may depend on it.
fn hash(path: &str) -> u64 {
    let path = if path.is_empty() { ROOT } else { path };
    BuildHasherDefault::<DefaultHasher>::new().hash_one(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_changes_again_and_again_is_forgotten_when_all_of_it_is_durable() {
        let mut undurable = UndurableChanges::new(Zxid(0));
        for zxid in 1..=9 {
            undurable.record(Zxid(zxid), &TxnOp::Delete { path: "/a".into() });
        }
        undurable.set_durable(Zxid(8));
        assert_eq!(undurable.last.len(), 1);
        undurable.set_durable(Zxid(9));
        assert!(undurable.last.is_empty() && undurable.changes.is_empty());
    }
}
