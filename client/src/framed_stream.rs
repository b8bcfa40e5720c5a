//! A stream to a server and its read buffer.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use zoolet_proto::frame::{self, BadLength};

use crate::session::{Session, WantedLink};
use crate::transport::ClientStream;

/// Most reads before commands are handled again: 64 KiB if the peer sends as fast as it can.
const MAX_READS: usize = 4;
/// Space reserved for each read. A reply that arrives in pieces grows the buffer piece by piece.
const READ: usize = 16 * 1024;
/// An empty buffer with more capacity than this is freed.
const MAX_IDLE_CAPACITY: usize = 1024 * 1024;
/// The length of a reply header.
const HEADER: usize = 16;
/// The longest connect response accepted from a probed server. Real ones have at most 41 bytes.
const MAX_CONNECT_RESPONSE: usize = 4096;

pub(crate) struct FramedStream {
    stream: Box<dyn ClientStream>,
    read_buf: BytesMut,
    /// Bytes still to skip of a reply that is too large.
    skip: usize,
    unflushed: bool,
    /// Why nothing can be written any more.
    write_error: Option<io::Error>,
}

impl FramedStream {
    pub(crate) fn new(stream: Box<dyn ClientStream>) -> Self {
        let read_buf = BytesMut::with_capacity(READ);
        Self { stream, read_buf, skip: 0, unflushed: false, write_error: None }
    }

    /// Writes what the session has to write and reads what has arrived. Returns whether there may be more to do.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        session: &mut Session,
        now: Instant,
    ) -> io::Result<bool> {
        if self.write_error.is_none() {
            self.write_error = self.poll_write(cx, session.out()).err();
        }
        // If bytes are left, the stream wakes this task when it can take more.
        let stuck = !session.out().is_empty() || self.write_error.is_some();
        // A peer that reads nothing more may have answered before: those replies count, so a write error ends the
        // connection only after the last of them. If the end never comes, the silence timeout ends it.
        match self.poll_read(cx, session, now) {
            Ok(more) => Ok(more || (!stuck && !session.out().is_empty())),
            Err(error) => Err(self.write_error.take().unwrap_or(error)),
        }
    }

    /// Writes as much of `out` as the stream takes at once, from a destructor. Nobody is woken when it takes more.
    pub(crate) fn write_at_once(&mut self, out: &mut BytesMut) {
        if self.write_error.is_none() {
            // An error changes nothing: the stream is dropped next.
            let _ = self.poll_write(&mut Context::from_waker(Waker::noop()), out);
        }
    }

    /// Writes until everything is written and flushed, or the stream takes no more for now.
    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> io::Result<()> {
        while !out.is_empty() {
            match pin!(self.stream.write_buf(out)).poll(cx) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => written?,
                Poll::Pending => return Ok(()),
            };
            self.unflushed = true;
        }
        if out.capacity() > MAX_IDLE_CAPACITY {
            *out = BytesMut::new();
        }
        if self.unflushed {
            if let Poll::Ready(flushed) = pin!(self.stream.flush()).poll(cx) {
                flushed?;
                self.unflushed = false;
            }
        }
        Ok(())
    }

    /// Writes all of `out`, and reads until there is a whole frame.
    pub(crate) fn poll_first_frame(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut BytesMut,
    ) -> Poll<io::Result<()>> {
        self.poll_write(cx, out)?;
        loop {
            if self.first_frame().is_some() {
                return Poll::Ready(Ok(()));
            }
            if self.read_buf.len() > MAX_CONNECT_RESPONSE {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            if ready!(pin!(self.stream.read_buf(&mut self.read_buf)).poll(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// The first frame in the read buffer, if it is complete.
    pub(crate) fn first_frame(&self) -> Option<&[u8]> {
        frame::split(&self.read_buf, MAX_CONNECT_RESPONSE).ok().flatten()
    }

    /// Reads until nothing more has arrived. Returns whether there may be more, or the session no longer wants this
    /// connection.
    fn poll_read(&mut self, cx: &mut Context<'_>, session: &mut Session, now: Instant) -> io::Result<bool> {
        for _ in 0..MAX_READS {
            self.read_buf.reserve(READ);
            match pin!(self.stream.read_buf(&mut self.read_buf)).poll(cx) {
                Poll::Ready(Ok(0)) => return Err(closed(session)),
                Poll::Ready(read) => read?,
                Poll::Pending => return Ok(false),
            };
            session.handle_heard(now);
            self.handle_frames(session, now)?;
            if self.read_buf.is_empty() && self.read_buf.capacity() > MAX_IDLE_CAPACITY {
                self.read_buf = BytesMut::with_capacity(READ);
            }
            if session.wanted_link() != WantedLink::Up {
                break;
            }
        }
        Ok(true)
    }

    /// Hands every complete frame in the read buffer to the session.
    pub(crate) fn handle_frames(&mut self, session: &mut Session, now: Instant) -> io::Result<()> {
        let violation = |reason: &'static str| io::Error::new(io::ErrorKind::InvalidData, reason);
        while session.wanted_link() == WantedLink::Up {
            let skipped = self.skip.min(self.read_buf.len());
            self.read_buf.advance(skipped);
            self.skip -= skipped;
            let handshaking = session.is_handshaking();
            let max = if handshaking { MAX_CONNECT_RESPONSE } else { session.max_reply() };
            match frame::split(&self.read_buf, max) {
                Ok(Some(frame)) => {
                    let length = frame::PREFIX + frame.len();
                    session.handle_frame(now, frame).map_err(|reason| violation(reason.0))?;
                    self.read_buf.advance(length);
                }
                Ok(None) => return Ok(()),
                Err(_) if handshaking => return Err(not_zookeeper(&self.read_buf)),
                Err(BadLength { length, .. }) => {
                    let size = usize::try_from(length).ok().filter(|size| *size > HEADER);
                    let size = size.ok_or_else(|| violation("invalid frame length"))?;
                    let Some(header) = self.read_buf.get(frame::PREFIX..frame::PREFIX + HEADER) else {
                        return Ok(());
                    };
                    session.handle_oversize(now, header, size).map_err(|reason| violation(reason.0))?;
                    self.skip = frame::PREFIX + size;
                }
            }
        }
        Ok(())
    }
}

/// The peer has closed the connection.
fn closed(session: &Session) -> io::Error {
    let reason = match session.is_handshaking() {
        // So does a server that has no place for another connection of this address.
        true => "the server closed the connection before it opened a session",
        false => "the server closed the connection",
    };
    io::Error::new(io::ErrorKind::UnexpectedEof, reason)
}

/// Most bytes of a peer's greeting that are shown.
const MAX_SHOWN: usize = 40;

/// The peer answers the connect request with something else.
fn not_zookeeper(reply: &[u8]) -> io::Error {
    let line = reply.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let begin = &line[..line.len().min(MAX_SHOWN)];
    // A TLS record of alerts or of a handshake.
    let hint = match begin {
        [0x15 | 0x16, 3, ..] => "; the port may expect TLS",
        _ => "",
    };
    let begin = begin.escape_ascii();
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("not a ZooKeeper server: the reply begins with \"{begin}\"{hint}"),
    )
}
