//! What goes into the core and what comes out of it.

use std::fmt;
use std::net::IpAddr;

use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{Incoming, Reply, ReplyHeader};

use crate::txn::Txn;

/// A connection, numbered by whoever accepts it. A number is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A time: milliseconds since the Unix epoch, by a clock that never goes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

impl Millis {
    /// The time `ms` milliseconds later.
    #[must_use]
    pub fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// The first multiple of `interval` strictly after this time: deadlines are kept in buckets, so that what
    /// expires in one interval expires together (`ExpiryQueue.roundToNextInterval`).
    #[must_use]
    pub fn next_multiple_of(self, interval: i64) -> Self {
        Self((self.0 / interval).saturating_add(1).saturating_mul(interval))
    }
}

/// Something a connection did.
#[derive(Debug)]
pub enum Input {
    /// It was accepted. Must come first.
    Open {
        /// Where it comes from: its first identity.
        peer: IpAddr,
    },
    /// Its first frame.
    Connect(ConnectRequest),
    /// A later frame.
    Request(Incoming),
    /// It is gone. Its session lives on.
    Closed,
}

/// Something for a connection.
#[derive(Debug)]
pub enum Message {
    /// The answer to the handshake.
    Connected(ConnectResponse),
    /// A reply or, with [`zoolet_proto::Xid::EVENT`], a watch event.
    Reply(ReplyHeader, Reply),
    /// Close once everything before it is sent. Nothing follows.
    Close {
        /// Whether the peer asked for it, by closing its session: it sends nothing more then that could get lost.
        asked: bool,
    },
}

impl Message {
    /// Whether it is a watch event; a request may well be numbered like one.
    pub fn is_event(&self) -> bool {
        matches!(self, Self::Reply(_, Reply::Event(_)))
    }
}

/// What a turn of inputs came to.
#[derive(Default)]
pub struct Effects {
    /// Applied already, in zxid order. What is sent outside must not reflect one that is not durable.
    pub txns: Vec<Txn>,
    /// To send, in this order for each connection.
    pub outbound: Vec<(ConnId, Message)>,
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
