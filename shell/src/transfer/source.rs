//! Where the znodes of a transfer come from: a live tree, or what was read from a file.

use std::collections::{BTreeMap, btree_map};
use std::time::Duration;

use zoolet_client::{Client, Error, ErrorCode};

use super::MovedZnode;
use crate::address::below;
use crate::walk::{Reading, Walk, WalkPath};

/// Znodes in the order of a walk, each with its path below the root, which itself is `/`.
pub(super) struct Source<'c> {
    origin: Origin<'c>,
    may_be_absent: bool,
    /// Ephemerals end with their sessions, so they are not moved.
    pub(super) ephemerals: usize,
}

enum Origin<'c> {
    Live { walk: Box<Walk<'c>>, root: String },
    File(btree_map::IntoIter<WalkPath, MovedZnode>),
}

impl<'c> Source<'c> {
    /// A tree. What the servers keep for themselves is left out.
    pub(super) fn live(client: &'c Client, root: &str, reading: Reading, patience: Duration) -> Self {
        let walk = Box::new(Walk::new(client, root, reading, patience));
        let origin = Origin::Live { walk, root: root.to_owned() };
        Self { origin, may_be_absent: false, ephemerals: 0 }
    }

    /// A tree that may be absent.
    pub(super) fn target(client: &'c Client, root: &str, reading: Reading, patience: Duration) -> Self {
        Self { may_be_absent: true, ..Self::live(client, root, reading, patience) }
    }

    pub(super) fn file(znodes: BTreeMap<WalkPath, MovedZnode>) -> Self {
        Self { origin: Origin::File(znodes.into_iter()), may_be_absent: false, ephemerals: 0 }
    }

    /// # Errors
    /// Whatever keeps a znode from being read: a part of a tree must not pass for the whole.
    pub(super) async fn next(&mut self) -> Result<Option<(WalkPath, MovedZnode)>, Error> {
        let (walk, root) = match &mut self.origin {
            Origin::File(znodes) => return Ok(znodes.next()),
            Origin::Live { walk, root } => (walk, root),
        };
        loop {
            let next = match walk.next().await {
                Err(error) if self.may_be_absent && error.code() == Some(ErrorCode::NoNode) => None,
                next => next?,
            };
            let Some((path, visit)) = next else { return Ok(None) };
            if let Some(error) = visit.error {
                return Err(error);
            }
            if root == "/" && below("/zookeeper", &path).is_some() {
                continue;
            }
            if visit.stat.is_some_and(|stat| stat.ephemeral_owner.0 != 0) {
                self.ephemerals += 1;
                continue;
            }
            let below = WalkPath::new(below(root, &path).unwrap_or("/"));
            let data = visit.data.unwrap_or_default();
            return Ok(Some((below, MovedZnode { data, acl: visit.acl, is_gap: false })));
        }
    }
}

/// The path of what is at `below` in the tree at `root`.
pub(super) fn placed(root: &str, below: &WalkPath) -> String {
    match (root, below.as_str()) {
        (root, "/") => root.to_owned(),
        ("/", below) => below.to_owned(),
        (root, below) => format!("{root}{below}"),
    }
}
