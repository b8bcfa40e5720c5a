//! A connection with a blocking socket, for attackers and their victims.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use zoolet_test_support::{Hello, Request, Xid};

/// The timeout of the attackers' sessions: the maximum at a tick of two seconds.
const TIMEOUT: Duration = Duration::from_secs(40);

/// An attacker does not wait longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long a reader waits before it looks whether to give up.
const SLICE: Duration = Duration::from_millis(20);

pub struct Peer {
    pub stream: TcpStream,
}

/// The header of a reply or an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub xid: i32,
    pub error: i32,
}

impl Peer {
    /// Opens a new session.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::with_timeout(address, TIMEOUT)
    }

    pub fn with_timeout(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let mut peer = Self::tcp(address)?;
        peer.stream.write_all(&Hello::new().timeout(timeout).bytes())?;
        peer.read(PATIENCE)?;
        Ok(peer)
    }

    /// Opens a connection without a session.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SLICE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream })
    }

    pub fn send(&mut self, frames: &[u8]) -> io::Result<()> {
        self.stream.write_all(frames)
    }

    /// Sends a request and waits for its reply.
    pub fn call(&mut self, request: &Request) -> io::Result<Header> {
        self.send(&frames([request]))?;
        self.reply()
    }

    /// The next reply, without its body.
    pub fn reply(&mut self) -> io::Result<Header> {
        let frame = self.read(PATIENCE)?;
        let int =
            |at: usize| frame.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
        let (xid, error) = int(0).zip(int(12)).ok_or(ErrorKind::InvalidData)?;
        Ok(Header { xid, error })
    }

    /// Reads replies until `count` of them have come.
    pub fn replies(&mut self, count: usize) -> io::Result<()> {
        (0..count).try_for_each(|_| self.reply().map(drop))
    }

    /// The next frame.
    pub fn read(&mut self, patience: Duration) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + patience;
        let mut length = [0; 4];
        self.fill(&mut length, &mut || Instant::now() > deadline)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.fill(&mut frame, &mut || Instant::now() > deadline)?;
        Ok(frame)
    }

    /// Fills `bytes` unless `give_up` says so before.
    pub fn fill(&mut self, bytes: &mut [u8], give_up: &mut dyn FnMut() -> bool) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if is_timeout(&error) && give_up() => return Err(ErrorKind::TimedOut.into()),
                Err(error) if is_timeout(&error) || error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The frames of requests, to be sent at once. Their xids count from 1.
pub fn frames<'a>(requests: impl IntoIterator<Item = &'a Request>) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    for (request, xid) in requests.into_iter().zip(1..) {
        let xid = match request {
            Request::Ping => Xid::PING,
            Request::Auth(_) => Xid::AUTH,
            _ => Xid(xid),
        };
        request.encode_frame(xid, &mut bytes);
    }
    bytes.to_vec()
}

/// The frame of one request, `count` times.
pub fn repeated(request: &Request, count: usize) -> Vec<u8> {
    frames([request]).repeat(count)
}

/// So many sessions.
pub fn connect_all(address: SocketAddr, count: usize) -> io::Result<Vec<Peer>> {
    (0..count).map(|_| Peer::connect(address)).collect()
}
