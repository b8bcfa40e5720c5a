//! Snapshots: images of the tree and of the sessions, in files of their own.
//!
//! [`SnapshotWriter`] writes one under a temporary name, [`SnapshotReader`] reads one with bounded memory, [`SnapshotDir`] is where
//! a server creates them and removes old ones. Two things always hold: a file that was written here is complete and
//! durable when it gets the name of a snapshot, and a valid snapshot is never overwritten.

mod acls;
mod check;
mod dir;
mod file;
mod path_check;
mod reader;
mod sink;
mod snappy;
mod source;
mod writer;

pub use check::SnapshotSummary;
pub use dir::{Purged, SnapshotDir};
pub use file::SnapshotFile;
pub use reader::{MissingAcl, SnapshotDigest, SnapshotReader};
pub use writer::{CompleteSnapshot, Published, SnapshotWriter};

/// "ZKSN".
const MAGIC: [u8; 4] = *b"ZKSN";

/// The version of the format, since ZooKeeper 3.0.
const VERSION: i32 = 2;

/// The id of a database that has none. A log has 0 instead.
const DBID: i64 = -1;

/// What stands in place of a path after the last znode, and after each checksum. The root is an empty path.
const TERMINATOR: [u8; 5] = *b"\0\0\0\x01/";

/// The id of the list `world:anyone:cdrwa`, which is not in the table of lists.
const OPEN_ACL: i64 = -1;

/// The version of the digest that is written. Others are skipped.
const DIGEST_VERSION: i32 = 2;
