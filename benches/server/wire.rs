//! A session of the load generator: a stream of frames. It uses no client library, so that the load costs little, and the same
//! for every server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use zoolet_proto::frame::{self, PREFIX};
use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{ErrorCode, Request, SessionId, Xid, Zxid, jute};

const READ_AHEAD: usize = 16 * 1024;
const SESSION_TIMEOUT_MS: i32 = 30_000;
/// The length of a reply header: xid, zxid, err.
pub(crate) const HEADER: usize = 16;

/// Bytes to a server and from it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// How to connect to a server.
#[derive(Clone)]
pub(crate) enum Door {
    /// By TCP.
    Tcp(SocketAddr),
    /// By TLS.
    Tls(SocketAddr, TlsConnector),
    /// In this process, without a socket.
    InProcess(Arc<dyn Fn() -> io::Result<Box<dyn Stream>> + Send + Sync>),
}

impl Door {
    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(addr) => {
                let stream = TcpStream::connect(addr).await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            Self::Tls(addr, connector) => {
                let stream = TcpStream::connect(addr).await?;
                stream.set_nodelay(true)?;
                let name = ServerName::IpAddress(addr.ip().into());
                Ok(Box::new(connector.connect(name, stream).await?))
            }
            Self::InProcess(connect) => connect(),
        }
    }
}

/// A connection with a session.
pub(crate) struct Wire {
    stream: Box<dyn Stream>,
    inbox: BytesMut,
    /// Frames to send at the next [`Wire::flush`].
    pub(crate) outbox: BytesMut,
    last_xid: i32,
}

impl Wire {
    /// Connects and opens a session.
    pub(crate) async fn open(door: &Door) -> io::Result<Self> {
        let stream = door.connect().await?;
        let mut wire = Self { stream, inbox: BytesMut::new(), outbox: BytesMut::new(), last_xid: 0 };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout: SESSION_TIMEOUT_MS,
            session: SessionId(0),
            password: Some(Bytes::from_static(&[0; 16])),
            read_only: Some(false),
        };
        request.encode_frame(&mut wire.outbox);
        wire.flush().await?;
        let frame = wire.frame().await?;
        match jute::parse::<ConnectResponse>(&frame) {
            Ok(response) if !response.is_refusal() => Ok(wire),
            _ => Err(io::Error::other("the server refused a session")),
        }
    }

    /// Opens this number of sessions, one after another.
    pub(crate) async fn open_many(door: &Door, count: usize) -> io::Result<Vec<Self>> {
        let mut wires = Vec::with_capacity(count);
        for _ in 0..count {
            wires.push(Self::open(door).await?);
        }
        Ok(wires)
    }

    /// Closes the session and waits until the server closes the connection.
    pub(crate) async fn close(mut self) -> io::Result<()> {
        self.call(&Request::CloseSession).await?;
        match self.read().await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            other => other,
        }
    }

    /// Closes many sessions concurrently.
    pub(crate) async fn close_many(mut wires: Vec<Self>) -> io::Result<()> {
        for wire in &mut wires {
            wire.send(&Request::CloseSession);
            wire.flush().await?;
        }
        for wire in &mut wires {
            wire.reply().await?;
        }
        Ok(())
    }

    /// The next xid.
    pub(crate) fn next_xid(&mut self) -> Xid {
        self.last_xid += 1;
        Xid(self.last_xid)
    }

    /// Appends a request to the outbox.
    pub(crate) fn send(&mut self, request: &Request) {
        let xid = self.next_xid();
        request.encode_frame(xid, &mut self.outbox);
    }

    /// Sends the outbox, if possible in one write.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        if !self.outbox.is_empty() {
            self.stream.write_all(&self.outbox).await?;
            // A TLS stream may still have some of it.
            self.stream.flush().await?;
            self.outbox.clear();
        }
        Ok(())
    }

    /// Sends a request and returns its reply, which must be the next frame and successful.
    pub(crate) async fn call(&mut self, request: &Request) -> io::Result<Bytes> {
        self.send(request);
        self.flush().await?;
        self.reply().await
    }

    /// The body of the next frame, which must be a successful reply.
    pub(crate) async fn reply(&mut self) -> io::Result<Bytes> {
        let frame = self.frame().await?;
        let head = Head::of(&frame)?;
        if head.xid == Xid::EVENT {
            return Err(io::Error::other("a watch event instead of a reply"));
        }
        head.succeeded()?;
        Ok(frame.slice(HEADER..))
    }

    /// The next frame, which must be a watch event.
    pub(crate) async fn event(&mut self) -> io::Result<()> {
        let frame = self.frame().await?;
        match Head::of(&frame)?.xid {
            Xid::EVENT => Ok(()),
            xid => Err(io::Error::other(format!("the reply to request {xid} instead of a watch event"))),
        }
    }

    /// The next frame of any kind.
    pub(crate) async fn frame(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(len) = self.peek()?.map(<[u8]>::len) {
                self.inbox.advance(PREFIX);
                return Ok(self.inbox.split_to(len).freeze());
            }
            self.read().await?;
        }
    }

    /// The first frame of the inbox, if complete. It remains until [`Wire::consume`].
    pub(crate) fn peek(&self) -> io::Result<Option<&[u8]>> {
        frame::split(&self.inbox, frame::DEFAULT_MAX_FRAME).map_err(io::Error::other)
    }

    /// The first frame of the inbox, with the length from [`Wire::peek`], and the outbox.
    pub(crate) fn halves(&mut self, len: usize) -> (&[u8], &mut BytesMut) {
        (&self.inbox[PREFIX..PREFIX + len], &mut self.outbox)
    }

    /// Removes the first frame, of `len` bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        self.inbox.advance(PREFIX + len);
    }

    /// Waits for bytes; the end of the stream is an error.
    pub(crate) async fn read(&mut self) -> io::Result<()> {
        self.inbox.reserve(READ_AHEAD);
        match self.stream.read_buf(&mut self.inbox).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed a connection")),
            _ => Ok(()),
        }
    }
}

/// The fields of a frame header that the load generator uses.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) xid: Xid,
    err: i32,
}

impl Head {
    pub(crate) fn of(frame: &[u8]) -> io::Result<Self> {
        let int = |at: usize| frame.get(at..)?.first_chunk().map(|bytes| i32::from_be_bytes(*bytes));
        match (int(0), int(HEADER - 4)) {
            (Some(xid), Some(err)) => Ok(Self { xid: Xid(xid), err }),
            _ => Err(io::Error::other("a frame too short for a header")),
        }
    }

    /// An error unless the request succeeded.
    pub(crate) fn succeeded(self) -> io::Result<()> {
        match self.error() {
            None => Ok(()),
            Some(code) => Err(io::Error::other(format!("request {}: {code}", self.xid))),
        }
    }

    /// The error of the reply, if any.
    pub(crate) fn error(self) -> Option<ErrorCode> {
        ErrorCode::from_code(self.err)
    }
}
