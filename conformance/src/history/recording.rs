//! [`History`]: the messages between clients and a server, in real-time order.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zoolet_proto::Zxid;

use super::decided::Decided;
use super::entry::{Conn, HistoryEntry, HistoryEvent};
use super::full::Checker;
use super::tap::Tap;
use super::verdict::{CheckError, Verdict};

/// A connection that is being opened and will be recorded.
pub type Tapping<S> = Pin<Box<dyn Future<Output = io::Result<Tap<S>>> + Send>>;

/// A recording of requests, replies and watch events as clients saw them. Clones share the recording.
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

impl History {
    /// An empty recording of a server whose zxids begin at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty recording of a server that begins empty at `zxid`.
    pub fn starting_at(zxid: Zxid) -> Self {
        Self { initial_zxid: zxid, ..Self::default() }
    }

    /// The zxid of the empty server.
    pub fn initial_zxid(&self) -> Zxid {
        self.initial_zxid
    }

    /// Wraps a connector so that every connection is recorded. The result is a connector as well, for any client that accepts a
    /// stream.
    pub fn tap<F, C, S>(&self, connect: F) -> impl Fn() -> Tapping<S> + use<F, C, S>
    where
        F: Fn() -> C,
        C: Future<Output = io::Result<S>> + Send + 'static,
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
    pub fn check_with(&self, txns: Vec<Decided>) -> Result<Verdict, CheckError> {
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
