//! What the task of a partition publishes: the share, and why it has ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use zoolet_client::Error;

use super::assign::MemberWeights;
use crate::cache::CacheError;
use crate::error::LockError;
use crate::keep_node::KeepError;
use crate::state::FencingToken;

/// What a member holds of a partition, and who else is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionShare {
    pub(super) members: Arc<MemberWeights>,
    pub(super) items: BTreeMap<Arc<str>, FencingToken>,
}

impl PartitionShare {
    /// The items that this member holds now, and the tokens of their locks.
    pub fn items(&self) -> &BTreeMap<Arc<str>, FencingToken> {
        &self.items
    }

    /// The names of all members, sorted, as this one has seen them last.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.members.names()
    }

    /// The member to which `item` belongs, whether it holds the lock already or not; `None` while there are no members. For
    /// programs that pass requests on to the right one.
    pub fn owner(&self, item: &str) -> Option<&str> {
        self.members.owner(item)
    }
}

/// Why a member has left.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The directory is not a valid path.
    #[error("partition: {0}")]
    InvalidDir(Error),
    /// The name of the member or of an item cannot be that of a znode.
    #[error("partition: {0:?} cannot be the name of a znode")]
    InvalidName(String),
    /// The znode of the member cannot be kept.
    #[error("partition: {0}")]
    Member(KeepError),
    /// The members cannot be followed.
    #[error("partition: {0}")]
    Members(CacheError),
    /// The lock of an item cannot be acquired, and another attempt would not change that.
    #[error("partition, item {item}: {cause}")]
    Lock {
        /// The item.
        item: Arc<str>,
        /// Why.
        cause: LockError,
    },
    /// The work on an item has panicked.
    #[error("partition, item {item}: the work has panicked")]
    WorkPanicked {
        /// The item.
        item: Arc<str>,
    },
    /// It was asked to.
    #[error("partition: the member has left")]
    Left,
    /// The task of the member is gone, with its runtime.
    #[error("partition: its task is gone")]
    Gone,
}

/// What the task publishes.
#[derive(Debug, Default)]
pub(super) struct PartitionProgress {
    pub(super) share: Arc<PartitionShare>,
    pub(super) ended: Option<PartitionError>,
}
