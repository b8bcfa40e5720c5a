//! What a cache keeps of a znode.

use std::fmt;
use std::sync::Arc;

use zoolet_client::Stat;

/// A znode in a [`Snapshot`](super::Snapshot).
pub struct Entry<T> {
    path: Arc<str>,
    stat: Stat,
    value: Result<T, Undecodable>,
    size: usize,
}

impl<T> Entry<T> {
    pub(super) fn new(path: Arc<str>, stat: Stat, value: Result<T, Undecodable>, size: usize) -> Self {
        Self { path, stat, value, size }
    }

    /// The path, as the sessions of the cache see it.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn shared_path(&self) -> Arc<str> {
        Arc::clone(&self.path)
    }

    /// The last component of the path; empty for `/`.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The Stat that came with the data. What it says of data and ownership is exact at the zxid of the snapshot. What it
    /// says of children and of the ACL (`cversion`, `pzxid`, `num_children`, `aversion`) is as of that read: ask the snapshot for
    /// [`children`](super::Snapshot::children).
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// The data, decoded.
    ///
    /// # Errors
    /// Why it could not be decoded. The other znodes are not affected.
    pub fn value(&self) -> Result<&T, Undecodable> {
        self.value.as_ref().map_err(Undecodable::clone)
    }

    /// The length of the data in bytes, as it was read.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Whether both are the same version of the same znode. Never by `version`, which begins anew with a new znode.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.stat.czxid, self.stat.mzxid) == (other.stat.czxid, other.stat.mzxid)
    }
}

impl<T> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Data may be long, and secret.
        f.debug_struct("Entry").field("path", &self.path).field("stat", &self.stat).finish_non_exhaustive()
    }
}

/// The data of a znode could not be decoded; cheap to clone.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the data cannot be decoded: {0}")]
pub struct Undecodable(Arc<dyn std::error::Error + Send + Sync>);

impl Undecodable {
    pub(super) fn new(reason: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self(reason.into())
    }

    /// The error of the decoder.
    pub fn reason(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }
}

/// Why a cache cannot read a znode that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnreadableReason {
    /// Its ACL forbids it.
    NoAuth,
    /// Its data, or the list of its children, is longer than
    /// [`max_reply`](zoolet_client::ConnectOptions::max_reply).
    TooLarge,
    /// The server refuses to read it.
    Refused,
}
