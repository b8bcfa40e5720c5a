//! [`History`]: what passed between clients and a server, in one order of real time.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};
use zoolet_proto::records::WatchedEvent;
use zoolet_proto::{DecodeError, Incoming, Reply, ReplyHeader, SessionId, Zxid};
use zoolet_server_core::Txn;

use super::check::{CheckError, Checker, Verdict};
use super::tap::Tap;

/// A recording of requests, replies and watch events as clients saw them. Clones are the same recording.
///
/// ```
/// use zoolet::testing::History;
/// use zoolet::{Client, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().start().await?;
/// let history = History::new();
/// let zk = Client::connect(history.tap(server.in_process())).await?;
/// zk.create("/a", "1").await?;
/// let (_, _, watch) = zk.get_data("/a").watch().await?;
/// zk.set_data("/a", "2").await?;
/// watch.changed().await?;
/// zk.close().await?;
///
/// let verdict = history.check()?;        // or which rule was broken, by which two operations
/// assert_eq!((verdict.writes, verdict.reads, verdict.events), (3, 1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct History {
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    now: u64,
    connections: usize,
    entries: Vec<HistoryEntry>,
}

/// A connection, numbered by the history from 0 in the order of opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conn(pub usize);

/// Something that a client saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// When, counted over all connections. What has a smaller number was over when this began. Requests of one write
    /// and messages of one read share a number and stand in their order.
    pub at: u64,
    /// Where.
    pub conn: Conn,
    /// What.
    pub what: HistoryEvent,
}

/// What a client saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryEvent {
    /// The connection was opened.
    Opened,
    /// It asked for a session.
    Hello {
        /// The session to take up again; 0 for a new one.
        session: SessionId,
        /// The latest transaction it has seen.
        last_zxid_seen: Zxid,
    },
    /// The server granted a session or, with 0, refused it.
    Welcome {
        /// The session.
        session: SessionId,
    },
    /// A request left. It counts as under way from the moment before its last byte was handed over.
    Request(Incoming),
    /// A reply arrived.
    Reply(ReplyHeader, Result<Reply, DecodeError>),
    /// A watch event arrived.
    Event(Zxid, WatchedEvent),
    /// Something passed that is no frame of the protocol, or none that can stand there. Nothing later in that direction
    /// is recorded.
    Unreadable {
        /// Who sent it.
        from: Side,
        /// What is wrong with it.
        why: String,
    },
    /// The connection ended. What was not answered by now never will be.
    Ended,
}

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end that asks.
    Client,
    /// The end that answers.
    Server,
}

impl History {
    /// A recording with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A connector that connects as `connect` does and records every connection: for [`Client::connect`], or any
    /// client that takes a stream.
    ///
    /// [`Client::connect`]: crate::Client::connect
    pub fn tap<F, C, S>(
        &self,
        connect: F,
    ) -> impl Fn() -> Pin<Box<dyn Future<Output = io::Result<Tap<S>>> + Send>> + Send + use<F, C, S>
    where
        F: Fn() -> C + Send,
        C: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let history = self.clone();
        move || {
            let (history, connecting) = (history.clone(), connect());
            Box::pin(async move { Ok(Tap::new(connecting.await?).recording(&history)) })
        }
    }

    /// Everything recorded so far, in order.
    pub fn entries(&self) -> Vec<HistoryEntry> {
        let mut entries = self.log().entries.clone();
        entries.sort_by_key(|entry| entry.at);
        entries
    }

    /// Checks the recording so far by what it alone tells. The same as [`Checker::check`] without settings.
    ///
    /// # Errors
    /// The first rule found broken, or why that cannot be told: most often a request whose reply was lost. Then
    /// [`History::check_with`] can.
    pub fn check(&self) -> Result<Verdict, CheckError> {
        Checker::new().check(&self.entries())
    }

    /// Checks the recording so far together with the transactions of the server, all of them from its start.
    ///
    /// # Errors
    /// The first rule found broken, or why that cannot be told.
    pub fn check_with(&self, txns: &[Txn]) -> Result<Verdict, CheckError> {
        Checker::new().transactions(txns).check(&self.entries())
    }

    /// The number of what begins now.
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
        log.entries.push(HistoryEntry { at, conn, what: HistoryEvent::Opened });
        conn
    }

    /// Enters what began at `at`.
    pub(super) fn record(&self, at: u64, conn: Conn, what: HistoryEvent) {
        self.log().entries.push(HistoryEntry { at, conn, what });
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // Every change of the log is one push: a panic elsewhere leaves it whole.
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
        let Self { at, conn: Conn(conn), what } = self;
        write!(f, "{at:>6}  connection {conn}  {what}")
    }
}

impl fmt::Display for HistoryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened => f.write_str("opened"),
            Self::Hello { session: SessionId(0), .. } => f.write_str("> a new session"),
            Self::Hello { session, last_zxid_seen } => {
                write!(f, "> session {session} again, seen {last_zxid_seen}")
            }
            Self::Welcome { session: SessionId(0) } => f.write_str("< session refused"),
            Self::Welcome { session } => write!(f, "< session {session}"),
            Self::Request(Incoming { xid, body: Ok(request), .. }) => write!(f, "> xid {xid}: {request:?}"),
            Self::Request(Incoming { xid, op, body: Err(flaw) }) => {
                write!(f, "> xid {xid}: opcode {op} that does not decode, {flaw:?}")
            }
            Self::Reply(header, body) => {
                write!(f, "< xid {} zxid {}: ", header.xid, header.zxid)?;
                match (header.error_code(), body) {
                    (Some(code), _) => write!(f, "{code:?}"),
                    (None, Ok(reply)) => write!(f, "{reply:?}"),
                    (None, Err(flaw)) => write!(f, "does not decode, {flaw:?}"),
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
