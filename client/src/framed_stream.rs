//! A stream to a server and its read buffer: bytes out, frames in. What a frame means is not known here.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zoolet_proto::frame::{self, BadLength};

use crate::transport::ClientStream;

/// Space reserved for each read. A reply that arrives in pieces grows the buffer piece by piece.
const READ: usize = 16 * 1024;
/// An empty buffer with more capacity than this is freed.
const MAX_IDLE_CAPACITY: usize = 1024 * 1024;
/// The length of a reply header; that of a request is shorter.
pub(crate) const HEADER: usize = 16;
/// The longest connect response accepted. Real ones have at most 41 bytes.
const MAX_CONNECT_RESPONSE: usize = 4096;

pub(crate) struct FramedStream {
    stream: Box<dyn ClientStream>,
    read_buf: BytesMut,
    /// Bytes to skip before the next frame: of the last frame, or of a reply that is too large and not yet here.
    skip: usize,
    unflushed: bool,
    /// Why nothing can be written any more.
    write_error: Option<io::Error>,
}

/// What a server has sent.
pub(crate) enum ReceivedFrame<'b> {
    Frame(&'b [u8]),
    /// The header of a reply that is too large. The rest is skipped as it arrives.
    Oversize {
        header: &'b [u8],
        size: usize,
    },
}

impl FramedStream {
    pub(crate) fn new(stream: Box<dyn ClientStream>) -> Self {
        let read_buf = BytesMut::with_capacity(READ);
        Self { stream, read_buf, skip: 0, unflushed: false, write_error: None }
    }

    /// Writes until everything is written and flushed, or the stream takes no more for now; then it wakes this task later.
    /// Returns whether all of `out` is written.
    ///
    /// An error is kept for [`FramedStream::poll_read`]: a peer that reads nothing more may have answered before, and those
    /// replies count. If the end never comes, the silence timeout of the session ends the connection.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> bool {
        if self.write_error.is_none() {
            self.write_error = self.try_write(cx, out).err();
        }
        out.is_empty() && self.write_error.is_none()
    }

    fn try_write(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> io::Result<()> {
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

    /// Reads once. `max_reply` is `None` until the server has answered the connect request.
    ///
    /// # Errors
    /// Also if the server has closed the connection; if writing has failed before, that error.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        max_reply: Option<usize>,
    ) -> Poll<io::Result<()>> {
        self.read_buf.reserve(READ);
        let read = ready!(pin!(self.stream.read_buf(&mut self.read_buf)).poll(cx));
        Poll::Ready(match read {
            Ok(1..) => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Err(self.write_error.take().unwrap_or(error))
            }
            // To TLS, an end without a notice is an error, as after a crash. Frames have lengths, so that none is taken for whole.
            // Other transports that report it so mean the same.
            Ok(0) | Err(_) => Err(self.write_error.take().unwrap_or_else(|| closed(max_reply.is_none()))),
        })
    }

    /// The next whole frame that was read. `max_reply` as for [`FramedStream::poll_read`].
    ///
    /// # Errors
    /// If the bytes are not a frame of a server.
    pub(crate) fn next_frame(&mut self, max_reply: Option<usize>) -> io::Result<Option<ReceivedFrame<'_>>> {
        let skipped = self.skip.min(self.read_buf.len());
        self.read_buf.advance(skipped);
        self.skip -= skipped;
        if self.read_buf.is_empty() && self.read_buf.capacity() > MAX_IDLE_CAPACITY {
            self.read_buf = BytesMut::with_capacity(READ);
        }
        match frame::split(&self.read_buf, max_reply.unwrap_or(MAX_CONNECT_RESPONSE)) {
            Ok(Some(frame)) => {
                self.skip = frame::PREFIX + frame.len();
                Ok(Some(ReceivedFrame::Frame(frame)))
            }
            Ok(None) => Ok(None),
            Err(_) if max_reply.is_none() => Err(not_zookeeper(&self.read_buf)),
            Err(BadLength { length, .. }) => {
                let size = usize::try_from(length).ok().filter(|size| *size > HEADER);
                let invalid = || io::Error::new(io::ErrorKind::InvalidData, "invalid frame length");
                let size = size.ok_or_else(invalid)?;
                // Its caller learns from the header which of them the reply is for.
                let header = self.read_buf.get(frame::PREFIX..frame::PREFIX + HEADER);
                self.skip = header.map_or(0, |_| frame::PREFIX + size);
                Ok(header.map(|header| ReceivedFrame::Oversize { header, size }))
            }
        }
    }

    /// Writes all of `out`, and reads until there is a whole frame, which [`FramedStream::next_frame`] returns as well.
    pub(crate) fn poll_first_frame(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut BytesMut,
    ) -> Poll<io::Result<()>> {
        self.poll_write(cx, out);
        while self.first_frame()?.is_none() {
            ready!(self.poll_read(cx, None))?;
        }
        Poll::Ready(Ok(()))
    }

    /// The first frame, if it is here.
    pub(crate) fn first_frame(&self) -> io::Result<Option<&[u8]>> {
        frame::split(&self.read_buf, MAX_CONNECT_RESPONSE).map_err(|_| not_zookeeper(&self.read_buf))
    }
}

/// The peer has closed the connection.
fn closed(handshaking: bool) -> io::Error {
    let reason = match handshaking {
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
