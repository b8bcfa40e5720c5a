//! Two trees side by side, each a live one or one of a file: as both come in the same order, one pass finds every difference.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::mem;
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
    ephemerals: usize,
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

/// How a znode differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Difference {
    OnlyLeft(MovedZnode),
    OnlyRight,
    /// Data or ACL, or both.
    Changed {
        left: MovedZnode,
        right: MovedZnode,
    },
}

/// A comparison in progress.
pub(super) struct Comparison<'c> {
    left: Source<'c>,
    right: Source<'c>,
    next_left: Option<(WalkPath, MovedZnode)>,
    next_right: Option<(WalkPath, MovedZnode)>,
}

impl<'c> Comparison<'c> {
    /// ACLs count where the left source has them.
    pub(super) async fn new(mut left: Source<'c>, mut right: Source<'c>) -> Result<Self, Error> {
        let (next_left, next_right) = (left.next().await?, right.next().await?);
        Ok(Self { left, right, next_left, next_right })
    }

    /// The next znode that differs.
    pub(super) async fn next(&mut self) -> Result<Option<(WalkPath, Difference)>, Error> {
        loop {
            let order = match (&self.next_left, &self.next_right) {
                (None, None) => return Ok(None),
                (Some((left, _)), Some((right, _))) => left.cmp(right),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            // The first of both in the order of a walk; both if it is the same path.
            let (mut left, mut right) = (None, None);
            if order.is_le() {
                left = mem::replace(&mut self.next_left, self.left.next().await?);
            }
            if order.is_ge() {
                right = mem::replace(&mut self.next_right, self.right.next().await?);
            }
            match (left, right) {
                (Some((_, left)), Some((_, right))) if is_same(&left, &right) => {}
                (Some((path, left)), Some((_, right))) => {
                    return Ok(Some((path, Difference::Changed { left, right })));
                }
                (Some((path, left)), None) => return Ok(Some((path, Difference::OnlyLeft(left)))),
                (None, right) => return Ok(right.map(|(path, _)| (path, Difference::OnlyRight))),
            }
        }
    }

    /// The ephemerals of both sides, which were left out.
    pub(super) fn ephemerals(&self) -> (usize, usize) {
        (self.left.ephemerals, self.right.ephemerals)
    }
}

fn is_same(left: &MovedZnode, right: &MovedZnode) -> bool {
    left.is_gap || left.data == right.data && (left.acl.is_none() || left.acl == right.acl)
}
