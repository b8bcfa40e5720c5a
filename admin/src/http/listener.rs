//! [`HttpServer`]: a bound address, and the tasks of its connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use zoolet_server::internal::{Stepper, bind_first};

use super::limits::{ACCEPT_PAUSE, BACKLOG};
use super::request::HttpClient;
use super::service::HttpHandler;
use super::sites::AllowedHosts;
use super::slots::{Slot, Slots};
use super::{Https, connection};

/// A running HTTP server. Dropping it stops it without waiting.
#[derive(Debug)]
pub(crate) struct HttpServer {
    addr: SocketAddr,
    /// Stops the tasks when it is dropped.
    stop: DropGuard,
    tasks: TaskTracker,
}

impl HttpServer {
    /// Listens on `addr`, such as `127.0.0.1:8080`; port 0 takes a free one. Answers when this returns; by HTTPS, or by both, if
    /// there is one. It has the names `hosts` beside that of the address.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub(crate) async fn start(
        addr: &str,
        hosts: &[String],
        idle_timeout: Duration,
        handler: impl HttpHandler,
        https: Option<Https>,
    ) -> io::Result<Self> {
        let listener = bind_first(addr).await?.listen(BACKLOG)?;
        let local = listener.local_addr()?;
        let hosts = AllowedHosts::new(addr, local, hosts);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let serving = Arc::new(Serving {
            handler: Box::new(handler),
            stepper: Stepper::default(),
            hosts,
            idle_timeout,
            https,
            stop: stop.clone(),
            tasks: tasks.clone(),
        });
        let span = tracing::info_span!("http", port = local.port());
        tasks.spawn(accept(listener, serving).instrument(span));
        Ok(Self { addr: local, stop: stop.drop_guard(), tasks })
    }

    /// The address that it listens on, with the actual port.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops it: closes the port, and waits until the last connection has ended. Requests under way are finished, if that takes no
    /// longer than half a second.
    pub(crate) async fn shutdown(self) {
        drop(self.stop);
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// What the connections of a server share.
pub(super) struct Serving {
    pub(super) handler: Box<dyn HttpHandler>,
    pub(super) stepper: Stepper,
    pub(super) hosts: AllowedHosts,
    pub(super) idle_timeout: Duration,
    https: Option<Https>,
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// Takes connections until the server stops.
async fn accept(listener: TcpListener, serving: Arc<Serving>) {
    let slots = Arc::<Slots>::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = serving.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            // Without a slot it is closed by dropping it.
            Ok((stream, addr)) => {
                let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
                if let Some(slot) = slots.take(addr.ip()) {
                    let serve = serve(Arc::clone(&serving), stream, addr, slot);
                    serving.tasks.spawn(serve.in_current_span());
                } else {
                    tracing::debug!(peer = %addr, "too many HTTP connections; closing one");
                }
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept an HTTP connection");
                tokio::select! {
                    () = serving.stop.cancelled() => return,
                    () = sleep(ACCEPT_PAUSE) => {}
                }
            }
        }
    }
}

async fn serve(serving: Arc<Serving>, stream: TcpStream, addr: SocketAddr, slot: Slot) {
    // An answer is written at once; nothing is gained by waiting for more.
    let _ = stream.set_nodelay(true);
    let client =
        HttpClient { addr, is_secure: false, certificate: None, connection: Arc::clone(&slot.state) };
    let serve = async {
        match &serving.https {
            #[cfg(feature = "tls")]
            Some(https) => serve_secure(https, stream, client, &serving).await,
            #[cfg(not(feature = "tls"))]
            Some(https) => match *https {},
            None => connection::serve(stream, client, &serving).await,
        }
    };
    if slot.state.run(serve).await.is_none() {
        tracing::debug!(peer = %addr, "an HTTP connection is closed, as others wait for what it keeps");
    }
}

/// Shakes hands, and serves the connection to its end.
#[cfg(feature = "tls")]
async fn serve_secure(https: &Https, stream: TcpStream, client: HttpClient, serving: &Serving) {
    use super::secure::OpenedHttp;
    let opened = tokio::select! {
        opened = https.open(stream, &client, &serving.stepper) => opened,
        () = serving.stop.cancelled() => return,
    };
    match opened {
        Ok(OpenedHttp::Plain(stream)) => connection::serve(stream, client, serving).await,
        Ok(OpenedHttp::Secure(stream, certificate)) => {
            let client = HttpClient { is_secure: true, certificate, ..client };
            connection::serve(stream, client, serving).await;
        }
        // A peer can cause any number of these.
        Err(error) => tracing::debug!(peer = %client.addr, %error, "a handshake for HTTPS has failed"),
    }
}
