//! [`Snapshot`]: the znodes of a cache at one zxid.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;
use tokio::time::Instant;
use zoolet_client::Zxid;

use super::entry::{Entry, UnreadableReason};
use super::scope::{child_path, range_below};

/// Sorted by path. A snapshot shares all that it has in common with the one before.
pub(super) type Nodes<T> = RedBlackTreeMapSync<Arc<str>, Arc<Entry<T>>>;

/// All znodes of a cache as they were after one transaction, immutable. Everything that it has is exact at [`as_of`](Snapshot::as_of),
/// and nothing that existed then is missing, save what the cache leaves out and what it may not read.
pub struct Snapshot<T> {
    pub(super) nodes: Nodes<T>,
    pub(super) as_of: Zxid,
    pub(super) epoch: u64,
    pub(super) stale_since: Option<Instant>,
    pub(super) unreadable: Arc<BTreeMap<Arc<str>, UnreadableReason>>,
    pub(super) bytes: usize,
}

impl<T> Snapshot<T> {
    pub(super) fn empty(epoch: u64) -> Self {
        Self {
            nodes: Nodes::new_sync(),
            as_of: Zxid(0),
            epoch,
            stale_since: None,
            unreadable: Arc::default(),
            bytes: 0,
        }
    }

    /// The znode at `path`.
    pub fn get(&self, path: &str) -> Option<&Arc<Entry<T>>> {
        self.nodes.get(path)
    }

    /// Whether there is a znode at `path`.
    pub fn contains(&self, path: &str) -> bool {
        self.nodes.contains_key(path)
    }

    /// The children of the znode at `path`, sorted by name.
    pub fn children<'s>(&'s self, path: &str) -> impl Iterator<Item = &'s Arc<Entry<T>>> + use<'s, T> {
        children(&self.nodes, path)
    }

    /// Every znode, sorted by path: a parent comes before its children.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry<T>>> {
        self.nodes.values()
    }

    /// The number of znodes.
    pub fn len(&self) -> usize {
        self.nodes.size()
    }

    /// Whether there is no znode: the root does not exist.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The transaction after which the znodes were so.
    pub fn as_of(&self) -> Zxid {
        self.as_of
    }

    /// Since when the cache cannot say whether this is still so: there is no connection, or it is being compared after a
    /// new one. `None` if changes arrive. The snapshot remains exact at its zxid.
    pub fn stale_since(&self) -> Option<Instant> {
        self.stale_since
    }

    /// Counts the times that the servers went back to an older state: zxids of different epochs cannot be compared. See
    /// [`SessionTerm::epoch`](zoolet_client::SessionTerm::epoch).
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The znodes that exist and cannot be read, with the reason, sorted by path.
    pub fn unreadable(&self) -> impl Iterator<Item = (&str, UnreadableReason)> {
        self.unreadable.iter().map(|(path, reason)| (&**path, *reason))
    }

    /// The bytes of data, as they were read.
    pub fn data_len(&self) -> usize {
        self.bytes
    }
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Self { nodes: self.nodes.clone(), unreadable: Arc::clone(&self.unreadable), ..*self }
    }
}

impl<T> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("as_of", &self.as_of)
            .field("len", &self.len())
            .field("stale_since", &self.stale_since)
            .finish_non_exhaustive()
    }
}

/// The children of a znode. What is below a child is skipped, so this costs a search for each child.
pub(super) fn children<'n, T>(
    nodes: &'n Nodes<T>,
    path: &str,
) -> impl Iterator<Item = &'n Arc<Entry<T>>> + use<'n, T> {
    let prefix = child_path(path, "");
    let mut from = Bound::Excluded(Arc::clone(&prefix));
    std::iter::from_fn(move || {
        loop {
            let bound = from.as_ref().map(|path| &**path);
            let (key, entry) = nodes.range::<str, _>((bound, Bound::Unbounded)).next()?;
            let name = key.strip_prefix(&*prefix)?;
            match name.find('/') {
                None => {
                    from = Bound::Excluded(Arc::clone(key));
                    return Some(entry);
                }
                // '0' follows '/', so what is below that child comes before this.
                Some(at) => from = Bound::Included([&prefix, &name[..at], "0"].concat().into()),
            }
        }
    })
}

/// The paths below `path`, without itself.
pub(super) fn below<T>(nodes: &Nodes<T>, path: &str) -> Vec<Arc<str>> {
    nodes.range(range_below(path)).map(|(path, _)| Arc::clone(path)).collect()
}

#[cfg(test)]
mod tests {
    use zoolet_client::Stat;

    use super::*;

    fn nodes(paths: &[&str]) -> Nodes<()> {
        let entry = |path: &&str| {
            let path: Arc<str> = (*path).into();
            (Arc::clone(&path), Arc::new(Entry::new(path, Stat::default(), Ok(()), 0)))
        };
        paths.iter().map(entry).collect()
    }

    #[test]
    fn children_are_found_between_names_that_sort_around_the_slash() {
        let all =
            ["/", "/a", "/a!", "/a!/x", "/a/b", "/a/b!", "/a/b/c", "/a/b/c/d", "/a/b0", "/a/bb", "/a0", "/b"];
        let nodes = nodes(&all);
        let names = |path| children(&nodes, path).map(|entry| entry.path().to_owned()).collect::<Vec<_>>();
        assert_eq!(names("/a"), ["/a/b", "/a/b!", "/a/b0", "/a/bb"]);
        assert_eq!(names("/"), ["/a", "/a!", "/a0", "/b"]);
        assert_eq!(names("/a/b"), ["/a/b/c"]);
        assert_eq!(names("/b"), Vec::<String>::new());
        let paths: Vec<_> = below(&nodes, "/a/b").iter().map(|path| path.to_string()).collect();
        assert_eq!(paths, ["/a/b/c", "/a/b/c/d"]);
        assert_eq!(below(&nodes, "/").len(), all.len() - 1);
    }
}
