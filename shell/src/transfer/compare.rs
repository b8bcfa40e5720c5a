//! Two trees side by side: as both come in the same order, one pass finds every difference.

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
    with_acl: bool,
}

impl<'c> Comparison<'c> {
    pub(super) async fn new(
        mut left: Source<'c>,
        mut right: Source<'c>,
        with_acl: bool,
    ) -> Result<Self, Error> {
        let (next_left, next_right) = (left.next().await?, right.next().await?);
        Ok(Self { left, right, next_left, next_right, with_acl })
    }

    /// The next znode that differs.
    pub(super) async fn next(&mut self) -> Result<Option<(WalkPath, Difference)>, Error> {
        loop {
            let is_right = match (&self.next_left, &self.next_right) {
                (None, None) => return Ok(None),
                (Some((left, _)), Some((right, _))) if left == right => {
                    if let Some(difference) = self.both().await? {
                        return Ok(Some(difference));
                    }
                    continue;
                }
                (Some((left, _)), Some((right, _))) => right < left,
                (left, _) => left.is_none(),
            };
            let side = if is_right { &mut self.next_right } else { &mut self.next_left };
            let Some((path, znode)) = side.take() else { return Ok(None) };
            if is_right {
                self.next_right = self.right.next().await?;
                return Ok(Some((path, Difference::OnlyRight)));
            }
            self.next_left = self.left.next().await?;
            return Ok(Some((path, Difference::OnlyLeft(znode))));
        }
    }

    async fn both(&mut self) -> Result<Option<(WalkPath, Difference)>, Error> {
        let (left, right) = (self.next_left.take(), self.next_right.take());
        self.next_left = self.left.next().await?;
        self.next_right = self.right.next().await?;
        let (Some((path, left)), Some((_, right))) = (left, right) else { return Ok(None) };
        let is_same = left.data == right.data && !self.differs_in_acl(&left, &right);
        Ok((!is_same).then_some((path, Difference::Changed { left, right })))
    }

    fn differs_in_acl(&self, left: &MovedZnode, right: &MovedZnode) -> bool {
        self.with_acl && left.acl.is_some() && left.acl != right.acl
    }

    /// The ephemerals of both sides, which were left out.
    pub(super) fn ephemerals(&self) -> (usize, usize) {
        (self.left.ephemerals, self.right.ephemerals)
    }
}
