//! [`TestServer`]: a server and its clients in the hands of a test.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use zoolet_client::{Client, ConnectOptions, SessionId};
use zoolet_server::fixture::FixtureError;
use zoolet_server::{Fixture, Server};

use super::History;
use super::builder::TestServerBuilder;
use super::lines::{Lines, connector};

/// How long is waited, by the manual clock, for what does not happen.
const HOUR: Duration = Duration::from_secs(3600);

/// A server of a test's own with clients that are of one mind with it: one clock, one seed, and nothing on its way that
/// is not known of.
///
/// Everything a [`Fixture`] shows and does is there too: `zk.tree()`, `zk.faults()`, `zk.watches()`, `zk.wait_for(..)`. Those
/// that a test server has under the same name do what the fixture does and then wait until everybody has acted on it: the
/// events are in their channels, clients that lost their connection are back. Who loses the next one before anything was
/// answered on it pauses first, for which time must pass: `zk.pass_time_until(client.ended())`, say.
///
/// ```
/// use std::time::Duration;
/// use zoolet::testing::{TestServer, OpCode, op};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let zk = TestServer::start().await;
/// let (a, b) = (zk.client().await, zk.client().await);
///
/// a.create("/leader", "a").ephemeral().await?;
/// let (_, gone) = b.exists("/leader").watch().await?;
/// zk.expire_session(a.session_id()).await?;           // by the server, as if its time were over
/// println!("{:?}", gone.changed().await?.kind);       // NodeDeleted
///
/// zk.faults().on(op(OpCode::SetData).nth(1)).lose_reply()?;
/// zk.set("/config", "v1").await?;
/// assert!(b.set_data("/config", "v2").await.unwrap_err().may_have_applied());
/// assert_eq!(zk.get("/config").expect("set").text(), "v2");
///
/// zk.advance(Duration::from_secs(3600)).await?;       // an hour of pings, in a few milliseconds
/// assert_eq!(zk.sessions().len(), 2);                 // b and the one of direct writes
/// # Ok(())
/// # }
/// ```
///
/// A keeper that is dropped while its test panics prints a report of the server's state and of what passed on each
/// connection, with the seed; when the test passes it prints nothing. A test that fails by `?` does not panic: see
/// [`TestServer::run`].
///
/// On a manual clock nothing that needs time happens by itself. Whoever waits for a reply that a fault delays or withholds, for
/// a connection that is frozen or turned away, for an endpoint that lags or a server that is paused waits until the test
/// moves the clock, heals or resumes; [`pass_time_until`](TestServer::pass_time_until) does the first.
#[must_use = "a test server stops its server when it is dropped"]
pub struct TestServer {
    pub(super) server: Server,
    pub(super) fixture: Fixture,
    pub(super) lines: Arc<Lines>,
    pub(super) seed: u64,
    pub(super) clients: AtomicU64,
    pub(super) history: Option<History>,
    pub(super) endpoints: usize,
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer")
            .field("server", &self.server)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl TestServer {
    /// A server in memory without a socket, on a manual clock, with a seed of its own. To repeat a run that failed set
    /// `ZOOLET_SEED` to the seed that was printed.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or if `ZOOLET_SEED` is no number.
    pub async fn start() -> Self {
        match Self::builder().start().await {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    /// A keeper with another clock, port, tree or server.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::default()
    }

    /// A client with a session of its own, by TCP if the test server has a port.
    ///
    /// # Panics
    /// If it gets no session. Where that is the point, use [`connect`](TestServer::connect).
    pub async fn client(&self) -> Client {
        match self.connect(self.options()).await {
            Ok(client) => client,
            Err(error) => panic!("no session for a client of the test: {error}"),
        }
    }

    /// A client whose first connection is at one endpoint of a simulated ensemble, counted from 0; each later one is at the
    /// next. That of [`client`](TestServer::client) is at endpoint 0.
    ///
    /// # Panics
    /// As [`client`](TestServer::client), and if there is no such endpoint.
    pub async fn client_at(&self, endpoint: usize) -> Client {
        match self.connect_at(endpoint, self.options()).await {
            Ok(client) => client,
            Err(error) => panic!("no session for a client at endpoint {endpoint}: {error}"),
        }
    }

    /// What [`client`](TestServer::client) is made of, to be changed for [`connect`](TestServer::connect): the server's clock, and
    /// a seed that is drawn for each call.
    pub fn options(&self) -> ConnectOptions {
        let nth = self.clients.fetch_add(1, Relaxed) + 1;
        // Not the sum: the second client would be the first of the next seed.
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&nth.to_le_bytes());
        key[16..22].copy_from_slice(b"client");
        Client::options().clock(self.clock().clone()).seed(StdRng::from_seed(key).random())
    }

    /// A client with these options. A manual clock moves only if it is turned away, until it is let in or gives up.
    ///
    /// # Errors
    /// As [`ConnectOptions::connect`].
    ///
    /// # Panics
    /// If the server does not come to rest.
    pub async fn connect(&self, options: ConnectOptions) -> Result<Client, zoolet_client::Error> {
        self.in_time(options.connect(self.connector())).await
    }

    /// As [`connect`](TestServer::connect), with the first connection at one endpoint of a simulated ensemble, counted from 0.
    ///
    /// # Errors
    /// As [`ConnectOptions::connect`].
    ///
    /// # Panics
    /// If the server does not come to rest, and if there is no such endpoint.
    pub async fn connect_at(
        &self,
        endpoint: usize,
        options: ConnectOptions,
    ) -> Result<Client, zoolet_client::Error> {
        if endpoint >= self.endpoints {
            let endpoints = self.fixture.endpoints();
            panic!("{}", FixtureError::NoEndpoint { number: endpoint, endpoints });
        }
        self.in_time(options.connect(self.connector_at(endpoint))).await
    }

    async fn in_time<F: Future>(&self, future: F) -> F::Output {
        if !self.clock().is_manual() {
            return future.await;
        }
        match self.pass_time_until(future).await {
            Ok(output) => output,
            Err(error) => panic!("{error}"),
        }
    }

    /// A connector for clients whose connections the test server is to know of: it waits for what they have sent and for
    /// what they have not read. A client that leaves bytes unread keeps it waiting; such a one connects by
    /// [`server`](TestServer::server).
    pub fn connector(&self) -> impl Fn() -> super::lines::Dialing + Clone + Send + Sync + 'static + use<> {
        self.connector_at(0)
    }

    /// Like [`connector`](TestServer::connector), beginning with one endpoint of a simulated ensemble.
    pub fn connector_at(
        &self,
        endpoint: usize,
    ) -> impl Fn() -> super::lines::Dialing + Clone + Send + Sync + 'static + use<> {
        connector(&self.server, endpoint, self.endpoints, Arc::clone(&self.lines), self.history.clone())
    }

    /// Runs a test that ends by `?`: if it fails the report is printed, as it is when a test panics.
    ///
    /// ```
    /// # use zoolet::testing::TestServer;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), zoolet::Error> {
    /// TestServer::start()
    ///     .await
    ///     .run(async |zk| {
    ///         let client = zk.client().await;
    ///         client.create("/a", "").await?;
    ///         Ok(())
    ///     })
    ///     .await
    /// # }
    /// ```
    ///
    /// # Errors
    /// That of the test.
    pub async fn run<T, E>(self, test: impl AsyncFnOnce(&Self) -> Result<T, E>) -> Result<T, E> {
        let outcome = test(&self).await;
        if outcome.is_err() {
            self.print_report();
        }
        outcome
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where clients in other processes find it: empty unless the test server has a port.
    pub fn connect_string(&self) -> String {
        self.server.connect_string()
    }

    /// The seed of its clients.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What its clients asked and were told, if the test server was built to record that.
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// Moves the manual clock by `duration`, in steps: at each time that somebody waits for it stops until everybody has
    /// acted. So pings are sent and answered in time, and what expires does so in its order.
    ///
    /// # Errors
    /// `Clock` if the clock is not manual, `TooFar` past the end of all clocks, `NeverIdle`.
    pub async fn advance(&self, duration: Duration) -> Result<(), FixtureError> {
        let end = self.clock().now().checked_add(duration).ok_or(FixtureError::TooFar(duration))?;
        self.wait_until_idle().await?;
        loop {
            let left = end.saturating_duration_since(self.clock().now());
            if self.clock().advance_to_next_timeout(left)?.is_none() {
                self.clock().advance(left)?;
                self.wait_until_idle().await?;
                return if self.clock().now() < end { Err(FixtureError::TooFar(duration)) } else { Ok(()) };
            }
            self.wait_until_idle().await?;
        }
    }

    /// Moves the manual clock to the next time that anybody waits for, and tells how far that was; `None` if nobody
    /// waits.
    ///
    /// # Errors
    /// As [`advance`](TestServer::advance).
    pub async fn advance_to_next_timeout(&self) -> Result<Option<Duration>, FixtureError> {
        self.wait_until_idle().await?;
        let moved = self.clock().advance_to_next_timeout(Duration::MAX)?;
        self.wait_until_idle().await?;
        Ok(moved)
    }

    /// Waits for `future` and passes time while it waits: whenever nothing else is left to do, the manual clock moves to the
    /// next time that anybody waits for. For what needs time and is not done in none, such as a lock that is taken while
    /// connections are lost again and again.
    ///
    /// # Errors
    /// `Clock` if the clock is not manual; `NeverHappens` if nobody waits for any time, or after an hour of it, as the future
    /// then waits for something that does not come.
    pub async fn pass_time_until<F: IntoFuture>(&self, future: F) -> Result<F::Output, FixtureError> {
        let mut future = pin!(future.into_future());
        let began = self.clock().now();
        loop {
            let idle = self.wait_until_idle();
            // First whether the future is ready, then whether it could ever be without time.
            let idle = tokio::select! {
                biased;
                output = &mut future => return Ok(output),
                idle = idle => idle,
            };
            idle?;
            let moved = self.clock().advance_to_next_timeout(HOUR)?;
            if moved.is_none() || self.clock().now() - began > HOUR {
                return Err(FixtureError::NeverHappens { after: self.clock().now() - began });
            }
        }
    }

    /// Waits until nothing is left to do before the clock moves: the server is idle, no bytes are on their way between it
    /// and the server's clients, and all tasks have had their turn. Exact in a current-thread runtime, which is what
    /// `#[tokio::test]` gives; in others, a task that does not run for a millisecond passes for one that has nothing to do.
    ///
    /// # Errors
    /// `NeverIdle` after 10 s of real time.
    pub async fn wait_until_idle(&self) -> Result<(), FixtureError> {
        self.fixture.wait_until_idle_and(|| self.lines.under_way(&self.fixture)).await
    }

    /// As [`Fixture::set`].
    pub async fn set(&self, path: &str, data: impl Into<Bytes>) -> Result<(), FixtureError> {
        self.fixture.set(path, data).await?;
        self.wait_until_idle().await
    }

    /// As [`Fixture::delete`].
    pub async fn delete(&self, path: &str) -> Result<(), FixtureError> {
        self.fixture.delete(path).await?;
        self.wait_until_idle().await
    }

    /// As [`Fixture::expire_session`].
    pub async fn expire_session(&self, id: SessionId) -> Result<(), FixtureError> {
        self.fixture.expire_session(id).await?;
        self.wait_until_idle().await
    }

    /// As [`Fixture::disconnect`].
    pub async fn disconnect(&self, id: SessionId) -> Result<(), FixtureError> {
        self.fixture.disconnect(id).await?;
        self.wait_until_idle().await
    }

    /// As [`Fixture::heal`].
    pub async fn heal(&self, id: SessionId) -> Result<(), FixtureError> {
        self.fixture.heal(id).await?;
        self.wait_until_idle().await
    }

    /// As [`Fixture::resume`].
    pub async fn resume(&self) -> Result<(), FixtureError> {
        self.fixture.resume().await?;
        self.wait_until_idle().await
    }

    /// As [`Fixture::restart`].
    pub async fn restart(&self) -> Result<(), FixtureError> {
        self.fixture.restart().await?;
        self.wait_until_idle().await
    }
}

impl Deref for TestServer {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_report();
        }
    }
}

impl TestServer {
    #[allow(clippy::print_stderr, reason = "it is for whoever reads why the test failed")]
    fn print_report(&self) {
        let seed = self.seed;
        eprintln!("--- the server when the test failed; ZOOLET_SEED={seed} repeats the run");
        eprintln!("{}--- end of the server's report", self.fixture.report());
    }
}
