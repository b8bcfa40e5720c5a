//! [`Stat`], what the server tells of a znode besides its data.

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
        /// When it was created, in milliseconds since the Unix epoch.
        pub ctime: i64,
        /// When its data was last set, in milliseconds since the Unix epoch.
        pub mtime: i64,
        /// How often its data was set; wraps.
        pub version: i32,
        /// How often its list of children changed; wraps.
        pub cversion: i32,
        /// How often its ACL was set; wraps.
        pub aversion: i32,
        /// The session whose end deletes it; 0 for every other kind, containers and TTL znodes included.
        pub ephemeral_owner: SessionId,
        /// Length of its data in bytes; 0 for null data as well.
        pub data_length: i32,
        /// How many direct children it has.
        pub num_children: i32,
        /// The transaction that last changed its list of children.
        pub pzxid: Zxid,
    }
}
