//! [`TreeLoader`]: builds a tree from the znodes of a snapshot.

use std::fmt;
use std::sync::Arc;

use zoolet_proto::Zxid;

use crate::nodes::NodeIndex;
use crate::record::ZnodeRecord;
use crate::tree::{ROOT, Tree, is_below_root};
use crate::znode::Znode;

/// Builds a tree from the znodes of a snapshot, parents first.
#[derive(Debug)]
pub struct TreeLoader {
    tree: Tree,
    newest: Zxid,
}

/// Why the znodes of a snapshot do not make a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// No znode can have this path.
    InvalidPath(Arc<str>),
    /// The parent of the znode at this path does not come before it.
    NoParent(Arc<str>),
    /// Two znodes have this path.
    Duplicate(Arc<str>),
    /// There is no root.
    NoRoot,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPath(path) => write!(f, "no znode can have the path {path:?}"),
            Self::NoParent(path) => write!(f, "the parent of {path:?} does not come before it"),
            Self::Duplicate(path) => write!(f, "there are two znodes {path:?}"),
            Self::NoRoot => f.write_str("there is no root znode"),
        }
    }
}

impl std::error::Error for LoadError {}

impl TreeLoader {
    /// Begins an empty tree, which keeps its digest if `digest` is set.
    pub fn new(digest: bool) -> Self {
        let tree = Tree::without_znodes();
        Self { tree: if digest { tree.keeping_digest() } else { tree }, newest: Zxid(0) }
    }

    /// Adds a znode.
    ///
    /// # Errors
    /// Its path is invalid, or has a znode, or its parent has none.
    pub fn insert(&mut self, record: ZnodeRecord) -> Result<(), LoadError> {
        let path = Arc::clone(&record.path);
        let is_root = *path == *ROOT;
        if !is_root && !is_below_root(&path) {
            return Err(LoadError::InvalidPath(path));
        }
        self.newest = self.newest.max(record.czxid).max(record.mzxid).max(record.pzxid);
        let parent = self.tree.parent_of(&path);
        if parent == NodeIndex::NONE && !is_root {
            return Err(LoadError::NoParent(path));
        }
        if !self.tree.insert(record.into(), parent) {
            return Err(LoadError::Duplicate(path));
        }
        self.tree.quotas.created(&path);
        Ok(())
    }

    /// The newest transaction that one of the znodes shows. Above the zxid of the snapshot if it is fuzzy: then the log must reach
    /// at least as far.
    pub fn newest(&self) -> Zxid {
        self.newest
    }

    /// Ends with the zxid of the last transaction that the snapshot is complete up to.
    ///
    /// As on a real server, statistics of quotas are counted anew. System znodes that are missing, as in data of an old server,
    /// are added.
    ///
    /// # Errors
    /// There is no root.
    pub fn finish(self, last_zxid: Zxid) -> Result<Tree, LoadError> {
        let Self { mut tree, .. } = self;
        if tree.get(ROOT).is_none() {
            return Err(LoadError::NoRoot);
        }
        tree.last_zxid = last_zxid;
        tree.insert_system_znodes();
        tree.recount_all_quotas();
        Ok(tree)
    }
}

impl From<ZnodeRecord> for Znode {
    fn from(record: ZnodeRecord) -> Self {
        let mut node =
            Self::new(record.path, record.data, record.acl, record.owner, record.czxid, record.ctime);
        node.mzxid = record.mzxid;
        node.mtime = record.mtime;
        node.version = record.version;
        node.aversion = record.aversion;
        if record.pzxid != record.czxid || record.creates != 0 {
            let children = node.children_mut();
            children.pzxid = record.pzxid;
            children.creates = record.creates;
        }
        node
    }
}
