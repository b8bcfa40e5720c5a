//! Commands that move trees: between two places of any two clusters, and to and from files.

mod apply;
mod compare;
pub(crate) mod copy;
pub(crate) mod export;
mod format;
pub(crate) mod import;

use zoolet_client::Acl;

use bytes::Bytes;

/// A znode that is moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MovedZnode {
    pub(crate) data: Bytes,
    /// Absent in a file without ACLs, and where they are left aside.
    pub(crate) acl: Option<Vec<Acl>>,
    /// A file leaves it out and has znodes below it: it is created where it is absent, and differs from nothing.
    pub(crate) is_gap: bool,
}
