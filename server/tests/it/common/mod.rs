//! A server on a clock of the test's own, and peers that send and hear raw frames. What is heard is text:
//! `assert_eq!(peer.hear().await, "1 ok")`.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use zoolet_proto::records::{self, ConnectRequest, ConnectResponse, Op, WatchedEvent};
use zoolet_proto::{Acl, ReplyHeader, Request, SessionId, Xid, Zxid, frame, jute};
use zoolet_server::fixture::RecordEntry;
use zoolet_server::{Clock, ConnId, Fixture, InProcessStream, Server, ServerBuilder};

/// How long anything may take by the real clock before a test gives up on it.
const PATIENCE: Duration = secs(60);

/// The timeout that every peer asks for, and the tick of every server.
pub const TIMEOUT: Duration = secs(10);
pub const TICK: Duration = secs(2);

pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A server, looked at and moved by its fixture.
pub struct Zk {
    pub server: Server,
    pub fixture: Fixture,
}

impl Zk {
    /// Without a socket, on a manual clock.
    pub async fn start() -> Self {
        Self::with(Server::builder().clock(Clock::manual())).await
    }

    pub async fn with(settings: ServerBuilder) -> Self {
        zoolet_test_support::limit();
        let server = settings.tick_time(TICK).start().await.expect("a server that starts");
        Self { fixture: server.fixture(), server }
    }

    /// A peer with a session.
    pub async fn peer(&self) -> Peer<InProcessStream> {
        let mut peer = self.raw();
        assert_eq!(peer.open().await, "session");
        peer
    }

    /// A peer that has said nothing yet.
    pub fn raw(&self) -> Peer<InProcessStream> {
        self.raw_at(0)
    }

    /// One that has said nothing yet to that endpoint.
    pub fn raw_at(&self, endpoint: usize) -> Peer<InProcessStream> {
        let stream = self.server.in_process_at(endpoint)().into_inner();
        Peer::over(stream.expect("a server that takes connections"))
    }

    /// A peer that takes the session of another up.
    pub async fn again(&self, other: &ConnectResponse) -> Peer<InProcessStream> {
        let mut peer = self.raw();
        peer.hello(other.session, &other.password).await;
        assert_eq!(peer.hear().await, "session");
        peer
    }

    /// Moves the clock at one go and waits until everybody has acted.
    pub async fn advance(&self, by: Duration) {
        self.fixture.clock().advance(by).expect("a manual clock");
        self.idle().await;
    }

    pub async fn idle(&self) {
        self.fixture.wait_until_idle().await.expect("a server that comes to rest");
    }

    /// What the record says of a connection, without its first two lines: the connection and its session.
    pub fn said(&self, conn: ConnId) -> Vec<String> {
        self.entries(conn).into_iter().map(|entry| entry.what.to_string().trim().to_owned()).collect()
    }

    pub fn entries(&self, conn: ConnId) -> Vec<RecordEntry> {
        self.fixture.record().into_iter().filter(|entry| entry.conn == conn).collect()
    }

    /// What was done on purpose.
    pub fn fired(&self) -> Vec<String> {
        let fired = self.fixture.faults().fired().into_iter();
        fired.inspect(|entry| assert!(entry.what.is_fault())).map(|entry| entry.what.to_string()).collect()
    }

    /// What a four-letter word is answered.
    pub async fn word(&self, word: &str) -> String {
        self.word_at(0, word).await
    }

    /// What it is answered by that endpoint.
    pub async fn word_at(&self, endpoint: usize, word: &str) -> String {
        let mut peer = self.raw_at(endpoint);
        peer.write(word.as_bytes()).await;
        let mut text = String::new();
        peer.stream.read_to_string(&mut text).await.expect("text and the end");
        text
    }
}

impl Deref for Zk {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

/// One that speaks in frames and takes no care of anything.
pub struct Peer<S> {
    pub stream: S,
    pub welcome: ConnectResponse,
    buffer: BytesMut,
    greeted: bool,
    last_xid: i32,
}

impl Peer<InProcessStream> {
    pub fn conn(&self) -> ConnId {
        self.stream.conn()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub fn over(stream: S) -> Self {
        let welcome = ConnectResponse::refusal(None);
        Self { stream, welcome, buffer: BytesMut::new(), greeted: false, last_xid: 0 }
    }

    pub fn session(&self) -> SessionId {
        self.welcome.session
    }

    /// Opens a session.
    pub async fn open(&mut self) -> String {
        self.hello(SessionId(0), &Bytes::new()).await;
        self.hear().await
    }

    /// Asks for a session.
    pub async fn hello(&mut self, session: SessionId, password: &Bytes) {
        let mut bytes = BytesMut::new();
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout: i32::try_from(TIMEOUT.as_millis()).expect("a short timeout"),
            session,
            password: Some(password.clone()),
            read_only: Some(false),
        }
        .encode_frame(&mut bytes);
        self.write(&bytes).await;
    }

    pub async fn send(&mut self, request: Request) {
        self.send_all([request]).await;
    }

    /// Sends requests in one write, numbered from where the last one was.
    pub async fn send_all(&mut self, requests: impl IntoIterator<Item = Request>) {
        let mut bytes = BytesMut::new();
        for request in requests {
            self.encode(request, &mut bytes);
        }
        self.write(&bytes).await;
    }

    pub fn encode(&mut self, request: Request, bytes: &mut BytesMut) {
        let ping = matches!(request, Request::Ping);
        self.last_xid += i32::from(!ping);
        request.encode_frame(if ping { Xid::PING } else { Xid(self.last_xid) }, bytes);
    }

    pub async fn ask(&mut self, request: Request) -> String {
        self.send(request).await;
        self.hear().await
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("a connection that takes bytes");
        self.stream.flush().await.expect("a connection that takes bytes");
    }

    /// What comes next: a frame, or the end.
    pub async fn hear(&mut self) -> String {
        let hearing = poll_fn(|cx| self.poll_hear(cx));
        tokio::time::timeout(PATIENCE, hearing).await.expect("nothing comes")
    }

    /// Everything that is there, the end included.
    pub async fn heard(&mut self) -> Vec<String> {
        let mut heard = Vec::new();
        while let Poll::Ready(next) = poll_fn(|cx| Poll::Ready(self.poll_hear(cx))).await {
            let over = ["end", "reset"].contains(&next.as_str()) || next.starts_with("cut");
            heard.push(next);
            if over {
                break;
            }
        }
        heard
    }

    /// Everything that is there, as it is on the wire.
    pub async fn drained(&mut self) -> Vec<u8> {
        self.bytes().await;
        std::mem::take(&mut self.buffer).to_vec()
    }

    /// How many bytes have come since the last time.
    pub async fn bytes(&mut self) -> usize {
        let had = self.buffer.len();
        poll_fn(|cx| {
            while let Poll::Ready(Ok(1..)) = self.poll_fill(cx) {}
            Poll::Ready(())
        })
        .await;
        self.buffer.len() - had
    }

    fn poll_hear(&mut self, cx: &mut std::task::Context<'_>) -> Poll<String> {
        loop {
            if let Some(payload) = frame::split(&self.buffer, i32::MAX as usize).expect("a legal length") {
                let payload = Bytes::copy_from_slice(payload);
                self.buffer.advance(frame::PREFIX + payload.len());
                return Poll::Ready(self.describe(&payload));
            }
            match std::task::ready!(self.poll_fill(cx)) {
                Ok(0) if self.buffer.is_empty() => return Poll::Ready("end".to_owned()),
                Ok(0) => return Poll::Ready(format!("cut, with {} bytes of a frame", self.buffer.len())),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return Poll::Ready("reset".to_owned());
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn poll_fill(&mut self, cx: &mut std::task::Context<'_>) -> Poll<std::io::Result<usize>> {
        let mut room = [0; 4096];
        let mut room = ReadBuf::new(&mut room);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut room);
        self.buffer.extend_from_slice(room.filled());
        read.map_ok(|()| room.filled().len())
    }

    fn describe(&mut self, payload: &[u8]) -> String {
        if !self.greeted {
            self.greeted = true;
            self.welcome = jute::parse(payload).expect("a connect response");
            return if self.welcome.is_refusal() { "no session" } else { "session" }.to_owned();
        }
        let header: ReplyHeader = jute::parse(payload).expect("a reply header");
        match (header.xid, header.error_code()) {
            (Xid::EVENT, _) => {
                let event: WatchedEvent = jute::parse(&payload[16..]).expect("a watch event");
                format!("{:?} {}", event.kind, event.path)
            }
            (Xid::PING, None) => "pong".to_owned(),
            (xid, None) => format!("{} ok", xid.0),
            (xid, Some(code)) => format!("{} {code:?}", xid.0),
        }
    }
}

// Requests.

pub fn create(path: &str) -> Request {
    Request::Create(create_record(path, 0))
}

pub fn ephemeral(path: &str) -> Request {
    Request::Create(create_record(path, 1))
}

pub fn sequential(path: &str) -> Request {
    Request::Create(create_record(path, 2))
}

fn create_record(path: &str, flags: i32) -> records::Create {
    records::Create { path: path.into(), data: Some(Bytes::new()), acl: Some(Acl::open()), flags }
}

pub fn set(path: &str, data: &str) -> Request {
    let data = Some(Bytes::copy_from_slice(data.as_bytes()));
    Request::SetData(records::SetData { path: path.into(), data, version: -1 })
}

pub fn delete(path: &str) -> Request {
    Request::Delete(records::Delete { path: path.into(), version: -1 })
}

pub fn get(path: &str) -> Request {
    Request::GetData(records::GetData { path: path.into(), watch: false })
}

pub fn watch(path: &str) -> Request {
    Request::Exists(records::Exists { path: path.into(), watch: true })
}

pub fn watch_children(path: &str) -> Request {
    Request::GetChildren(records::GetChildren { path: path.into(), watch: true })
}

pub fn multi(requests: impl IntoIterator<Item = Request>) -> Request {
    let part = |request| match request {
        Request::Create(record) => Op::Create(record),
        Request::SetData(record) => Op::SetData(record),
        Request::Delete(record) => Op::Delete(record),
        other => panic!("no part of a multi: {other:?}"),
    };
    Request::Multi(requests.into_iter().map(part).collect())
}

pub fn ping() -> Request {
    Request::Ping
}

pub fn close() -> Request {
    Request::CloseSession
}
