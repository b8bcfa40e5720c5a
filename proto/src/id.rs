//! The numbers of the protocol, each a type of its own so that none is taken for another.

use std::fmt;

use bytes::BytesMut;
use nom::Parser;

use crate::codec::{Codec, Parsed};

macro_rules! id {
    ($(#[$meta:meta])* $name:ident($kind:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $kind);

        impl Codec for $name {
            fn parse(i: &[u8]) -> Parsed<'_, Self> {
                <$kind>::parse.map(Self).parse(i)
            }

            fn put(&self, out: &mut BytesMut) {
                self.0.put(out);
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
    /// A transaction id: the place of a change in the one total order. Printed in hex, as ZooKeeper does.
    Zxid(i64)
}

id! {
    /// A session id. Printed in hex, as ZooKeeper does; 0 asks for a new session or refuses one.
    SessionId(i64)
}

id! {
    /// The number a client gives a request, echoed by its reply.
    Xid(i32)
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
    /// What most clients number an auth packet; a server echoes whatever it got.
    pub const AUTH: Self = Self(-4);
    /// What most clients number setWatches; a server echoes whatever it got.
    pub const SET_WATCHES: Self = Self(-8);
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
