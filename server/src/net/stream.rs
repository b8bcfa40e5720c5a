//! The stream of a connection: what is asked of it, how its two loops share it, and how bytes are sent on it.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::yield_now;

use crate::locked::locked;
use crate::net::flow::buffer::SendBuffer;
use crate::net::flow::limits::MAX_SEND;

/// A stream that a connection is served on. The methods have no effect on a stream that cannot do what they ask for.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Lets what is written from now on wait, to leave together with the end of the stream.
    fn cork(&self) {}

    /// Makes the end of the stream a reset.
    fn reset_on_close(&self) {}

    /// Whether it is the stream itself that delays writing, and not its peer.
    fn is_delaying(&self) -> bool {
        false
    }
}

/// How a stream comes from its peer. By default it is plaintext from another process.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// Whether the peer is a part of this process.
    pub(crate) in_process: bool,
    /// Whether it is encrypted.
    pub(crate) is_secure: bool,
    /// The subject of the certificate that the peer has proved to own.
    pub(crate) certificate: Option<Arc<str>>,
}

impl Transport for TcpStream {
    /// The reply to a closeSession and the end of the stream then are one segment, which wakes the peer once.
    #[cfg(target_os = "linux")]
    fn cork(&self) {
        if let Err(error) = SockRef::from(self).set_tcp_cork(true) {
            tracing::debug!(%error, "cannot hold back the last segment; sending it by itself");
        }
    }

    fn reset_on_close(&self) {
        if let Err(error) = SockRef::from(self).set_linger(Some(Duration::ZERO)) {
            tracing::debug!(%error, "cannot reset a connection; closing it");
        }
    }
}

impl Transport for Box<dyn Transport> {
    fn cork(&self) {
        (**self).cork();
    }

    fn reset_on_close(&self) {
        (**self).reset_on_close();
    }

    fn is_delaying(&self) -> bool {
        (**self).is_delaying()
    }
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Transport for Pin<Box<S>> {}

/// A stream for its reader and its writer. Both are in one task, so that neither ever waits for the lock.
pub(crate) struct Half<'s, S>(pub(crate) &'s Mutex<S>);

impl<S> Half<'_, S> {
    /// Calls the stream.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&S) -> T) -> T {
        call(&locked(self.0))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Half<'_, S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(self.0)).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Half<'_, S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *locked(self.0)).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *locked(self.0)).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(self.0)).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(self.0)).poll_shutdown(cx)
    }
}

/// Sends bytes; false if it was given up. `timeout` begins anew whenever the stream takes some of them, and `progress` is
/// called if there are more.
pub(crate) async fn send_all<T: Future<Output = ()>>(
    writer: &mut (impl AsyncWrite + Unpin),
    bytes: &mut SendBuffer,
    bulk: &Semaphore,
    timeout: impl Fn() -> T,
    progress: impl Fn(),
) -> io::Result<bool> {
    while !bytes.is_empty() {
        let writing = async {
            let (written, permit) = send_some(writer, bytes, bulk).await?;
            if written == bytes.len() {
                // Streams that were handed in may buffer what is written.
                writer.flush().await?;
            }
            io::Result::Ok((written, permit))
        };
        let (written, permit) = tokio::select! {
            biased;
            written = writing => written?,
            () = timeout() => return Ok(false),
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes.advance(written);
        if !bytes.is_empty() {
            progress();
            yield_now().await;
        }
        // Not before: a thousand tasks that are ready to run would each get the same permit, one after the other.
        drop(permit);
    }
    Ok(true)
}

/// Sends at most [`MAX_SEND`] bytes at the front. A connection that has more waits for a permit, and does not wait for its peer while
/// it has one. Returns how many bytes were sent, and the permit if they were sent with one.
async fn send_some<'b>(
    writer: &mut (impl AsyncWrite + Unpin),
    bytes: &SendBuffer,
    bulk: &'b Semaphore,
) -> io::Result<(usize, Option<SemaphorePermit<'b>>)> {
    if let Some(only) = bytes.only_piece().filter(|only| only.len() <= MAX_SEND) {
        return Ok((writer.write(only).await?, None));
    }
    let mut slices = [IoSlice::new(&[]); 8];
    let count = bytes.slices(&mut slices, MAX_SEND);
    let slices = &slices[..count];
    if bytes.len() > MAX_SEND {
        let permit = bulk.acquire().await.ok();
        let at_once = poll_fn(|cx| match Pin::new(&mut *writer).poll_write_vectored(cx, slices) {
            Poll::Ready(written) => Poll::Ready(Some(written)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(written) = at_once.await {
            return Ok((written?, permit));
        }
    }
    Ok((writer.write_vectored(slices).await?, None))
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    async fn is_sent(bytes: usize, bulk: &Semaphore) -> bool {
        let (mut ours, mut theirs) = duplex(1 << 20);
        let mut buffer = SendBuffer::default();
        buffer.share(&vec![0; bytes].into());
        {
            let mut sending = pin!(send_all(&mut ours, &mut buffer, bulk, pending::<()>, || {}));
            for _ in 0..100 {
                let mut once = Box::pin(poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx).is_ready())));
                if once.as_mut().await {
                    break;
                }
                drop(once);
                yield_now().await;
            }
        }
        drop(ours);
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).await.expect("an end");
        all.len() == bytes
    }

    #[tokio::test]
    async fn a_long_send_waits_for_a_permit_and_a_short_one_does_not() {
        let (none, one) = (Semaphore::new(0), Semaphore::new(1));
        assert!(is_sent(MAX_SEND, &none).await && !is_sent(MAX_SEND + 1, &none).await);
        assert!(is_sent(10 * MAX_SEND, &one).await);
        // One that waits for its peer keeps no other waiting.
        assert!(!is_sent(2 << 20, &one).await && one.available_permits() == 1);
    }

    #[tokio::test]
    async fn a_permit_is_kept_until_other_tasks_have_run() {
        let one = Semaphore::new(1);
        let (mut ours, _theirs) = duplex(1 << 20);
        let mut buffer = SendBuffer::default();
        buffer.share(&vec![0; 2 * MAX_SEND].into());
        let mut sending = pin!(send_all(&mut ours, &mut buffer, &one, pending::<()>, || {}));
        let first = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx).is_pending())).await;
        assert!(first && one.available_permits() == 0);
        assert!(sending.await.expect("a stream that takes all") && one.available_permits() == 1);
    }
}
