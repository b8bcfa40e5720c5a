//! [`Expiries`]: which transactions of the capture were sessions that had expired.
//!
//! The server makes such a transaction by itself, after a time that a replay cannot repeat. It can end the session instead at that
//! point, which is the same to everybody else. A transaction that nothing explains was an expiry if an ephemeral of a session
//! vanished with it, or if the time of a session that was never closed was over then.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use zoolet_proto::records::WatchedEvent;
use zoolet_proto::{EventType, Request};

use crate::wire::fields::{Fields, Value};

/// How late a server may notice that a session has expired, beyond half its timeout.
const DELAY: Duration = Duration::from_millis(500);

/// How many transactions are looked at: an ensemble begins each epoch with a zxid that is far from the last one.
const MOST: usize = 100_000;

/// What a capture tells of the ends of sessions.
#[derive(Debug, Default)]
pub(super) struct Expiries {
    pub(super) sessions: HashMap<i64, Session>,
    /// The session of each ephemeral.
    ephemerals: HashMap<String, i64>,
    /// The transactions with which ephemerals were deleted.
    deleted: Vec<(i64, i64)>,
    /// The zxids that were seen, when, and in which record.
    seen: Vec<(i64, Duration, usize)>,
}

/// A session of the capture.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) timeout: Duration,
    /// When something was last heard of it.
    pub(super) heard: Duration,
    pub(super) is_closed: bool,
}

/// A session that has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expiry {
    pub(super) session: i64,
    pub(super) zxid: i64,
    pub(super) time: Duration,
    /// The record that shows it.
    pub(super) at: usize,
}

impl Expiries {
    /// Notes the zxid of a reply or an event.
    pub(super) fn saw(&mut self, zxid: i64, time: Duration, at: usize) {
        if zxid > 0 {
            self.seen.push((zxid, time, at));
        }
    }

    /// Notes the reply to a request of a session.
    pub(super) fn replied(&mut self, session: i64, request: &Request, reply: &Fields) {
        let flags = match request {
            Request::Create(create) | Request::Create2(create) => create.flags,
            _ => 0,
        };
        if let Some((_, Value::Text(path))) = reply.iter().find(|(name, _)| *name == "path" && flags & 1 != 0)
        {
            self.ephemerals.insert(path.clone(), session);
        }
    }

    /// Whether a session has created this znode as an ephemeral.
    pub(super) fn is_ephemeral(&self, path: &str) -> bool {
        self.ephemerals.contains_key(path)
    }

    /// Notes that a client has closed a session.
    pub(super) fn closed(&mut self, session: Option<i64>) {
        if let Some(session) = session.and_then(|id| self.sessions.get_mut(&id)) {
            session.is_closed = true;
        }
    }

    /// Notes an event.
    pub(super) fn happened(&mut self, zxid: i64, event: &WatchedEvent) {
        if let (EventType::NodeDeleted, Some(session)) = (event.kind, self.ephemerals.get(&event.path)) {
            self.deleted.push((zxid, *session));
        }
    }

    /// The transactions that are not `known`: the zxid of each, and when and in which record it was seen that it was over.
    pub(super) fn unexplained(&self, base: i64, known: &BTreeSet<i64>) -> Vec<(i64, Duration, usize)> {
        let last = self.seen.iter().map(|(zxid, ..)| *zxid).max().unwrap_or(base);
        let unexplained = (base + 1..=last).filter(|zxid| !known.contains(zxid)).take(MOST);
        // How far the server was after each record.
        let mut far = self.seen.clone();
        for at in 1..far.len() {
            far[at].0 = far[at].0.max(far[at - 1].0);
        }
        let shown = |zxid| far.get(far.partition_point(|(seen, ..)| *seen < zxid));
        unexplained.filter_map(|zxid| shown(zxid).map(|(_, time, at)| (zxid, *time, *at))).collect()
    }

    /// The expiries, in the order of their zxids. `known` are the zxids that requests explain.
    pub(super) fn find(&self, base: i64, known: &BTreeSet<i64>) -> Vec<Expiry> {
        let is_open = |session: &i64| self.sessions.get(session).is_some_and(|session| !session.is_closed);
        let mut by_event: HashMap<i64, i64> =
            self.deleted.iter().filter(|(_, session)| is_open(session)).copied().collect();
        let mut open: Vec<_> = self.sessions.iter().filter(|(_, session)| !session.is_closed).collect();
        open.retain(|(id, _)| !by_event.values().any(|session| session == *id));
        open.sort_by_key(|(_, session)| session.heard + session.timeout);
        let mut found = Vec::new();
        for (zxid, time, at) in self.unexplained(base, known) {
            let before = self.seen.iter().filter(|(seen, ..)| *seen < zxid).map(|(_, time, _)| *time).max();
            let is_over = |session: &Session| {
                let end = session.heard + session.timeout;
                end <= time && before.is_none_or(|before| before <= end + session.timeout / 2 + DELAY)
            };
            let session = by_event.remove(&zxid).or_else(|| {
                let at = open.iter().position(|(_, session)| is_over(session))?;
                Some(*open.remove(at).0)
            });
            found.extend(session.map(|session| Expiry { session, zxid, time, at }));
        }
        found
    }
}
