//! The settings of a test server.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use zoolet_client::Clock;
use zoolet_fixture::fault::{Action, FaultError, Matcher, SimulatedDisk};
use zoolet_fixture::{DiskExt, EnsembleExt, FixtureError, FixtureExt};
use zoolet_server::{ServerBuilder, StartError};

use super::connections::Connections;
use super::listing::{self, ListedZnode, ListingError};
use super::test_server::report_of;
use super::{History, TestServer};

/// How long nothing may happen, by default, while something waits for a manual clock.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Configures and starts a [`TestServer`].
///
/// ```
/// use zoolet::testing::{OpCode, TestServer, op};
/// use zoolet::testing::Action;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let zk = TestServer::builder()
///     .seed(7)
///     .znode("/config", "v1")
///     .fault(op(OpCode::SetData).nth(1), Action::LoseReply)
///     .start()
///     .await?;
/// let client = zk.client().await;
/// assert!(client.set_data("/config", "v2").await.unwrap_err().may_have_applied());
/// assert_eq!(zk.get("/config").expect("the znode").text(), "v2");
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing before `start`"]
pub struct TestServerBuilder {
    server: ServerBuilder,
    clock: Option<Clock>,
    seed: Option<u64>,
    tcp: bool,
    endpoints: Option<usize>,
    history: bool,
    faults: Vec<(Matcher, Action)>,
    tree: Vec<ZnodeSource>,
    stall_timeout: Option<Duration>,
    disk: Option<SimulatedDisk>,
}

impl Default for TestServerBuilder {
    fn default() -> Self {
        Self {
            server: ServerBuilder::default(),
            clock: None,
            seed: None,
            tcp: false,
            endpoints: None,
            history: false,
            faults: Vec::new(),
            tree: Vec::new(),
            stall_timeout: Some(STALL_TIMEOUT),
            disk: None,
        }
    }
}

enum ZnodeSource {
    Text(String),
    File(PathBuf),
    Znode(String, Bytes),
}

/// Why a test server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestServerError {
    /// The server did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A fault is invalid.
    #[error("fault: {0}")]
    Fault(#[from] FaultError),
    /// The initial tree was refused.
    #[error("initial tree: {0}")]
    Tree(#[from] FixtureError),
    /// The initial tree cannot be parsed.
    #[error("initial tree: {0}")]
    Listing(#[from] ListingError),
    /// The file of the initial tree cannot be read.
    #[error("initial tree {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// `ZOOLET_SEED` is not a valid seed.
    #[error("ZOOLET_SEED = {0:?}: must be a whole number from 0 to 2^64 - 1")]
    Seed(String),
}

impl TestServerBuilder {
    /// The clock of the server and its clients. Default: a manual clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The seed of all random choices: names, back-off, faults with a probability. Default: that of the environment variable
    /// `ZOOLET_SEED`, or else a random one.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Listens on a free TCP port, and connects the clients of the test to it. Clients in other processes use
    /// [`TestServer::connect_string`]. Default: no socket.
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Simulates an ensemble with this number of endpoints: [`TestServer::client_at`] connects to them, and
    /// [`endpoint`](zoolet_fixture::Fixture::endpoint) makes one lag, go read-only or stop. Default, and for less than two: a
    /// standalone server.
    pub fn endpoints(mut self, endpoints: usize) -> Self {
        self.endpoints = Some(endpoints);
        self
    }

    /// The settings of the server. [`clock`](TestServerBuilder::clock) and [`endpoints`](TestServerBuilder::endpoints) take
    /// precedence over them.
    pub fn server(mut self, settings: ServerBuilder) -> Self {
        self.server = settings;
        self
    }

    /// Keeps the state in a data directory on a simulated disk, which [`Fixture::power_loss`](zoolet_fixture::Fixture::power_loss) and
    /// [`Fixture::kill`](zoolet_fixture::Fixture::kill) need, and [`Faults::disk`](zoolet_fixture::fault::Faults::disk).
    pub fn durable(self) -> Self {
        let disk = SimulatedDisk::new(0);
        self.disk(&disk)
    }

    /// Like [`durable`](TestServerBuilder::durable), on this disk: one on which another server was before, or with faults.
    pub fn disk(mut self, disk: &SimulatedDisk) -> Self {
        self.disk = Some(disk.clone());
        self
    }

    /// Records requests, replies and events of the clients, for [`TestServer::history`].
    pub fn record_history(mut self) -> Self {
        self.history = true;
        self
    }

    /// Places a fault before the first client connects, but after the initial tree.
    pub fn fault(mut self, matcher: Matcher, action: Action) -> Self {
        self.faults.push((matcher, action));
        self
    }

    /// Adds a znode to the initial tree, with any missing parents.
    pub fn znode(mut self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        self.tree.push(ZnodeSource::Znode(path.into(), data.into()));
        self
    }

    /// Adds znodes to the initial tree, one per line: a path and optional data, as text in double quotes or as `x'00ff'`. A
    /// path with blanks is in double quotes too. Versions, as a listing of [`tree`](zoolet_fixture::Fixture::tree) shows them,
    /// are ignored, and so are empty lines and lines that begin with `#`.
    ///
    /// ```
    /// # use zoolet::testing::TestServer;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let zk = TestServer::builder()
    ///     .tree(
    ///         r#"
    ///         /brokers/ids
    ///         /config/topics/orders "{\"partitions\": 3}"
    ///         "#,
    ///     )
    ///     .start()
    ///     .await?;
    /// assert_eq!(zk.children("/config/topics"), ["orders"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tree(mut self, listing: impl Into<String>) -> Self {
        self.tree.push(ZnodeSource::Text(listing.into()));
        self
    }

    /// Adds znodes to the initial tree from a file in the format of [`tree`](TestServerBuilder::tree).
    pub fn tree_file(mut self, path: impl AsRef<Path>) -> Self {
        self.tree.push(ZnodeSource::File(path.as_ref().to_owned()));
        self
    }

    /// How long nothing may happen, in real time, while something waits for the manual clock. After that the test fails with
    /// a report that names what waits: the waits for the clock panic, the server stops, the sessions of its clients end, and
    /// the drop of the [`TestServer`] panics. `None` lets a test wait for ever, for example for another process.
    ///
    /// No effect on other clocks. Default: 10 s.
    pub fn stall_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.stall_timeout = timeout.into();
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    /// A setting, a fault, the initial tree or `ZOOLET_SEED` is invalid.
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
    pub async fn start(self) -> Result<TestServer, TestServerError> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => seed_from_environment()?,
        };
        let znodes = self.tree.into_iter().map(ZnodeSource::read).collect::<Result<Vec<_>, _>>()?;
        let mut settings = self.server.clock(self.clock.unwrap_or_else(Clock::manual));
        if let Some(disk) = &self.disk {
            settings = settings.simulated_disk(disk);
        }
        if let Some(endpoints) = self.endpoints {
            settings = settings.simulated_ensemble(endpoints);
        }
        let endpoints = settings.endpoints();
        if self.tcp {
            settings = (0..endpoints).fold(settings, |settings, _| settings.bind("127.0.0.1:0"));
        }
        let server = settings.start().await?;
        let fixture = server.fixture();
        for ListedZnode { path, data } in znodes.into_iter().flatten() {
            fixture.set(&path, data).await?;
        }
        fixture.faults().seed(seed);
        for (matcher, action) in self.faults {
            fixture.faults().place(matcher, action)?;
        }
        let history = self.history.then(|| History::starting_at(server.initial_zxid()));
        let stall = self.stall_timeout.and_then(|timeout| {
            let stalled = fixture.clone();
            fixture.fail_stalls(timeout, move || report_of(&stalled, seed))
        });
        Ok(TestServer {
            server,
            fixture,
            stall,
            connections: Arc::new(Connections::default()),
            seed,
            clients: AtomicU64::new(0),
            history,
            endpoints,
            advance_loop: Mutex::default(),
        })
    }
}

impl ZnodeSource {
    fn read(self) -> Result<Vec<ListedZnode>, TestServerError> {
        match self {
            Self::Znode(path, data) => Ok(vec![ListedZnode { path, data }]),
            Self::Text(text) => Ok(listing::parse(&text)?),
            Self::File(path) => match std::fs::read_to_string(&path) {
                Ok(text) => Ok(listing::parse(&text)?),
                Err(source) => Err(TestServerError::File { path, source }),
            },
        }
    }
}

fn seed_from_environment() -> Result<u64, TestServerError> {
    match std::env::var("ZOOLET_SEED") {
        Ok(seed) => seed.trim().parse().map_err(|_| TestServerError::Seed(seed)),
        Err(_) => Ok(rand::rng().random()),
    }
}
