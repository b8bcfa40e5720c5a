//! A connection by TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zoolet_tls::tokio_rustls::server::TlsStream;

use crate::net::stream::Transport;
use crate::net::tls::frame_records::FrameRecords;
use crate::net::tls::socket::TlsSocket;

/// A stream after its handshake.
pub(crate) struct TlsTransport {
    stream: TlsStream<TlsSocket>,
    records: FrameRecords,
    resets: AtomicBool,
}

impl TlsTransport {
    pub(crate) fn new(stream: TlsStream<TlsSocket>) -> Self {
        Self { stream, records: FrameRecords::default(), resets: AtomicBool::new(false) }
    }
}

impl Transport for TlsTransport {
    fn cork(&self) {
        self.stream.get_ref().0.cork();
    }

    fn reset_on_close(&self) {
        self.resets.store(true, Relaxed);
        self.stream.get_ref().0.reset_on_close();
    }
}

impl Drop for TlsTransport {
    /// An end of the stream is one that the peer can tell from an attack, also when the connection is not closed in order: the alert
    /// is sent if the socket takes it at once.
    fn drop(&mut self) {
        if self.resets.load(Relaxed) {
            return;
        }
        let (socket, session) = self.stream.get_mut();
        session.send_close_notify();
        let mut rest = Vec::new();
        while session.wants_write() && session.write_tls(&mut rest).is_ok_and(|written| written > 0) {}
        if !rest.is_empty() {
            // The peer may be gone.
            let _ = socket.stream.try_write(&rest);
        }
    }
}

impl AsyncRead for TlsTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            // Each frame says how long it is: an end without close_notify cuts nothing off unnoticed.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => read,
        }
    }
}

impl AsyncWrite for TlsTransport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, records, .. } = &mut *self;
        loop {
            let written = records.write(&mut stream.get_mut().1.writer(), bufs)?;
            match Pin::new(&mut *stream).poll_flush(cx)? {
                // The session has encrypted these bytes; if the socket has no room for all of them, the next call sends the rest.
                _ if written > 0 || bufs.iter().all(|buf| buf.is_empty()) => return Poll::Ready(Ok(written)),
                // There was no room for more, and now there is.
                Poll::Ready(()) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
