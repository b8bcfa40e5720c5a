//! [`Stat`], the metadata of a znode.

use crate::codec::record;
use crate::id::{SessionId, Zxid};

record! {
    /// The metadata of a znode: 68 bytes on the wire.
    #[derive(Copy, Default)]
    pub struct Stat {
        /// The transaction that created the znode.
        pub czxid: Zxid,
        /// The transaction that last set its data.
        pub mzxid: Zxid,
        /// Its creation time, in milliseconds since the Unix epoch.
        pub ctime: i64,
        /// The time its data was last set, in milliseconds since the Unix epoch.
        pub mtime: i64,
        /// The number of times its data was set; wraps.
        pub version: i32,
        /// The number of times its list of children changed; wraps.
        pub cversion: i32,
        /// The number of times its ACL was set; wraps.
        pub aversion: i32,
        /// The session that owns an ephemeral; 0 for every other kind, containers and TTL znodes included.
        pub ephemeral_owner: SessionId,
        /// Length of its data in bytes; 0 for null data as well.
        pub data_length: i32,
        /// The number of its children.
        pub num_children: i32,
        /// The transaction that last changed its list of children.
        pub pzxid: Zxid,
    }
}
