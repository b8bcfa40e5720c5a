//! A server played by the test, frame by frame, over streams in memory.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(missing_docs, unreachable_pub, reason = "shared by the test files alone")]

pub mod model;

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::sync::mpsc;
use zoolet_client::{Client, Clock, ConnectOptions};
use zoolet_proto::records::{ConnectRequest, ConnectResponse, WatchedEvent};
use zoolet_proto::{
    ErrorCode, EventType, Incoming, KeeperState, Reply, ReplyHeader, Request, SessionId, Xid, Zxid, frame,
    jute,
};
pub use zoolet_test_support::{at_once, pass, until};

pub const SESSION: SessionId = SessionId(0x77);
pub const TIMEOUT: Duration = Duration::from_secs(9);

/// Accepts the client's connections.
pub struct Listener(mpsc::UnboundedReceiver<DuplexStream>);

/// A connector for the client, and the listener of its connections.
pub fn listener() -> (impl Fn() -> Ready<io::Result<DuplexStream>> + Send + 'static, Listener) {
    zoolet_test_support::limit();
    let (sender, connections) = mpsc::unbounded_channel();
    let connect = move || {
        let (ours, theirs) = duplex(1 << 20);
        ready(sender.send(theirs).map(|()| ours).map_err(|_| io::ErrorKind::ConnectionRefused.into()))
    };
    (connect, Listener(connections))
}

impl Listener {
    /// The next connection, before its handshake.
    pub async fn connection(&mut self) -> Peer {
        self.next_connection().await.expect("a connection")
    }

    /// As [`connection`](Listener::connection); `None` if the client will open no other.
    pub async fn next_connection(&mut self) -> Option<Peer> {
        self.0.recv().await.map(Peer::over)
    }

    /// The first connection whose request is as wanted, after granting its session; the others are closed.
    pub async fn accept_if(&mut self, wanted: impl Fn(&ConnectRequest) -> bool) -> Peer {
        loop {
            let mut peer = self.connection().await;
            if peer.grant_if(&wanted).await {
                return peer;
            }
        }
    }

    /// The next connection, after granting its session.
    pub async fn accept(&mut self) -> Peer {
        let mut peer = self.connection().await;
        peer.grant_session().await;
        peer
    }
}

/// A client and its connection.
pub async fn connected() -> (Client, Peer, Listener) {
    connected_with(Client::options()).await
}

pub async fn connected_with(options: ConnectOptions) -> (Client, Peer, Listener) {
    let (connect, mut listener) = listener();
    let (client, peer) = tokio::join!(options.connect(connect), listener.accept());
    (client.expect("a session"), peer, listener)
}

/// As [`pass`], to the next deadline. Returns how far that is.
pub async fn advance_to_next(clock: &Clock) -> Option<Duration> {
    let passed = clock.advance_to_next_timeout(Duration::from_secs(3600)).expect("a manual clock");
    until(|| clock.pending_wakeups() == 0).await;
    passed
}

/// A client's end of a connection that calls `before_write` at each write, which fails with its error.
pub struct Watched<F> {
    pub stream: DuplexStream,
    pub before_write: F,
}

impl<F: Unpin> AsyncRead for Watched<F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<F: Fn() -> io::Result<()> + Unpin> AsyncWrite for Watched<F> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        (self.before_write)()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The server's end of a connection.
pub struct Peer {
    stream: DuplexStream,
    inbox: BytesMut,
    pub zxid: i64,
}

impl Peer {
    pub fn over(stream: DuplexStream) -> Self {
        Self { stream, inbox: BytesMut::new(), zxid: 1 }
    }

    /// Grants a session and returns the connect request.
    pub async fn grant_session(&mut self) -> ConnectRequest {
        self.grant_session_as(SESSION, TIMEOUT).await
    }

    pub async fn grant_session_as(&mut self, session: SessionId, timeout: Duration) -> ConnectRequest {
        self.respond(session, timeout, false).await
    }

    /// Grants a session as a read-only server.
    pub async fn grant_read_only(&mut self) -> ConnectRequest {
        self.respond(SESSION, TIMEOUT, true).await
    }

    async fn respond(&mut self, session: SessionId, timeout: Duration, read_only: bool) -> ConnectRequest {
        let request = self.connect_request().await;
        self.grant(&request, session, timeout, read_only).await;
        request
    }

    async fn grant(
        &mut self,
        request: &ConnectRequest,
        session: SessionId,
        timeout: Duration,
        read_only: bool,
    ) {
        let response = ConnectResponse {
            protocol_version: 0,
            timeout: timeout.as_millis() as i32,
            session,
            password: Bytes::from_static(b"sixteen bytes..."),
            read_only: request.read_only.map(|_| read_only),
        };
        self.write(|out| response.encode_frame(out)).await;
    }

    /// Grants a session if the request is as wanted, and otherwise says nothing, as a server that is behind.
    pub async fn grant_if(&mut self, wanted: impl Fn(&ConnectRequest) -> bool) -> bool {
        let request = self.connect_request().await;
        let granted = wanted(&request);
        if granted {
            self.grant(&request, SESSION, TIMEOUT, false).await;
        }
        granted
    }

    /// The connect request, which is not answered.
    pub async fn connects_with(&mut self) -> ConnectRequest {
        self.connect_request().await
    }

    /// Refuses the session.
    pub async fn refuse(&mut self) {
        self.connect_request().await;
        self.write(|out| ConnectResponse::refusal(Some(false)).encode_frame(out)).await;
    }

    async fn connect_request(&mut self) -> ConnectRequest {
        jute::parse(&self.frame().await.expect("a frame")).expect("a connect request")
    }

    /// The next frame, without its length.
    pub async fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = frame::split(&self.inbox, 1 << 22).expect("a legal length") {
                let frame = Bytes::copy_from_slice(frame);
                self.inbox.advance(frame::PREFIX + frame.len());
                return Some(frame);
            }
            if self.stream.read_buf(&mut self.inbox).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The next request; `None` if the client has closed the connection.
    pub async fn next(&mut self) -> Option<(i32, Request)> {
        let incoming = Incoming::parse(&self.frame().await?).expect("a header");
        Some((incoming.xid.0, incoming.body.expect("a request")))
    }

    /// Asserts that the next request is `request` and returns its xid.
    pub async fn expect(&mut self, request: Request) -> i32 {
        let (xid, got) = self.next().await.expect("a request");
        assert_eq!(got, request);
        xid
    }

    /// Asserts that the client sends nothing.
    pub async fn expect_silence(&mut self) {
        let next = tokio::time::timeout(Duration::from_millis(1), self.next()).await;
        assert!(next.is_err(), "the client sent {next:?}");
    }

    pub async fn reply(&mut self, xid: i32, reply: Reply) {
        self.zxid += 1;
        let header = ReplyHeader::ok(Xid(xid), Zxid(self.zxid));
        self.write(|out| reply.encode_frame(header, out)).await;
    }

    pub async fn error(&mut self, xid: i32, code: ErrorCode) {
        let header = ReplyHeader::error(Xid(xid), Zxid(self.zxid), code);
        self.write(|out| Reply::Empty.encode_frame(header, out)).await;
    }

    pub async fn event(&mut self, kind: EventType, path: &str) {
        self.zxid += 1;
        let event = WatchedEvent { kind, state: KeeperState::SyncConnected, path: path.into() };
        let header = ReplyHeader::ok(Xid::EVENT, Zxid(self.zxid));
        self.write(|out| Reply::Event(event).encode_frame(header, out)).await;
    }

    pub async fn write(&mut self, encode: impl FnOnce(&mut BytesMut)) {
        let mut out = BytesMut::new();
        encode(&mut out);
        self.write_raw(&out).await;
    }

    /// Writes bytes. Ignores a client that has closed the connection.
    pub async fn write_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Asserts that the client closes its session and the connection.
    pub async fn expect_close(&mut self) {
        let xid = self.expect(Request::CloseSession).await;
        self.reply(xid, Reply::Empty).await;
        assert_eq!(self.next().await, None);
    }
}
