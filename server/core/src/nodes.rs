//! The znodes by path, and by index: a znode knows the index of its parent, so that a change is counted in all ancestors
//! without hashing their paths.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::ops::BitXor;

use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

use crate::znode::Znode;

/// Every znode by its path. It has no order, so no output may depend on iterating it.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    table: HashTable<Slot>,
    /// foldhash, with a seed of its own. It does not withstand a client that times lookups until it knows the seed, and then
    /// creates znodes whose hashes are equal. SipHash would, at a multiple of the cost of a lookup, of which every request has
    /// several. It would protect little, as who may create that many znodes can fill the memory with them. No answer
    /// depends on the order of the table, which would show the seed.
    hasher: DefaultHashBuilder,
    chunks: Vec<Chunk>,
    /// The chunks with vacant places. The first is filled first, so that others become empty.
    vacant: BTreeSet<usize>,
}

/// The place of a znode, valid until it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeIndex(u32);

impl NodeIndex {
    /// No znode: the parent of the root.
    pub(crate) const NONE: Self = Self(u32::MAX);

    fn parts(self) -> (usize, usize) {
        (self.0 as usize / CHUNK, self.0 as usize % CHUNK)
    }
}

/// A slot of the table. With a part of the hash a larger table is filled without looking at the znodes, and a lookup nearly
/// always looks at no other znode than the one that it finds: of a million paths, some hundred pairs have equal parts.
#[derive(Debug, Clone, Copy)]
struct Slot {
    tag: u32,
    index: NodeIndex,
}

impl Slot {
    /// The hash for the table, which takes its bits from both ends.
    fn hash(tag: u32) -> u64 {
        u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// How many znodes are allocated together.
const CHUNK: usize = 128;

/// A part of the znodes. Its memory is freed with its last znode.
#[derive(Debug, Default)]
struct Chunk {
    nodes: Vec<Option<Znode>>,
    free: Vec<u8>,
}

impl Nodes {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Where the znode at `path` is.
    pub(crate) fn find(&self, path: &str) -> Option<NodeIndex> {
        self.tagged(self.tag(path), path)
    }

    #[inline]
    fn tagged(&self, tag: u32, path: &str) -> Option<NodeIndex> {
        let is_it =
            |slot: &Slot| slot.tag == tag && self.at(slot.index).is_some_and(|node| *node.path == *path);
        self.table.find(Slot::hash(tag), is_it).map(|slot| slot.index)
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Znode> {
        self.at(self.find(path)?)
    }

    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut Znode> {
        self.at_mut(self.find(path)?)
    }

    #[inline]
    pub(crate) fn at(&self, index: NodeIndex) -> Option<&Znode> {
        let (chunk, place) = index.parts();
        self.chunks.get(chunk)?.nodes.get(place)?.as_ref()
    }

    pub(crate) fn at_mut(&mut self, index: NodeIndex) -> Option<&mut Znode> {
        let (chunk, place) = index.parts();
        self.chunks.get_mut(chunk)?.nodes.get_mut(place)?.as_mut()
    }

    /// Passes every znode, in no order.
    pub(crate) fn for_each_mut(&mut self, pass: impl FnMut(&mut Znode)) {
        self.chunks.iter_mut().flat_map(|chunk| chunk.nodes.iter_mut().flatten()).for_each(pass);
    }

    /// Reads what lookups of these paths are going to read into the processor's caches. In a tree that is in none, each lookup
    /// waits for memory several times, one after the other; here the waits for all paths are at the same time.
    pub(crate) fn prefetch<'p>(&self, paths: impl Iterator<Item = &'p str>) {
        // What is used of a smaller tree is in the caches.
        const SMALL: usize = 20_000;
        if self.len() < SMALL {
            return;
        }
        let tags: SmallVec<[u32; 32]> = paths.map(|path| self.tag(path)).collect();
        let find = |tag: &u32| self.table.find(Slot::hash(*tag), |slot| slot.tag == *tag);
        let found: SmallVec<[&Slot; 32]> = tags.iter().filter_map(find).collect();
        let nodes: SmallVec<[&Znode; 32]> = found.iter().filter_map(|slot| self.at(slot.index)).collect();
        let first = |bytes: &[u8]| bytes.first().copied().unwrap_or_default();
        let read = |node: &&Znode| first(node.path.as_bytes()) ^ node.data().map_or(0, |data| first(data));
        black_box(nodes.iter().map(read).fold(0, BitXor::bitxor));
    }

    /// Inserts a znode and returns it. If its path has one, which is possible only with the log of another tree, that stays.
    pub(crate) fn insert(&mut self, node: Znode) -> Option<&mut Znode> {
        let tag = self.tag(&node.path);
        if self.tagged(tag, &node.path).is_some() {
            return None;
        }
        let index = self.place(node);
        self.table.insert_unique(Slot::hash(tag), Slot { tag, index }, |slot| Slot::hash(slot.tag));
        self.at_mut(index)
    }

    pub(crate) fn remove(&mut self, path: &str) -> Option<Znode> {
        let tag = self.tag(path);
        let index = self.tagged(tag, path)?;
        if let Ok(slot) = self.table.find_entry(Slot::hash(tag), |slot| slot.index == index) {
            slot.remove();
        }
        self.take(index)
    }

    /// A part of the hash.
    fn tag(&self, path: &str) -> u32 {
        self.hasher.hash_one(path) as u32
    }

    /// Puts a znode into the first vacant place.
    fn place(&mut self, node: Znode) -> NodeIndex {
        let Self { chunks, vacant, .. } = self;
        let at = *vacant.first().unwrap_or(&chunks.len());
        if at == chunks.len() {
            chunks.push(Chunk::default());
            vacant.insert(at);
        }
        let chunk = &mut chunks[at];
        let place = match chunk.free.pop() {
            Some(place) => {
                chunk.nodes[usize::from(place)] = Some(node);
                usize::from(place)
            }
            None => {
                if chunk.nodes.is_empty() {
                    chunk.nodes.reserve_exact(CHUNK);
                }
                chunk.nodes.push(Some(node));
                chunk.nodes.len() - 1
            }
        };
        if chunk.free.is_empty() && chunk.nodes.len() == CHUNK {
            vacant.remove(&at);
        }
        NodeIndex(u32::try_from(at * CHUNK + place).expect("fewer znodes than 2^32"))
    }

    fn take(&mut self, index: NodeIndex) -> Option<Znode> {
        let (at, place) = index.parts();
        let chunk = self.chunks.get_mut(at)?;
        let node = chunk.nodes.get_mut(place)?.take()?;
        chunk.free.push(u8::try_from(place).unwrap_or(u8::MAX));
        if chunk.free.len() == chunk.nodes.len() {
            *chunk = Chunk::default();
        }
        self.vacant.insert(at);
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zoolet_proto::{Acl, Zxid};

    use super::*;
    use crate::znode::Owner;

    fn node(path: &str) -> Znode {
        Znode::new(path.into(), None, Acl::open().into(), Owner::PERSISTENT, Zxid(1), 0)
    }

    #[test]
    fn places_of_deleted_znodes_are_used_again_and_empty_chunks_freed() {
        let mut nodes = Nodes::default();
        let path = |n: usize| format!("/{n}");
        assert!((0..10 * CHUNK).all(|n| nodes.insert(node(&path(n))).is_some()));
        assert_eq!(nodes.chunks.len(), 10);
        for n in 0..10 * CHUNK - 1 {
            assert_eq!(nodes.remove(&path(n)).map(|node| node.path), Some(Arc::from(path(n))));
        }
        assert_eq!(nodes.chunks.iter().filter(|chunk| chunk.nodes.capacity() > 0).count(), 1);
        assert!((0..9 * CHUNK).all(|n| nodes.insert(node(&path(n))).is_some()));
        assert!(nodes.insert(node("/1")).is_none(), "it exists");
        assert_eq!((nodes.chunks.len(), nodes.len()), (10, 9 * CHUNK + 1));
        assert!((0..9 * CHUNK).chain([10 * CHUNK - 1]).all(|n| nodes.get(&path(n)).is_some()));
        assert!(nodes.get("/none").is_none() && nodes.remove("/none").is_none());
        assert!(nodes.at(NodeIndex::NONE).is_none());
    }
}
