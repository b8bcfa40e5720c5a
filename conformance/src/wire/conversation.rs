//! [`Conversation`]: a connection between a client and a server, as the messages of both directions.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use zoolet_proto::records::{ConnectRequest, ConnectResponse, WatchedEvent};
use zoolet_proto::{DecodeError, FourLetterWord, Incoming, OpCode, Reply, ReplyHeader, Xid, Zxid};
use zoolet_proto::{frame, jute};

/// Longer frames are not decoded: few clients read them, and a false length must not exhaust the memory.
const MAX_FRAME: usize = 64 << 20;

/// The length of a reply header.
const HEADER: usize = 16;

/// The xid of the reply to a request: that of pings to a ping, whatever its own.
pub(crate) fn reply_xid(op: i32, xid: Xid) -> Xid {
    if op == OpCode::Ping.code() { Xid::PING } else { xid }
}

/// The body of a reply to a request of this operation.
pub(crate) fn parse_reply(op: Option<OpCode>, is_error: bool, body: &[u8]) -> Result<Reply, DecodeError> {
    // A multi that fails has results as well.
    let has_body = |op| !is_error || (matches!(op, OpCode::Multi | OpCode::MultiRead) && !body.is_empty());
    match op {
        Some(op) if has_body(op) => Reply::parse(op, body),
        _ => Ok(Reply::Empty),
    }
}

/// The bytes of one direction, as payloads of frames.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    buffer: BytesMut,
}

impl Frames {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Reads what there is. False at the end. Dropping the future loses nothing.
    pub(crate) async fn read(&mut self, from: &mut (impl AsyncRead + Unpin)) -> bool {
        matches!(from.read_buf(&mut self.buffer).await, Ok(1..))
    }

    /// The four-letter word that the bytes are, if they are the first of a client and no frame.
    pub(crate) fn word(&self) -> Option<FourLetterWord> {
        FourLetterWord::from_bytes(*self.buffer.first_chunk()?)
    }

    /// The next whole payload. Fails if the next length is not that of a frame; nothing can be read after that.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, String> {
        let split = frame::split(&self.buffer, MAX_FRAME).map_err(|error| error.to_string())?;
        let Some(payload) = split.map(Bytes::copy_from_slice) else { return Ok(None) };
        self.buffer.advance(frame::PREFIX + payload.len());
        Ok(Some(payload))
    }

    /// The next whole payload, after what has to be read for it. None at the end. Dropping the future loses nothing.
    pub(crate) async fn receive(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
    ) -> Result<Option<Bytes>, String> {
        loop {
            match self.next()? {
                None if self.read(from).await => {}
                payload => return Ok(payload),
            }
        }
    }

    /// All bytes that are left, as they are.
    pub(crate) fn take(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }

    /// How many bytes wait for the rest of their frame.
    pub(crate) fn pending(&self) -> usize {
        self.buffer.len()
    }
}

/// A message of a client.
#[derive(Debug, Clone)]
pub(crate) enum FromClient {
    Connect(ConnectRequest),
    Request(Incoming),
}

/// A message of a server.
#[derive(Debug, Clone)]
pub(crate) enum FromServer {
    Connected(ConnectResponse),
    /// A reply, and its request if there is one: which one it was, counted from 0, and its opcode.
    Reply {
        header: ReplyHeader,
        number: Option<usize>,
        op: Option<i32>,
        reply: Result<Reply, DecodeError>,
    },
    Event(Zxid, WatchedEvent),
}

/// What payloads mean depends on those before: the first ones are the handshake, and a reply decodes by its request.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) has_asked: bool,
    has_answered: bool,
    /// How many requests there were.
    pub(crate) asked: usize,
    /// The requests without a reply, oldest first, each with its number.
    in_flight: VecDeque<(Xid, i32, usize)>,
}

#[allow(clippy::wrong_self_convention, reason = "the names are those of the directions")]
impl Conversation {
    /// One whose handshake is over.
    pub(crate) fn established() -> Self {
        Self { has_asked: true, has_answered: true, ..Self::default() }
    }

    /// Decodes the next payload of the client.
    pub(crate) fn from_client(&mut self, payload: &[u8]) -> Result<FromClient, String> {
        if !std::mem::replace(&mut self.has_asked, true) {
            let connect = jute::parse(payload);
            return connect.map(FromClient::Connect).map_err(|error| format!("a connect request: {error}"));
        }
        let incoming = Incoming::parse(payload).ok_or("a request without a whole header")?;
        self.in_flight.push_back((incoming.xid, incoming.op, self.asked));
        self.asked += 1;
        Ok(FromClient::Request(incoming))
    }

    /// Decodes the next payload of the server.
    pub(crate) fn from_server(&mut self, payload: &[u8]) -> Result<FromServer, String> {
        if !std::mem::replace(&mut self.has_answered, true) {
            let response = jute::parse(payload);
            return response
                .map(FromServer::Connected)
                .map_err(|error| format!("a connect response: {error}"));
        }
        let header: ReplyHeader = jute::parse(payload).map_err(|_| "a reply without a whole header")?;
        let body = &payload[HEADER..];
        if header.xid == Xid::EVENT {
            let event = jute::parse(body).map_err(|error| format!("a watch event: {error}"))?;
            return Ok(FromServer::Event(header.zxid, event));
        }
        let answered = |&(xid, op, _): &(Xid, i32, usize)| header.xid == reply_xid(op, xid);
        let request = self.in_flight.iter().position(answered).and_then(|at| self.in_flight.remove(at));
        let (op, number) = request.map(|(_, op, number)| (op, number)).unzip();
        let reply = parse_reply(op.and_then(OpCode::from_code), header.err != 0, body);
        Ok(FromServer::Reply { header, number, op, reply })
    }
}
