//! A socket whose first bytes were looked at, and which takes turns while it shakes hands.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

use crate::locked::locked;
use crate::net::PortKind;
use crate::net::flow::limits::MAX_HANDSHAKE;
use crate::net::stream::Transport;
use crate::net::tls::slots::SlotState;

/// How many bytes tell TLS from plaintext: the header of a record.
const HEADER: usize = 5;

/// A socket, with the bytes that were read from it to see what it speaks.
pub(crate) struct TlsSocket {
    pub(crate) stream: TcpStream,
    begin: [u8; HEADER],
    /// Which of them are still to be read.
    from: u8,
    to: u8,
    /// During a handshake.
    gate: Option<TurnGate>,
}

/// What a socket needs to read while it shakes hands: its turn, in which it may compute.
struct TurnGate {
    turns: PollSemaphore,
    /// Held from the first read to the end of the poll, and until other tasks have run.
    held: HeldTurn,
    slot: Arc<SlotState>,
    /// How many bytes may still be read.
    left: usize,
}

impl TurnGate {
    /// Waits for bytes, and then for the turn to deal with them. Returns how many may be read.
    fn poll(&mut self, stream: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.held.is_held() {
            let ready = stream.poll_read_ready(cx);
            self.slot.note(ready.is_ready());
            ready!(ready)?;
            let turn = ready!(self.turns.poll_acquire(cx));
            *locked(&self.held.0) = turn;
        }
        match self.left {
            0 => Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the handshake is too long"))),
            left => Poll::Ready(Ok(left)),
        }
    }
}

/// A turn that a socket has taken, for its task to give back.
#[derive(Clone, Default)]
pub(crate) struct HeldTurn(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl HeldTurn {
    pub(crate) fn is_held(&self) -> bool {
        locked(&self.0).is_some()
    }

    pub(crate) fn give_back(&self) {
        // Outside of the lock, as it wakes who waits for it.
        let turn = locked(&self.0).take();
        drop(turn);
    }
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
        Self { stream, begin: [0; HEADER], from: 0, to: 0, gate: None }
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

    /// From now on it reads in turns, until [`end_handshake`](Self::end_handshake). Returns where it keeps its turn, for its task to
    /// give that back.
    pub(crate) fn begin_handshake(&mut self, turns: &Arc<Semaphore>, slot: &Arc<SlotState>) -> HeldTurn {
        let (turns, held) = (PollSemaphore::new(Arc::clone(turns)), HeldTurn::default());
        let gate = TurnGate { turns, held: held.clone(), slot: Arc::clone(slot), left: MAX_HANDSHAKE };
        self.gate = Some(gate);
        held
    }

    pub(crate) fn end_handshake(&mut self) {
        self.gate = None;
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
        let Some(gate) = &mut this.gate else {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        };
        let most = ready!(gate.poll(&this.stream, cx))?;
        let most = most.min(buf.remaining());
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(most));
        let read = Pin::new(&mut this.stream).poll_read(cx, &mut part);
        let filled = part.filled().len();
        buf.advance(filled);
        gate.left -= filled;
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

    use crate::net::tls::slots::HandshakeSlots;

    use super::*;

    #[tokio::test]
    async fn a_handshake_can_be_read_into_memory_that_is_not_initialised() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let mut peer =
            TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a server");
        let mut socket = TlsSocket::new(listener.accept().await.expect("a connection").0);
        let slot = Arc::new(HandshakeSlots::new(1)).take().expect("a slot");
        let _held = socket.begin_handshake(&Arc::new(Semaphore::new(1)), &slot.state);
        peer.write_all(b"bytes").await.expect("sent");
        let mut read = Vec::with_capacity(100);
        socket.read_buf(&mut read).await.expect("bytes");
        assert_eq!(read, b"bytes");
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
