//! Our state machine, fed with bytes as a connection would feed it.

use std::collections::{HashMap, VecDeque};

use bytes::BytesMut;
use zoolet_core::{ConnId, Core, Input, Message, Millis};
use zoolet_proto::{Incoming, frame, jute};

use crate::duo::{Got, Server};
use crate::settings::Settings;

/// The time never passes: nothing here depends on it but values that are not compared.
const NOW: Millis = Millis(1_700_000_000_000);

pub struct Ours {
    core: Core,
    conns: Vec<Conn>,
    outboxes: HashMap<ConnId, VecDeque<Got>>,
}

struct Conn {
    id: ConnId,
    unread: Vec<u8>,
    connected: bool,
}

impl Ours {
    pub fn new(settings: &Settings) -> Self {
        Self { core: Core::new(settings.core.clone(), NOW), conns: Vec::new(), outboxes: HashMap::new() }
    }

    fn input(&mut self, conn: usize, input: Input) {
        self.core.handle(NOW, self.conns[conn].id, input);
        for (conn, message) in self.core.take_effects().outbound {
            let got = match message {
                Message::Close => Got::Closed,
                Message::Connected(welcome) => payload(|out| welcome.encode_frame(out)),
                Message::Reply(header, reply) => payload(|out| reply.encode_frame(header, out)),
            };
            self.outboxes.entry(conn).or_default().push_back(got);
        }
    }

    /// What a connection does with one frame.
    fn frame(&mut self, conn: usize, frame: &[u8]) {
        if self.conns[conn].connected {
            match Incoming::parse(frame) {
                Some(incoming) => self.input(conn, Input::Request(incoming)),
                None => self.cut(conn),
            }
        } else {
            self.conns[conn].connected = true;
            match jute::parse(frame) {
                Ok(request) => self.input(conn, Input::Connect(request)),
                Err(_) => self.cut(conn),
            }
        }
    }

    fn cut(&mut self, conn: usize) {
        self.input(conn, Input::Closed);
        self.outboxes.entry(self.conns[conn].id).or_default().push_back(Got::Closed);
    }
}

fn payload(encode: impl FnOnce(&mut BytesMut)) -> Got {
    let mut out = BytesMut::new();
    encode(&mut out);
    Got::Frame(out[frame::PREFIX..].to_vec())
}

impl Server for Ours {
    fn open(&mut self) -> usize {
        let id = ConnId(self.conns.len() as u64);
        self.conns.push(Conn { id, unread: Vec::new(), connected: false });
        self.input(self.conns.len() - 1, Input::Open { peer: [127, 0, 0, 1].into() });
        self.conns.len() - 1
    }

    fn write(&mut self, conn: usize, bytes: &[u8]) {
        let mut unread = std::mem::take(&mut self.conns[conn].unread);
        unread.extend_from_slice(bytes);
        let mut rest = &unread[..];
        loop {
            match frame::split(rest, frame::DEFAULT_MAX_FRAME) {
                Ok(Some(frame)) => {
                    self.frame(conn, frame);
                    rest = &rest[frame::PREFIX + frame.len()..];
                }
                Ok(None) => break,
                Err(_) => return self.cut(conn),
            }
        }
        self.conns[conn].unread = rest.to_vec();
    }

    fn read(&mut self, conn: usize) -> Got {
        let outbox = self.outboxes.entry(self.conns[conn].id).or_default();
        outbox.pop_front().unwrap_or(Got::Silence)
    }

    fn shut(&mut self, conn: usize) {
        self.input(conn, Input::Closed);
    }
}
