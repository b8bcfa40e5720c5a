//! The small tables of the protocol: error codes, create modes, event types, session states and watch kinds.

use std::fmt;

/// Defines an enumeration of wire numbers. Other numbers are invalid.
macro_rules! closed {
    ($(#[$meta:meta])* $name:ident { $($(#[$row_meta:meta])* $row:ident = $code:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum $name { $($(#[$row_meta])* $row = $code,)* }

        impl $name {
            /// Every value, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$row,)*];

            /// The value of a wire number, if it is valid.
            pub fn from_code(code: i32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$row),)*
                    _ => None,
                }
            }

            /// The number on the wire.
            pub fn code(self) -> i32 {
                self as i32
            }
        }

        impl $crate::codec::Codec for $name {
            fn parse(i: &[u8]) -> $crate::codec::Parsed<'_, Self> {
                nom::Parser::parse(&mut nom::combinator::map_opt(<i32 as $crate::codec::Codec>::parse, Self::from_code), i)
            }

            fn put(&self, out: &mut impl $crate::codec::ByteSink) {
                self.code().put(out);
            }
        }
    };
}
pub(crate) use closed;

closed! {
    /// The kind of znode that a create request creates (`CreateMode`).
    #[non_exhaustive]
    CreateMode {
        /// Stays until a client deletes it.
        Persistent = 0,
        /// Is deleted with the session that created it.
        Ephemeral = 1,
        /// Persistent, with the counter of the parent appended to its name.
        PersistentSequential = 2,
        /// Ephemeral, with the counter of the parent appended to its name.
        EphemeralSequential = 3,
        /// Is deleted some time after its last child.
        Container = 4,
        /// Is deleted when it has no children and its data was not set for the given time.
        PersistentWithTtl = 5,
        /// As [`CreateMode::PersistentWithTtl`], with the counter of the parent appended to its name.
        PersistentSequentialWithTtl = 6,
    }
}

impl CreateMode {
    /// Whether the counter of the parent is appended to the name.
    pub fn is_sequential(self) -> bool {
        matches!(
            self,
            Self::PersistentSequential | Self::EphemeralSequential | Self::PersistentSequentialWithTtl
        )
    }

    /// Whether the znode is deleted with its session.
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// Whether the znode has a time to live.
    pub fn is_ttl(self) -> bool {
        matches!(self, Self::PersistentWithTtl | Self::PersistentSequentialWithTtl)
    }
}

closed! {
    /// What happened to a znode (`Watcher.Event.EventType`, the values that a server sends).
    #[non_exhaustive]
    EventType {
        /// The znode was created.
        NodeCreated = 1,
        /// The znode was deleted.
        NodeDeleted = 2,
        /// The data of the znode was set.
        NodeDataChanged = 3,
        /// A child of the znode was created or deleted.
        NodeChildrenChanged = 4,
    }
}

closed! {
    /// The state of a session as clients know it (`Watcher.Event.KeeperState`). A server only ever sends
    /// [`KeeperState::SyncConnected`].
    #[non_exhaustive]
    KeeperState {
        /// The session has expired.
        Expired = -112,
        /// Not connected.
        Disconnected = 0,
        /// Connected.
        SyncConnected = 3,
        /// The server refused an addauth.
        AuthFailed = 4,
        /// Connected to a server that only answers reads.
        ConnectedReadOnly = 5,
        /// A SASL negotiation has succeeded.
        SaslAuthenticated = 6,
        /// The client was closed.
        Closed = 7,
    }
}

closed! {
    /// The watches that checkWatches and removeWatches refer to (`Watcher.WatcherType`).
    WatcherType {
        /// One-shot watches set by getChildren.
        Children = 1,
        /// One-shot watches set by getData and exists.
        Data = 2,
        /// Every watch on the path.
        Any = 3,
        /// Persistent watches.
        Persistent = 4,
        /// Persistent recursive watches.
        PersistentRecursive = 5,
    }
}

closed! {
    /// The kind of watch that addWatch sets (`AddWatchMode`).
    AddWatchMode {
        /// Reports every change of one znode, until it is removed.
        Persistent = 0,
        /// Reports every creation, deletion and data change of a znode and its descendants, until it is removed.
        PersistentRecursive = 1,
    }
}

/// What a watch waits for, and whether it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchKind {
    /// The next change of the znode itself; set by getData and exists.
    Data,
    /// The next change of its list of children; set by getChildren.
    Child,
    /// Every change of the znode and of its list of children.
    Persistent,
    /// Every change of the znode and of its descendants, but not of lists of children.
    Recursive,
}

impl WatchKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Data, Self::Child, Self::Persistent, Self::Recursive];

    /// Its name in checkWatches and removeWatches.
    pub fn watcher_type(self) -> WatcherType {
        match self {
            Self::Data => WatcherType::Data,
            Self::Child => WatcherType::Children,
            Self::Persistent => WatcherType::Persistent,
            Self::Recursive => WatcherType::PersistentRecursive,
        }
    }
}

impl From<AddWatchMode> for WatchKind {
    fn from(mode: AddWatchMode) -> Self {
        match mode {
            AddWatchMode::Persistent => Self::Persistent,
            AddWatchMode::PersistentRecursive => Self::Recursive,
        }
    }
}

impl fmt::Display for WatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Data => "data",
            Self::Child => "child",
            Self::Persistent => "persistent",
            Self::Recursive => "recursive",
        })
    }
}

macro_rules! error_codes {
    ($($row:ident = $code:literal, $text:literal;)*) => {
        /// An error code of the protocol (`KeeperException.Code`). A code without a name is kept as
        /// [`ErrorCode::Unknown`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(#[doc = $text] $row,)*
            /// A code this table does not name.
            Unknown(i32),
        }

        impl ErrorCode {
            /// Every named code.
            pub const NAMED: &'static [Self] = &[$(Self::$row,)*];

            /// The code of a wire number; `None` for 0, which means success.
            pub fn from_code(code: i32) -> Option<Self> {
                match code {
                    0 => None,
                    $($code => Some(Self::$row),)*
                    other => Some(Self::Unknown(other)),
                }
            }

            /// The number on the wire.
            pub fn code(self) -> i32 {
                match self {
                    $(Self::$row => $code,)*
                    Self::Unknown(code) => code,
                }
            }
        }

        impl fmt::Display for ErrorCode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$row => f.write_str($text),)*
                    Self::Unknown(code) => write!(f, "error code {code}"),
                }
            }
        }
    };
}

error_codes! {
    SystemError = -1, "system error";
    RuntimeInconsistency = -2, "not evaluated, as an earlier operation of the multi failed";
    DataInconsistency = -3, "data inconsistency";
    ConnectionLoss = -4, "connection lost";
    MarshallingError = -5, "the request does not decode";
    Unimplemented = -6, "not implemented by the server";
    OperationTimeout = -7, "operation timed out";
    BadArguments = -8, "bad arguments";
    UnknownSession = -12, "unknown session";
    NewConfigNoQuorum = -13, "no quorum for the new configuration";
    ReconfigInProgress = -14, "another reconfiguration is in progress";
    ApiError = -100, "API error";
    NoNode = -101, "no such znode";
    NoAuth = -102, "not authorized";
    BadVersion = -103, "version mismatch";
    NoChildrenForEphemerals = -108, "ephemerals may not have children";
    NodeExists = -110, "the znode exists";
    NotEmpty = -111, "the znode has children";
    SessionExpired = -112, "session expired";
    InvalidCallback = -113, "invalid callback";
    InvalidAcl = -114, "invalid ACL";
    AuthFailed = -115, "authentication failed";
    SessionMoved = -118, "the session has moved to another server";
    NotReadOnly = -119, "the server only answers reads";
    EphemeralOnLocalSession = -120, "a local session cannot own ephemerals";
    NoWatcher = -121, "no such watch";
    RequestTimeout = -122, "request timed out";
    ReconfigDisabled = -123, "reconfiguration is disabled";
    SessionClosedRequireSaslAuth = -124, "the session needs authentication";
    QuotaExceeded = -125, "quota exceeded";
    ThrottledOp = -127, "the request was throttled";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::OpCode;

    #[test]
    fn every_code_is_found_again_by_its_number() {
        for op in OpCode::ALL {
            assert_eq!(OpCode::from_code(op.code()), Some(*op));
        }
        for error in ErrorCode::NAMED {
            assert_eq!(ErrorCode::from_code(error.code()), Some(*error));
        }
    }

    #[test]
    fn an_unknown_error_code_is_kept() {
        assert_eq!(ErrorCode::from_code(-999).map(ErrorCode::code), Some(-999));
        assert_eq!(ErrorCode::from_code(0), None);
    }
}
