//! A snapshot of the tree, taken in short slices while writes go on: the state at its beginning, exactly.
//!
//! The walk goes depth first, in the order of path components, so a parent comes before its children and `/a/b` before `/a-b`.
//! Each slice continues from where the one before ended. Meanwhile the tree changes. What existed at the beginning, has
//! not been walked over and is about to change is saved first, once ([`SnapshotWalk::save`]); the walk takes what is saved
//! in place of the znode. A znode that was created later is known by its czxid and left out.
//!
//! So a znode of the beginning is given out once: as it is, if nothing has changed it, or else as it was saved. Without a
//! snapshot being taken, a change costs one branch.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::collections::btree_set;
use std::ops::Bound;
use std::sync::Arc;

use zoolet_proto::{AclList, Zxid, path};

use crate::nodes::Nodes;
use crate::paths::ROOT;
use crate::record::ZnodeRecord;
use crate::tree::Tree;
use crate::znode::Znode;

/// What a snapshot begins with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SnapshotHeader {
    /// The last transaction that it shows.
    pub zxid: Zxid,
    /// The digest of the tree, if it keeps one.
    pub digest: Option<u64>,
    /// The access control lists of its znodes, each once, but for the one that gives everybody everything. In the order in which
    /// they came into use.
    pub acls: Vec<AclList>,
    /// See [`Tree::restored_at`].
    pub restored_at: Option<Zxid>,
}

impl SnapshotHeader {
    /// The header of a tree that was never restored.
    pub fn new(zxid: Zxid, digest: Option<u64>, acls: Vec<AclList>) -> Self {
        Self { zxid, digest, acls, restored_at: None }
    }
}

/// A snapshot being taken.
#[derive(Debug)]
pub(crate) struct SnapshotWalk {
    /// The last transaction that it shows.
    zxid: Zxid,
    /// The last znode that was given out.
    passed: Option<Arc<str>>,
    /// How far the walk over the tree has come. It may be before `passed` if that was saved.
    position: Position,
    /// The znodes that have changed since the beginning and come later, as they were.
    saved: BTreeMap<ByComponents, ZnodeRecord>,
}

/// A place between two znodes of the tree, in the order of the walk. It stays right whatever becomes of the znode.
#[derive(Debug, Clone)]
enum Position {
    /// Before the root.
    Start,
    /// After a znode and before its children.
    Inside(Arc<str>),
    /// After a znode and its descendants.
    After(Arc<str>),
}

impl Tree {
    /// Begins a snapshot of the tree as it is now. One that was being taken is given up.
    pub fn begin_snapshot(&mut self) -> SnapshotHeader {
        let (zxid, digest, acls) = (self.last_zxid(), self.digest(), self.acls.lists());
        let walk = SnapshotWalk { zxid, passed: None, position: Position::Start, saved: BTreeMap::new() };
        self.tracker.get_or_insert_default().snapshot = Some(walk);
        SnapshotHeader { zxid, digest, acls, restored_at: self.restored_at }
    }

    /// Passes the next znodes of the snapshot to `take`, parents first. Returns whether there are more.
    ///
    /// Ends after `max` steps or when the znodes have `bytes` bytes of paths and data. A step is a znode, or a move to where
    /// the next one may be: so a slice takes a bounded time, and may pass none.
    pub fn next_slice(&mut self, max: usize, bytes: usize, take: &mut dyn FnMut(ZnodeRecord)) -> bool {
        let Self { nodes, tracker, .. } = self;
        let walk = tracker.as_mut().and_then(|tracker| tracker.snapshot.as_mut());
        walk.is_some_and(|walk| walk.next_slice(nodes, max, bytes, take))
    }

    /// Ends the snapshot, complete or not.
    pub fn end_snapshot(&mut self) {
        if let Some(tracker) = &mut self.tracker {
            tracker.snapshot = None;
            if tracker.digest.is_none() {
                self.tracker = None;
            }
        }
    }
}

impl SnapshotWalk {
    /// Saves a znode that is about to change, unless that is done, or it was given out already, or is newer than the snapshot.
    pub(crate) fn save(&mut self, node: &Znode) {
        if node.czxid > self.zxid || self.has_passed(&node.path) {
            return;
        }
        if let Entry::Vacant(vacant) = self.saved.entry(ByComponents(Arc::clone(&node.path))) {
            vacant.insert(ZnodeRecord::of(node));
        }
    }

    fn has_passed(&self, path: &str) -> bool {
        self.passed.as_deref().is_some_and(|passed| by_components(path, passed).is_le())
    }

    fn next_slice(
        &mut self,
        nodes: &Nodes,
        max: usize,
        bytes: usize,
        take: &mut dyn FnMut(ZnodeRecord),
    ) -> bool {
        let mut walk = TreeWalk { nodes, position: self.position.clone(), below: Vec::new() };
        // The next znode of the tree, if it is known, and the end of the tree, if it is reached.
        let (mut next, mut ended) = (None, false);
        let mut size = 0;
        for _ in 0..max.max(1) {
            if next.is_none() && !ended {
                self.position = walk.position.clone();
                match walk.step() {
                    Step::Znode(node) if node.czxid <= self.zxid => next = Some(node),
                    Step::Znode(_) | Step::Move => continue,
                    Step::End => ended = true,
                }
            }
            let is_due =
                |saved: &str| next.is_none_or(|node: &Znode| by_components(saved, &node.path).is_le());
            let record = match self.saved.first_entry().filter(|saved| is_due(&saved.key().0)) {
                Some(saved) => {
                    // If the next one has changed since the beginning, what was saved is given out instead.
                    next = next.filter(|node| node.path != saved.key().0);
                    saved.remove()
                }
                None => match next.take() {
                    Some(node) => ZnodeRecord::of(node),
                    None => break,
                },
            };
            self.passed = Some(Arc::clone(&record.path));
            size += record.path.len() + record.data.as_ref().map_or(0, bytes::Bytes::len);
            take(record);
            if size >= bytes {
                break;
            }
        }
        if next.is_none() {
            self.position = walk.position;
        }
        !ended || !self.saved.is_empty()
    }
}

/// A walk over the tree from a position.
struct TreeWalk<'t> {
    nodes: &'t Nodes,
    position: Position,
    /// What is left of the children of the last znode and of its ancestors, as far as this walk has been there.
    below: Vec<Below<'t>>,
}

/// What is left of the children of a znode.
struct Below<'t> {
    parent: &'t Znode,
    children: btree_set::Range<'t, Arc<str>>,
    /// How many of the next ones are in the processor's caches.
    near: usize,
}

/// How many znodes are read into the processor's caches together.
const NEAR: usize = 32;

enum Step<'t> {
    Znode(&'t Znode),
    Move,
    End,
}

impl<'t> TreeWalk<'t> {
    fn step(&mut self) -> Step<'t> {
        if let Some(Below { parent, children, near }) = self.below.last_mut() {
            if *near == 0 {
                *near = NEAR;
                self.nodes.prefetch(children.clone().take(NEAR).map(|path| &**path));
            }
            *near -= 1;
            let Some(child) = children.next() else {
                self.position = Position::After(Arc::clone(&parent.path));
                self.below.pop();
                return Step::Move;
            };
            return self.nodes.get(child).map_or(Step::Move, |node| self.visit(node));
        }
        match &self.position {
            Position::Start => self.nodes.get(ROOT).map_or(Step::End, |root| self.visit(root)),
            // A slice ended below this znode. Its children may have gone since.
            Position::Inside(path) => {
                match self.nodes.get(path) {
                    Some(node) if node.has_children() => self.descend(node, Bound::Unbounded),
                    _ => self.position = Position::After(Arc::clone(path)),
                }
                Step::Move
            }
            Position::After(path) if **path == *ROOT => Step::End,
            // On to the next sibling. If the parent is gone, so are they, and the walk goes on beside the parent.
            Position::After(path) => {
                let path = Arc::clone(path);
                match self.nodes.get(path::parent(&path)) {
                    Some(parent) => self.descend(parent, Bound::Excluded(&path)),
                    None => self.position = Position::After(path::parent(&path).into()),
                }
                Step::Move
            }
        }
    }

    fn visit(&mut self, node: &'t Znode) -> Step<'t> {
        if node.has_children() {
            self.position = Position::Inside(Arc::clone(&node.path));
            self.descend(node, Bound::Unbounded);
        } else {
            // Saves a step.
            self.position = Position::After(Arc::clone(&node.path));
        }
        Step::Znode(node)
    }

    fn descend(&mut self, node: &'t Znode, from: Bound<&str>) {
        if let Some(children) = &node.children {
            let children = children.paths.range::<str, _>((from, Bound::Unbounded));
            self.below.push(Below { parent: node, children, near: 0 });
        }
    }
}

/// A path in the order of the walk.
#[derive(Debug, PartialEq, Eq)]
struct ByComponents(Arc<str>);

impl Ord for ByComponents {
    fn cmp(&self, other: &Self) -> Ordering {
        by_components(&self.0, &other.0)
    }
}

impl PartialOrd for ByComponents {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares paths component by component: as bytes, but nothing is less than a slash.
fn by_components(one: &str, other: &str) -> Ordering {
    let differ = one.bytes().zip(other.bytes()).find(|(one, other)| one != other);
    match differ {
        None => one.len().cmp(&other.len()),
        Some((b'/', _)) => Ordering::Less,
        Some((_, b'/')) => Ordering::Greater,
        Some((one, other)) => one.cmp(&other),
    }
}

impl ZnodeRecord {
    fn of(node: &Znode) -> Self {
        Self {
            path: Arc::clone(&node.path),
            data: node.data.clone(),
            acl: node.acl.clone(),
            czxid: node.czxid,
            mzxid: node.mzxid,
            pzxid: node.pzxid(),
            ctime: node.ctime,
            mtime: node.mtime,
            version: node.version,
            creates: node.creates(),
            aversion: node.aversion,
            owner: node.owner,
        }
    }
}
