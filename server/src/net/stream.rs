//! The stream of a connection: shared by its two loops, and ended in a way of its own kind.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;

/// What the end of a stream can be besides a plain one. Without effect where a stream knows nothing of the kind.
pub(crate) trait Ending<S>: Send + Sync + 'static {
    /// What is written from now on may wait, to leave together with the end.
    fn hold_back(&self, _stream: &S) {}

    /// Makes the end a reset.
    fn reset(&self, _stream: &S) {}
}

/// The end of a stream of which nothing is known.
pub(crate) struct Plain;

impl<S> Ending<S> for Plain {}

/// The end of a socket.
pub(crate) struct OfSocket;

impl Ending<TcpStream> for OfSocket {
    /// The reply to a closeSession and the end of the stream then are one segment, which wakes the peer once.
    #[cfg(target_os = "linux")]
    fn hold_back(&self, stream: &TcpStream) {
        if let Err(error) = SockRef::from(stream).set_tcp_cork(true) {
            tracing::debug!(%error, "cannot hold back the last segment; sending it by itself");
        }
    }

    fn reset(&self, stream: &TcpStream) {
        if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
            tracing::debug!(%error, "cannot reset a connection; closing it");
        }
    }
}

/// The end of a pipe in this process; the flag tells the other side.
pub(crate) struct OfPipe(pub(crate) Arc<AtomicBool>);

impl Ending<DuplexStream> for OfPipe {
    fn reset(&self, _: &DuplexStream) {
        self.0.store(true, Relaxed);
    }
}

/// A stream for the one that reads and the one that writes. Both are in one task, so that neither ever waits for the lock.
pub(crate) struct Half<'s, S>(&'s Mutex<S>);

impl<'s, S> Half<'s, S> {
    pub(crate) fn both(stream: &'s Mutex<S>) -> (Self, Self) {
        (Self(stream), Self(stream))
    }

    /// Has a look at the stream.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'s, S> {
        // A stream that panics ends its connection.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Half<'_, S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Half<'_, S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(cx)
    }
}
