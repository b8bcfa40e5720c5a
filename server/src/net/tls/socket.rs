//! A socket whose first bytes were looked at, and which bounds what it reads while it shakes hands.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::net::PortKind;
use crate::net::stream::Transport;

/// How many bytes tell TLS from plaintext: the header of a record.
const HEADER: usize = 5;

/// A socket, with the bytes that were read from it to see what it speaks.
pub(crate) struct TlsSocket {
    pub(crate) stream: TcpStream,
    begin: [u8; HEADER],
    /// Which of them are still to be read.
    from: u8,
    to: u8,
    /// How many bytes may still be read, during a handshake.
    pub(crate) left: Option<usize>,
}

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoken {
    Tls,
    Plain,
}

/// What the first bytes say, if they are enough (`DualModeSslHandler`). The word of four letters is alone in its packet and waits for
/// its answer, so that less than a header is plaintext as soon as it cannot begin a handshake.
fn spoken(begin: &[u8], kind: PortKind) -> Option<Spoken> {
    match begin {
        [20..=24, 3, _, _, _] => Some(Spoken::Tls),
        [_, _, _, _, _] => Some(Spoken::Plain),
        [] | [0x16, ..] => None,
        _ => (kind == PortKind::Unified).then_some(Spoken::Plain),
    }
}

impl TlsSocket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, begin: [0; HEADER], from: 0, to: 0, left: None }
    }

    /// Reads what it takes to know what the peer speaks. An error if the peer has closed before that is certain.
    pub(crate) async fn look(&mut self, kind: PortKind) -> io::Result<Spoken> {
        loop {
            let at = usize::from(self.to);
            if let Some(spoken) = spoken(&self.begin[..at], kind) {
                return Ok(spoken);
            }
            match self.stream.read(&mut self.begin[at..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.to += read as u8,
            }
        }
    }
}

impl AsyncRead for TlsSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.from < this.to {
            let begin = &this.begin[usize::from(this.from)..usize::from(this.to)];
            let taken = begin.len().min(buf.remaining());
            buf.put_slice(&begin[..taken]);
            this.from += taken as u8;
            return Poll::Ready(Ok(()));
        }
        let Some(left) = &mut this.left else {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        };
        ready!(this.stream.poll_read_ready(cx))?;
        if *left == 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the handshake is too long")));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut (&mut this.stream).take(*left as u64)).poll_read(cx, buf);
        *left -= buf.filled().len() - before;
        read
    }
}

impl AsyncWrite for TlsSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// As plaintext on a port that takes both.
impl Transport for TlsSocket {
    fn cork(&self) {
        self.stream.cork();
    }

    fn reset_on_close(&self) {
        self.stream.reset_on_close();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_handshake_can_be_read_into_memory_that_is_not_initialised() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let mut peer =
            TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a server");
        let mut socket = TlsSocket::new(listener.accept().await.expect("a connection").0);
        socket.left = Some(5);
        peer.write_all(b"bytes").await.expect("sent");
        let mut read = Vec::with_capacity(100);
        socket.read_buf(&mut read).await.expect("bytes");
        assert_eq!((&read[..], socket.left), (&b"bytes"[..], Some(0)));
    }

    #[test]
    fn the_first_bytes_tell_what_a_connection_speaks() {
        let tls = Some(Spoken::Tls);
        let plain = Some(Spoken::Plain);
        for (begin, unified, secure) in [
            (&b""[..], None, None),
            (b"r", plain, None),
            (b"ruok", plain, None),
            (b"\x16", None, None),
            (b"\x16\x03\x01\x02", None, None),
            (b"\x16\x03\x01\x02\x00", tls, tls),
            (b"\x15\x03\x01\x00\x02", tls, tls),
            (b"\x18\x03\x03\x00\x02", tls, tls),
            (b"\x13\x03\x01\x00\x02", plain, plain),
            (b"\x16ab\x00\x02", plain, plain),
            (b"\x80\x2e\x01\x03\x01", plain, plain),
            (b"\x00\x00\x00\x2d\x00", plain, plain),
            (b"GET /", plain, plain),
        ] {
            assert_eq!(spoken(begin, PortKind::Unified), unified, "{begin:x?}");
            assert_eq!(spoken(begin, PortKind::Tls), secure, "{begin:x?}");
        }
    }
}
