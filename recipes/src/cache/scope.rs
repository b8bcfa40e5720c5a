//! Which znodes a cache has.

use std::ops::Bound;
use std::sync::Arc;

use crate::path::child;

/// Says whether to keep a znode, with everything below it.
pub(super) type PathFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The znodes that belong to a cache. It depends on paths alone, so that it never changes for a znode.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) root: Arc<str>,
    /// Levels below the root.
    pub(super) max_depth: usize,
    pub(super) filter: Option<PathFilter>,
    /// Whether to leave out `/zookeeper`: servers change data there without an event.
    pub(super) skip_system: bool,
}

impl Scope {
    /// Whether the znode at `path` belongs to the cache.
    pub(super) fn contains(&self, path: &str) -> bool {
        let Some(below) = self.below(path) else { return false };
        if below.is_empty() {
            return true;
        }
        if below.matches('/').count() > self.max_depth {
            return false;
        }
        // A znode is left out with everything below it, so all of the path counts.
        let base = path.len() - below.len();
        let ends = below.match_indices('/').map(|(at, _)| at).skip(1).chain([below.len()]);
        ends.map(|end| &path[..base + end]).all(|above| self.keeps(above))
    }

    /// Whether a child of a znode that belongs to the cache does too.
    pub(super) fn contains_child(&self, path: &str) -> bool {
        self.depth(path) <= self.max_depth && self.keeps(path)
    }

    /// Whether the children of the znode at `path`, which belongs to the cache, may.
    pub(super) fn lists(&self, path: &str) -> bool {
        self.depth(path) < self.max_depth
    }

    fn keeps(&self, path: &str) -> bool {
        !(self.skip_system && path == "/zookeeper") && self.filter.as_ref().is_none_or(|keeps| keeps(path))
    }

    fn depth(&self, path: &str) -> usize {
        self.below(path).map_or(usize::MAX, |below| below.matches('/').count())
    }

    /// The rest of `path` after the root, with its slash.
    fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        if &*self.root == "/" {
            return Some(if path == "/" { "" } else { path });
        }
        path.strip_prefix(&*self.root).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// The path of a child.
pub(super) fn child_path(parent: &str, name: &str) -> Arc<str> {
    child(parent, name).into()
}

/// The range of the paths below `path`, without itself: '0' follows '/'.
pub(super) fn range_below(path: &str) -> (Bound<Arc<str>>, Bound<Arc<str>>) {
    let prefix = child_path(path, "");
    let end = [prefix.trim_end_matches('/'), "0"].concat();
    (Bound::Excluded(prefix), Bound::Excluded(end.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(root: &str, max_depth: usize) -> Scope {
        let keeps = |path: &str| !path.ends_with("/skip");
        let filter: Option<PathFilter> = Some(Arc::new(keeps));
        Scope { root: root.into(), max_depth, filter, skip_system: root == "/" }
    }

    #[test]
    fn a_scope_is_a_subtree_without_what_is_left_out_and_without_what_is_too_deep() {
        for (root, path, contained) in [
            ("/ab", "/ab", true),
            ("/ab", "/abc", false),
            ("/ab", "/a", false),
            ("/ab", "/ab/c", true),
            ("/ab", "/ab/c/d", true),
            ("/ab", "/ab/c/d/e", false),
            ("/ab", "/ab/skip", false),
            ("/ab", "/ab/skip/d", false),
            ("/", "/", true),
            ("/", "/a/b", true),
            ("/", "/a/b/c", false),
            ("/", "/zookeeper/config", false),
            ("/", "/skip", false),
        ] {
            assert_eq!(scope(root, 2).contains(path), contained, "{root} {path}");
        }
        assert!(scope("/ab", 0).contains("/ab") && !scope("/ab", 0).contains("/ab/c"));
        assert!(scope("/ab", 1).lists("/ab") && !scope("/ab", 1).lists("/ab/c"));
    }
}
