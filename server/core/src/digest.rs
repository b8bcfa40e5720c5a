//! The digest of a tree (`DigestCalculator`, version 2): the sum, modulo 2^64, of a CRC-32 of each znode.
//!
//! The sum is kept up to date: a change subtracts the checksum of the znode before it and adds the one after it. Each znode
//! has the checksum of its path and data at hand, and a CRC-32 can be continued, so a change of the metadata of a znode with
//! a megabyte of data costs two times 60 bytes.

use bytes::Bytes;
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
    let (longs, rest) = stat.split_at_mut(40);
    let [czxid, mzxid, pzxid] = [node.czxid, node.mzxid, node.pzxid()].map(|zxid| zxid.0);
    for (field, value) in longs.chunks_exact_mut(8).zip([czxid, mzxid, pzxid, node.ctime, node.mtime]) {
        field.copy_from_slice(&value.to_be_bytes());
    }
    let (ints, owner) = rest.split_at_mut(12);
    for (field, value) in ints.chunks_exact_mut(4).zip([node.version, node.creates() as i32, node.aversion]) {
        field.copy_from_slice(&value.to_be_bytes());
    }
    owner.copy_from_slice(&node.owner.code().to_be_bytes());
    let mut hasher = Hasher::new_with_initial(node.checksum);
    hasher.update(&stat);
    u64::from(hasher.finalize())
}
