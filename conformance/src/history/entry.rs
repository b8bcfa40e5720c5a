//! [`HistoryEntry`]: a message between a client and the server, or another event on a connection.

use std::fmt;

use zoolet_proto::records::WatchedEvent;
use zoolet_proto::{DecodeError, Incoming, Reply, ReplyHeader, SessionId, Zxid};

/// A connection, numbered by the history from 0 in the order of opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conn(pub usize);

/// One entry of a [`History`](super::History).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// A logical time over all connections. An entry with a smaller number ended before this one began. Requests of one
    /// write and messages of one read share a number, in their order.
    pub at: u64,
    /// The connection.
    pub conn: Conn,
    /// The event.
    pub event: HistoryEvent,
}

/// An event on a client's end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryEvent {
    /// The connection was opened.
    Opened,
    /// The client sent the connect request.
    ConnectRequest {
        /// The session to resume; 0 for a new one.
        session: SessionId,
        /// The latest zxid that the client has seen.
        last_zxid_seen: Zxid,
    },
    /// The server granted a session, or refused it with 0.
    ConnectResponse {
        /// The session.
        session: SessionId,
    },
    /// A request was sent. It is in flight from the moment before its last byte is written.
    Request(Incoming),
    /// A reply arrived.
    Reply(ReplyHeader, Result<Reply, DecodeError>),
    /// A watch event arrived.
    Event(Zxid, WatchedEvent),
    /// The bytes were not a valid frame at this point of the protocol. Nothing later in that direction is recorded.
    Unreadable {
        /// The sender.
        from: Side,
        /// Why it is invalid.
        why: String,
    },
    /// The connection ended. Open requests get no reply.
    Ended,
}

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl fmt::Display for HistoryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, conn: Conn(conn), event } = self;
        write!(f, "{at:>6}  connection {conn}  {event}")
    }
}

impl fmt::Display for HistoryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened => f.write_str("opened"),
            Self::ConnectRequest { session: SessionId(0), .. } => f.write_str("> new session"),
            Self::ConnectRequest { session, last_zxid_seen } => {
                write!(f, "> resume session {session}, seen {last_zxid_seen}")
            }
            Self::ConnectResponse { session: SessionId(0) } => f.write_str("< session refused"),
            Self::ConnectResponse { session } => write!(f, "< session {session}"),
            Self::Request(Incoming { xid, body: Ok(request), .. }) => write!(f, "> xid {xid}: {request:?}"),
            Self::Request(Incoming { xid, op, body: Err(error) }) => {
                write!(f, "> xid {xid}: opcode {op}, does not decode, {error:?}")
            }
            Self::Reply(header, body) => {
                write!(f, "< xid {} zxid {}: ", header.xid, header.zxid)?;
                match (header.error_code(), body) {
                    (Some(code), _) => write!(f, "{code:?}"),
                    (None, Ok(reply)) => write!(f, "{reply:?}"),
                    (None, Err(error)) => write!(f, "does not decode, {error:?}"),
                }
            }
            Self::Event(zxid, WatchedEvent { kind, path, .. }) => {
                write!(f, "< event zxid {zxid}: {kind:?} {path}")
            }
            Self::Unreadable { from, why } => write!(f, "unreadable from the {from:?}: {why}"),
            Self::Ended => f.write_str("ended"),
        }
    }
}
