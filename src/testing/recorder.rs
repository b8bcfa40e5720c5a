//! Frames found in the bytes of both directions, entered in a history.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use zoolet_proto::frame::{self, FourLetterWord};
use zoolet_proto::records::{ConnectRequest, ConnectResponse, WatchedEvent};
use zoolet_proto::{Incoming, OpCode, Reply, ReplyHeader, Xid, jute};

use super::history::{Conn, History, HistoryEvent, Side};

/// Frames past this are not recorded: no client reads them, and a length that lies must not fill the memory.
const MAX_FRAME: usize = 256 << 20;

/// Bytes of the header of a reply.
const HEADER: usize = 16;

/// Records one connection, from its first byte to its end.
pub(super) struct Recorder {
    history: History,
    conn: Conn,
    sent: Frames,
    received: Frames,
    /// What was asked and is not answered, so that the bodies of replies can be read.
    asked: VecDeque<(Xid, i32)>,
    over: bool,
}

/// The bytes of one direction that are no whole frame yet.
#[derive(Default)]
struct Frames {
    buffer: BytesMut,
    greeted: bool,
    /// Whether what comes now is no longer looked at.
    deaf: bool,
}

impl Recorder {
    pub(super) fn new(history: History) -> Self {
        let conn = history.open();
        let (sent, received) = (Frames::default(), Frames::default());
        Self { history, conn, sent, received, asked: VecDeque::new(), over: false }
    }

    pub(super) fn now(&self) -> u64 {
        self.history.now()
    }

    /// Takes what a write that began at `began` has handed over.
    pub(super) fn sent(&mut self, began: u64, bytes: &[u8]) {
        self.sent.add(bytes);
        if self.sent.is_word() {
            self.sent.deafen();
            self.received.deafen();
        }
        while let Some(frame) = self.sent.next() {
            let what = match frame {
                Ok(frame) if self.sent.greet() => hello(&frame),
                Ok(frame) => self.request(&frame),
                Err(why) => Err(why),
            };
            let what = what.unwrap_or_else(|why| self.sent.give_up(Side::Client, why));
            self.history.record(began, self.conn, what);
        }
    }

    /// Takes what was read.
    pub(super) fn received(&mut self, bytes: &[u8]) {
        let mut at = None;
        self.received.add(bytes);
        while let Some(frame) = self.received.next() {
            let what = match frame {
                Ok(frame) if self.received.greet() => welcome(&frame),
                Ok(frame) => self.answer(&frame),
                Err(why) => Err(why),
            };
            let what = what.unwrap_or_else(|why| self.received.give_up(Side::Server, why));
            self.history.record(*at.get_or_insert_with(|| self.history.now()), self.conn, what);
        }
    }

    /// Notes that nothing more can arrive.
    pub(super) fn ended(&mut self) {
        if !std::mem::replace(&mut self.over, true) {
            self.history.record(self.history.now(), self.conn, HistoryEvent::Ended);
        }
    }

    fn request(&mut self, frame: &[u8]) -> Result<HistoryEvent, String> {
        let incoming = Incoming::parse(frame).ok_or("a request without a whole header")?;
        self.asked.push_back((incoming.xid, incoming.op));
        Ok(HistoryEvent::Request(incoming))
    }

    fn answer(&mut self, frame: &[u8]) -> Result<HistoryEvent, String> {
        let header: ReplyHeader = jute::parse(frame).map_err(|_| "a reply without a whole header")?;
        let body = &frame[HEADER..];
        if header.xid == Xid::EVENT {
            let event: WatchedEvent = jute::parse(body).map_err(|_| "an event that does not decode")?;
            return Ok(HistoryEvent::Event(header.zxid, event));
        }
        // A ping is answered under the number of pings, whatever its own.
        let answered =
            |&(xid, op): &(Xid, i32)| header.xid == if op == OpCode::Ping.code() { Xid::PING } else { xid };
        let op = self.asked.iter().position(answered).and_then(|at| self.asked.remove(at));
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
        if !self.deaf {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next whole frame, or what is wrong with the length of the next.
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

    /// Whether this frame is the first, which has no header.
    fn greet(&mut self) -> bool {
        !std::mem::replace(&mut self.greeted, true)
    }

    /// Whether a four-letter word stands in the place of the first frame.
    fn is_word(&self) -> bool {
        let first = self.buffer.first_chunk().filter(|_| !self.greeted);
        first.is_some_and(|first| FourLetterWord::from_bytes(*first).is_some())
    }

    fn deafen(&mut self) {
        self.deaf = true;
        self.buffer.clear();
    }

    fn give_up(&mut self, from: Side, why: String) -> HistoryEvent {
        self.deafen();
        HistoryEvent::Unreadable { from, why }
    }
}

fn hello(frame: &[u8]) -> Result<HistoryEvent, String> {
    let ConnectRequest { session, last_zxid_seen, .. } =
        jute::parse(frame).map_err(|_| "a connect request that does not decode")?;
    Ok(HistoryEvent::Hello { session, last_zxid_seen })
}

fn welcome(frame: &[u8]) -> Result<HistoryEvent, String> {
    let response: ConnectResponse =
        jute::parse(frame).map_err(|_| "a connect response that does not decode")?;
    let refused = response.is_refusal();
    Ok(HistoryEvent::Welcome { session: if refused { Default::default() } else { response.session } })
}
