//! [`TreeLoader`]: builds a tree from the znodes of a snapshot.

use std::sync::Arc;

use hashbrown::HashMap;
use zoolet_proto::{Zxid, path};

use crate::nodes::NodeIndex;
use crate::paths::{ROOT, is_below_root};
use crate::record::ZnodeRecord;
use crate::tree::Tree;
use crate::znode::{Children, Znode};

/// Builds a tree from the znodes of a snapshot, parents first.
#[derive(Debug)]
pub struct TreeLoader {
    tree: Tree,
    newest: Zxid,
    /// The parent of the last znode: most often that of the next one, too.
    parent: Option<(Arc<str>, NodeIndex)>,
    /// Children that are not in the lists of their parents yet. A real server writes children in no order; to sort many of
    /// them at the end takes a fraction of the time of inserting them one by one.
    unlisted: HashMap<NodeIndex, Vec<Arc<str>>>,
}

/// Why the znodes of a snapshot do not make a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No znode can have this path.
    #[error("no znode can have the path {0:?}")]
    InvalidPath(Arc<str>),
    /// The parent of the znode at this path does not come before it.
    #[error("the parent of {0:?} does not come before it")]
    NoParent(Arc<str>),
    /// Two znodes have this path.
    #[error("there are two znodes {0:?}")]
    Duplicate(Arc<str>),
    /// There is no root.
    #[error("there is no root znode")]
    NoRoot,
}

impl TreeLoader {
    /// Begins an empty tree, which keeps its digest if `digest` is set.
    pub fn new(digest: bool) -> Self {
        let tree = Tree::without_znodes();
        let tree = if digest { tree.keeping_digest() } else { tree };
        Self { tree, newest: Zxid(0), parent: None, unlisted: HashMap::new() }
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
        let parent = self.parent_of(&path);
        if parent == NodeIndex::NONE && !is_root {
            return Err(LoadError::NoParent(path));
        }
        let newest = record.czxid.max(record.mzxid).max(record.pzxid);
        let Self { tree, unlisted, .. } = self;
        let list = |children: &mut Children, path: &Arc<str>| {
            const FEW: usize = 64;
            if children.paths.len() < FEW || children.paths.last().is_some_and(|last| last < path) {
                children.insert(path);
            } else {
                unlisted.entry(parent).or_default().push(Arc::clone(path));
            }
        };
        if !tree.insert_with(record.into(), parent, list) {
            return Err(LoadError::Duplicate(path));
        }
        self.newest = self.newest.max(newest);
        self.tree.quotas.created(&path);
        Ok(())
    }

    fn parent_of(&mut self, path: &str) -> NodeIndex {
        let above = path::parent(path);
        match &self.parent {
            Some((parent, index)) if **parent == *above && *path != *ROOT => *index,
            _ => {
                let index = self.tree.parent_of(path);
                self.parent = self.tree.nodes.at(index).map(|node| (Arc::clone(&node.path), index));
                index
            }
        }
    }

    /// The newest transaction that one of the znodes shows. Above the zxid of the snapshot if that is fuzzy: then the log must
    /// reach at least as far.
    pub fn newest(&self) -> Zxid {
        self.newest
    }

    /// Notes at which transaction an earlier server has replaced the tree by a snapshot, if one has.
    pub fn restored_at(&mut self, zxid: Option<Zxid>) {
        self.tree.restored_at = zxid;
    }

    /// Ends with the zxid of the last transaction that the snapshot is complete up to.
    ///
    /// As on a real server, statistics of quotas are counted anew. System znodes that are missing, as in data of an old server,
    /// are added.
    ///
    /// # Errors
    /// There is no root.
    pub fn finish(self, last_zxid: Zxid) -> Result<Tree, LoadError> {
        let Self { mut tree, unlisted, .. } = self;
        for (parent, mut paths) in unlisted {
            sort(&mut paths);
            if let Some(node) = tree.nodes.at_mut(parent) {
                node.children_mut().insert_sorted(paths);
            }
        }
        if tree.get(ROOT).is_none() {
            return Err(LoadError::NoRoot);
        }
        tree.last_zxid = last_zxid;
        tree.insert_system_znodes();
        tree.recount_all_quotas();
        Ok(tree)
    }
}

/// Sorts paths. Compares eight bytes after what all have in common, and the paths themselves only if these are equal.
fn sort(paths: &mut Vec<Arc<str>>) {
    let Some(first) = paths.first().map(Arc::clone) else { return };
    let common =
        |path: &Arc<str>| first.bytes().zip(path.bytes()).take_while(|(one, other)| one == other).count();
    let common = paths.iter().map(common).min().unwrap_or(0);
    let key = |path: &str| {
        let mut key = [0; 8];
        key.iter_mut().zip(path.bytes().skip(common)).for_each(|(to, byte)| *to = byte);
        u64::from_be_bytes(key)
    };
    let mut keyed: Vec<_> = paths.drain(..).map(|path| (key(&path), path)).collect();
    keyed.sort_unstable();
    paths.extend(keyed.into_iter().map(|(_, path)| path));
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
