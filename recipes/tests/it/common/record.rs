//! Streams that record what a client writes, or withhold it from the server.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zoolet_server::InProcessStream;

/// The bytes from a client to the server, on all of its connections.
#[derive(Debug, Clone, Default)]
pub struct Record {
    bytes: Arc<Mutex<Vec<u8>>>,
    deaf: Arc<AtomicBool>,
}

/// A stream that is recorded.
pub struct Recorded {
    stream: InProcessStream,
    record: Record,
}

impl Record {
    /// A connector whose streams are recorded here.
    pub fn connector<C>(
        &self,
        connect: C,
    ) -> impl Fn() -> Ready<io::Result<Recorded>> + Clone + Send + Sync + 'static
    where
        C: Fn() -> Ready<io::Result<InProcessStream>> + Clone + Send + Sync + 'static,
    {
        let record = self.clone();
        move || ready(connect().into_inner().map(|stream| Recorded { stream, record: record.clone() }))
    }

    /// Everything so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    /// From now on nothing reaches the server, which the client does not notice.
    pub fn deafen(&self) {
        self.deaf.store(true, SeqCst);
    }
}

impl AsyncRead for Recorded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Recorded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.record.deaf.load(SeqCst) {
            return Poll::Ready(Ok(buf.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(len)) = &written {
            self.record.bytes.lock().unwrap().extend_from_slice(&buf[..*len]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
