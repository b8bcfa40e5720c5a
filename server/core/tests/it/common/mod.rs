//! A world for a [`Core`], or for another [`StateMachine`]: its time, its connections, and what each of them received.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]

pub mod random;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use bytes::BytesMut;
use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{ErrorCode, EventType, Incoming, Reply, Request, SessionId, Stat, Xid, Zxid, frame};
use zoolet_server_core::{
    ConnId, Core, CoreConfig, Effects, Input, Message, Millis, Origin, StateMachine, Txn,
};

pub use zoolet_test_support::*;

/// Wall-clock time at which every world begins: a multiple of the tick, so that deadlines are easy to calculate.
pub const START: i64 = 1_700_000_000_000;
pub const TICK: i64 = 2_000;
/// The session timeout that [`World::connect`] requests.
pub const TIMEOUT: i32 = 10_000;

pub struct World<M = Core> {
    pub core: M,
    /// At which endpoint connections are opened, if the machine has several.
    pub at: usize,
    now: Millis,
    opened: u64,
    asked: i32,
    received: BTreeMap<ConnId, Vec<Received>>,
    /// All bytes sent to each connection.
    pub wire: BTreeMap<ConnId, BytesMut>,
    pub txns: Vec<Txn>,
    /// Executes each request, to measure what that takes.
    pub meter: Option<Meter>,
}

/// Executes a request, given the bytes of its frame and of the state.
pub type Meter = fn(frame: usize, state: usize, execute: &mut dyn FnMut());

/// Something a connection received.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    Welcome(ConnectResponse),
    Answer(Answer),
    Event(Event),
    Closed,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub zxid: i64,
    /// What happened where: `created /a`, `deleted /a`, `data /a`, `children /a`.
    pub text: String,
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A world whose settings differ from the usual ones.
    pub fn with(change: impl FnOnce(&mut CoreConfig)) -> Self {
        Self::around(Core::new(config(change), Millis(START)))
    }
}

pub fn config(change: impl FnOnce(&mut CoreConfig)) -> CoreConfig {
    let mut config = CoreConfig::default();
    config.tick_time = TICK as i32;
    change(&mut config);
    config
}

/// A state machine that a test can ask more.
pub trait Machine: StateMachine {
    fn replicas(&self) -> usize;
    fn session_of(&self, conn: ConnId) -> Option<SessionId>;
    fn expire(&mut self, now: Millis, session: SessionId) -> bool;
}

impl Machine for Core {
    fn replicas(&self) -> usize {
        1
    }

    fn session_of(&self, conn: ConnId) -> Option<SessionId> {
        self.session_of(conn)
    }

    fn expire(&mut self, now: Millis, session: SessionId) -> bool {
        self.expire(now, session)
    }
}

impl<M: Machine> World<M> {
    pub fn around(core: M) -> Self {
        limit();
        let (received, wire) = (BTreeMap::new(), BTreeMap::new());
        Self {
            core,
            at: 0,
            now: Millis(START),
            opened: 0,
            asked: 0,
            received,
            wire,
            txns: Vec::new(),
            meter: None,
        }
    }

    /// Runs a control operation on the machine and collects its effects.
    pub fn control<T>(&mut self, control: impl FnOnce(&mut M) -> T) -> T {
        let outcome = control(&mut self.core);
        self.collect();
        outcome
    }

    /// A connection with a session of its own.
    pub fn connect(&mut self) -> ConnId {
        let conn = self.socket();
        self.hello(conn, new_session());
        let welcome = self.take_welcome(conn);
        assert!(!welcome.is_refusal(), "a new session was refused");
        conn
    }

    /// A connection with a session of its own, of a client in the server's process.
    pub fn connect_in_process(&mut self) -> ConnId {
        let conn = self.open(Ipv4Addr::LOCALHOST.into(), true);
        self.hello(conn, new_session());
        self.take_welcome(conn);
        conn
    }

    /// A connection that has sent nothing yet.
    pub fn socket(&mut self) -> ConnId {
        self.socket_from(Ipv4Addr::LOCALHOST.into())
    }

    pub fn socket_from(&mut self, peer: IpAddr) -> ConnId {
        self.open(peer, false)
    }

    fn open(&mut self, peer: IpAddr, in_process: bool) -> ConnId {
        self.socket_of(Origin { in_process, ..peer.into() })
    }

    /// A connection from there that has sent nothing yet.
    pub fn socket_of(&mut self, origin: Origin) -> ConnId {
        self.opened += 1;
        let conn = ConnId(self.opened);
        self.core.open(self.now, conn, origin, self.at);
        self.collect();
        conn
    }

    pub fn hello(&mut self, conn: ConnId, request: ConnectRequest) {
        self.input(conn, Input::Connect(request));
    }

    /// The response to a connect request, which must be all that `conn` received.
    pub fn take_welcome(&mut self, conn: ConnId) -> ConnectResponse {
        match &self.received(conn)[..] {
            [Received::Welcome(welcome)] => welcome.clone(),
            other => panic!("no welcome but {other:?}"),
        }
    }

    pub fn session(&self, conn: ConnId) -> SessionId {
        self.core.session_of(conn).expect("a session")
    }

    /// Closes the connection; its session stays.
    pub fn cut(&mut self, conn: ConnId) {
        self.input(conn, Input::Closed);
    }

    /// Resumes a session on a new connection.
    pub fn resume(&mut self, session: SessionId) -> ConnId {
        let conn = self.socket();
        let password = Some(password_of(session));
        self.hello(conn, ConnectRequest { session, password, ..new_session() });
        assert!(!self.take_welcome(conn).is_refusal(), "the session was refused");
        conn
    }

    /// Sends a request; its effects are in [`World::received`].
    pub fn send(&mut self, conn: ConnId, request: Request) -> Xid {
        self.asked += 1;
        let xid = Xid(self.asked);
        self.send_as(conn, xid, request);
        xid
    }

    pub fn send_as(&mut self, conn: ConnId, xid: Xid, request: Request) {
        let mut wire = BytesMut::new();
        request.encode_frame(xid, &mut wire);
        self.send_frame(conn, &wire[frame::PREFIX..]);
    }

    /// Sends the bytes of a frame, without the length.
    pub fn send_frame(&mut self, conn: ConnId, bytes: &[u8]) {
        let incoming = Incoming::parse(bytes).expect("a whole header");
        let mut input = Some(Input::Request(incoming));
        let Self { core, now, meter, .. } = self;
        let state = if meter.is_some() { state_size(core.core()) } else { 0 };
        let mut execute = || input.take().into_iter().for_each(|input| core.handle(*now, conn, input));
        match meter {
            Some(meter) => meter(bytes.len(), state, &mut execute),
            None => execute(),
        }
        self.collect();
    }

    /// Sends a request and returns its answer. Events stay for [`World::events`].
    pub fn ask(&mut self, conn: ConnId, request: Request) -> Answer {
        let what = format!("{request:?}");
        let xid = self.send(conn, request);
        self.take_answer(conn, xid).unwrap_or_else(|| panic!("no answer to {what}"))
    }

    /// As [`World::ask`], with a body written by hand.
    pub fn ask_raw(&mut self, conn: ConnId, op: i32, body: Body) -> Answer {
        self.asked += 1;
        let xid = Xid(self.asked);
        self.send_frame(conn, &body.frame(xid, op));
        self.take_answer(conn, xid).unwrap_or_else(|| panic!("no answer to opcode {op}"))
    }

    /// As [`World::ask`], for a request that must succeed.
    pub fn ok(&mut self, conn: ConnId, request: Request) -> Answer {
        let what = format!("{request:?}");
        let answer = self.ask(conn, request);
        assert_eq!(answer.error, None, "{what}");
        answer
    }

    /// As [`World::ask`], for a request that must fail: its error.
    pub fn refusal(&mut self, conn: ConnId, request: Request) -> ErrorCode {
        let what = format!("{request:?}");
        self.ask(conn, request).error.unwrap_or_else(|| panic!("{what} succeeded"))
    }

    /// Creates znodes with open ACLs.
    pub fn znodes(&mut self, conn: ConnId, paths: &[&str]) {
        for path in paths {
            self.ok(conn, create(path));
        }
    }

    pub fn stat(&mut self, conn: ConnId, path: &str) -> Stat {
        self.ok(conn, exists(path)).stat()
    }

    /// Takes everything that `conn` received.
    pub fn received(&mut self, conn: ConnId) -> Vec<Received> {
        self.received.remove(&conn).unwrap_or_default()
    }

    /// Takes the events that `conn` received, as text.
    pub fn events(&mut self, conn: ConnId) -> Vec<String> {
        let received = self.received.entry(conn).or_default();
        let (events, rest) = received.drain(..).partition(|received| matches!(received, Received::Event(_)));
        *received = rest;
        events.into_iter().map(|received: Received| received.to_string()).collect()
    }

    /// Takes everything that `conn` received, as text: an event as in [`Event::text`], `reply`, the name of an error,
    /// `closed`.
    pub fn heard(&mut self, conn: ConnId) -> Vec<String> {
        self.received(conn).iter().map(ToString::to_string).collect()
    }

    /// Advances time, and runs every timeout at its deadline.
    pub fn advance(&mut self, ms: i64) {
        self.advance_in_parts(ms);
    }

    /// As [`World::advance`]. Returns the most calls that one deadline took.
    pub fn advance_in_parts(&mut self, ms: i64) -> usize {
        let until = self.now.plus(ms);
        let (mut most, mut calls) = (0, 0);
        while self.core.next_timeout() <= until {
            calls = if self.core.next_timeout() <= self.now { calls + 1 } else { 1 };
            most = most.max(calls);
            assert!(calls <= 1_000, "what was due is still due");
            self.now = self.now.max(self.core.next_timeout());
            self.core.handle_timeout(self.now);
            self.collect();
        }
        self.now = until;
        most
    }

    pub fn now(&self) -> i64 {
        self.now.0
    }

    pub fn zxid(&self) -> i64 {
        self.core.core().tree().last_zxid().0
    }

    pub fn expire(&mut self, session: SessionId) {
        assert!(self.core.expire(self.now, session), "no such session");
        self.collect();
    }

    pub fn paths_below(&self, path: &str) -> Vec<String> {
        let node = self.core.core().tree().get(path).expect("a znode");
        node.children().map(ToString::to_string).collect()
    }

    fn input(&mut self, conn: ConnId, input: Input) {
        self.core.handle(self.now, conn, input);
        self.collect();
    }

    fn collect(&mut self) {
        let Effects { txns, outbound } = self.core.take_effects();
        self.txns.extend(txns);
        for output in outbound {
            output.for_each(|conn, message| {
                encode(&message, self.wire.entry(conn).or_default());
                self.received.entry(conn).or_default().push(Received::from(message));
            });
        }
    }

    fn take_answer(&mut self, conn: ConnId, wanted: Xid) -> Option<Answer> {
        let received = self.received.entry(conn).or_default();
        let at = received
            .iter()
            .position(|received| matches!(received, Received::Answer(answer) if answer.xid == wanted))?;
        match received.remove(at) {
            Received::Answer(answer) => Some(answer),
            _ => None,
        }
    }
}

/// About how many bytes the state has that one request may show or change.
fn state_size(core: &Core) -> usize {
    const ENTRY: usize = 100;
    let tree = core.tree();
    let mut size = tree.data_size();
    let mut below = vec!["/".to_owned()];
    while let Some(path) = below.pop() {
        let Some(node) = tree.get(&path) else { continue };
        size += ENTRY + node.acl().iter().map(|entry| ENTRY + entry.id.len()).sum::<usize>();
        below.extend(node.children().map(ToString::to_string));
    }
    size + ENTRY * (core.watches().len() + core.sessions().len())
}

/// The bytes of a message; a close is written out.
pub fn encode(message: &Message, out: &mut BytesMut) {
    match message {
        Message::Connected(welcome) => welcome.encode_frame(out),
        Message::Reply(header, reply) => reply.encode_frame(*header, out),
        Message::Close { asked, .. } => out.extend_from_slice(format!("close {asked}").as_bytes()),
    }
}

impl From<Message> for Received {
    fn from(message: Message) -> Self {
        match message {
            Message::Connected(welcome) => Self::Welcome(welcome),
            Message::Close { .. } => Self::Closed,
            Message::Reply(header, Reply::Event(event)) => {
                assert_eq!((header.xid, header.err), (Xid::EVENT, 0));
                let what = match event.kind {
                    EventType::NodeCreated => "created",
                    EventType::NodeDeleted => "deleted",
                    EventType::NodeDataChanged => "data",
                    EventType::NodeChildrenChanged => "children",
                    other => panic!("a server sends no {other:?}"),
                };
                Self::Event(Event { zxid: header.zxid.0, text: format!("{what} {}", event.path) })
            }
            Message::Reply(header, reply) => {
                let error = header.error_code();
                Self::Answer(Answer { xid: header.xid, zxid: header.zxid.0, error, reply })
            }
        }
    }
}

impl std::fmt::Display for Received {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Welcome(welcome) if welcome.is_refusal() => f.write_str("refused"),
            Self::Welcome(_) => f.write_str("welcome"),
            Self::Event(event) => f.write_str(&event.text),
            Self::Answer(Answer { error: Some(code), .. }) => write!(f, "{code:?}"),
            Self::Answer(_) => f.write_str("reply"),
            Self::Closed => f.write_str("closed"),
        }
    }
}

/// The connect request of a modern client that wants a new session.
pub fn new_session() -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: TIMEOUT,
        session: SessionId(0),
        password: None,
        read_only: Some(false),
    }
}
