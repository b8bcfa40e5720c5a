//! Connections as bad as they may be: bytes come in pieces and late, and at some byte the pipe breaks.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zoolet_test_support::Dice;

use crate::random::Manner;

/// A connection of any kind.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Later<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// A way to the server.
#[derive(Clone)]
pub struct Way {
    connect: Arc<dyn Fn() -> Later<Box<dyn Stream>> + Send + Sync>,
    dice: Arc<Mutex<Dice>>,
    manner: Manner,
}

impl Way {
    /// A way whose connections stutter and, in wild schedules, break.
    pub fn new<C, S>(connect: impl Fn() -> C + Send + Sync + 'static, dice: Dice, manner: Manner) -> Self
    where
        C: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let connect = move || -> Later<Box<dyn Stream>> {
            let connecting = connect();
            Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn Stream>) })
        };
        Self { connect: Arc::new(connect), dice: Arc::new(Mutex::new(dice)), manner }
    }

    /// Opens a connection.
    pub fn open(&self) -> Later<Rough> {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        let left = match dice.below(10) {
            _ if self.manner != Manner::Wild => usize::MAX,
            // The handshake takes less than a hundred bytes in each direction.
            0 => 1 + dice.below(200),
            1..=6 => 1 + dice.below(6_000),
            _ => usize::MAX,
        };
        let dice = dice.fork();
        let opening = (self.connect)();
        Box::pin(async move { Ok(Rough { stream: Some(opening.await?), left, dice }) })
    }
}

/// A stream that breaks after so many bytes, read or written.
pub struct Rough {
    stream: Option<Box<dyn Stream>>,
    left: usize,
    dice: Dice,
}

impl Rough {
    /// How many bytes may pass now; `None` for later.
    fn piece(&mut self, cx: &Context<'_>) -> Option<usize> {
        if self.dice.chance(20) {
            cx.waker().wake_by_ref();
            return None;
        }
        let most = if self.dice.chance(30) { 1 + self.dice.below(40) } else { usize::MAX };
        Some(most.min(self.left))
    }

    fn pass(&mut self, bytes: usize) {
        self.left -= bytes;
        if self.left == 0 {
            self.stream = None;
        }
    }
}

impl AsyncRead for Rough {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(piece) = this.piece(cx) else { return Poll::Pending };
        let Some(stream) = &mut this.stream else { return Poll::Ready(Ok(())) };
        let mut part = vec![0; piece.min(buf.remaining())];
        let mut part = ReadBuf::new(&mut part);
        let polled = Pin::new(stream).poll_read(cx, &mut part);
        buf.put_slice(part.filled());
        let got = part.filled().len();
        this.pass(got);
        polled
    }
}

impl AsyncWrite for Rough {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let Some(piece) = this.piece(cx) else { return Poll::Pending };
        let Some(stream) = &mut this.stream else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let polled = Pin::new(stream).poll_write(cx, &buf[..piece.min(buf.len())]);
        if let Poll::Ready(Ok(taken)) = polled {
            this.pass(taken);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }
}
