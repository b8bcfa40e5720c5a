//! The constants of the format.

/// "ZKSN".
pub(super) const MAGIC: [u8; 4] = *b"ZKSN";

/// The version of the format, since ZooKeeper 3.0.
pub(super) const VERSION: i32 = 2;

/// The id of a database that has none. A log has 0 instead.
pub(super) const DBID: i64 = -1;

/// What stands in place of a path after the last znode, and after each checksum. The root is an empty path.
pub(super) const TERMINATOR: [u8; 5] = *b"\0\0\0\x01/";

/// The id of the list `world:anyone:cdrwa`, which is not in the table of lists.
pub(super) const OPEN_ACL: i64 = -1;

/// The version of the digest that is written. Others are skipped.
pub(super) const DIGEST_VERSION: i32 = 2;
