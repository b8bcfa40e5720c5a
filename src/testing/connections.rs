//! The connections of a test server's clients, and whether bytes are in flight on them.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use zoolet_client::{IntoTransport, Transport};
use zoolet_fixture::Fixture;
use zoolet_server::{ConnId, InProcess};

use super::{History, Tap, TapCounts};

/// A byte stream of any kind.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// Connects clients to a [`TestServer`](super::TestServer), which waits for the bytes in flight on their connections. The
/// first connection goes to the given endpoint, each later one to the next. Clones share this order.
#[derive(Clone)]
pub struct TestConnector {
    pub(super) addrs: Vec<SocketAddr>,
    pub(super) in_process: Vec<InProcess>,
    pub(super) next: Arc<AtomicUsize>,
    pub(super) connections: Arc<Connections>,
    pub(super) history: Option<History>,
}

impl TestConnector {
    /// Opens a connection and returns the client's end.
    pub fn connect(&self) -> impl Future<Output = io::Result<Box<dyn ByteStream>>> + Send + use<> {
        let endpoint = self.next.fetch_add(1, Relaxed) % self.in_process.len();
        let (addr, in_process) = (self.addrs.get(endpoint).copied(), self.in_process[endpoint].clone());
        let (attempt, history) = (self.connections.attempt(), self.history.clone());
        async move {
            let connections = &attempt.0;
            Ok(match addr {
                Some(addr) => {
                    let stream = TcpStream::connect(addr).await?;
                    stream.set_nodelay(true)?;
                    tapped(Peer::Tcp(stream.local_addr()?), stream, connections, history)
                }
                None => {
                    let stream = in_process().await?;
                    tapped(Peer::InProcess(stream.conn()), stream, connections, history)
                }
            })
        }
    }
}

impl IntoTransport for TestConnector {
    fn into_transport(self) -> Result<Transport, zoolet_client::Error> {
        (move || self.connect()).into_transport()
    }
}

impl fmt::Debug for TestConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestConnector").field("addrs", &self.addrs).finish_non_exhaustive()
    }
}

/// All connections that are not closed at both ends.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<Vec<OpenConnection>>,
    /// Attempts to connect that are not finished.
    connecting: AtomicUsize,
}

/// Counts an attempt to connect until it is dropped.
struct Attempt(Arc<Connections>);

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.connecting.fetch_sub(1, Relaxed);
    }
}

#[derive(Debug)]
struct OpenConnection {
    peer: Peer,
    counts: Arc<TapCounts>,
}

/// How to find a connection at the server.
#[derive(Debug, Clone, Copy)]
enum Peer {
    InProcess(ConnId),
    Tcp(SocketAddr),
}

impl Connections {
    fn add(&self, peer: Peer, counts: Arc<TapCounts>) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(OpenConnection { peer, counts });
    }

    fn attempt(self: &Arc<Self>) -> Attempt {
        self.connecting.fetch_add(1, Relaxed);
        Attempt(Arc::clone(self))
    }

    /// Describes what is in flight, if anything is.
    pub(super) fn in_flight(&self, fixture: &Fixture) -> Option<String> {
        if self.connecting.load(Relaxed) > 0 {
            return Some("a client is connecting".to_owned());
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|connection| !connection.is_closed(fixture));
        open.iter().find_map(|connection| connection.in_flight(fixture))
    }
}

impl OpenConnection {
    fn conn(&self, fixture: &Fixture) -> Option<ConnId> {
        match self.peer {
            Peer::InProcess(conn) => Some(conn),
            Peer::Tcp(addr) => fixture.conn_from(addr),
        }
    }

    /// Whether both sides have seen its end.
    fn is_closed(&self, fixture: &Fixture) -> bool {
        self.counts.is_over() && self.conn(fixture).is_none_or(|conn| !fixture.is_open(conn))
    }

    fn in_flight(&self, fixture: &Fixture) -> Option<String> {
        let conn = self.conn(fixture);
        let traffic = conn.and_then(|conn| fixture.traffic(conn));
        let name = conn.map_or_else(|| "a new connection".to_owned(), |conn| format!("connection {conn}"));
        match traffic {
            _ if conn.is_some_and(|conn| fixture.holds_up(conn)) => None,
            _ if self.counts.is_over() => Some(format!("the server has not seen the end of {name}")),
            Some(traffic) if traffic.taken != self.counts.written() => {
                Some(format!("the server has not read all bytes of {name}"))
            }
            Some(traffic) if traffic.written != self.counts.read() => {
                Some(format!("the client has not read all bytes of {name}"))
            }
            Some(_) if conn.is_some_and(|conn| fixture.is_open(conn)) => None,
            _ => Some(format!("the client has not seen the end of {name}")),
        }
    }
}

fn tapped(
    peer: Peer,
    stream: impl ByteStream + 'static,
    connections: &Connections,
    history: Option<History>,
) -> Box<dyn ByteStream> {
    let mut tap = Tap::new(stream);
    if let Some(history) = history {
        tap = tap.recording(&history);
    }
    connections.add(peer, tap.counts());
    Box::new(tap)
}
