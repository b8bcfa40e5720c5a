//! [`Tap`]: wraps a client's end of a connection, counts the bytes and, if asked to, records the messages.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::recorder::Recorder;
use super::recording::History;

/// Wraps a client's end of a connection. Bytes pass unchanged and at once.
pub struct Tap<S> {
    stream: S,
    counts: Arc<TapCounts>,
    recorder: Option<Recorder>,
}

/// The bytes that have passed through one or several [`Tap`]s.
#[derive(Debug, Default)]
pub struct TapCounts {
    written: AtomicU64,
    read: AtomicU64,
    over: AtomicBool,
}

impl TapCounts {
    /// Bytes written by clients. Raised before the write, so that no byte is in flight uncounted; bytes that a full
    /// stream does not accept are counted for a moment.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Whether a client has reached the end of its connection, or has dropped it.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Bytes read by clients.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::SeqCst)
    }
}

impl<S> Tap<S> {
    /// Wraps the client's end of an unused connection.
    pub fn new(stream: S) -> Self {
        Self { stream, counts: Arc::default(), recorder: None }
    }

    /// Adds all further bytes to `counts`.
    #[must_use]
    pub fn counting(mut self, counts: &Arc<TapCounts>) -> Self {
        self.counts = Arc::clone(counts);
        self
    }

    /// Records the messages in `history`, as a connection of its own. Call it before the first byte passes.
    #[must_use]
    pub fn recording(mut self, history: &History) -> Self {
        self.recorder = Some(Recorder::new(history.clone()));
        self
    }

    /// The bytes so far; stays readable while the tap is in use elsewhere.
    pub fn counts(&self) -> Arc<TapCounts> {
        Arc::clone(&self.counts)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tap<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let (capacity, before) = (buf.remaining(), buf.filled().len());
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        let new = &buf.filled()[before..];
        this.counts.read.fetch_add(new.len() as u64, Ordering::SeqCst);
        if polled.is_ready() && new.is_empty() && capacity > 0 {
            this.counts.over.store(true, Ordering::SeqCst);
        }
        if let Some(recorder) = &mut this.recorder {
            match polled {
                Poll::Ready(Ok(())) if !new.is_empty() => recorder.received(new),
                Poll::Ready(Ok(())) if capacity == 0 => {}
                Poll::Ready(_) => recorder.ended(),
                Poll::Pending => {}
            }
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let began = this.recorder.as_ref().map(Recorder::now);
        this.counts.written.fetch_add(buf.len() as u64, Ordering::SeqCst);
        let polled = Pin::new(&mut this.stream).poll_write(cx, buf);
        let accepted = match polled {
            Poll::Ready(Ok(accepted)) => accepted,
            _ => 0,
        };
        this.counts.written.fetch_sub((buf.len() - accepted) as u64, Ordering::SeqCst);
        if let (Some(recorder), Some(began)) = (&mut this.recorder, began) {
            recorder.sent(began, &buf[..accepted]);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S> Drop for Tap<S> {
    fn drop(&mut self) {
        self.counts.over.store(true, Ordering::SeqCst);
    }
}

impl<S> fmt::Debug for Tap<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("counts", &self.counts).finish_non_exhaustive()
    }
}
