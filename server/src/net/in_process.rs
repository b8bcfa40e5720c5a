//! Connections without a socket.

use std::future::{Ready, ready};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use zoolet_server_core::ConnId;

use crate::net::flow::limits::PIPE;
use crate::net::stream::{Link, Transport};
use crate::shared::Shared;

/// The client's end of a connection without a socket, from [`Server::in_process`](crate::Server::in_process).
#[derive(Debug)]
pub struct InProcessStream {
    pipe: DuplexStream,
    /// Whether the server has reset the connection instead of closing it.
    reset: Arc<AtomicBool>,
    conn: ConnId,
}

impl InProcessStream {
    /// The number the server has given the connection.
    pub fn conn(&self) -> ConnId {
        self.conn
    }
}

/// The server's end is of the same type.
impl Transport for InProcessStream {
    fn reset_on_close(&self) {
        self.reset.store(true, Relaxed);
    }
}

impl AsyncRead for InProcessStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buf.filled().len(), buf.remaining());
        let read = Pin::new(&mut self.pipe).poll_read(cx, buf);
        let ended = matches!(read, Poll::Ready(Ok(()))) && room > 0 && buf.filled().len() == before;
        if ended && self.reset.load(Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        read
    }
}

impl AsyncWrite for InProcessStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.pipe).poll_write(cx, buf);
        if matches!(written, Poll::Ready(Err(_))) && self.reset.load(Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}

/// A connector from [`Server::in_process`](crate::Server::in_process). Each call opens a connection without a socket and
/// returns the client's end.
///
/// It is a boxed closure, so that it has a name and clients that know nothing of this crate accept it.
pub type InProcess = Box<dyn ConnectInProcess>;

/// The closure in an [`InProcess`].
pub trait ConnectInProcess: Fn() -> Ready<io::Result<InProcessStream>> + Send + Sync {
    /// Clones the closure into a new box.
    fn boxed_clone(&self) -> InProcess;
}

impl<F> ConnectInProcess for F
where
    F: Fn() -> Ready<io::Result<InProcessStream>> + Clone + Send + Sync + 'static,
{
    fn boxed_clone(&self) -> InProcess {
        Box::new(self.clone())
    }
}

impl Clone for InProcess {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}

/// Why a server is gone whose handle is still there.
const LOST_RUNTIME: &str = "the server has stopped, as the tokio runtime that it was started in was shut down: in a test, a server in a \
    `static` ends with the first test; start one per test, or one with `ServerBuilder::on_own_thread`";

pub(crate) fn connector(server: Weak<Shared>, replica: usize) -> InProcess {
    let here = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    Box::new(move || ready(connect(&server, replica, here)))
}

/// Opens a connection that comes from `peer`.
///
/// # Errors
/// If the server has stopped, takes no connections, or has no such replica.
pub(crate) fn connect(
    server: &Weak<Shared>,
    replica: usize,
    peer: SocketAddr,
) -> io::Result<InProcessStream> {
    let refused = |why| io::Error::new(io::ErrorKind::ConnectionRefused, why);
    let server = server.upgrade().ok_or_else(|| refused("the server is stopped"))?;
    if replica >= server.replicas {
        let why = format!("there is no endpoint {replica}: there are {}, counted from 0", server.replicas);
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    let (ours, pipe) = duplex(PIPE);
    let reset = Arc::new(AtomicBool::new(false));
    // The number is known only when it is served, and is not used on this end.
    let ours = InProcessStream { pipe: ours, reset: Arc::clone(&reset), conn: ConnId(0) };
    let link = Link { in_process: true, ..Link::default() };
    let served = server.admits(peer.ip()).then(|| server.serve_from(ours, peer, link, replica, None));
    let conn = served.flatten().ok_or_else(|| match server.has_lost_runtime() {
        true => io::Error::new(io::ErrorKind::Unsupported, LOST_RUNTIME),
        false => refused("the server is stopped, or takes no connections"),
    })?;
    Ok(InProcessStream { pipe, reset, conn })
}
