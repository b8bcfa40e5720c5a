//! How a test server is to be.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use rand::Rng;
use zoolet_client::Clock;
use zoolet_server::fault::{Action, FaultError, Matcher};
use zoolet_server::fixture::FixtureError;
use zoolet_server::{ServerBuilder, StartError};

use super::lines::Lines;
use super::listing::{self, Line, ListingError};
use super::{History, TestServer};

/// Settings of a [`TestServer`]; ends in [`start`](TestServerBuilder::start).
#[derive(Default)]
#[must_use = "a builder does nothing before `start`"]
pub struct TestServerBuilder {
    server: ServerBuilder,
    clock: Option<Clock>,
    seed: Option<u64>,
    tcp: bool,
    endpoints: Option<usize>,
    history: bool,
    faults: Vec<(Matcher, Action)>,
    tree: Vec<Source>,
}

enum Source {
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
    /// A fault cannot be placed.
    #[error("fault: {0}")]
    Fault(#[from] FaultError),
    /// The initial tree was refused.
    #[error("initial tree: {0}")]
    Tree(#[from] FixtureError),
    /// The initial tree cannot be understood.
    #[error("initial tree: {0}")]
    Listing(#[from] ListingError),
    /// The file of the initial tree cannot be read.
    #[error("initial tree {}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// `ZOOLET_SEED` is set to something that is no seed.
    #[error("ZOOLET_SEED = {0:?}: must be a whole number from 0 to 2^64 - 1")]
    Seed(String),
}

impl TestServerBuilder {
    /// The clock of the server and of the clients. Default: a manual one.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The seed of everything that is drawn: names, back-off, what faults of some probability meet. Default: that of the
    /// environment variable `ZOOLET_SEED`, or else one of the system.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Takes a free TCP port, and connects the server's clients by it; for clients in other processes see
    /// [`TestServer::connect_string`]. Default: no socket.
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// A simulated ensemble of so many endpoints: [`TestServer::client_at`] connects to them, and
    /// [`endpoint`](zoolet_server::Fixture::endpoint) lets one lag, go read-only or die. Default, and for
    /// less than two: a server of its own.
    pub fn endpoints(mut self, endpoints: usize) -> Self {
        self.endpoints = Some(endpoints);
        self
    }

    /// The settings of the server. Its clock is the server's, and [`endpoints`](TestServerBuilder::endpoints) comes before its own.
    pub fn server(mut self, settings: ServerBuilder) -> Self {
        self.server = settings;
        self
    }

    /// Records what the server's clients ask and are told, for [`TestServer::history`].
    pub fn record_history(mut self) -> Self {
        self.history = true;
        self
    }

    /// A fault that is placed before the first client comes, and behind the initial tree.
    pub fn fault(mut self, matcher: Matcher, action: Action) -> Self {
        self.faults.push((matcher, action));
        self
    }

    /// A znode that is there from the start, with what lacks above it.
    pub fn znode(mut self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        self.tree.push(Source::Znode(path.into(), data.into()));
        self
    }

    /// Znodes that are there from the start, one on a line: a path and its data, as text in quotes or as `x'00ff'`; the
    /// data may be left out. A path with blanks stands in double quotes too. What a listing of
    /// [`tree`](zoolet_server::Fixture::tree) says of versions is passed over. Empty lines and those that begin with
    /// `#` do not count.
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
        self.tree.push(Source::Text(listing.into()));
        self
    }

    /// Znodes that are there from the start, from a file as [`tree`](TestServerBuilder::tree) describes it.
    pub fn tree_file(mut self, path: impl AsRef<Path>) -> Self {
        self.tree.push(Source::File(path.as_ref().to_owned()));
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    /// What is wrong with a setting, a fault or the initial tree, or with `ZOOLET_SEED`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn start(self) -> Result<TestServer, TestServerError> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => seed_of_the_environment()?,
        };
        let znodes = self.tree.into_iter().map(Source::read).collect::<Result<Vec<_>, _>>()?;
        let mut settings = self.server.clock(self.clock.unwrap_or_else(Clock::manual));
        if let Some(endpoints) = self.endpoints {
            settings = settings.simulated_ensemble(endpoints);
        }
        let endpoints = settings.endpoints();
        if self.tcp {
            settings = (0..endpoints).fold(settings, |settings, _| settings.bind("127.0.0.1:0"));
        }
        let server = settings.start().await?;
        let fixture = server.fixture();
        for Line { path, data } in znodes.into_iter().flatten() {
            fixture.set(&path, data).await?;
        }
        fixture.faults().seed(seed);
        for (matcher, action) in self.faults {
            fixture.faults().place(matcher, action)?;
        }
        Ok(TestServer {
            server,
            fixture,
            lines: Arc::new(Lines::default()),
            seed,
            clients: AtomicU64::new(0),
            history: self.history.then(History::new),
            endpoints,
        })
    }
}

impl Source {
    fn read(self) -> Result<Vec<Line>, TestServerError> {
        match self {
            Self::Znode(path, data) => Ok(vec![Line { path, data }]),
            Self::Text(text) => Ok(listing::parse(&text)?),
            Self::File(path) => match std::fs::read_to_string(&path) {
                Ok(text) => Ok(listing::parse(&text)?),
                Err(source) => Err(TestServerError::File { path, source }),
            },
        }
    }
}

fn seed_of_the_environment() -> Result<u64, TestServerError> {
    match std::env::var("ZOOLET_SEED") {
        Ok(seed) => seed.trim().parse().map_err(|_| TestServerError::Seed(seed)),
        Err(_) => Ok(rand::rng().random()),
    }
}
