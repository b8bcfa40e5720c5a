//! [`PathCheck`]: whether the paths of a snapshot are a tree.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use zoolet_proto::path;

/// Finds a path that comes twice or before its parent, without a tree. It keeps a hash of 64 bits of each path, so
/// it may be wrong, with a million paths once in thirty million runs.
#[derive(Default)]
pub(super) struct PathCheck {
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl PathCheck {
    pub(super) fn insert(&mut self, path: &str) -> Result<(), String> {
        if path != "/" {
            let parent = path::parent(path);
            if !self.seen.contains(&self.hasher.hash_one(parent)) {
                return Err(format!("the znode {path} comes before its parent {parent}"));
            }
        }
        match self.seen.insert(self.hasher.hash_one(path)) {
            true => Ok(()),
            false => Err(format!("the znode {path} is there twice")),
        }
    }
}
