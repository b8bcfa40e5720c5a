//! [`TestServer`]: a server and its clients under the control of a test.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use zoolet_client::{Client, ConnectOptions, SessionId};
use zoolet_fixture::{Fixture, FixtureError, StallGuard};
use zoolet_server::Server;

use super::History;
use super::builder::TestServerBuilder;
use super::connections::{Connections, TestConnector};
use super::time::AdvanceLoop;

/// A server for one test, with clients that share its clock and its seed. It knows of every byte in flight between them.
///
/// It derefs to [`Fixture`]: `zk.tree()`, `zk.faults()`, `zk.watches()`, `zk.wait_for(..)`. The methods that both have do the
/// same, but those of the test server then wait until all clients have reacted: events are in their channels, and clients
/// that lost their connection have reconnected. A client that loses its next connection before the first reply backs off,
/// and that needs time to pass: for example by `zk.pass_time_until(client.ended())`.
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
/// zk.expire_session(a.session_id()).await?;           // as if it had timed out
/// println!("{:?}", gone.changed().await?.kind);       // NodeDeleted
///
/// zk.faults().on(op(OpCode::SetData).nth(1)).lose_reply()?;
/// zk.set("/config", "v1").await?;
/// assert!(b.set_data("/config", "v2").await.unwrap_err().may_have_applied());
/// assert_eq!(zk.get("/config").expect("the znode").text(), "v2");
///
/// zk.advance(Duration::from_secs(3600)).await?;       // an hour of pings, in a few milliseconds
/// assert_eq!(zk.sessions().len(), 2);                 // b and the test's own, for direct writes
/// # Ok(())
/// # }
/// ```
///
/// # When a test fails
///
/// If it is dropped during a panic, it prints a report: the server's state, the messages on each connection, and the seed. It
/// prints nothing for a test that passes. A test that fails by `?` does not panic: see [`TestServer::run`].
///
/// With the feature `admin` and `ZOOLET_INSPECT=1` in the environment it also opens the server's page, prints its address, and waits
/// for Enter: the server is as the failure has left it.
///
/// # Time
///
/// On a manual clock, anything that waits for time (timeouts, delayed replies, frozen connections, lagging endpoints,
/// reconnect back-off) blocks until the test advances the clock, unfreezes or resumes.
/// [`pass_time_until`](TestServer::pass_time_until) advances it as needed. A test that waits without that fails after ten
/// seconds in which nothing happened: see [`TestServerBuilder::stall_timeout`].
#[must_use = "the server stops when it is dropped"]
pub struct TestServer {
    pub(super) server: Server,
    pub(super) fixture: Fixture,
    pub(super) stall: Option<StallGuard>,
    pub(super) connections: Arc<Connections>,
    pub(super) seed: u64,
    pub(super) clients: AtomicU64,
    pub(super) history: Option<History>,
    pub(super) endpoints: usize,
    pub(super) advance_loop: Mutex<AdvanceLoop>,
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
    /// Starts a server without a socket, on a manual clock, with a random seed. To repeat a failed run, set `ZOOLET_SEED` to
    /// the printed seed.
    ///
    /// # Panics
    /// If called outside of a tokio runtime, or if `ZOOLET_SEED` is not a number.
    pub async fn start() -> Self {
        Self::builder().start().await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Configures the clock, a port, an initial tree, faults or the server.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::default()
    }

    /// Connects a client with a new session, by TCP if the test server has a port.
    ///
    /// # Panics
    /// If it gets no session. To test that, use [`connect`](TestServer::connect).
    pub async fn client(&self) -> Client {
        let connected = self.connect(self.options()).await;
        connected.unwrap_or_else(|error| panic!("no session for a client of the test: {error}"))
    }

    /// Connects a client to one endpoint of a simulated ensemble, counted from 0. Each later connection goes to the next
    /// endpoint. [`client`](TestServer::client) begins at endpoint 0.
    ///
    /// # Panics
    /// Like [`client`](TestServer::client), and if the endpoint does not exist.
    pub async fn client_at(&self, endpoint: usize) -> Client {
        let connected = self.connect_at(endpoint, self.options()).await;
        connected.unwrap_or_else(|error| panic!("no session for a client at endpoint {endpoint}: {error}"))
    }

    /// The options of [`client`](TestServer::client), to modify for [`connect`](TestServer::connect): the server's clock, and
    /// another seed for each call.
    pub fn options(&self) -> ConnectOptions {
        let nth = self.clients.fetch_add(1, Relaxed) + 1;
        // Not the sum: the second client of one seed would equal the first of the next.
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&nth.to_le_bytes());
        key[16..22].copy_from_slice(b"client");
        Client::options().clock(self.clock().clone()).seed(StdRng::from_seed(key).random())
    }

    /// Connects a client with these options. A manual clock advances only if the client is turned away, until it is admitted
    /// or gives up.
    ///
    /// # Errors
    /// Like [`ConnectOptions::connect`].
    ///
    /// # Panics
    /// If the server does not become idle.
    pub async fn connect(&self, options: ConnectOptions) -> Result<Client, zoolet_client::Error> {
        self.in_time(options.connect(self.connector())).await
    }

    /// Like [`connect`](TestServer::connect), beginning at one endpoint of a simulated ensemble, counted from 0.
    ///
    /// # Errors
    /// Like [`ConnectOptions::connect`].
    ///
    /// # Panics
    /// If the server does not become idle, or the endpoint does not exist.
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
        self.pass_time_until(future).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// A connector whose connections the test server tracks: [`wait_until_idle`](TestServer::wait_until_idle) waits until all
    /// bytes in flight are read. A client that leaves bytes unread blocks it; connect such a client by
    /// [`server`](TestServer::server).
    pub fn connector(&self) -> TestConnector {
        self.connector_at(0)
    }

    /// Like [`connector`](TestServer::connector), beginning at one endpoint of a simulated ensemble.
    pub fn connector_at(&self, endpoint: usize) -> TestConnector {
        TestConnector {
            addrs: self.server.addrs().to_vec(),
            in_process: (0..self.endpoints).map(|at| self.fixture.in_process_at(at)).collect(),
            next: Arc::new(AtomicUsize::new(endpoint)),
            connections: Arc::clone(&self.connections),
            history: self.history.clone(),
        }
    }

    /// Runs a test that uses `?`: if it returns an error, the report is printed, as after a panic.
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
    /// The error of the test.
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

    /// The connect string for clients in other processes: empty unless the test server has a port.
    pub fn connect_string(&self) -> String {
        self.server.connect_string()
    }

    /// The seed of its clients.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The history of its clients, if [`record_history`](TestServerBuilder::record_history) is set.
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// Waits until nothing happens before the clock moves: the server is idle, no bytes are in flight between it and the test
    /// server's clients, and every other task of the runtime that can run has had eight turns in which it sent nothing and began or
    /// ended no wait for the clock. In a runtime of several threads, a task that does not run for a millisecond counts as idle.
    ///
    /// What runs outside of tasks, by `spawn_blocking` or `tokio::fs`, is not seen unless
    /// [`begin_activity`](zoolet_client::Clock::begin_activity) of the clock reports it.
    ///
    /// # Errors
    /// `NeverIdle` after 10 s of real time.
    pub async fn wait_until_idle(&self) -> Result<(), FixtureError> {
        self.fixture.wait_until_idle_and(|| self.connections.in_flight(&self.fixture)).await
    }

    /// Like [`Fixture::set`].
    pub async fn set(&self, path: &str, data: impl Into<Bytes>) -> Result<(), FixtureError> {
        self.fixture.set(path, data).await?;
        self.wait_until_idle().await
    }

    /// Like [`Fixture::delete`].
    pub async fn delete(&self, path: &str) -> Result<(), FixtureError> {
        self.fixture.delete(path).await?;
        self.wait_until_idle().await
    }

    /// Like [`Fixture::expire_session`].
    pub async fn expire_session(&self, id: SessionId) -> Result<(), FixtureError> {
        self.fixture.expire_session(id).await?;
        self.wait_until_idle().await
    }

    /// Like [`Fixture::disconnect`].
    pub async fn disconnect(&self, id: SessionId) -> Result<(), FixtureError> {
        self.fixture.disconnect(id).await?;
        self.wait_until_idle().await
    }

    /// Like [`Fixture::unfreeze`].
    pub async fn unfreeze(&self, id: SessionId) -> Result<(), FixtureError> {
        self.fixture.unfreeze(id).await?;
        self.wait_until_idle().await
    }

    /// Like [`Fixture::heal`].
    pub async fn heal(&self) -> Result<(), FixtureError> {
        self.fixture.heal().await?;
        self.wait_until_idle().await
    }

    /// Like [`Fixture::resume`].
    pub async fn resume(&self) -> Result<(), FixtureError> {
        self.fixture.resume().await?;
        self.wait_until_idle().await
    }

    /// Like [`Fixture::kill`].
    pub async fn kill(&self) -> Result<(), FixtureError> {
        self.fixture.kill().await?;
        self.wait_until_idle().await
    }

    /// Like [`Fixture::power_loss`].
    pub async fn power_loss(&self) -> Result<(), FixtureError> {
        self.fixture.power_loss().await?;
        self.wait_until_idle().await
    }

    /// Like [`Fixture::restart`].
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
        let stalled = self.stall.as_ref().and_then(StallGuard::stalled);
        match (stalled, std::thread::panicking()) {
            (None, false) => {}
            (None, true) => self.print_report(),
            // The report was printed when the test stalled, and errors that followed may have been ignored.
            (Some(stalled), false) => panic!("{stalled}"),
            (Some(_), true) => {}
        }
    }
}

impl TestServer {
    #[allow(clippy::print_stderr, reason = "a report of a failed test")]
    fn print_report(&self) {
        eprint!("{}", report_of(&self.fixture, self.seed));
        #[cfg(feature = "admin")]
        self.wait_for_inspection();
    }
}

/// The report of a test that failed, for stderr.
pub(super) fn report_of(fixture: &Fixture, seed: u64) -> String {
    let report = fixture.report();
    format!(
        "--- the server when the test failed; ZOOLET_SEED={seed} repeats the run\n\
        {report}--- end of the server's report\n"
    )
}
