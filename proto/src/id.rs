//! The ids of the protocol. Each has its own type, so that they cannot be confused.

use std::fmt;

use nom::Parser;

use crate::codec::{ByteSink, Codec, Parsed};

macro_rules! id {
    ($(#[$meta:meta])* $name:ident($kind:ty) = $show:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $kind);

        impl Codec for $name {
            fn parse(i: &[u8]) -> Parsed<'_, Self> {
                <$kind>::parse.map(Self).parse(i)
            }

            fn put(&self, out: &mut impl ByteSink) {
                self.0.put(out);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let show: fn(&$kind, &mut fmt::Formatter<'_>) -> fmt::Result = $show;
                show(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

id! {
    /// A transaction id: the position of a change in the total order. Printed in hex, as in ZooKeeper.
    Zxid(i64) = |id, f| write!(f, "{id:#x}")
}

id! {
    /// A session id. Printed in hex, as in ZooKeeper; 0 requests a new session, or refuses one.
    SessionId(i64) = |id, f| write!(f, "{id:#x}")
}

id! {
    /// The number that a client gives a request and its reply echoes.
    Xid(i32) = fmt::Display::fmt
}

impl Zxid {
    /// The zxid after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Xid {
    /// Marks a watch event.
    pub const EVENT: Self = Self(-1);
    /// Marks a ping and its reply.
    pub const PING: Self = Self(-2);
    /// The number that most clients give an auth packet; a server echoes any.
    pub const AUTH: Self = Self(-4);
    /// The number that most clients give setWatches; a server echoes any.
    pub const SET_WATCHES: Self = Self(-8);
}
