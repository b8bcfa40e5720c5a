//! The connections of a test server's clients: what is on its way on each.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use zoolet_server::{ConnId, Fixture, Server};

use super::{History, Tap, TapCounts};

/// A stream of any kind.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection of a test server's client on its way.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Every connection that is not over.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Mutex<Vec<Line>>,
    /// Attempts that have not come to anything yet.
    dialing: AtomicUsize,
}

/// An attempt, for as long as it lives.
struct Attempt(Arc<Lines>);

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.dialing.fetch_sub(1, Relaxed);
    }
}

#[derive(Debug)]
struct Line {
    end: End,
    counts: Arc<TapCounts>,
}

/// How the server knows a connection.
#[derive(Debug, Clone, Copy)]
enum End {
    InProcess(ConnId),
    Tcp(SocketAddr),
}

impl Lines {
    fn add(&self, end: End, counts: Arc<TapCounts>) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(Line { end, counts });
    }

    fn attempt(self: &Arc<Self>) -> Attempt {
        self.dialing.fetch_add(1, Relaxed);
        Attempt(Arc::clone(self))
    }

    /// What is on its way, if anything is.
    pub(super) fn under_way(&self, fixture: &Fixture) -> Option<String> {
        if self.dialing.load(Relaxed) > 0 {
            return Some("a client is connecting".to_owned());
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|line| !line.is_over(fixture));
        lines.iter().find_map(|line| line.under_way(fixture))
    }
}

impl Line {
    fn conn(&self, fixture: &Fixture) -> Option<ConnId> {
        match self.end {
            End::InProcess(conn) => Some(conn),
            End::Tcp(addr) => fixture.conn_from(addr),
        }
    }

    /// Whether both sides know that it has ended.
    fn is_over(&self, fixture: &Fixture) -> bool {
        self.counts.is_over() && self.conn(fixture).is_none_or(|conn| !fixture.is_open(conn))
    }

    fn under_way(&self, fixture: &Fixture) -> Option<String> {
        let conn = self.conn(fixture);
        let traffic = conn.and_then(|conn| fixture.traffic(conn));
        let name = conn.map_or_else(|| "a new connection".to_owned(), |conn| format!("connection {conn}"));
        match traffic {
            _ if conn.is_some_and(|conn| fixture.holds_up(conn)) => None,
            _ if self.counts.is_over() => Some(format!("the server has not noticed the end of {name}")),
            Some(traffic) if traffic.taken != self.counts.written() => {
                Some(format!("what the client wrote to {name} is not read"))
            }
            Some(traffic) if traffic.written != self.counts.read() => {
                Some(format!("what the server wrote to {name} is not read"))
            }
            Some(_) if conn.is_some_and(|conn| fixture.is_open(conn)) => None,
            _ => Some(format!("the client has not noticed the end of {name}")),
        }
    }
}

/// What opens connections that `lines` knows of: the first at the endpoint with number `first`, each later one at the next.
pub(super) fn connector(
    server: &Server,
    first: usize,
    endpoints: usize,
    lines: Arc<Lines>,
    history: Option<History>,
) -> impl Fn() -> Dialing + Clone + Send + Sync + 'static + use<> {
    let addrs = server.addrs().to_vec();
    let in_process: Vec<_> = (0..endpoints).map(|endpoint| server.in_process_at(endpoint)).collect();
    let dialled = Arc::new(AtomicUsize::new(first));
    move || {
        let at = dialled.fetch_add(1, Relaxed) % endpoints;
        let (attempt, history) = (lines.attempt(), history.clone());
        let (addr, in_process) = (addrs.get(at).copied(), in_process[at].clone());
        Box::pin(async move {
            let lines = &attempt.0;
            Ok(match addr {
                Some(addr) => {
                    let stream = TcpStream::connect(addr).await?;
                    stream.set_nodelay(true)?;
                    tapped(End::Tcp(stream.local_addr()?), stream, lines, history)
                }
                None => {
                    let stream = in_process().await?;
                    tapped(End::InProcess(stream.conn()), stream, lines, history)
                }
            })
        })
    }
}

fn tapped(
    end: End,
    stream: impl Stream + 'static,
    lines: &Lines,
    history: Option<History>,
) -> Box<dyn Stream> {
    let mut tap = Tap::new(stream);
    if let Some(history) = history {
        tap = tap.recording(&history);
    }
    lines.add(end, tap.counts());
    Box::new(tap)
}
