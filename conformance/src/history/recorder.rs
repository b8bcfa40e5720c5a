//! Splits the bytes of both directions into frames and records them in a history.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use zoolet_proto::records::{ConnectRequest, ConnectResponse, WatchedEvent};
use zoolet_proto::{FourLetterWord, frame};
use zoolet_proto::{Incoming, OpCode, Reply, ReplyHeader, Xid, jute};

use super::entry::{Conn, HistoryEvent, Side};
use super::recording::History;

/// Longer frames are not recorded: no client reads them, and a false length must not exhaust the memory.
const MAX_FRAME: usize = 256 << 20;

/// The length of a reply header.
const HEADER: usize = 16;

/// Records one connection, from its first byte to its end.
pub(super) struct Recorder {
    history: History,
    conn: Conn,
    sent: Frames,
    received: Frames,
    /// The requests in flight: the opcode determines how a reply decodes.
    in_flight: VecDeque<(Xid, i32)>,
    ended: bool,
}

/// The bytes of one direction that do not make a whole frame yet.
#[derive(Default)]
struct Frames {
    buffer: BytesMut,
    handshake_done: bool,
    /// Whether further bytes are ignored.
    ignoring: bool,
}

impl Recorder {
    pub(super) fn new(history: History) -> Self {
        let conn = history.open();
        let (sent, received) = (Frames::default(), Frames::default());
        Self { history, conn, sent, received, in_flight: VecDeque::new(), ended: false }
    }

    pub(super) fn now(&self) -> u64 {
        self.history.now()
    }

    /// Records the bytes that a write, begun at `began`, has handed ended.
    pub(super) fn sent(&mut self, began: u64, bytes: &[u8]) {
        self.sent.add(bytes);
        if self.sent.is_word() {
            self.sent.ignore();
            self.received.ignore();
        }
        while let Some(frame) = self.sent.next() {
            let event = match frame {
                Ok(frame) if self.sent.take_handshake() => connect_request(&frame),
                Ok(frame) => self.request(&frame),
                Err(why) => Err(why),
            };
            let event = event.unwrap_or_else(|why| self.sent.give_up(Side::Client, why));
            self.history.record(began, self.conn, event);
        }
    }

    /// Records bytes that were read.
    pub(super) fn received(&mut self, bytes: &[u8]) {
        let mut at = None;
        self.received.add(bytes);
        while let Some(frame) = self.received.next() {
            let event = match frame {
                Ok(frame) if self.received.take_handshake() => connect_response(&frame),
                Ok(frame) => self.reply(&frame),
                Err(why) => Err(why),
            };
            let event = event.unwrap_or_else(|why| self.received.give_up(Side::Server, why));
            self.history.record(*at.get_or_insert_with(|| self.history.now()), self.conn, event);
        }
    }

    /// Records the end of the connection.
    pub(super) fn ended(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.history.record(self.history.now(), self.conn, HistoryEvent::Ended);
        }
    }

    fn request(&mut self, frame: &[u8]) -> Result<HistoryEvent, String> {
        let incoming = Incoming::parse(frame).ok_or("a request without a whole header")?;
        self.in_flight.push_back((incoming.xid, incoming.op));
        Ok(HistoryEvent::Request(incoming))
    }

    fn reply(&mut self, frame: &[u8]) -> Result<HistoryEvent, String> {
        let header: ReplyHeader = jute::parse(frame).map_err(|_| "a reply without a whole header")?;
        let body = &frame[HEADER..];
        if header.xid == Xid::EVENT {
            let event: WatchedEvent = jute::parse(body).map_err(|_| "an event that does not decode")?;
            return Ok(HistoryEvent::Event(header.zxid, event));
        }
        // The reply to a ping has the xid of pings, whatever the request's.
        let answered =
            |&(xid, op): &(Xid, i32)| header.xid == if op == OpCode::Ping.code() { Xid::PING } else { xid };
        let op = self.in_flight.iter().position(answered).and_then(|at| self.in_flight.remove(at));
        let op = op.and_then(|(_, op)| OpCode::from_code(op));
        let reply = match op {
            Some(op) if header.err == 0 => Reply::parse(op, body),
            _ => Ok(Reply::Empty),
        };
        Ok(HistoryEvent::Reply(header, reply))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.ended();
    }
}

impl Frames {
    fn add(&mut self, bytes: &[u8]) {
        if !self.ignoring {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next whole frame, or an error if the next length is invalid.
    fn next(&mut self) -> Option<Result<Bytes, String>> {
        match frame::split(&self.buffer, MAX_FRAME) {
            Ok(frame) => {
                let frame = Bytes::copy_from_slice(frame?);
                self.buffer.advance(frame::PREFIX + frame.len());
                Some(Ok(frame))
            }
            Err(error) => Some(Err(error.to_string())),
        }
    }

    /// Whether this frame is the first, which is the handshake.
    fn take_handshake(&mut self) -> bool {
        !std::mem::replace(&mut self.handshake_done, true)
    }

    /// Whether the first bytes are a four-letter word instead of a frame.
    fn is_word(&self) -> bool {
        let first = self.buffer.first_chunk().filter(|_| !self.handshake_done);
        first.is_some_and(|first| FourLetterWord::from_bytes(*first).is_some())
    }

    fn ignore(&mut self) {
        self.ignoring = true;
        self.buffer.clear();
    }

    fn give_up(&mut self, from: Side, why: String) -> HistoryEvent {
        self.ignore();
        HistoryEvent::Unreadable { from, why }
    }
}

fn connect_request(frame: &[u8]) -> Result<HistoryEvent, String> {
    let ConnectRequest { session, last_zxid_seen, .. } =
        jute::parse(frame).map_err(|_| "a connect request that does not decode")?;
    Ok(HistoryEvent::ConnectRequest { session, last_zxid_seen })
}

fn connect_response(frame: &[u8]) -> Result<HistoryEvent, String> {
    let response: ConnectResponse =
        jute::parse(frame).map_err(|_| "a connect response that does not decode")?;
    let refused = response.is_refusal();
    Ok(HistoryEvent::ConnectResponse { session: if refused { Default::default() } else { response.session } })
}
