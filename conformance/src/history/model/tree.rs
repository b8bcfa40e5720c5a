//! The znodes of the model: positions, permissions and roll-back.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zoolet_proto::{Acl, ErrorCode, Perms, SessionId, Stat, Zxid, path};

/// The znodes that always exist.
pub(super) const SYSTEM: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];
const CONFIG: &str = SYSTEM[3];

#[derive(Debug, Clone, Default)]
pub(super) struct ModelTree {
    nodes: BTreeMap<String, ModelNode>,
    /// Names by path of the parent.
    children: BTreeMap<String, BTreeSet<String>>,
    /// Paths of the ephemerals of each session.
    owned: BTreeMap<SessionId, BTreeSet<String>>,
    /// Replaced znodes since [`ModelTree::begin`], oldest first.
    undo: Vec<(String, Option<ModelNode>)>,
}

#[derive(Debug, Clone)]
pub(super) struct ModelNode {
    pub(super) data: Option<Bytes>,
    pub(super) acl: Vec<Acl>,
    pub(super) owner: ModelOwner,
    /// How many children were ever created below it.
    pub(super) creates: i64,
    /// Its zxids, times and versions. [`ModelTree::stat`] adds what follows from its data, its owner and its children.
    pub(super) stat: Stat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelOwner {
    None,
    Session(SessionId),
    Container,
    Ttl(i64),
}

impl ModelNode {
    pub(super) fn new(data: Option<Bytes>, acl: Vec<Acl>, owner: ModelOwner, zxid: Zxid, time: i64) -> Self {
        let stat =
            Stat { czxid: zxid, mzxid: zxid, pzxid: zxid, ctime: time, mtime: time, ..Stat::default() };
        Self { data, acl, owner, creates: 0, stat }
    }
}

impl ModelTree {
    /// The tree of an empty database.
    pub(super) fn new() -> Self {
        let mut tree = Self::default();
        for path in SYSTEM {
            let mut node = ModelNode::new(Some(Bytes::new()), Acl::open(), ModelOwner::None, Zxid(0), 0);
            if path == CONFIG {
                (node.acl, node.stat.aversion) = (Acl::read_only(), -1);
            }
            tree.put(path, Some(node));
        }
        tree
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// The znode at `path`, if every client has one of `perms` on it.
    pub(super) fn node(&self, path: &str, perms: Perms) -> Result<&ModelNode, ErrorCode> {
        let node = self.nodes.get(key(path)).ok_or(ErrorCode::NoNode)?;
        let allowed = perms == Perms::NONE || node.acl.iter().any(|entry| entry.perms.intersects(perms));
        if allowed { Ok(node) } else { Err(ErrorCode::NoAuth) }
    }

    pub(super) fn names(&self, path: &str) -> impl Iterator<Item = &str> {
        self.children.get(key(path)).into_iter().flatten().map(String::as_str)
    }

    pub(super) fn descendants(&self, path: &str) -> i32 {
        self.names(path).map(|name| 1 + self.descendants(&path::join(path, name))).sum()
    }

    pub(super) fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &String> {
        self.owned.get(&session).into_iter().flatten()
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "int on the wire")]
    pub(super) fn stat(&self, path: &str, node: &ModelNode) -> Stat {
        let children = self.children.get(key(path)).map_or(0, BTreeSet::len) as i64;
        Stat {
            // Creates plus deletes. System znodes were never created, so that it can be negative.
            cversion: (2 * node.creates - children) as i32,
            ephemeral_owner: if let ModelOwner::Session(id) = node.owner { id } else { SessionId(0) },
            data_length: node.data.as_ref().map_or(0, Bytes::len) as i32,
            num_children: children as i32,
            ..node.stat
        }
    }

    /// Replaces or removes the znode at `path`.
    pub(super) fn put(&mut self, path: &str, node: Option<ModelNode>) {
        let old = self.replace(path, node);
        self.undo.push((path.to_owned(), old));
    }

    /// Begins a transaction: later changes can be rolled back.
    pub(super) fn begin(&mut self) {
        self.undo.clear();
    }

    /// Undoes all changes of the transaction.
    pub(super) fn roll_back(&mut self) {
        while let Some((path, node)) = self.undo.pop() {
            self.replace(&path, node);
        }
    }

    fn replace(&mut self, path: &str, node: Option<ModelNode>) -> Option<ModelNode> {
        let name = path::name(path);
        if !name.is_empty() {
            let names = self.children.entry(path::parent(path).to_owned()).or_default();
            if node.is_some() {
                names.insert(name.to_owned())
            } else {
                names.remove(name)
            };
        }
        let owner = node.as_ref().map(|node| node.owner);
        let old = match node {
            Some(node) => self.nodes.insert(path.to_owned(), node),
            None => self.nodes.remove(path),
        };
        if let Some(ModelOwner::Session(session)) = old.as_ref().map(|node| node.owner) {
            self.owned.entry(session).or_default().remove(path);
        }
        if let Some(ModelOwner::Session(session)) = owner {
            self.owned.entry(session).or_default().insert(path.to_owned());
        }
        old
    }
}

/// The empty path is an alias of the root.
fn key(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}
