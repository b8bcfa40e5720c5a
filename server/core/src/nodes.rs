//! The znodes by path. Each znode has its path, so that a slot of the table is one pointer: tables are half empty most of the
//! time.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::znode::Znode;

/// Every znode by its path. It has no order, so no output may depend on iterating it.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    table: HashTable<Box<Znode>>,
    hasher: DefaultHashBuilder,
}

impl Nodes {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Znode> {
        self.table.find(self.hasher.hash_one(path), |node| *node.path == *path).map(|node| &**node)
    }

    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut Znode> {
        self.table.find_mut(self.hasher.hash_one(path), |node| *node.path == *path).map(|node| &mut **node)
    }

    /// Inserts a znode, or replaces the one at its path.
    pub(crate) fn insert(&mut self, node: Znode) {
        let Self { table, hasher } = self;
        let hash = |path: &str| hasher.hash_one(path);
        let node = Box::new(node);
        let same = |other: &str| *other == *node.path;
        match table.entry(hash(&node.path), |other| same(&other.path), |other| hash(&other.path)) {
            Entry::Occupied(mut slot) => *slot.get_mut() = node,
            Entry::Vacant(slot) => {
                slot.insert(node);
            }
        }
    }

    pub(crate) fn remove(&mut self, path: &Arc<str>) -> Option<Box<Znode>> {
        let hash = self.hasher.hash_one(&**path);
        self.table.find_entry(hash, |node| node.path == *path).ok().map(|slot| slot.remove().0)
    }
}
