//! The digest of a tree (`DigestCalculator`, version 2): the sum, modulo 2^64, of a CRC-32 of each znode.
//!
//! The sum is kept up to date: a change subtracts the checksum of the znode before it and adds the one after it. Each znode
//! has the checksum of its path and data at hand, and a CRC-32 can be continued, so a change of the metadata of a znode with
//! a megabyte of data costs two times 60 bytes.

use bytes::{BufMut, Bytes};
use crc32fast::Hasher;

use crate::paths::ROOT;
use crate::znode::Znode;

/// Whether the znode at `path` is in the digest. What is below `/zookeeper` is not: statistics of quotas change without a
/// transaction, and each member of an ensemble has its own configuration.
pub(crate) fn is_counted(path: &str) -> bool {
    !path.starts_with("/zookeeper/")
}

/// The first part of the checksum of a znode.
pub(crate) fn checksum_of_data(path: &str, data: Option<&Bytes>) -> u32 {
    let mut hasher = Hasher::new();
    if path != ROOT {
        hasher.update(path.as_bytes());
    }
    if let Some(data) = data {
        hasher.update(data);
    }
    hasher.finalize()
}

/// The whole checksum of a znode whose first part is known. ZooKeeper's counter of children has 32 bits.
pub(crate) fn checksum(node: &Znode) -> u64 {
    let mut stat = [0; 60];
    let mut fields = &mut stat[..];
    for long in [node.czxid.0, node.mzxid.0, node.pzxid().0, node.ctime, node.mtime] {
        fields.put_i64(long);
    }
    for int in [node.version, node.creates() as i32, node.aversion] {
        fields.put_i32(int);
    }
    fields.put_i64(node.owner.code());
    let mut hasher = Hasher::new_with_initial(node.checksum);
    hasher.update(&stat);
    u64::from(hasher.finalize())
}
