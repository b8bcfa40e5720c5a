//! The trace of a run: every byte that each end of every connection sends and receives, and when.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::TcpStream;

/// What one end of a connection has seen.
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    at: Duration,
    here: SocketAddr,
    there: SocketAddr,
    what: What,
}

#[derive(Clone, PartialEq, Eq)]
enum What {
    Sent(Vec<u8>),
    Received(Vec<u8>),
    Closed,
    /// The other end has closed.
    Ended,
    Failed(io::ErrorKind),
}

/// What all streams of a run have seen, in the order in which they did. Clones are the same one.
#[derive(Clone, Default)]
pub struct Trace(Arc<Mutex<Vec<Event>>>);

impl Trace {
    /// A stream that is recorded.
    pub fn of(&self, stream: TcpStream) -> io::Result<Traced> {
        let (here, there) = (stream.local_addr()?, stream.peer_addr()?);
        Ok(Traced { stream, here, there, trace: self.clone() })
    }

    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// A stream of which a trace is kept. Its end is not: a crash drops streams in no particular order.
pub struct Traced {
    stream: TcpStream,
    here: SocketAddr,
    there: SocketAddr,
    trace: Trace,
}

impl Traced {
    fn note(&self, what: What) {
        let at = turmoil::sim_elapsed().expect("a stream is used inside of the simulation");
        let event = Event { at, here: self.here, there: self.there, what };
        self.trace.0.lock().unwrap().push(event);
    }
}

impl AsyncRead for Traced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        match &read {
            Poll::Ready(Ok(())) if buf.filled().len() == before => self.note(What::Ended),
            Poll::Ready(Ok(())) => self.note(What::Received(buf.filled()[before..].to_vec())),
            Poll::Ready(Err(error)) => self.note(What::Failed(error.kind())),
            Poll::Pending => {}
        }
        read
    }
}

impl AsyncWrite for Traced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        match &written {
            Poll::Ready(Ok(written)) => self.note(What::Sent(buf[..*written].to_vec())),
            Poll::Ready(Err(error)) => self.note(What::Failed(error.kind())),
            Poll::Pending => {}
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.note(What::Closed);
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:9.3} {} ", self.at.as_secs_f64(), self.here)?;
        match &self.what {
            What::Sent(bytes) => write!(f, "-> {} {}", self.there, bytes.escape_ascii()),
            What::Received(bytes) => write!(f, "<- {} {}", self.there, bytes.escape_ascii()),
            What::Closed => write!(f, "closes to {}", self.there),
            What::Ended => write!(f, "sees {} close", self.there),
            What::Failed(kind) => write!(f, "fails with {kind} to {}", self.there),
        }
    }
}
