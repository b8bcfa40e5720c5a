//! [`ZnodeRecord`]: a znode outside of a tree, as a snapshot keeps it.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_proto::{AclList, Zxid};

use crate::digest::{checksum, checksum_of_data, is_counted};
use crate::znode::{Owner, Znode};

/// A znode with everything that a snapshot keeps of it. Its children are records of their own. A new field is a new format, so it is
/// exhaustive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZnodeRecord {
    /// The full path; `/` for the root.
    pub path: Arc<str>,
    /// The data; null is not empty.
    pub data: Option<Bytes>,
    /// The access control list. Equal lists of one tree are the same allocation.
    pub acl: AclList,
    /// The zxid of its creation.
    pub czxid: Zxid,
    /// The zxid of the last change of its data.
    pub mzxid: Zxid,
    /// The zxid of the last change of the list of its children, or of its creation.
    pub pzxid: Zxid,
    /// When it was created, in milliseconds since the Unix epoch.
    pub ctime: i64,
    /// When its data changed last.
    pub mtime: i64,
    /// How often its data has changed.
    pub version: i32,
    /// How many children it has ever had: the cversion that ZooKeeper stores, which is not the one that clients see.
    pub creates: i64,
    /// How often its access control list has changed.
    pub aversion: i32,
    /// Its owner.
    pub owner: Owner,
}

impl ZnodeRecord {
    /// What the znode adds to the digest of its tree, modulo 2^64. A tree that keeps its digest has it at hand.
    pub fn digest(&self) -> u64 {
        if !is_counted(&self.path) {
            return 0;
        }
        let mut node = Znode::from(self.clone());
        node.checksum = checksum_of_data(&self.path, self.data.as_ref());
        checksum(&node)
    }
}
