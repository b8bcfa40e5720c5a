//! How a session is to be: set by value, checked when connecting.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::Instrument;
use zoolet_clock::Clock;
use zoolet_proto::frame::{DEFAULT_MAX_FRAME, PREFIX};
use zoolet_proto::records::AuthPacket;
use zoolet_proto::{Request, Xid};

use crate::chroot::Chroot;
use crate::client::Client;
use crate::context::ErrorContext;
use crate::driver::Driver;
use crate::error::Error;
use crate::session::{Session, Settings};
use crate::state::{SessionState, Shared};
use crate::transport::{IntoTransport, Transport};

/// What a server can be asked for, in the milliseconds of an int.
const SHORTEST_SESSION: Duration = Duration::from_millis(1);
const LONGEST_SESSION: Duration = Duration::from_millis(i32::MAX as u64);

/// What a session is to be like, from [`Client::options`]; ends in [`connect`](ConnectOptions::connect).
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example() -> Result<(), zoolet_client::Error> {
/// let zk = zoolet_client::Client::options()
///     .session_timeout(Duration::from_secs(6))
///     .chroot("/app")
///     .connect("127.0.0.1:2181")
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "options do nothing before `connect`"]
pub struct ConnectOptions {
    session_timeout: Duration,
    connect_timeout: Duration,
    request_timeout: Option<Duration>,
    chroot: Option<String>,
    auths: Vec<AuthPacket>,
    read_only: bool,
    max_request: usize,
    max_reply: usize,
    seed: Option<u64>,
    clock: Clock,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(30),
            request_timeout: None,
            chroot: None,
            auths: Vec::new(),
            read_only: false,
            max_request: DEFAULT_MAX_FRAME,
            max_reply: 64 * 1024 * 1024,
            seed: None,
            clock: Clock::tokio(),
        }
    }
}

impl ConnectOptions {
    /// How long the server may hear nothing before it expires the session. Servers keep it within bounds of their own;
    /// [`Client::session_timeout`] tells what came of it. An idle connection costs a ping every third of it. What is
    /// asked for is at least 1 ms and at most what the wire has room for, 2,147,483,647 ms or almost 25 days.
    ///
    /// Default: 10 s.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// How long [`connect`](ConnectOptions::connect) seeks a server before it fails. Once there is a session, a lost
    /// connection is sought again without end.
    ///
    /// Default: 30 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long each call may take that does not set its own [`timeout`](crate::Call::timeout).
    ///
    /// Default: without a limit of its own. It ends nevertheless: without a connection it waits no longer than the
    /// session timeout, and a connection that is silent for two thirds of that, or leaves a reply out before another, is given
    /// up. A server that answered pings and nothing else would keep it waiting.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout);
        self
    }

    /// The znode that this client calls `/`. It must exist before anything else is created below it. Replaces one in
    /// the connect string.
    ///
    /// Default: none.
    pub fn chroot(mut self, path: impl Into<String>) -> Self {
        self.chroot = Some(path.into());
        self
    }

    /// Adds an identity, such as `digest` with `user:password` (to whom [`Acl::digest`](crate::Acl::digest) gives rights),
    /// before the first request and on every connection.
    /// If a server refuses it, the session ends as [`AuthFailed`](crate::SessionState::AuthFailed).
    ///
    /// Default: none but the address of the client.
    pub fn auth(mut self, scheme: impl Into<String>, credentials: impl Into<Bytes>) -> Self {
        self.auths.push(AuthPacket { kind: 0, scheme: Some(scheme.into()), auth: Some(credentials.into()) });
        self
    }

    /// Whether a server that is cut off from its ensemble will do. It answers reads only, and perhaps stale ones. Meanwhile
    /// the client asks the other hosts in turn, after 100 ms and then after pauses that double up to a minute, and goes over to
    /// the first that grants the session, as behind a lost connection.
    ///
    /// A server of 3.9 that is cut off opens sessions only with `localSessionsEnabled=true`, and takes up no others than those
    /// (`ReadOnlyZooKeeperServer.validateSession`). So a session is another one there, with another id, than at servers
    /// that take writes; and one of theirs stays without a connection until it finds one of them again.
    ///
    /// Default: no.
    pub fn read_only(mut self, allowed: bool) -> Self {
        self.read_only = allowed;
        self
    }

    /// The longest request that is sent, in bytes. Set it as the servers' `jute.maxbuffer`, which they close a
    /// connection for.
    ///
    /// Default: 1,048,575.
    pub fn max_request(mut self, bytes: usize) -> Self {
        self.max_request = bytes;
        self
    }

    /// The longest reply that is read, in bytes. Memory is taken as a reply arrives, not as it is announced.
    ///
    /// Default: 64 MiB, enough for a listing of a million children.
    pub fn max_reply(mut self, bytes: usize) -> Self {
        self.max_reply = bytes;
        self
    }

    /// Seeds all random choices, so that a test repeats: the order of hosts, the jitter of back-off, and the names of locks.
    /// With the same calls, replies and times, a client with the same seed sends the same bytes.
    ///
    /// Default: from the system.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The clock that every timer runs on: pings, pauses, the timeouts of connections and requests, and those of the
    /// locks of this client. On one that stands still nothing ever times out, nor is a ping sent, until it is moved.
    ///
    /// Default: [`Clock::tokio`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Opens a session and waits until it stands.
    ///
    /// The task that drives it runs on the current tokio runtime until the session ends.
    ///
    /// # Errors
    /// `InvalidTarget`, `RequestTooLarge` where an identity is, `Unreachable` when the time is up, `AuthFailed`; `Closed` if
    /// the target is a closure and panics.
    /// # Ordering and cancel safety
    /// Dropping the future closes what has come of it. The identities of [`auth`](ConnectOptions::auth) have been sent,
    /// but perhaps not been answered, when this returns.
    pub fn connect(self, target: impl IntoTransport) -> Connecting {
        let transport = target.into_transport();
        Connecting(Box::pin(async move { self.open(transport?).await }))
    }

    async fn open(self, mut transport: Transport) -> Result<Client, Error> {
        let chroot = self.chroot.as_deref().unwrap_or(&transport.chroot);
        let chroot = Chroot::new(chroot)
            .map_err(|reason| Error::InvalidTarget(format!("chroot {chroot:?}: {reason}")))?;
        for auth in &self.auths {
            let mut frame = BytesMut::new();
            Request::Auth(auth.clone()).encode_frame(Xid::AUTH, &mut frame);
            let (size, max) = (frame.len() - PREFIX, self.max_request);
            if size > max {
                return Err(Error::RequestTooLarge {
                    context: ErrorContext::local("addAuth", ""),
                    size,
                    max,
                });
            }
        }
        let mut rng = self.seed.map_or_else(|| StdRng::from_rng(&mut rand::rng()), StdRng::seed_from_u64);
        transport.shuffle(&mut rng);
        let session_timeout = self.session_timeout.clamp(SHORTEST_SESSION, LONGEST_SESSION);
        let settings = Settings {
            session_timeout,
            connect_timeout: self.connect_timeout,
            read_only: self.read_only,
            max_request: self.max_request,
            max_reply: self.max_reply,
            auths: self.auths,
            hosts: transport.hosts(),
            seed: rng.random(),
        };
        let clock = self.clock;
        let shared =
            Shared::new(chroot, self.request_timeout, session_timeout, clock.clone(), transport.hosts(), rng);
        let shared = Arc::new(shared);
        let (sender, receiver) = mpsc::unbounded_channel();
        let session = Session::new(settings, Arc::clone(&shared), sender.downgrade(), clock.now());
        let span = tracing::debug_span!("session", id = tracing::field::Empty);
        let runtime = Handle::current();
        runtime.spawn(Driver::new(session, transport, receiver, clock.clone()).run().instrument(span));

        let client = Client::new(sender, Arc::clone(&shared), runtime);
        let settled = shared.wait_for(|state| state != SessionState::Connecting);
        match clock.timeout(self.connect_timeout, settled).await {
            Ok(state) if state.is_final() => Err(state.error(ErrorContext::local("connect", ""))),
            Ok(_) => Ok(client),
            Err(_) => Err(Error::Unreachable(shared.last_failure())),
        }
    }
}

/// A session on its way, from [`ConnectOptions::connect`]: a future that borrows nothing.
#[must_use = "nothing is opened before this is polled"]
pub struct Connecting(Pin<Box<dyn Future<Output = Result<Client, Error>> + Send>>);

impl Future for Connecting {
    type Output = Result<Client, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connecting")
    }
}

// Credentials stay out of logs; `AuthPacket` sees to that.
impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("session_timeout", &self.session_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .field("chroot", &self.chroot)
            .field("auths", &self.auths)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
