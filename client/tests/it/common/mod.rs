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

/// Where the client's connections arrive.
pub struct Door(mpsc::UnboundedReceiver<DuplexStream>);

/// A connector for the client, and the door behind it.
pub fn door() -> (impl Fn() -> Ready<io::Result<DuplexStream>> + Send + 'static, Door) {
    zoolet_test_support::limit();
    let (knock, arrivals) = mpsc::unbounded_channel();
    let connect = move || {
        let (ours, theirs) = duplex(1 << 20);
        ready(knock.send(theirs).map(|()| ours).map_err(|_| io::ErrorKind::ConnectionRefused.into()))
    };
    (connect, Door(arrivals))
}

impl Door {
    /// The next connection, before its handshake.
    pub async fn open(&mut self) -> Peer {
        let stream = self.0.recv().await.expect("a connection");
        Peer { stream, inbox: BytesMut::new(), zxid: 1 }
    }

    /// The next connection, its session granted.
    pub async fn accept(&mut self) -> Peer {
        let mut peer = self.open().await;
        peer.greet().await;
        peer
    }
}

/// A client and the connection it has.
pub async fn connected() -> (Client, Peer, Door) {
    connected_with(Client::options()).await
}

pub async fn connected_with(options: ConnectOptions) -> (Client, Peer, Door) {
    let (connect, mut door) = door();
    let (client, peer) = tokio::join!(options.connect(connect), door.accept());
    (client.expect("a session"), peer, door)
}

/// As [`pass`], to the next time that somebody waits for; how far that is.
pub async fn pass_to_next(clock: &Clock) -> Option<Duration> {
    let passed = clock.advance_to_next_timeout(Duration::from_secs(3600)).expect("a manual clock");
    until(|| clock.unattended() == 0).await;
    passed
}

/// A client's end of a connection where `before_write` is asked at each write, which fails if it says so.
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
    /// Grants a session and gives what was asked for.
    pub async fn greet(&mut self) -> ConnectRequest {
        self.greet_as(SESSION, TIMEOUT).await
    }

    pub async fn greet_as(&mut self, session: SessionId, timeout: Duration) -> ConnectRequest {
        self.welcome(session, timeout, false).await
    }

    /// Grants a session as a server does that is cut off.
    pub async fn greet_for_reading(&mut self) -> ConnectRequest {
        self.welcome(SESSION, TIMEOUT, true).await
    }

    async fn welcome(&mut self, session: SessionId, timeout: Duration, read_only: bool) -> ConnectRequest {
        let request = self.greeting().await;
        let response = ConnectResponse {
            protocol_version: 0,
            timeout: timeout.as_millis() as i32,
            session,
            password: Bytes::from_static(b"sixteen bytes..."),
            read_only: request.read_only.map(|_| read_only),
        };
        self.write(|out| response.encode_frame(out)).await;
        request
    }

    /// Refuses the session.
    pub async fn refuse(&mut self) {
        self.greeting().await;
        self.write(|out| ConnectResponse::refusal(Some(false)).encode_frame(out)).await;
    }

    async fn greeting(&mut self) -> ConnectRequest {
        jute::parse(&self.frame().await.expect("a frame")).expect("a connect request")
    }

    /// The next frame as it is, without its length.
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

    /// The next request; `None` when the client has hung up.
    pub async fn next(&mut self) -> Option<(i32, Request)> {
        let incoming = Incoming::parse(&self.frame().await?).expect("a header");
        Some((incoming.xid.0, incoming.body.expect("a request")))
    }

    /// The next request, which must be this one; gives its xid.
    pub async fn expect(&mut self, request: Request) -> i32 {
        let (xid, got) = self.next().await.expect("a request");
        assert_eq!(got, request);
        xid
    }

    /// Asserts that the client has nothing to say.
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

    /// Writes bytes as they are. A client that has hung up does not care.
    pub async fn write_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Asserts that the client closes its session and hangs up.
    pub async fn expect_close(&mut self) {
        let xid = self.expect(Request::CloseSession).await;
        self.reply(xid, Reply::Empty).await;
        assert_eq!(self.next().await, None);
    }
}
