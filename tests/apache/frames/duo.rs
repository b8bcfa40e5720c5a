//! Two servers, asked the same.

use std::collections::BTreeMap;

use bytes::{BufMut, BytesMut};
use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{OpCode, Request, SessionId, Xid, Zxid, frame, jute};
use zoolet_test_support::Body;

use crate::frames::normal::Normal;
use crate::frames::socket::Socket;

/// What a connection got next.
#[derive(Debug, Clone, PartialEq)]
pub enum Got {
    /// A frame, without its length.
    Frame(Vec<u8>),
    /// The other end has closed.
    Closed,
    /// Nothing.
    Silence,
}

/// A connection, to both servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conn(usize);

pub struct Duo {
    ours: Side,
    theirs: Side,
    script: String,
    /// The first connection of the script.
    first: usize,
    /// The opcode each connection asked for under each xid.
    asked: BTreeMap<(usize, i32), i32>,
    next_xid: i32,
    /// Whether events of this step have no order.
    unordered: bool,
    steps: usize,
    findings: Vec<String>,
    /// Whether differences are meant at the moment, and how many were found.
    meant: Option<usize>,
}

struct Side {
    server: Socket,
    normal: Normal,
    /// Connections that are open and have a session.
    ready: Vec<bool>,
    open: Vec<bool>,
    /// The session of each connection.
    sessions: Vec<Option<ConnectResponse>>,
}

impl Duo {
    /// Two servers, by their addresses.
    pub fn new(ours: &str, theirs: &str) -> Self {
        Self {
            ours: Side::new(Socket::new(ours)),
            theirs: Side::new(Socket::new(theirs)),
            script: String::new(),
            first: 0,
            asked: BTreeMap::new(),
            next_xid: 0,
            unordered: false,
            steps: 0,
            findings: Vec::new(),
            meant: None,
        }
    }

    /// Begins a script: zxids are counted from here, so that a difference in one does not show in all after it.
    pub fn begin(&mut self, name: &str) {
        self.script = name.to_owned();
        let conn = self.connect();
        self.count_anew();
        self.ask(conn, Request::CloseSession);
    }

    /// Ends a script: closes the connections it has left open, and the sessions it has left alone, which would expire
    /// in the middle of another.
    pub fn end(&mut self) {
        let opened = self.ours.open.len();
        for conn in (self.first..opened).map(Conn) {
            let session = |side: &Side| side.sessions[conn.0].as_ref().map(|welcome| welcome.session);
            let is_the_last = |side: &Side| {
                let later = &side.sessions[conn.0 + 1..opened];
                later.iter().flatten().all(|welcome| Some(welcome.session) != session(side))
            };
            if session(&self.ours).is_none() || !is_the_last(&self.ours) {
                continue;
            }
            let conn = if self.is_ready(conn) { conn } else { self.resume(conn, |_| {}) };
            if self.is_ready(conn) {
                self.unordered();
                self.ask(conn, Request::CloseSession);
            }
        }
        for conn in self.first..self.ours.open.len() {
            for side in [&mut self.ours, &mut self.theirs] {
                side.close(conn);
            }
        }
        self.first = self.ours.open.len();
    }

    pub fn finish(self) -> (usize, Vec<String>) {
        (self.steps, self.findings)
    }

    /// Steps in which we differ on purpose; `docs/deviations.md` has the reasons. If we do not differ, that is reported as well.
    pub fn deviates(&mut self, why: &str, steps: impl FnOnce(&mut Self)) {
        self.meant = Some(0);
        steps(self);
        if self.meant.take() == Some(0) {
            self.findings.push(format!("[{}] no longer differs: {why}", self.script));
        }
    }

    /// The events of the next step may come in any order.
    pub fn unordered(&mut self) {
        self.unordered = true;
    }

    /// A connection with a new session of the longest timeout.
    pub fn connect(&mut self) -> Conn {
        let conn = self.open();
        self.hello(conn, &new_session());
        conn
    }

    pub fn open(&mut self) -> Conn {
        let (conn, other) = (self.ours.connect(), self.theirs.connect());
        assert_eq!(conn, other);
        Conn(conn)
    }

    pub fn hello(&mut self, conn: Conn, request: &ConnectRequest) {
        let mut wire = BytesMut::new();
        request.encode_frame(&mut wire);
        self.exchange(&format!("{request:?}"), conn, [wire.to_vec(), wire.to_vec()], 1);
    }

    /// A handshake for the session that `of` has or had, each server's own; `change` changes the rest of it.
    pub fn resume(&mut self, of: Conn, change: impl Fn(&mut ConnectRequest)) -> Conn {
        let conn = self.open();
        let hello = |side: &Side| {
            let welcome = side.sessions[of.0].clone().expect("a session");
            let (session, password) = (welcome.session, Some(welcome.password));
            let mut request = ConnectRequest { session, password, ..new_session() };
            change(&mut request);
            let mut wire = BytesMut::new();
            request.encode_frame(&mut wire);
            wire.to_vec()
        };
        let wires = [hello(&self.ours), hello(&self.theirs)];
        self.exchange(&format!("resume {of:?}"), conn, wires, 1);
        conn
    }

    pub fn ask(&mut self, conn: Conn, request: Request) {
        let xid = self.xid();
        self.ask_as(conn, xid, request);
    }

    /// A request about the time `back` zxids ago.
    pub fn ask_since(&mut self, conn: Conn, back: i64, request: impl Fn(i64) -> Request) {
        let xid = self.xid();
        let now = [self.ours.ping(conn.0), self.theirs.ping(conn.0)];
        let wires = now.map(|now| {
            let request = request(now - back);
            self.asked.insert((conn.0, xid), request.op().code());
            let mut wire = BytesMut::new();
            request.encode_frame(Xid(xid), &mut wire);
            wire.to_vec()
        });
        self.exchange(&format!("{back} zxids ago: {:?}", request(0)), conn, wires, 1);
    }

    pub fn ask_as(&mut self, conn: Conn, xid: i32, request: Request) {
        let mut wire = BytesMut::new();
        request.encode_frame(Xid(xid), &mut wire);
        self.asked.insert((conn.0, xid), request.op().code());
        self.both(&format!("{request:?}"), conn, &wire, 1);
    }

    /// A request written field by field.
    pub fn raw(&mut self, what: &str, conn: Conn, op: OpCode, body: Body) {
        self.raw_op(what, conn, op.code(), body);
    }

    pub fn raw_op(&mut self, what: &str, conn: Conn, op: i32, body: Body) {
        let xid = self.xid();
        self.asked.insert((conn.0, xid), op);
        let payload = body.frame(Xid(xid), op);
        self.bytes(&format!("{what} (opcode {op})"), conn, &framed(&payload));
    }

    /// Bytes that need not be a frame; one answer is waited for.
    pub fn bytes(&mut self, what: &str, conn: Conn, bytes: &[u8]) {
        self.both(what, conn, bytes, 1);
    }

    /// Several requests in one write.
    pub fn pipeline(&mut self, conn: Conn, requests: Vec<Request>) {
        let mut wire = BytesMut::new();
        let count = requests.len();
        for request in &requests {
            let xid = self.xid();
            self.asked.insert((conn.0, xid), request.op().code());
            request.encode_frame(Xid(xid), &mut wire);
        }
        self.both(&format!("{requests:?}"), conn, &wire, count);
    }

    /// Cuts a connection from the client's side.
    pub fn cut(&mut self, conn: Conn) {
        for side in [&mut self.ours, &mut self.theirs] {
            side.close(conn.0);
        }
    }

    /// Whether both servers still have the connection.
    pub fn is_ready(&self, conn: Conn) -> bool {
        self.ours.ready[conn.0] && self.theirs.ready[conn.0]
    }

    fn xid(&mut self) -> i32 {
        self.next_xid += 1;
        self.next_xid
    }

    fn both(&mut self, what: &str, conn: Conn, bytes: &[u8], answers: usize) {
        self.exchange(what, conn, [bytes.to_vec(), bytes.to_vec()], answers);
    }

    /// Writes to both, waits for so many answers, and compares what every connection got.
    fn exchange(&mut self, what: &str, conn: Conn, [ours, theirs]: [Vec<u8>; 2], answers: usize) {
        self.steps += 1;
        let ours = self.ours.exchange(conn.0, &ours, answers, false);
        let closes = !self.ours.open[conn.0];
        let theirs = self.theirs.exchange(conn.0, &theirs, answers, closes);
        let mut differ = false;
        for at in 0..self.ours.open.len() {
            let words = |side: &Side, got: &[Got]| -> Vec<String> {
                let op = |xid| self.asked.get(&(at, xid)).copied();
                let mut words: Vec<_> = got.iter().map(|got| side.normal.words(got, op)).collect();
                if self.unordered {
                    words.sort_by_key(|words| (!words.starts_with("event"), words.clone()));
                }
                words
            };
            let (mine, other) = (words(&self.ours, &ours[at]), words(&self.theirs, &theirs[at]));
            if mine != other {
                let whom = if at == conn.0 { String::new() } else { format!(" (sent to connection {at})") };
                differ = true;
                match &mut self.meant {
                    Some(found) => *found += 1,
                    None => self.findings.push(format!(
                        "[{}] {what}{whom}\n    ours   {}\n    apache {}",
                        self.script,
                        mine.join("\n           "),
                        other.join("\n           ")
                    )),
                }
            }
            if self.ours.open[at] != self.theirs.open[at] {
                self.ours.close(at);
                self.theirs.close(at);
            }
        }
        self.unordered = false;
        if differ {
            self.count_anew();
        }
    }

    /// Lets both count zxids from now on, so that one difference is not reported again with every later answer.
    fn count_anew(&mut self) {
        let both = |conn: &usize| self.ours.ready[*conn] && self.theirs.ready[*conn];
        if let Some(conn) = (0..self.ours.open.len()).find(both) {
            for side in [&mut self.ours, &mut self.theirs] {
                side.normal.base = side.ping(conn);
            }
        }
    }
}

impl Side {
    fn new(server: Socket) -> Self {
        Self { server, normal: Normal::default(), ready: vec![], open: vec![], sessions: vec![] }
    }

    fn connect(&mut self) -> usize {
        self.ready.push(false);
        self.open.push(true);
        self.sessions.push(None);
        self.server.open()
    }

    fn close(&mut self, conn: usize) {
        if std::mem::take(&mut self.open[conn]) {
            self.server.shut(conn);
        }
        self.ready[conn] = false;
    }

    /// What each connection got from a write on one of them. One that is to close is waited for: a ping that gets there
    /// before the close would be answered.
    fn exchange(&mut self, conn: usize, bytes: &[u8], answers: usize, closes: bool) -> Vec<Vec<Got>> {
        let mut all = vec![Vec::new(); self.open.len()];
        if !self.open[conn] {
            return all;
        }
        self.server.write(conn, bytes);
        let mut missing = answers;
        while missing > 0 {
            let got = self.server.read(conn);
            let is_event = matches!(&got, Got::Frame(frame) if frame.starts_with(&(-1i32).to_be_bytes()));
            missing -= usize::from(!is_event);
            let over = !matches!(got, Got::Frame(_));
            self.note(conn, &got);
            all[conn].push(got);
            if over {
                break;
            }
        }
        while closes && self.open[conn] {
            let got = self.server.read(conn);
            let is_silence = got == Got::Silence;
            self.note(conn, &got);
            all[conn].push(got);
            if is_silence {
                break;
            }
        }
        // A ping after it: whatever else the request caused comes before its answer.
        let ready: Vec<_> = (0..self.open.len()).filter(|conn| self.ready[*conn]).collect();
        for conn in &ready {
            self.server.write(*conn, &framed(&Body::new().frame(Xid::PING, OpCode::Ping.code())));
        }
        for conn in ready {
            loop {
                let got = self.server.read(conn);
                let is_pong = matches!(&got, Got::Frame(frame) if frame.starts_with(&(-2i32).to_be_bytes()));
                let over = is_pong || !matches!(got, Got::Frame(_));
                self.note(conn, &got);
                all[conn].push(got);
                if over {
                    break;
                }
            }
        }
        all
    }

    fn note(&mut self, conn: usize, got: &Got) {
        match got {
            Got::Closed => self.close(conn),
            Got::Frame(frame) if !self.ready[conn] => {
                let welcome: Option<ConnectResponse> = jute::parse(frame).ok();
                self.ready[conn] = welcome.as_ref().is_some_and(|welcome| !welcome.is_refusal());
                if let Some(welcome) = welcome.filter(|welcome| welcome.session != SessionId(0)) {
                    self.normal.meet(welcome.session);
                    self.sessions[conn] = Some(welcome);
                }
            }
            _ => {}
        }
    }

    /// The last zxid of the server.
    fn ping(&mut self, conn: usize) -> i64 {
        self.server.write(conn, &framed(&Body::new().frame(Xid::PING, OpCode::Ping.code())));
        match self.server.read(conn) {
            Got::Frame(frame) => i64::from_be_bytes(frame[4..12].try_into().expect("a header")),
            other => panic!("{other:?} instead of a pong"),
        }
    }
}

pub fn framed(payload: &[u8]) -> Vec<u8> {
    let mut wire = BytesMut::new();
    frame::put(&mut wire, |out| out.put_slice(payload));
    wire.to_vec()
}

/// The connect request of a modern client that wants a session that lasts.
pub fn new_session() -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: 40_000,
        session: SessionId(0),
        password: Some(vec![0; 16].into()),
        read_only: Some(false),
    }
}
