//! Two trees side by side: as both come in the same order, one pass finds every difference.

use std::cmp::Ordering;
use std::mem;

use zoolet_client::Error;

use super::MovedZnode;
use super::source::Source;
use crate::walk::WalkPath;

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
