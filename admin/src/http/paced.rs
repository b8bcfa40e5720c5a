//! [`Paced`]: a stream whose peer must take what is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::limits::LEAST_MOVED;

/// A stream that fails if its peer takes fewer than [`LEAST_MOVED`] bytes within a time while more wait for it.
pub(super) struct Paced<S> {
    stream: S,
    timeout: Duration,
    /// Runs from the first write that had to wait.
    deadline: Option<Pin<Box<Sleep>>>,
    /// What was taken since then.
    taken: usize,
}

impl<S> Paced<S> {
    pub(super) fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, timeout, deadline: None, taken: 0 }
    }

    fn restart(&mut self) {
        (self.deadline, self.taken) = (None, 0);
    }

    /// The error that the peer does not read, once its time is over; the task is woken then.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let timeout = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read"))
    }

    /// Counts what a write has written.
    fn poll_written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(taken)) = written {
            self.taken += taken;
            if self.taken >= LEAST_MOVED {
                self.restart();
            }
        }
        self.poll_in_time(cx, written)
    }

    /// The outcome of a step of the stream: an error if it waits and the time is over.
    fn poll_in_time<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match polled {
            Poll::Pending => self.poll_deadline(cx).map(Err),
            ready => ready,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            // A peer that asks for more has read the answer before, all but what a deadline is for.
            self.restart();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.poll_written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.poll_written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.poll_in_time(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.poll_in_time(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_or_a_byte_at_a_time_ends_the_stream() {
        for step in [None, Some(Duration::from_secs(1))] {
            let (near, mut far) = duplex(1 << 10);
            let begun = Instant::now();
            let reader = tokio::spawn(async move {
                while let Some(step) = step {
                    tokio::time::sleep(step).await;
                    if far.read_u8().await.is_err() {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            });
            let mut paced = Paced::new(near, TIMEOUT);
            let failed = paced.write_all(&[0; 1 << 20]).await.expect_err("nobody reads");
            assert_eq!((failed.kind(), begun.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30), "{step:?}");
            reader.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_that_reads_enough_gets_everything() {
        let (near, mut far) = duplex(1 << 10);
        let writer = tokio::spawn(async move { Paced::new(near, TIMEOUT).write_all(&[7; 100 << 10]).await });
        let mut got = Vec::new();
        let mut piece = vec![0; 1 << 10];
        while got.len() < 100 << 10 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let len = far.read(&mut piece).await.expect("a piece");
            got.extend_from_slice(&piece[..len]);
        }
        writer.await.expect("a writer").expect("all of it");
    }
}
