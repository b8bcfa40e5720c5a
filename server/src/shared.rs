//! [`Shared`]: what the tasks of a server share.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use zoolet_clock::Clock;
use zoolet_server_core::{ConnId, Millis, SessionSecret, StateMachine};
use zoolet_storage::disk::Disk;

use crate::audit;
use crate::bus::Bus;
use crate::config::{NetConfig, ServerBuilder};
use crate::durable::{LogHandle, ReadyLog, restore};
use crate::engine::{Attached, Engine};
use crate::epoch;
use crate::error::StartError;
use crate::locked::locked;
use crate::net::PortKind;
use crate::net::connection::Connection;
use crate::net::driver::Driver;
use crate::net::flow::limits::{BULK_SENDERS, CLOSED_LINES};
use crate::net::flow::outbox::Outbox;
use crate::net::listener;
use crate::net::rate_limited_line::RateLimitedLine;
use crate::net::registry::{ConnectionPermit, Peer, PeerState, Registry};
use crate::net::stats::ServerStats;
use crate::net::stream::{Link, Transport};
#[cfg(feature = "tls")]
use crate::net::tls::TlsPorts;
use crate::net::turns::Turns;

/// What the tasks of a server share.
pub(crate) struct Shared {
    pub(crate) net: NetConfig,
    pub(crate) clock: Clock,
    pub(crate) engine: Arc<Mutex<Engine>>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) turns: Arc<Turns>,
    pub(crate) stop: CancellationToken,
    /// How many replicas the state machine has.
    pub(crate) replicas: usize,
    pub(crate) attached: OnceLock<Attached>,
    /// The log, if there is one.
    pub(crate) log: Option<LogHandle>,
    /// The addresses that it listens on, with the actual ports; and those of the ports that speak TLS alone.
    pub(crate) addrs: Vec<SocketAddr>,
    pub(crate) tls_addrs: Vec<SocketAddr>,
    pub(crate) tasks: TaskTracker,
    /// Held while an answer that lists many things is made.
    pub(crate) listing: Arc<tokio::sync::Mutex<()>>,
    /// Held while a snapshot is taken for somebody, or the state is restored.
    pub(crate) backup: Arc<tokio::sync::Mutex<()>>,
    /// One for each connection that is sending much.
    pub(crate) bulk: Semaphore,
    /// Connections that were refused, that were closed for what they did not read, and that began with another protocol.
    pub(crate) refused: RateLimitedLine,
    pub(crate) overflowed: RateLimitedLine,
    pub(crate) foreign: RateLimitedLine,
    /// Connections that have ended.
    pub(crate) closed: RateLimitedLine,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<TlsPorts>>,
    /// The user of the server's own audit lines, if there are any.
    audit: Option<Arc<str>>,
    pub(crate) runtime: Handle,
    span: tracing::Span,
}

/// A boxed future. A program has a copy of the code of each other future for each place that polls it, of which a runtime has several.
pub(crate) type BoxedFuture<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

impl Shared {
    /// Starts a server.
    pub(crate) fn start(builder: ServerBuilder) -> BoxedFuture<'static, Result<Arc<Self>, StartError>> {
        Box::pin(Self::begin(builder))
    }

    async fn begin(builder: ServerBuilder) -> Result<Arc<Self>, StartError> {
        let ServerBuilder { mut core, net, clock, replicas, durable, .. } = builder;
        // In a runtime without timers this panics: here, and not later in a task, which would leave a server without answers.
        drop(tokio::time::sleep(Duration::ZERO));
        let clock = clock.unwrap_or_else(Clock::tokio);
        let audit = core.audit.clone();
        if durable.is_none() && builder.unguessable.unwrap_or_else(|| clock.is_real()) {
            core.session_secret = Some(SessionSecret(random()?));
        }
        if let Some(server) = core.auth.sasl_server.as_mut().filter(|_| clock.is_real()) {
            server.secret = random()?;
        }
        // Before the ports are bound: the first connection that is accepted is answered.
        let opened = match durable {
            Some(durable) => Some(durable.with_max_frame(net.max_frame).open().await?),
            None => None,
        };
        #[cfg(feature = "tls")]
        let kind = if builder.tls.unified { PortKind::Unified } else { PortKind::Plain };
        #[cfg(not(feature = "tls"))]
        let kind = PortKind::Plain;
        #[cfg(feature = "tls")]
        let (tls_binds, tls) = (builder.tls.binds.clone(), TlsPorts::load(builder.tls).await?);
        let (addrs, listeners) = listener::listen(&builder.binds, net.backlog).await?;
        #[cfg(feature = "tls")]
        let (tls_addrs, tls_listeners) = listener::listen(&tls_binds, net.backlog).await?;
        #[cfg(not(feature = "tls"))]
        let tls_addrs = Vec::new();
        // After the ports are taken: an earlier server on them has stopped.
        let unix = clock.unix_time();
        let started = Millis(i64::try_from(unix.as_millis()).unwrap_or(i64::MAX));
        core.initial_zxid = epoch::initial_zxid(unix);
        core.skipped_session_ids = epoch::skipped_session_ids(unix);
        let span = tracing::info_span!("server", port = addrs.first().map(SocketAddr::port));
        let registry = Arc::new(Registry::default());
        let stats = Arc::new(ServerStats::new(started));
        let stop = CancellationToken::new();
        let (machine, log): (Box<dyn StateMachine>, _) = match opened {
            None => ((builder.make_machine)(core, replicas, started), None),
            Some((log, recovered)) => {
                let mut core = restore(core, recovered, started);
                // Not in `restore`: after a simulated crash the clients of a fixture live on.
                core.end_in_process_sessions(started);
                (Box::new(core), Some(log))
            }
        };
        let gate = log.as_ref().map(ReadyLog::gate);
        let commits = log.as_ref().map(|log| Arc::clone(&log.handle.queue));
        let bus = Bus::new(machine, Arc::clone(&registry), Arc::clone(&stats), clock.clone(), gate);
        let mut engine = Engine::new(bus);
        // What the state machine has decided to begin with, such as the end of unknown sessions.
        engine.end_turn(started);
        let engine = Arc::new(Mutex::new(engine));
        let (turns, slow) = Turns::new(
            Arc::clone(&engine),
            commits,
            Arc::clone(&stats),
            clock.clone(),
            stop.clone(),
            span.clone(),
        );
        let driver = Driver { turns: Arc::clone(&turns), slow, registry: Arc::clone(&registry) };
        let log = log.map(|log| log.start(Arc::clone(&engine) as _, &clock, &stop, &span)).transpose()?;
        let tasks = TaskTracker::new();
        let runtime = Handle::current();
        tasks.spawn(Box::pin(driver.run()) as BoxedFuture<'_, ()>);
        let shared = Arc::new(Self {
            net,
            clock,
            engine,
            registry,
            stats,
            turns,
            stop,
            replicas,
            attached: OnceLock::new(),
            log,
            addrs,
            tls_addrs,
            tasks,
            listing: Arc::default(),
            backup: Arc::default(),
            bulk: Semaphore::new(BULK_SENDERS),
            refused: RateLimitedLine::default(),
            overflowed: RateLimitedLine::default(),
            foreign: RateLimitedLine::default(),
            closed: RateLimitedLine::with_lines(CLOSED_LINES),
            #[cfg(feature = "tls")]
            tls: tls.map(Arc::new),
            audit,
            runtime,
            span,
        });
        shared.accept(listeners, kind);
        #[cfg(feature = "tls")]
        shared.accept(tls_listeners, PortKind::Tls);
        let zxid = locked(&shared.engine).bus.core().tree().last_zxid();
        let addrs = &shared.addrs;
        match &shared.log {
            None => {
                tracing::info!(parent: &shared.span, ?addrs, %zxid, "serving; the state is in memory and begins empty");
            }
            Some(log) => {
                let report = &log.report;
                tracing::info!(parent: &shared.span, ?addrs, %zxid, %report, "serving; the state is durable");
            }
        }
        #[cfg(feature = "tls")]
        if shared.tls.is_some() {
            let unified = kind == PortKind::Unified;
            tracing::info!(parent: &shared.span, addrs = ?shared.tls_addrs, unified, "serving by TLS");
        }
        if let Some(user) = &shared.audit {
            audit::started(user);
        }
        Ok(shared)
    }

    /// Accepts connections on ports of one kind.
    fn accept(self: &Arc<Self>, listeners: Vec<TcpListener>, kind: PortKind) {
        for (at, listener) in listeners.into_iter().enumerate() {
            let accepting = listener::run(Arc::clone(self), listener, at % self.replicas, kind);
            self.spawn(accepting.instrument(self.span.clone()));
        }
    }

    /// Runs a task, for which a shutdown waits.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(Box::pin(task) as BoxedFuture<'_, ()>, &self.runtime);
    }

    /// Runs what precedes the service of a connection.
    #[cfg(feature = "tls")]
    pub(crate) fn spawn_for_connection(&self, opening: impl Future<Output = ()> + Send + 'static) {
        self.spawn(opening.instrument(self.span.clone()));
    }

    /// Serves a stream to its end. `None` if the server has stopped.
    pub(crate) fn serve_from(
        self: &Arc<Self>,
        stream: impl Transport,
        addr: SocketAddr,
        link: Link,
        replica: usize,
        permit: Option<ConnectionPermit>,
    ) -> Option<ConnId> {
        // Held until the task of the connection has its own token: a shutdown waits for this connection, or it is not
        // started.
        let _token = self.tasks.token();
        if self.stop.is_cancelled() {
            return None;
        }
        // An IPv4 address that comes by an IPv6 socket is still that IPv4 address, to ACLs and to limits.
        let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
        // As on Apache, whose usual server, which has no TLS, does not count them.
        #[cfg(feature = "tls")]
        if self.tls.is_some() && permit.is_some() && !link.is_secure {
            let (local, remote) = (&self.stats.plaintext_local, &self.stats.plaintext_remote);
            let count = if addr.ip().is_loopback() { local } else { remote };
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        let span = tracing::debug_span!(
            parent: &self.span, "connection", peer = %addr, session = tracing::field::Empty
        );
        let outbox = Outbox::new(self.net.outbox_limit(), &self.registry.budget);
        let state = PeerState::default();
        let peer = Peer { addr, link, replica, established: self.now(), outbox, span, state };
        let registration = self.registry.enter(peer, permit);
        if self.stop.is_cancelled() {
            // Stopped in between: the shutdown did not see this connection.
            registration.peer.outbox.abort();
        }
        let id = registration.id;
        let connection = Connection { shared: Arc::clone(self), registration };
        match self.attached.get() {
            None => self.spawn(connection.run(stream)),
            Some(attached) => {
                let stream = attached.interceptor.wrap(id, Box::new(stream));
                self.spawn(connection.run(stream));
            }
        }
        Some(id)
    }

    /// Whether a new connection from `peer` is accepted.
    pub(crate) fn admits(&self, peer: IpAddr) -> bool {
        let attached = self.attached.get();
        attached.is_none_or(|attached| attached.interceptor.admits(self.now(), peer.to_canonical()))
    }

    /// Whether it has stopped because the runtime that it was started in was shut down, and has dropped its tasks.
    pub(crate) fn has_lost_runtime(&self) -> bool {
        if !self.stop.is_cancelled() {
            return false;
        }
        // Such a runtime cancels a new task at once.
        let probe = pin!(self.runtime.spawn(async {}));
        let polled = probe.poll(&mut Context::from_waker(Waker::noop()));
        matches!(polled, Poll::Ready(Err(error)) if error.is_cancelled())
    }

    pub(crate) fn halt(&self) {
        if let Some(user) = self.audit.as_deref().filter(|_| !self.stop.is_cancelled()) {
            audit::stopped(user);
        }
        self.stop.cancel();
        self.tasks.close();
        self.registry.abort_all();
    }

    /// The log, and the disk that it is on: after a simulated crash that of the next process.
    pub(crate) fn log_and_disk(&self) -> Option<(&LogHandle, Arc<dyn Disk>)> {
        self.log.as_ref().zip(locked(&self.engine).bus.disk().cloned())
    }

    /// Waits until the log has ended and its files are closed.
    pub(crate) async fn log_ended(&self) {
        if let Some(log) = &self.log {
            log.ended.cancelled().await;
        }
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.clock.unix_millis())
    }
}

fn random() -> Result<[u8; 32], StartError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| StartError::Random { source: io::Error::other(error) })?;
    Ok(secret)
}
