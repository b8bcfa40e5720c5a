//! Where recursive watches are, and whom they notify.
//!
//! A change looks for them on every ancestor. So they have a table of their own, in which the hash of a path goes on from
//! that of its parent: all ancestors together cost one pass over the path, which ends at the length of the longest path that
//! has such a watch.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use crate::message::ConnId;
use crate::watch::Modes;
use crate::watchers::{Lists, Watchers, is_covered, push_unless_empty};

/// The paths that have recursive watches.
#[derive(Debug, Default)]
pub(crate) struct RecursiveWatches {
    tops: HashTable<Top>,
    hasher: DefaultHashBuilder,
    /// How many of the paths have each length.
    lengths: BTreeMap<usize, usize>,
}

/// A path with recursive watches.
#[derive(Debug)]
struct Top {
    path: Arc<str>,
    watches: usize,
    /// Whom it notifies besides those that its ancestors notify, as of a generation of the watch table.
    snapshot: Option<(u64, Arc<[ConnId]>)>,
}

impl RecursiveWatches {
    /// Counts a new watch.
    pub(crate) fn add(&mut self, path: &Arc<str>) {
        let Self { tops, hasher, lengths } = self;
        let hash = |path: &str| hash(hasher, path);
        match tops.entry(hash(path), |top| top.path == *path, |top| hash(&top.path)) {
            Entry::Occupied(mut top) => top.get_mut().watches += 1,
            Entry::Vacant(slot) => {
                slot.insert(Top { path: Arc::clone(path), watches: 1, snapshot: None });
                *lengths.entry(path.len()).or_default() += 1;
            }
        }
    }

    /// Counts a watch that is gone.
    pub(crate) fn remove(&mut self, path: &str) {
        let Ok(mut top) = self.tops.find_entry(hash(&self.hasher, path), |top| *top.path == *path) else {
            return;
        };
        top.get_mut().watches -= 1;
        if top.get().watches == 0 {
            top.remove();
            if let Some(paths) = self.lengths.get_mut(&path.len()) {
                *paths -= 1;
                if *paths == 0 {
                    self.lengths.remove(&path.len());
                }
            }
        }
    }

    /// Adds to `lists` the connections with a recursive watch on `path` or above it, each once.
    pub(crate) fn collect(
        &mut self,
        path: &str,
        generation: u64,
        by_path: &HashMap<Arc<str>, Watchers>,
        lists: &mut Lists,
    ) {
        let Self { tops, hasher, lengths } = self;
        let Some((longest, _)) = lengths.last_key_value() else { return };
        let mut look_up = |path: &str, hash: u64| {
            let Some(top) = tops.find_mut(hash, |top| *top.path == *path) else { return };
            let list = match &top.snapshot {
                Some((then, list)) if *then == generation => Arc::clone(list),
                _ => {
                    let watchers = by_path.get(path).into_iter().flat_map(Watchers::iter);
                    let recursive = watchers.filter(|(_, modes)| modes.has(Modes::RECURSIVE));
                    let others = recursive.map(|(conn, _)| conn).filter(|conn| !is_covered(*conn, lists));
                    let list: Arc<[ConnId]> = others.collect();
                    top.snapshot = Some((generation, Arc::clone(&list)));
                    list
                }
            };
            push_unless_empty(lists, (&list).into());
        };
        // Unlike every other path, the root is not a prefix, up to a slash, of those below it.
        if path.len() > 1 {
            look_up("/", hash(hasher, "/"));
        }
        let mut state = hasher.build_hasher();
        let mut done = 0;
        for end in ends(path).take_while(|end| end <= longest) {
            state.write(&path.as_bytes()[done..end]);
            done = end;
            look_up(&path[..end], state.clone().finish());
        }
    }
}

/// Where the paths of the ancestors, but for the root, and the path itself end.
fn ends(path: &str) -> impl Iterator<Item = usize> {
    let slashes = path.bytes().enumerate().skip(1).filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
    slashes.chain([path.len()])
}

/// The hash of a path, component by component.
fn hash(hasher: &DefaultHashBuilder, path: &str) -> u64 {
    let mut state = hasher.build_hasher();
    let mut done = 0;
    for end in ends(path) {
        state.write(&path.as_bytes()[done..end]);
        done = end;
    }
    state.finish()
}
