//! The inputs and the effects of the core.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::slice;
use std::sync::Arc;

use bytes::BytesMut;
use zoolet_proto::records::{ConnectRequest, ConnectResponse, WatchedEvent};
use zoolet_proto::{EventType, Incoming, KeeperState, Reply, ReplyHeader, Xid, Zxid};

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

/// Where a connection comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Its peer address, which is its first identity.
    pub peer: IpAddr,
    /// Whether its client is a part of the server's process and ends with it. If transactions are logged, the id of a session
    /// that it opens shows that.
    pub in_process: bool,
    /// The subject of the certificate that its client has proved to own, as Java writes it (RFC 2253).
    pub certificate: Option<Arc<str>>,
}

impl From<IpAddr> for Origin {
    /// Of another process, without a certificate.
    fn from(peer: IpAddr) -> Self {
        Self { peer, in_process: false, certificate: None }
    }
}

/// An event of a connection.
#[derive(Debug)]
pub enum Input {
    /// It is accepted. Must come first.
    Open(Origin),
    /// Its first frame.
    Connect(ConnectRequest),
    /// A later frame.
    Request(Incoming),
    /// It is closed. Its session stays.
    Closed,
}

/// A message for a connection.
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
        /// Why, for the log.
        reason: &'static str,
    },
}

impl Message {
    /// Whether it is a watch event. The xid does not tell: a request may have the same.
    pub fn is_event(&self) -> bool {
        matches!(self, Self::Reply(_, Reply::Event(_)))
    }
}

/// Something to send.
#[derive(Debug, Clone)]
pub enum Output {
    /// A message for one connection.
    To(ConnId, Message),
    /// A watch event, for all connections that get it.
    Event(SharedEvent),
}

impl Output {
    /// Passes each connection its message.
    pub fn for_each(self, mut pass: impl FnMut(ConnId, Message)) {
        match self {
            Self::To(conn, message) => pass(conn, message),
            Self::Event(event) => {
                let message = event.message();
                event.to.iter().for_each(|conn| pass(*conn, message.clone()));
            }
        }
    }
}

/// The connections that get an event: each once, lowest first, and never none. Made by `from`.
///
/// Consecutive events for the same connections share one list, so that a multi of many changes under many watches takes
/// memory for the changes only.
#[derive(Debug, Clone)]
pub enum Recipients {
    /// A single one, as most watches have.
    One(ConnId),
    /// Several.
    Shared(Arc<[ConnId]>),
}

impl Deref for Recipients {
    type Target = [ConnId];

    fn deref(&self) -> &[ConnId] {
        match self {
            Self::One(conn) => slice::from_ref(conn),
            Self::Shared(list) => list,
        }
    }
}

impl From<&Arc<[ConnId]>> for Recipients {
    fn from(list: &Arc<[ConnId]>) -> Self {
        match list[..] {
            [conn] => Self::One(conn),
            _ => Self::Shared(Arc::clone(list)),
        }
    }
}

impl From<Vec<ConnId>> for Recipients {
    fn from(list: Vec<ConnId>) -> Self {
        match list[..] {
            [conn] => Self::One(conn),
            _ => Self::Shared(list.into()),
        }
    }
}

/// A watch event.
#[derive(Debug, Clone)]
pub struct SharedEvent {
    /// The connections that get it.
    pub to: Recipients,
    /// The transaction that caused it.
    pub zxid: Zxid,
    /// What happened.
    pub kind: EventType,
    /// The path of the znode.
    pub path: Arc<str>,
}

impl SharedEvent {
    /// The message that each of the connections gets.
    pub fn message(&self) -> Message {
        event_message(self.zxid, self.kind, (*self.path).to_owned())
    }

    /// Appends that message as a frame.
    pub fn encode_frame(&self, out: &mut BytesMut) {
        Reply::encode_event(self.zxid, self.kind, &self.path, out);
    }
}

pub(crate) fn event_message(zxid: Zxid, kind: EventType, path: String) -> Message {
    let event = WatchedEvent { kind, state: KeeperState::SyncConnected, path };
    Message::Reply(ReplyHeader::ok(Xid::EVENT, zxid), Reply::Event(event))
}

/// The effects of a turn of inputs.
#[derive(Default)]
pub struct Effects {
    /// The transactions, already applied, in zxid order. If they are logged, a message must not be sent before the transaction
    /// that it names is durable. A connect response and an event with the zxid −1 show the newest of them; other messages without
    /// a zxid show none.
    pub txns: Vec<Txn>,
    /// What to send, in order for each connection.
    pub outbound: Vec<Output>,
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
