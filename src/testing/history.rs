//! [`History`]: the messages between clients and a server, in real-time order.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};
use zoolet_client::{IntoTransport, Transport};
use zoolet_proto::records::WatchedEvent;
use zoolet_proto::{DecodeError, Incoming, Reply, ReplyHeader, SessionId, Zxid};
use zoolet_server_core::Txn;

use super::check::{CheckError, Checker, Verdict};
use super::tap::Tap;

/// A recording of requests, replies and watch events as clients saw them. Clones share the recording.
///
/// ```
/// use zoolet::testing::History;
/// use zoolet::{Client, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let history = History::starting_at(server.initial_zxid());
/// let zk = Client::connect(history.tap(server.in_process())).await?;
/// zk.create("/a", "1").await?;
/// let (_, _, watch) = zk.get_data("/a").watch().await?;
/// zk.set_data("/a", "2").await?;
/// watch.changed().await?;
/// zk.close().await?;
///
/// let verdict = history.check()?;        // the error names the broken rule and the operations
/// assert_eq!((verdict.writes, verdict.reads, verdict.events), (3, 1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct History {
    log: Arc<Mutex<Log>>,
    initial_zxid: Zxid,
}

#[derive(Default)]
struct Log {
    now: u64,
    connections: usize,
    entries: Vec<HistoryEntry>,
}

/// A connector that records its connections, from [`History::tap`].
#[derive(Debug, Clone)]
pub struct TapConnector<F> {
    connect: F,
    history: History,
}

impl<F, C, S> TapConnector<F>
where
    F: Fn() -> C,
    C: Future<Output = io::Result<S>>,
{
    /// Opens a connection and returns the client's end.
    pub fn connect(&self) -> impl Future<Output = io::Result<Tap<S>>> + use<F, C, S> {
        let (history, connecting) = (self.history.clone(), (self.connect)());
        async move { Ok(Tap::new(connecting.await?).recording(&history)) }
    }
}

impl<F, C, S> IntoTransport for TapConnector<F>
where
    F: Fn() -> C + Send + 'static,
    C: Future<Output = io::Result<S>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    fn into_transport(self) -> Result<Transport, zoolet_client::Error> {
        (move || self.connect()).into_transport()
    }
}

/// A connection, numbered by the history from 0 in the order of opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conn(pub usize);

/// One entry of a [`History`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// A logical time over all connections. An entry with a smaller number ended before this one began. Requests of one
    /// write and messages of one read share a number, in their order.
    pub at: u64,
    /// The connection.
    pub conn: Conn,
    /// The event.
    pub event: HistoryEvent,
}

/// An event on a client's end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryEvent {
    /// The connection was opened.
    Opened,
    /// The client sent the connect request.
    ConnectRequest {
        /// The session to resume; 0 for a new one.
        session: SessionId,
        /// The latest zxid that the client has seen.
        last_zxid_seen: Zxid,
    },
    /// The server granted a session, or refused it with 0.
    ConnectResponse {
        /// The session.
        session: SessionId,
    },
    /// A request was sent. It is in flight from the moment before its last byte is written.
    Request(Incoming),
    /// A reply arrived.
    Reply(ReplyHeader, Result<Reply, DecodeError>),
    /// A watch event arrived.
    Event(Zxid, WatchedEvent),
    /// The bytes were not a valid frame at this point of the protocol. Nothing later in that direction is recorded.
    Unreadable {
        /// The sender.
        from: Side,
        /// Why it is invalid.
        why: String,
    },
    /// The connection ended. Open requests get no reply.
    Ended,
}

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl History {
    /// An empty recording of a server whose zxids begin at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty recording of a server that begins empty at `zxid`: [`Server::initial_zxid`](crate::Server::initial_zxid).
    pub fn starting_at(zxid: Zxid) -> Self {
        Self { initial_zxid: zxid, ..Self::default() }
    }

    /// The zxid of the empty server.
    pub fn initial_zxid(&self) -> Zxid {
        self.initial_zxid
    }

    /// Wraps a connector so that every connection is recorded: for [`Client::connect`], or any client that accepts a
    /// stream.
    ///
    /// [`Client::connect`]: crate::Client::connect
    pub fn tap<F>(&self, connect: F) -> TapConnector<F> {
        TapConnector { connect, history: self.clone() }
    }

    /// Everything recorded so far, in order.
    pub fn entries(&self) -> Vec<HistoryEntry> {
        let mut entries = self.log().entries.clone();
        entries.sort_by_key(|entry| entry.at);
        entries
    }

    /// How many entries are recorded so far.
    pub fn len(&self) -> usize {
        self.log().entries.len()
    }

    /// Whether nothing is recorded so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks the recording so far, on its own. The same as [`Checker::check`] without settings.
    ///
    /// # Errors
    /// The first broken rule, or why the check is undecided: usually because a reply was lost. [`History::check_with`] can
    /// decide that.
    pub fn check(&self) -> Result<Verdict, CheckError> {
        Checker::new().initial_zxid(self.initial_zxid).check(&self.entries())
    }

    /// Checks the recording so far against the server's transactions, all of them from its start.
    ///
    /// # Errors
    /// The first broken rule, or why the check is undecided.
    pub fn check_with(&self, txns: &[Txn]) -> Result<Verdict, CheckError> {
        Checker::new().initial_zxid(self.initial_zxid).transactions(txns).check(&self.entries())
    }

    /// The next logical time.
    pub(super) fn now(&self) -> u64 {
        let mut log = self.log();
        log.now += 1;
        log.now
    }

    /// A new connection.
    pub(super) fn open(&self) -> Conn {
        let at = self.now();
        let mut log = self.log();
        let conn = Conn(log.connections);
        log.connections += 1;
        log.entries.push(HistoryEntry { at, conn, event: HistoryEvent::Opened });
        conn
    }

    /// Records an event that began at `at`.
    pub(super) fn record(&self, at: u64, conn: Conn, event: HistoryEvent) {
        self.log().entries.push(HistoryEntry { at, conn, event });
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // Every change of the log is one push, so a panic elsewhere leaves it consistent.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = self.log();
        f.debug_struct("History")
            .field("connections", &log.connections)
            .field("entries", &log.entries.len())
            .finish()
    }
}

/// A line per entry.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries().iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

impl fmt::Display for HistoryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, conn: Conn(conn), event } = self;
        write!(f, "{at:>6}  connection {conn}  {event}")
    }
}

impl fmt::Display for HistoryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened => f.write_str("opened"),
            Self::ConnectRequest { session: SessionId(0), .. } => f.write_str("> new session"),
            Self::ConnectRequest { session, last_zxid_seen } => {
                write!(f, "> resume session {session}, seen {last_zxid_seen}")
            }
            Self::ConnectResponse { session: SessionId(0) } => f.write_str("< session refused"),
            Self::ConnectResponse { session } => write!(f, "< session {session}"),
            Self::Request(Incoming { xid, body: Ok(request), .. }) => write!(f, "> xid {xid}: {request:?}"),
            Self::Request(Incoming { xid, op, body: Err(error) }) => {
                write!(f, "> xid {xid}: opcode {op}, does not decode, {error:?}")
            }
            Self::Reply(header, body) => {
                write!(f, "< xid {} zxid {}: ", header.xid, header.zxid)?;
                match (header.error_code(), body) {
                    (Some(code), _) => write!(f, "{code:?}"),
                    (None, Ok(reply)) => write!(f, "{reply:?}"),
                    (None, Err(error)) => write!(f, "does not decode, {error:?}"),
                }
            }
            Self::Event(zxid, WatchedEvent { kind, path, .. }) => {
                write!(f, "< event zxid {zxid}: {kind:?} {path}")
            }
            Self::Unreadable { from, why } => write!(f, "unreadable from the {from:?}: {why}"),
            Self::Ended => f.write_str("ended"),
        }
    }
}
