//! [`Server`]: the handle to a running server.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use zoolet_clock::Clock;
use zoolet_server_core::{ConnId, Millis};

use crate::config::{NetConfig, ServerBuilder};
use crate::engine::{Engine, locked};
use crate::error::StartError;
use crate::fixture::{Fixture, State};
use crate::machine::Machine;
use crate::net::connection::Connection;
use crate::net::driver::{Driver, Inbox};
use crate::net::in_process::{self, InProcess};
use crate::net::listener;
use crate::net::outbox::Outbox;
use crate::net::registry::{Peer, Place, Registry};
use crate::net::stats::ServerStats;
use crate::net::stream::{Ending, Plain};

/// A running server. Dropping it stops the server without waiting; [`Server::shutdown`] waits.
#[must_use = "a server stops when its handle is dropped"]
pub struct Server {
    shared: Arc<Shared>,
    addrs: Vec<SocketAddr>,
}

/// What the tasks of a server share.
pub(crate) struct Shared {
    pub(crate) net: NetConfig,
    pub(crate) clock: Clock,
    pub(crate) engine: Arc<Mutex<Engine>>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) inbox: Inbox,
    pub(crate) stop: CancellationToken,
    /// How many endpoints there are: 1 unless it is a simulated ensemble.
    pub(crate) endpoints: usize,
    /// Whether new connections are turned away for now.
    pub(crate) refusing: AtomicBool,
    /// The first bound address, for those who ask what is configured.
    pub(crate) client_port: Option<u16>,
    tasks: TaskTracker,
    runtime: Handle,
    span: tracing::Span,
}

impl Server {
    /// Settings for a new server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    pub(crate) async fn start(builder: ServerBuilder) -> Result<Self, StartError> {
        let ServerBuilder { core, net, binds, clock, endpoints } = builder;
        // Panics in a runtime without timers: here, and not in tasks that would leave a server which answers nobody.
        drop(tokio::time::sleep(Duration::ZERO));
        let clock = clock.unwrap_or_else(Clock::tokio);
        let started = Millis(clock.unix_millis());
        let listeners = listener::listen(&binds, net.backlog).await?;
        let addr_of = |(addr, listener): (&String, &TcpListener)| {
            listener.local_addr().map_err(|source| StartError::Bind { addr: addr.clone(), source })
        };
        let addrs = binds.iter().zip(&listeners).map(addr_of).collect::<Result<Vec<_>, _>>()?;
        let client_port = addrs.first().map(SocketAddr::port);
        let span = tracing::info_span!("server", port = client_port);
        let registry = Arc::new(Registry::default());
        let stats = Arc::new(ServerStats::new(started));
        let stop = CancellationToken::new();
        let engine =
            Engine::new(Machine::new(core, endpoints, started), Arc::clone(&registry), Arc::clone(&stats));
        let engine = Arc::new(Mutex::new(engine));
        let (driver, inbox) = Driver::new(Arc::clone(&engine), clock.clone(), stop.clone(), span.clone());
        let tasks = TaskTracker::new();
        let runtime = Handle::current();
        tasks.spawn(driver.run());
        let shared = Arc::new(Shared {
            net,
            clock,
            engine,
            registry,
            stats,
            inbox,
            stop,
            endpoints,
            refusing: AtomicBool::new(false),
            client_port,
            tasks,
            runtime,
            span,
        });
        for (at, listener) in listeners.into_iter().enumerate() {
            let accepting = listener::run(Arc::clone(&shared), listener, at % endpoints);
            shared.tasks.spawn(accepting.instrument(shared.span.clone()));
        }
        tracing::info!(parent: &shared.span, ?addrs, "serving");
        Ok(Self { shared, addrs })
    }

    /// The addresses it listens on, in the order of the `bind` calls, with the ports that were taken.
    pub fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// What a client needs to connect by TCP: `host:port` of every address. Empty without one.
    pub fn connect_string(&self) -> String {
        let reachable = |addr: &SocketAddr| match addr.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => format!("127.0.0.1:{}", addr.port()),
            IpAddr::V6(ip) if ip.is_unspecified() => format!("[::1]:{}", addr.port()),
            _ => addr.to_string(),
        };
        self.addrs.iter().map(reachable).collect::<Vec<_>>().join(",")
    }

    /// A connector for clients in this process: each call opens a connection and gives the client's end. No socket is
    /// involved; the server sees the connection as coming from 127.0.0.1. It does not keep the server alive, and
    /// fails with `ConnectionRefused` once that is stopped.
    pub fn in_process(&self) -> InProcess {
        in_process::connector(Arc::downgrade(&self.shared), 0)
    }

    /// Like [`in_process`](Server::in_process), to one endpoint of a simulated ensemble, counted from 0. Of one
    /// that there is not every call fails with `NotFound`.
    pub fn in_process_at(&self, endpoint: usize) -> InProcess {
        in_process::connector(Arc::downgrade(&self.shared), endpoint)
    }

    /// Serves a stream that was accepted elsewhere: TLS, a Unix socket, a simulator. `peer` is who it comes from, for
    /// ACLs of the scheme `ip`. Limits on connections do not apply. Returns at once; without effect once the server
    /// is stopped.
    pub fn serve_stream(&self, stream: impl AsyncRead + AsyncWrite + Send + 'static, peer: IpAddr) {
        self.shared.serve_from(Box::pin(stream), SocketAddr::new(peer, 0), 0, None, Plain);
    }

    /// The server as a test wants it: open to the eye, with faults to place. From the first call on all that happens is
    /// recorded, which takes memory and some time: not for production.
    pub fn fixture(&self) -> Fixture {
        Fixture::new(Arc::clone(&self.shared))
    }

    /// Stops the server: closes its sockets and connections, and waits until none of its tasks is left. Clients see
    /// their connections end; those whose sessions are to be closed close before.
    ///
    /// # Cancel safety
    /// The server stops even if the future is dropped; only the waiting ends.
    pub async fn shutdown(self) {
        self.shared.halt();
        self.shared.tasks.wait().await;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addrs", &self.addrs).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.halt();
    }
}

impl Shared {
    /// Serves a stream to its end.
    pub(crate) fn serve_from<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        self: &Arc<Self>,
        stream: S,
        addr: SocketAddr,
        endpoint: usize,
        place: Option<Place>,
        ending: impl Ending<S>,
    ) -> Option<ConnId> {
        // Held until the task of the connection has one of its own: whoever waits for the end of all tasks waits for
        // this one too, or it is not started.
        let _token = self.tasks.token();
        if self.stop.is_cancelled() || self.refuses(addr.ip()) {
            return None;
        }
        // An IPv4 address that comes by an IPv6 socket is still that IPv4 address, to ACLs and to limits.
        let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
        let span = tracing::debug_span!(
            parent: &self.span, "connection", peer = %addr, session = tracing::field::Empty
        );
        let outbox = Outbox::new(self.net.outbox_limit());
        let peer = Peer::new(addr, endpoint, self.now(), outbox, span);
        let member = self.registry.enter(peer, place);
        if self.stop.is_cancelled() {
            // Stopped in between: whoever stopped it did not see this connection.
            member.peer.outbox.kill();
        }
        let id = member.id;
        let connection = Connection::new(Arc::clone(self), member);
        self.tasks.spawn_on(connection.run(stream, ending), &self.runtime);
        Some(id)
    }

    /// Whether a connection from `peer` is to be turned away, which is noted then.
    pub(crate) fn refuses(&self, peer: IpAddr) -> bool {
        let refuses = self.refusing.load(Relaxed);
        if refuses {
            let now = self.now();
            self.with_fixture(|fixture| fixture.record.note_refusal(now, peer.to_canonical()));
        }
        refuses
    }

    /// Works with what the fixture keeps, without the engine.
    pub(crate) fn with_fixture<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        locked(&self.engine).with_fixture(self.now(), |fixture, _| work(fixture))
    }

    fn halt(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.registry.kill_all();
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.clock.unix_millis())
    }

    /// Milliseconds since the start.
    pub(crate) fn uptime(&self) -> i64 {
        self.now().0 - self.stats.started.0
    }

    pub(crate) fn packets(&self) -> (u64, u64) {
        (self.stats.received.load(Relaxed), self.stats.sent.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncReadExt, ReadBuf};

    use super::*;

    #[test]
    fn without_timers_it_does_not_start() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let clock = Clock::manual();
        let start = AssertUnwindSafe(|| runtime.block_on(Server::builder().clock(clock).start()));
        assert!(catch_unwind(start).is_err());
    }

    #[test]
    fn a_server_whose_runtime_has_gone_before_it_ran_takes_nobody() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let server = runtime.block_on(Server::builder().start()).expect("a server");
        drop(runtime);
        assert!(server.in_process()().into_inner().is_err());
    }

    #[tokio::test]
    async fn a_stream_that_panics_takes_its_connection_along() {
        struct Panics;
        impl AsyncRead for Panics {
            fn poll_read(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                _: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                panic!("as if there were a bug")
            }
        }
        impl AsyncWrite for Panics {
            fn poll_write(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                Poll::Ready(Ok(bytes.len()))
            }
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
        }
        let server = Server::builder().start().await.expect("a server");
        server.serve_stream(Panics, IpAddr::from([127, 0, 0, 1]));
        let conn = server.shared.registry.all()[0].0;
        while server.shared.registry.len() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.shared.inbox.ask(move |core| core.is_open(conn)).await, Some(false));
        assert!(server.in_process()().into_inner().is_ok(), "nobody else notices");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_whose_driver_ends_leaves_nobody_waiting() {
        let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
        let connect = server.in_process();
        let mut client = connect().into_inner().expect("a connection");
        let lost = server.shared.inbox.ask(|_| -> () { panic!("as if there were a bug") }).await;
        assert!(lost.is_none());
        assert_eq!(client.read(&mut [0]).await.expect("an end"), 0);
        assert!(connect().into_inner().is_err());
        server.shutdown().await;
    }
}
