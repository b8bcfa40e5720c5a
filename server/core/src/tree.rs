//! The tree of znodes. [`Tree::apply`] is the only code that changes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use zoolet_proto::{Acl, AclList, NameList, SessionId, Stat, Zxid, path};

use crate::access::AclCache;
use crate::message::Millis;
use crate::nodes::{NodeIndex, Nodes};
use crate::paths::{CONFIG, QUOTA, ROOT, SYSTEM, paths_after};
use crate::quota::{Quotas, Usage, signed, stats_path};
use crate::tracker::ChangeTracker;
use crate::txn::{Txn, TxnOp};
use crate::znode::{Children, Owner, Znode};

/// All znodes, and their indexes.
#[derive(Debug)]
pub struct Tree {
    pub(crate) nodes: Nodes,
    pub(crate) ephemerals: HashMap<SessionId, BTreeSet<Arc<str>>>,
    pub(crate) containers: BTreeSet<Arc<str>>,
    pub(crate) ttls: BTreeSet<Arc<str>>,
    pub(crate) acls: AclCache,
    pub(crate) quotas: Quotas,
    data_size: usize,
    pub(crate) last_zxid: Zxid,
    /// The transaction at which all of it was replaced by a snapshot, if it ever was.
    pub(crate) restored_at: Option<Zxid>,
    /// What has to know of every change, if anything: a tree without a log pays one branch for it.
    pub(crate) tracker: Option<Box<ChangeTracker>>,
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
        acl: AclList,
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
        let mut tree = Self::without_znodes();
        tree.last_zxid = initial;
        tree.insert_system_znodes();
        tree
    }

    /// A tree that does not even have a root.
    pub(crate) fn without_znodes() -> Self {
        Self {
            nodes: Nodes::default(),
            ephemerals: HashMap::new(),
            containers: BTreeSet::new(),
            ttls: BTreeSet::new(),
            acls: AclCache::default(),
            quotas: Quotas::default(),
            data_size: 0,
            last_zxid: Zxid(0),
            restored_at: None,
            tracker: None,
        }
    }

    /// Inserts those of the root and the system znodes that do not exist.
    pub(crate) fn insert_system_znodes(&mut self) {
        for path in [ROOT, SYSTEM, QUOTA, CONFIG] {
            if self.get(path).is_some() {
                continue;
            }
            let acl = if path == CONFIG { Acl::read_only() } else { Acl::open() };
            let acl = self.acls.shared(acl);
            let mut node = Znode::new(path.into(), Some(Bytes::new()), acl, Owner::PERSISTENT, Zxid(0), 0);
            if path == CONFIG {
                // As on a real server, which sets the ACL of this znode before it creates it.
                node.aversion = -1;
            }
            let parent = self.parent_of(path);
            self.insert(node, parent);
        }
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

    /// The zxid at which all of it was replaced by an older snapshot, if it ever was: what a client has seen before says nothing of
    /// it.
    pub fn restored_at(&self) -> Option<Zxid> {
        self.restored_at
    }

    /// Paths of the ephemerals of a session, sorted.
    pub fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &Arc<str>> {
        self.ephemerals.get(&session).into_iter().flatten()
    }

    /// The paths of the ephemerals of a session, sorted, from the one after `after`.
    pub fn ephemerals_after(
        &self,
        session: SessionId,
        after: Option<&str>,
    ) -> impl Iterator<Item = &Arc<str>> {
        self.ephemerals.get(&session).into_iter().flat_map(move |paths| paths_after(paths, after))
    }

    /// How many ephemerals a session has.
    pub fn count_ephemerals(&self, session: SessionId) -> usize {
        self.ephemerals.get(&session).map_or(0, BTreeSet::len)
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

    /// Applies a transaction and reports each of its steps to `seen`.
    ///
    /// No check, no clock, no failure: a write is refused when it is decided. A step whose znode does not exist, which is
    /// possible only with the log of another tree, changes nothing.
    pub fn apply(&mut self, txn: &Txn, seen: &mut impl FnMut(&Tree, Change)) {
        self.last_zxid = txn.zxid;
        self.step(txn.zxid, txn.time, &txn.op, seen);
    }

    pub(crate) fn step(
        &mut self,
        zxid: Zxid,
        time: Millis,
        op: &TxnOp,
        seen: &mut impl FnMut(&Tree, Change),
    ) {
        match op {
            TxnOp::Create { path, data, acl, owner, parent_creates } => {
                let node = Znode::new(Arc::clone(path), data.clone(), acl.clone(), *owner, zxid, time.0);
                let stat = node.stat();
                let parent = self.parent_of(path);
                // Of the log of another tree: there the znode may exist, and stays as it is.
                if self.create(node, parent) {
                    self.count_creates(parent, *parent_creates, zxid);
                }
                seen(self, Change::Created { path: Arc::clone(path), stat });
            }
            TxnOp::Delete { path } => self.delete(zxid, path, seen),
            TxnOp::SetData { path, data, version } => {
                let Some(node) = self.nodes.get_mut(path) else { return };
                track(&mut self.tracker, |tracker| tracker.before(node));
                let old = std::mem::replace(&mut node.data, data.clone());
                node.version = *version;
                node.mzxid = zxid;
                node.mtime = time.0;
                track(&mut self.tracker, |tracker| tracker.after_data(node));
                // The quota's statistics change in the same step, without a transaction of their own.
                let (stat, parent) = (node.stat(), node.parent);
                let change = len_change(old.as_ref().map_or(0, Bytes::len), node.data_len());
                self.count_bytes(parent, change);
                self.count_in_quota(path, 0, change);
                seen(self, Change::DataSet { path: Arc::clone(path), stat });
            }
            TxnOp::SetAcl { path, acl, aversion } => {
                let Some(node) = self.nodes.get_mut(path) else { return };
                let old = tracked(&mut self.tracker, node, |node| {
                    node.aversion = *aversion;
                    std::mem::replace(&mut node.acl, self.acls.keep(acl))
                });
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

    /// Has later readings of the children of a znode use this list, as long as it is in memory and right.
    pub(crate) fn keep_names(&mut self, path: &str, names: &NameList) {
        let path = if path.is_empty() { ROOT } else { path };
        let children = self.nodes.get_mut(path).and_then(|node| node.children.as_mut());
        if let Some(children) = children {
            children.keep(names);
        }
    }

    /// Sets the number of children that a znode has ever had. Returns false if there is no such znode.
    pub(crate) fn set_counter(&mut self, path: &str, children: i64) -> bool {
        let Some(node) = self.nodes.get_mut(path) else { return false };
        tracked(&mut self.tracker, node, |node| node.children_mut().creates = children);
        true
    }

    /// Where the parent of a znode is, if it has one.
    pub(crate) fn parent_of(&self, path: &str) -> NodeIndex {
        let parent = if *path == *ROOT { None } else { self.nodes.find(path::parent(path)) };
        parent.unwrap_or(NodeIndex::NONE)
    }

    /// Creates a znode. Returns false if there is one at its path, which stays: possible only with the log of another tree.
    pub(crate) fn create(&mut self, node: Znode, parent: NodeIndex) -> bool {
        let (path, len) = (Arc::clone(&node.path), node.data_len());
        if !self.insert(node, parent) {
            return false;
        }
        let uncounted = self.quotas.created(&path);
        self.count_in_quota(&path, 1, len_change(0, len));
        if let Some(top) = uncounted {
            self.recount_quota(top);
        }
        true
    }

    /// Raises how many children a znode has ever had, and when the list changed.
    pub(crate) fn count_creates(&mut self, at: NodeIndex, creates: i64, zxid: Zxid) {
        let Some(node) = self.nodes.at_mut(at) else { return };
        tracked(&mut self.tracker, node, |node| {
            let children = node.children_mut();
            children.pzxid = children.pzxid.max(zxid);
            children.creates = children.creates.max(creates);
        });
    }

    /// Sets when the list of children of a znode changed, if that is later than before.
    pub(crate) fn raise_pzxid(&mut self, path: &str, zxid: Zxid) {
        let Some(node) = self.nodes.get_mut(path).filter(|node| zxid > node.pzxid()) else { return };
        tracked(&mut self.tracker, node, |node| node.children_mut().pzxid = zxid);
    }

    /// Inserts a znode, and adds it to its parent and to the indexes. Returns false if there is one at its path, which stays.
    pub(crate) fn insert(&mut self, node: Znode, parent: NodeIndex) -> bool {
        self.insert_with(node, parent, Children::insert)
    }

    /// As [`Tree::insert`], with another way to add the path to the children of the parent.
    #[inline]
    pub(crate) fn insert_with(
        &mut self,
        mut node: Znode,
        parent: NodeIndex,
        list: impl FnOnce(&mut Children, &Arc<str>),
    ) -> bool {
        let (path, owner, len) = (Arc::clone(&node.path), node.owner, node.data_len());
        node.parent = parent;
        let Some(node) = self.nodes.insert(node) else { return false };
        node.acl = self.acls.keep(&node.acl);
        track(&mut self.tracker, |tracker| tracker.after_data(node));
        self.data_size += path.len() + len;
        if let Some(parent) = self.nodes.at_mut(parent) {
            list(parent.children_mut(), &path);
        }
        self.count_below(parent, 1, len_change(0, len));
        if let Some(index) = self.index(owner) {
            index.insert(path);
        }
        true
    }

    pub(crate) fn delete(&mut self, zxid: Zxid, path: &Arc<str>, seen: &mut impl FnMut(&Tree, Change)) {
        let Some(node) = self.nodes.remove(path) else { return };
        track(&mut self.tracker, |tracker| tracker.before(&node));
        let len = node.data_len();
        self.count_below(node.parent, -1, len_change(len, 0));
        if let Some(parent) = self.nodes.at_mut(node.parent) {
            tracked(&mut self.tracker, parent, |parent| {
                let children = parent.children_mut();
                children.pzxid = children.pzxid.max(zxid);
                children.remove(path);
            });
        }
        for orphan in node.children() {
            // Possible only with the log of another tree.
            if let Some(orphan) = self.nodes.get_mut(orphan) {
                orphan.parent = NodeIndex::NONE;
            }
        }
        if let Some(index) = self.index(node.owner) {
            index.remove(path);
            if let (true, Some(session)) = (index.is_empty(), node.owner.as_session()) {
                self.ephemerals.remove(&session);
            }
        }
        self.data_size -= path.len() + len;
        self.quotas.deleted(path);
        self.count_in_quota(path, -1, len_change(len, 0));
        let acl = node.acl;
        self.acls.release(&acl);
        seen(self, Change::Deleted { path: Arc::clone(path), acl });
    }

    /// The index that has the znodes of this owner, if they are in one.
    fn index(&mut self, owner: Owner) -> Option<&mut BTreeSet<Arc<str>>> {
        match owner.as_session() {
            Some(session) => Some(self.ephemerals.entry(session).or_default()),
            None if owner == Owner::CONTAINER => Some(&mut self.containers),
            None => owner.as_ttl().map(|_| &mut self.ttls),
        }
    }

    /// Counts a change below a znode and all above it.
    fn count_below(&mut self, mut at: NodeIndex, count: isize, bytes: isize) {
        while let Some(node) = self.nodes.at_mut(at) {
            if let Some(children) = &mut node.children {
                children.descendants = children.descendants.saturating_add_signed(count);
                children.bytes = children.bytes.saturating_add_signed(bytes);
            }
            at = node.parent;
        }
    }

    /// Counts a change of the length of the data of a child of `parent`.
    fn count_bytes(&mut self, parent: NodeIndex, change: isize) {
        if change != 0 {
            self.data_size = self.data_size.saturating_add_signed(change);
            self.count_below(parent, 0, change);
        }
    }

    /// Adds a change to the statistics of the deepest quota above it. Only their data changes: no version, no time, and no
    /// watch fires.
    fn count_in_quota(&mut self, path: &str, count: i64, bytes: isize) {
        let Some(top) = self.quotas.over(path) else { return };
        let stats_path = stats_path(top);
        let Some(node) = self.get(&stats_path) else { return };
        match node.data().and_then(|data| Usage::parse(data)) {
            Some(usage) => {
                let bytes = i64::try_from(bytes).unwrap_or_default();
                self.write_usage(&stats_path, usage.plus(count, bytes));
            }
            // A client has overwritten them with something else, which crashes a real server.
            None => self.recount_quota(top),
        }
    }

    /// Sets the statistics of a quota to the size of its subtree.
    fn recount_quota(&mut self, top: &str) {
        let usage = self.get(top).map_or_else(Usage::default, |node| {
            Usage::default().plus(1 + signed(node.descendants()), signed(node.subtree_bytes()))
        });
        self.write_usage(&stats_path(top), usage);
    }

    /// Sets the statistics of every quota.
    pub(crate) fn recount_all_quotas(&mut self) {
        self.quotas.tops().iter().for_each(|top| self.recount_quota(top));
    }

    fn write_usage(&mut self, stats_path: &str, usage: Usage) {
        if let Some(node) = self.nodes.get_mut(stats_path) {
            let data = Bytes::from(usage.to_string());
            let change = len_change(node.data_len(), data.len());
            let parent = node.parent;
            track(&mut self.tracker, |tracker| tracker.before(node));
            node.data = Some(data);
            track(&mut self.tracker, |tracker| tracker.after_data(node));
            self.count_bytes(parent, change);
        }
    }
}

/// Reports a change to the tracker, if there is one.
#[inline]
pub(crate) fn track(tracker: &mut Option<Box<ChangeTracker>>, notify: impl FnOnce(&mut ChangeTracker)) {
    if let Some(tracker) = tracker {
        notify(tracker);
    }
}

/// Changes a znode but for its data, and reports that to the tracker.
#[inline]
pub(crate) fn tracked<T>(
    tracker: &mut Option<Box<ChangeTracker>>,
    node: &mut Znode,
    change: impl FnOnce(&mut Znode) -> T,
) -> T {
    track(tracker, |tracker| tracker.before(node));
    let changed = change(node);
    track(tracker, |tracker| tracker.after(node));
    changed
}

/// No data is too long for that.
fn len_change(old: usize, new: usize) -> isize {
    new as isize - old as isize
}
