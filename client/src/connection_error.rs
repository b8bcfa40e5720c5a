//! Why a connection, or an attempt at one, failed.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Why a connection to a server was lost, or an attempt at one failed; cheap to clone.
///
/// ```no_run
/// # use zoolet_client::{Client, SessionState};
/// # async fn example(zk: Client) {
/// if let (SessionState::Disconnected, Some(error)) = (zk.state(), zk.last_connection_error()) {
///     eprintln!("{:?} is unreachable: {error}", error.host());
/// }
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionError(Arc<ConnectionFailure>);

#[derive(PartialEq, Eq)]
struct ConnectionFailure {
    host: Option<Arc<str>>,
    kind: io::ErrorKind,
    reason: String,
}

impl ConnectionError {
    pub(crate) fn new(host: Option<Arc<str>>, error: &io::Error) -> Self {
        Self(Arc::new(ConnectionFailure { host, kind: error.kind(), reason: error.to_string() }))
    }

    /// The host and port, as in the connect string; `None` if the target is a closure.
    pub fn host(&self) -> Option<&str> {
        self.0.host.as_deref()
    }

    /// The kind of the I/O error. A peer that does not speak ZooKeeper's protocol is `InvalidData`.
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind
    }

    /// The cause, without the host.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host() {
            Some(host) => write!(f, "{host}: {}", self.reason()),
            None => f.write_str(self.reason()),
        }
    }
}

// The same as `Display`, because an error that `main` returns is printed by `Debug`.
impl fmt::Debug for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ConnectionError {}
