//! [`HttpServer`]: a bound address, and the tasks of its connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::limits::{ACCEPT_PAUSE, BACKLOG};
use super::request::HttpClient;
use super::service::HttpHandler;
use super::slots::{Slot, Slots};
use super::turnstile::Turnstile;
use super::{Https, connection};

/// A running HTTP server. Dropping it stops it without waiting.
#[derive(Debug)]
pub(crate) struct HttpServer {
    addr: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl HttpServer {
    /// Listens on `addr`, such as `127.0.0.1:8080`; port 0 takes a free one. Answers when this returns; by HTTPS, or by both, if
    /// there is one.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub(crate) async fn start(
        addr: &str,
        idle_timeout: Duration,
        handler: Arc<dyn HttpHandler>,
        https: Option<Https>,
    ) -> io::Result<Self> {
        let listener = listen(addr).await?;
        let addr = listener.local_addr()?;
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let acceptor = Acceptor {
            handler: Arc::new(Turnstile::new(handler)),
            idle_timeout,
            slots: Arc::default(),
            https: https.map(Arc::new),
            stop: stop.clone(),
            tasks: tasks.clone(),
        };
        let span = tracing::info_span!("http", port = addr.port());
        tasks.spawn(acceptor.run(listener).instrument(span));
        Ok(Self { addr, stop, tasks })
    }

    /// The address that it listens on, with the actual port.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops it: closes the port, and waits until the last connection has ended. Requests under way are finished, if that takes no
    /// longer than half a second.
    pub(crate) async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Acceptor {
    handler: Arc<dyn HttpHandler>,
    idle_timeout: Duration,
    slots: Arc<Slots>,
    https: Option<Arc<Https>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                // Without a slot it is closed by dropping it.
                Ok((stream, addr)) => {
                    if let Some(slot) = self.slots.take(addr.ip().to_canonical()) {
                        self.serve(stream, addr, slot);
                    } else {
                        tracing::debug!(peer = %addr, "too many HTTP connections; closing one");
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept an HTTP connection");
                    tokio::select! {
                        () = self.stop.cancelled() => return,
                        () = sleep(ACCEPT_PAUSE) => {}
                    }
                }
            }
        }
    }

    fn serve(&self, stream: TcpStream, addr: SocketAddr, slot: Slot) {
        // An answer is written at once; nothing is gained by waiting for more.
        let _ = stream.set_nodelay(true);
        let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
        let client = HttpClient { addr, is_secure: false, certificate: None };
        let (handler, ends) = (Arc::clone(&self.handler), (self.stop.clone(), self.tasks.clone()));
        let (https, idle_timeout) = (self.https.clone(), self.idle_timeout);
        let serve = async move {
            match https {
                #[cfg(feature = "tls")]
                Some(https) => serve_secure(&https, stream, client, handler, idle_timeout, ends).await,
                #[cfg(not(feature = "tls"))]
                Some(https) => match *https {},
                None => connection::serve(stream, client, handler, idle_timeout, ends).await,
            }
            drop(slot);
        };
        self.tasks.spawn(serve.in_current_span());
    }
}

/// Shakes hands, and serves the connection to its end.
#[cfg(feature = "tls")]
async fn serve_secure(
    https: &Https,
    stream: TcpStream,
    client: HttpClient,
    handler: Arc<dyn HttpHandler>,
    idle_timeout: Duration,
    ends: (CancellationToken, TaskTracker),
) {
    use super::secure::OpenedHttp;
    let opened = tokio::select! {
        opened = https.open(stream, client.addr.ip()) => opened,
        () = ends.0.cancelled() => return,
    };
    match opened {
        Ok(OpenedHttp::Plain(stream)) => connection::serve(stream, client, handler, idle_timeout, ends).await,
        Ok(OpenedHttp::Secure(stream, certificate)) => {
            let client = HttpClient { is_secure: true, certificate, ..client };
            connection::serve(stream, client, handler, idle_timeout, ends).await;
        }
        // A peer can cause any number of these.
        Err(error) => tracing::debug!(peer = %client.addr, %error, "a handshake for HTTPS has failed"),
    }
}

/// Listens on the first of the addresses of a name that this machine has.
async fn listen(addr: &str) -> io::Result<TcpListener> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for addr in lookup_host(addr).await? {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A server that was stopped a moment ago leaves its port in use.
        socket.set_reuseaddr(cfg!(unix))?;
        match socket.bind(addr).and_then(|()| socket.listen(BACKLOG)) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
