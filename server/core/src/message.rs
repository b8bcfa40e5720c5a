//! The inputs and the effects of the core.

use std::fmt;
use std::net::IpAddr;

use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{Incoming, Reply, ReplyHeader};

use crate::txn::Txn;

/// The number of a connection, given by the program that accepts it and never reused.
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

    /// The first multiple of `interval` strictly after this time. Deadlines are bucketed, so that everything that expires in
    /// one interval expires together (`ExpiryQueue.roundToNextInterval`).
    #[must_use]
    pub fn next_multiple_of(self, interval: i64) -> Self {
        Self((self.0 / interval).saturating_add(1).saturating_mul(interval))
    }
}

/// An event of a connection.
#[derive(Debug)]
pub enum Input {
    /// It is accepted. Must come first.
    Open {
        /// Its peer address, which is its first identity.
        peer: IpAddr,
    },
    /// Its first frame.
    Connect(ConnectRequest),
    /// A later frame.
    Request(Incoming),
    /// It is closed. Its session stays.
    Closed,
}

/// An output for a connection.
#[derive(Debug, Clone)]
pub enum Message {
    /// The response to its connect request.
    Connected(ConnectResponse),
    /// A reply or, with [`zoolet_proto::Xid::EVENT`], a watch event.
    Reply(ReplyHeader, Reply),
    /// Close the connection after everything before this is sent. Nothing follows.
    Close {
        /// Whether the peer requested it by closing its session. It then sends nothing more that could be lost.
        asked: bool,
    },
}

impl Message {
    /// Whether it is a watch event. The xid does not tell: a request may have the same.
    pub fn is_event(&self) -> bool {
        matches!(self, Self::Reply(_, Reply::Event(_)))
    }
}

/// The effects of a turn of inputs.
#[derive(Default)]
pub struct Effects {
    /// The transactions, already applied, in zxid order. A message must not be sent before the transactions that it reflects
    /// are durable.
    pub txns: Vec<Txn>,
    /// The messages to send, in order for each connection.
    pub outbound: Vec<(ConnId, Message)>,
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
