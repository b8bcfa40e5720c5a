//! The tree of znodes. [`Tree::apply`] is the only code that changes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use zoolet_proto::{Acl, SessionId, Stat, Zxid, path};

use crate::access::AclCache;
use crate::message::Millis;
use crate::nodes::Nodes;
use crate::quota::{Quotas, Usage, stats_path};
use crate::txn::{Txn, TxnOp};
use crate::znode::{Owner, Znode};

/// The paths of the znodes that every tree has and that cannot be deleted.
pub(crate) const ROOT: &str = "/";
pub(crate) const SYSTEM: &str = "/zookeeper";
pub(crate) const QUOTA: &str = "/zookeeper/quota";
pub(crate) const CONFIG: &str = "/zookeeper/config";

/// All znodes, and their indexes.
#[derive(Debug)]
pub struct Tree {
    nodes: Nodes,
    ephemerals: HashMap<SessionId, BTreeSet<Arc<str>>>,
    pub(crate) containers: BTreeSet<Arc<str>>,
    pub(crate) ttls: BTreeSet<Arc<str>>,
    pub(crate) acls: AclCache,
    pub(crate) quotas: Quotas,
    data_size: usize,
    last_zxid: Zxid,
}

/// One step of an applied transaction, reported while the tree is in the state right after it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Change {
    /// A znode was created.
    Created {
        /// Its path.
        path: Arc<str>,
        /// Its metadata.
        stat: Stat,
    },
    /// A znode was deleted.
    Deleted {
        /// Its path.
        path: Arc<str>,
        /// Its access control list.
        acl: Arc<[Acl]>,
    },
    /// Data was replaced.
    DataSet {
        /// The path of the znode.
        path: Arc<str>,
        /// Its metadata.
        stat: Stat,
    },
    /// An access control list was replaced.
    AclSet {
        /// The metadata of its znode.
        stat: Stat,
    },
    /// A version check succeeded.
    Checked,
}

impl Default for Tree {
    /// The tree of an empty database: the root and three system znodes.
    fn default() -> Self {
        Self::starting_at(Zxid(0))
    }
}

impl Tree {
    /// The tree of an empty database whose first transaction takes the zxid after `initial`. Its znodes have zxid 0, as on a
    /// real server.
    pub fn starting_at(initial: Zxid) -> Self {
        let mut tree = Self {
            nodes: Nodes::default(),
            ephemerals: HashMap::new(),
            containers: BTreeSet::new(),
            ttls: BTreeSet::new(),
            acls: AclCache::default(),
            quotas: Quotas::default(),
            data_size: 0,
            last_zxid: initial,
        };
        for path in [ROOT, SYSTEM, QUOTA, CONFIG] {
            let acl = if path == CONFIG { Acl::read_only() } else { Acl::open() };
            let acl = tree.acls.shared(acl);
            tree.insert(Znode::new(path.into(), Some(Bytes::new()), acl, Owner::PERSISTENT, Zxid(0), 0));
        }
        // As on a real server, which sets the ACL of this znode before it creates it.
        if let Some(config) = tree.nodes.get_mut(CONFIG) {
            config.aversion = -1;
        }
        tree
    }

    /// The znode at `path`. The empty path is an alias of the root, as on a real server.
    pub fn get(&self, path: &str) -> Option<&Znode> {
        self.nodes.get(if path.is_empty() { ROOT } else { path })
    }

    /// The number of znodes, including the four of an empty tree.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Always `false`.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all paths and data.
    pub fn data_size(&self) -> usize {
        self.data_size
    }

    /// The last transaction applied; of an empty tree, the zxid that it starts at.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// Paths of the ephemerals of a session, sorted.
    pub fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &Arc<str>> {
        self.ephemerals.get(&session).into_iter().flatten()
    }

    /// The sessions that own ephemerals, sorted.
    pub fn owners(&self) -> Vec<SessionId> {
        let mut owners: Vec<_> = self.ephemerals.keys().copied().collect();
        owners.sort_unstable();
        owners
    }

    /// The number of ephemerals.
    pub fn ephemerals_count(&self) -> usize {
        self.ephemerals.values().map(BTreeSet::len).sum()
    }

    /// The number of descendants of `path`.
    pub fn descendants(&self, path: &str) -> usize {
        let Some(node) = self.get(path) else { return 0 };
        if *node.path == *ROOT {
            // No walk: there may be millions.
            return self.len() - 1;
        }
        let mut count = 0;
        let mut below: Vec<_> = node.children().collect();
        while let Some(path) = below.pop() {
            count += 1;
            below.extend(self.get(path).into_iter().flat_map(Znode::children));
        }
        count
    }

    /// Applies a transaction and reports each of its steps to `seen`.
    ///
    /// No check, no clock, no failure: a write is refused when it is decided. A step whose znode does not exist, which is
    /// possible only with the log of another tree, changes nothing.
    pub fn apply(&mut self, txn: &Txn, seen: &mut impl FnMut(&Tree, Change)) {
        self.last_zxid = txn.zxid;
        self.step(txn.zxid, txn.time, &txn.op, seen);
        // Once per transaction, even if several steps of a multi require it: a subtree may be large.
        while let Some(top) = self.quotas.recounts.pop_first() {
            self.recount_quota(&top);
        }
    }

    fn step(&mut self, zxid: Zxid, time: Millis, op: &TxnOp, seen: &mut impl FnMut(&Tree, Change)) {
        match op {
            TxnOp::Create { path, data, acl, owner, parent_creates } => {
                let node = Znode::new(Arc::clone(path), data.clone(), Arc::clone(acl), *owner, zxid, time.0);
                let stat = node.stat();
                self.create(node, *parent_creates);
                seen(self, Change::Created { path: Arc::clone(path), stat });
            }
            TxnOp::Delete { path } => self.delete(zxid, path, seen),
            TxnOp::SetData { path, data, version } => {
                let Some(node) = self.nodes.get_mut(path) else { return };
                let old_len = node.data_len();
                node.data = data.clone();
                node.version = *version;
                node.mzxid = zxid;
                node.mtime = time.0;
                let (stat, new_len) = (node.stat(), node.data_len());
                self.data_size = self.data_size - old_len + new_len;
                self.quotas.data_set(path);
                self.count_in_quota(path, 0, len_change(old_len, new_len));
                seen(self, Change::DataSet { path: Arc::clone(path), stat });
            }
            TxnOp::SetAcl { path, acl, aversion } => {
                let Some(node) = self.nodes.get_mut(path) else { return };
                let old = std::mem::replace(&mut node.acl, self.acls.keep(acl));
                node.aversion = *aversion;
                let stat = node.stat();
                self.acls.release(&old);
                seen(self, Change::AclSet { stat });
            }
            TxnOp::Check { .. } => seen(self, Change::Checked),
            TxnOp::Multi(ops) => ops.iter().for_each(|op| self.step(zxid, time, op, seen)),
            TxnOp::CloseSession { ephemerals } => {
                ephemerals.iter().for_each(|path| self.delete(zxid, path, seen));
            }
            TxnOp::CreateSession { .. } | TxnOp::Error(_) => {}
        }
    }

    /// Sets the number of children that a znode has ever had. Returns false if there is no such znode.
    pub(crate) fn set_counter(&mut self, path: &str, children: i64) -> bool {
        let node = self.nodes.get_mut(path);
        node.map(|node| node.creates = children).is_some()
    }

    fn create(&mut self, node: Znode, parent_creates: i64) {
        let path = Arc::clone(&node.path);
        if let Some(parent) = self.nodes.get_mut(path::parent(&path)) {
            parent.pzxid = parent.pzxid.max(node.czxid);
            parent.creates = parent.creates.max(parent_creates);
        }
        let len = node.data_len();
        self.insert(node);
        self.quotas.created(&path);
        self.count_in_quota(&path, 1, len_change(0, len));
    }

    /// Inserts a znode, and adds it to its parent and to the indexes.
    fn insert(&mut self, mut node: Znode) {
        let path = &node.path;
        if **path != *ROOT {
            if let Some(parent) = self.nodes.get_mut(path::parent(path)) {
                parent.children.get_or_insert_default().insert(Arc::clone(path));
            }
        }
        if let Some(session) = node.owner.as_session() {
            self.ephemerals.entry(session).or_default().insert(Arc::clone(path));
        } else if node.owner == Owner::CONTAINER {
            self.containers.insert(Arc::clone(path));
        } else if node.owner.as_ttl().is_some() {
            self.ttls.insert(Arc::clone(path));
        }
        node.acl = self.acls.keep(&node.acl);
        self.data_size += path.len() + node.data_len();
        self.nodes.insert(node);
    }

    fn delete(&mut self, zxid: Zxid, path: &Arc<str>, seen: &mut impl FnMut(&Tree, Change)) {
        let Some(node) = self.nodes.remove(path) else { return };
        if let Some(parent) = self.nodes.get_mut(path::parent(path)) {
            parent.pzxid = parent.pzxid.max(zxid);
            if let Some(children) = &mut parent.children {
                children.remove(path);
                if children.is_empty() {
                    parent.children = None;
                }
            }
        }
        if let Some(session) = node.owner.as_session() {
            if let Some(owned) = self.ephemerals.get_mut(&session) {
                owned.remove(path);
                if owned.is_empty() {
                    self.ephemerals.remove(&session);
                }
            }
        } else if node.owner == Owner::CONTAINER {
            self.containers.remove(path);
        } else if node.owner.as_ttl().is_some() {
            self.ttls.remove(path);
        }
        let len = node.data_len();
        self.data_size -= path.len() + len;
        self.quotas.deleted(path);
        self.count_in_quota(path, -1, len_change(len, 0));
        let acl = node.acl;
        self.acls.release(&acl);
        seen(self, Change::Deleted { path: Arc::clone(path), acl });
    }

    /// Adds a change to the statistics of the deepest quota above it. Only their data changes: no version, no time, and no
    /// watch fires.
    fn count_in_quota(&mut self, path: &str, count: i64, bytes: i64) {
        let Some(top) = self.quotas.over(path) else { return };
        let stats_path = stats_path(top);
        let Some(node) = self.get(&stats_path) else { return };
        match node.data().and_then(|data| Usage::parse(data)) {
            Some(usage) => self.write_usage(&stats_path, usage.plus(count, bytes)),
            // A client has overwritten them with something else, which crashes a real server.
            None => {
                let top = top.into();
                self.quotas.recounts.insert(top);
            }
        }
    }

    /// Recounts the subtree of a quota.
    fn recount_quota(&mut self, top: &str) {
        let mut usage = Usage::default();
        let mut below: Vec<&str> = vec![top];
        while let Some(path) = below.pop() {
            if let Some(node) = self.get(path) {
                usage = usage.plus(1, len_change(0, node.data_len()));
                below.extend(node.children().map(|child| &**child));
            }
        }
        self.write_usage(&stats_path(top), usage);
    }

    fn write_usage(&mut self, stats_path: &str, usage: Usage) {
        if let Some(node) = self.nodes.get_mut(stats_path) {
            let data = Bytes::from(usage.to_string());
            self.data_size = self.data_size - node.data_len() + data.len();
            node.data = Some(data);
        }
    }
}

#[allow(clippy::cast_possible_wrap, reason = "no data is that long")]
fn len_change(old: usize, new: usize) -> i64 {
    new as i64 - old as i64
}
