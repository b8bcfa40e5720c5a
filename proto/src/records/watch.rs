//! Watches and their events.

use crate::code::{EventType, KeeperState};
use crate::codec::record;
use crate::id::Zxid;

record! {
    /// Sets a persistent watch.
    pub struct AddWatch {
        /// Path; the znode need not exist.
        pub path: Option<String>,
        /// An [`AddWatchMode`](crate::AddWatchMode) by number.
        pub mode: i32,
    }
}

record! {
    /// Removes watches.
    pub struct RemoveWatches {
        /// Path.
        pub path: Option<String>,
        /// A [`WatcherType`](crate::WatcherType) by number.
        pub kind: i32,
    }
}

/// Asks whether a watch is set: the same record.
pub type CheckWatches = RemoveWatches;

record! {
    /// Sets one-shot watches again after a reconnect. Events since `relative_zxid` are sent at once.
    pub struct SetWatches {
        /// The last zxid the client has seen.
        pub relative_zxid: Zxid,
        /// Paths of getData watches.
        pub data: Vec<String>,
        /// Paths of exists watches on znodes that did not exist.
        pub exist: Vec<String>,
        /// Paths of getChildren watches.
        pub child: Vec<String>,
    }
}

record! {
    /// As [`SetWatches`], persistent watches included.
    pub struct SetWatches2 {
        /// The last zxid the client has seen.
        pub relative_zxid: Zxid,
        /// Paths of getData watches.
        pub data: Vec<String>,
        /// Paths of exists watches on znodes that did not exist.
        pub exist: Vec<String>,
        /// Paths of getChildren watches.
        pub child: Vec<String>,
        /// Paths of persistent watches.
        pub persistent: Vec<String>,
        /// Paths of persistent recursive watches.
        pub recursive: Vec<String>,
    }
}

record! {
    /// A watch event.
    pub struct WatchedEvent {
        /// What happened.
        pub kind: EventType,
        /// The state of the session; [`KeeperState::SyncConnected`] from a server.
        pub state: KeeperState,
        /// The path of the znode.
        pub path: String,
    }
}

impl From<SetWatches> for SetWatches2 {
    fn from(set: SetWatches) -> Self {
        let SetWatches { relative_zxid, data, exist, child } = set;
        Self { relative_zxid, data, exist, child, persistent: Vec::new(), recursive: Vec::new() }
    }
}
