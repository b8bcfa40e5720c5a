//! Connections as bad as they may be: bytes come in pieces and late, and at some byte the pipe breaks.

use std::future::Ready;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zoolet::server::InProcessStream;

use crate::dice::Dice;

type Connector = Box<dyn Fn() -> Ready<io::Result<InProcessStream>> + Send + Sync>;

/// A way to the server.
#[derive(Clone)]
pub struct Way {
    connect: Arc<Connector>,
    dice: Arc<Mutex<Dice>>,
    calm: bool,
}

impl Way {
    pub fn new(
        connect: impl Fn() -> Ready<io::Result<InProcessStream>> + Send + Sync + 'static,
        dice: Dice,
        calm: bool,
    ) -> Self {
        Self { connect: Arc::new(Box::new(connect)), dice: Arc::new(Mutex::new(dice)), calm }
    }

    /// Opens a connection.
    pub fn open(&self) -> Ready<io::Result<Rough>> {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        let left = match dice.below(10) {
            _ if self.calm => usize::MAX,
            // The handshake takes less than a hundred bytes in each direction.
            0 => dice.below(200),
            1..=6 => dice.below(6_000),
            _ => usize::MAX,
        };
        let dice = dice.fork();
        let opened = (self.connect)().into_inner();
        std::future::ready(opened.map(|stream| Rough { stream: Some(stream), left, dice }))
    }
}

/// A stream that breaks after so many bytes, read or written.
pub struct Rough {
    stream: Option<InProcessStream>,
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
