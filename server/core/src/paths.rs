//! Paths that mean something to the server.

use std::collections::{BTreeSet, btree_set};
use std::ops::Bound;
use std::sync::Arc;

use zoolet_proto::path;

/// The paths of the znodes that every tree has and that cannot be deleted.
pub(crate) const ROOT: &str = "/";
pub(crate) const SYSTEM: &str = "/zookeeper";
pub(crate) const QUOTA: &str = "/zookeeper/quota";
pub(crate) const CONFIG: &str = "/zookeeper/config";

/// Whether a path from a disk can be one of a znode other than the root. Components before the last one are those of the parent,
/// which must exist.
pub(crate) fn is_below_root(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//") && !path::name(path).is_empty()
}

/// The paths after `after`, or all of them.
pub(crate) fn paths_after<'p>(
    paths: &'p BTreeSet<Arc<str>>,
    after: Option<&str>,
) -> btree_set::Range<'p, Arc<str>> {
    paths.range::<str, _>((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded))
}
