//! Requests that create, read, change and delete znodes.

use bytes::Bytes;

use crate::acl_list::AclList;
use crate::codec::record;

record! {
    /// Creates a znode. The body of create, create2 and createContainer.
    pub struct Create {
        /// Path; the counter is appended to it for a sequential mode.
        pub path: String,
        /// Data; null stays null.
        pub data: Option<Bytes>,
        /// The ACL. Servers refuse null and empty ones, in another way inside a multi.
        pub acl: Option<AclList>,
        /// A [`CreateMode`](crate::CreateMode) by number.
        pub flags: i32,
    }
}

record! {
    /// Creates a znode with a time to live.
    pub struct CreateTtl {
        /// Path; the counter is appended to it for a sequential mode.
        pub path: String,
        /// Data; null stays null.
        pub data: Option<Bytes>,
        /// The ACL.
        pub acl: Option<AclList>,
        /// A [`CreateMode`](crate::CreateMode) by number.
        pub flags: i32,
        /// Time to live in milliseconds.
        pub ttl: i64,
    }
}

record! {
    /// Deletes a znode.
    pub struct Delete {
        /// Path.
        pub path: String,
        /// The expected version; −1 for any.
        pub version: i32,
    }
}

record! {
    /// Deletes an empty container.
    pub struct DeleteContainer {
        /// Path.
        pub path: String,
    }
}

record! {
    /// Reads the `Stat` of a znode.
    pub struct Exists {
        /// Path.
        pub path: String,
        /// Whether to set a data watch, even if the znode does not exist.
        pub watch: bool,
    }
}

record! {
    /// Reads data and `Stat`.
    pub struct GetData {
        /// Path.
        pub path: String,
        /// Whether to set a data watch.
        pub watch: bool,
    }
}

record! {
    /// Replaces data.
    pub struct SetData {
        /// Path.
        pub path: String,
        /// Data; null stays null.
        pub data: Option<Bytes>,
        /// The expected version; −1 for any.
        pub version: i32,
    }
}

record! {
    /// Lists children. The body of getChildren and getChildren2.
    pub struct GetChildren {
        /// Path.
        pub path: String,
        /// Whether to set a child watch.
        pub watch: bool,
    }
}

record! {
    /// Counts all descendants.
    pub struct GetAllChildrenNumber {
        /// Path.
        pub path: String,
    }
}

record! {
    /// Lists the ephemerals of the session.
    pub struct GetEphemerals {
        /// The prefix of their paths; all if null or blank.
        pub prefix: Option<String>,
    }
}

record! {
    /// Waits for everything before it. Also the body of its reply.
    pub struct Sync {
        /// Echoed without validation.
        pub path: Option<String>,
    }
}

record! {
    /// Compares a version, inside a multi.
    pub struct CheckVersion {
        /// Path.
        pub path: String,
        /// The expected version; −1 checks only that the znode exists.
        pub version: i32,
    }
}

record! {
    /// Changes an ensemble; refused by a standalone server.
    pub struct Reconfig {
        /// Servers to add.
        pub joining: Option<String>,
        /// Servers to remove.
        pub leaving: Option<String>,
        /// The whole new membership.
        pub new_members: Option<String>,
        /// The version of the configuration to replace; −1 for any.
        pub config: i64,
    }
}
