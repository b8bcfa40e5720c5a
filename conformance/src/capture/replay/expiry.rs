//! [`Expiries`]: which transactions of the capture were sessions that had expired.
//!
//! The server makes such a transaction by itself, after a time that a replay cannot repeat. It can end the session instead at that
//! point, which is the same to everybody else. A transaction that nothing explains was an expiry if an ephemeral of a session
//! vanished with it, or if the time of a session that was never closed was over then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use zoolet_proto::records::{Create, Op, WatchedEvent};
use zoolet_proto::{EventType, Request};

use super::timeline::{Sighting, Timeline};
use crate::wire::fields::{Fields, Value, field};

/// How late a server may notice that a session has expired, beyond half its timeout.
const DELAY: Duration = Duration::from_millis(500);

/// What a capture tells of the ends of sessions.
#[derive(Debug, Default)]
pub(super) struct Expiries {
    sessions: HashMap<i64, CapturedSession>,
    /// The session of each ephemeral that is there.
    ephemerals: HashMap<String, i64>,
    /// The transactions with which ephemerals were deleted, and their sessions.
    deleted: BTreeMap<i64, i64>,
}

#[derive(Debug)]
pub(super) struct CapturedSession {
    timeout: Duration,
    /// When something was last heard of it.
    pub(super) heard: Duration,
    /// Whether its client has closed it.
    pub(super) is_closed: bool,
}

impl CapturedSession {
    fn end(&self) -> Duration {
        self.heard + self.timeout
    }
}

impl Expiries {
    /// Notes that a session was opened or resumed. The timeout is in milliseconds.
    pub(super) fn opened(&mut self, session: i64, timeout: i32, heard: Duration) {
        let timeout = Duration::from_millis(u64::try_from(timeout).unwrap_or(0));
        self.sessions.insert(session, CapturedSession { timeout, heard, is_closed: false });
    }

    /// The session of a connection, if it has one, to note something about it.
    pub(super) fn session_mut(&mut self, session: Option<i64>) -> Option<&mut CapturedSession> {
        self.sessions.get_mut(&session?)
    }

    /// How long nothing has been heard of a session at this time.
    pub(super) fn silence(&self, session: i64, time: Duration) -> Duration {
        self.sessions.get(&session).map_or(Duration::ZERO, |session| time.saturating_sub(session.heard))
    }

    /// Notes the reply to a request of a session, which may have created an ephemeral.
    pub(super) fn replied(&mut self, session: i64, request: &Request, reply: &Fields) {
        match request {
            Request::Create(create) | Request::Create2(create) => self.created(session, create, reply),
            Request::Multi(ops) => {
                let Some(Value::Results(results)) = field(reply, "results") else { return };
                for (op, result) in ops.iter().zip(results) {
                    if let Op::Create(create) | Op::Create2(create) = op {
                        self.created(session, create, result);
                    }
                }
            }
            _ => {}
        }
    }

    fn created(&mut self, session: i64, create: &Create, reply: &Fields) {
        const EPHEMERAL: i32 = 1;
        if let Some(Value::Text(path)) = field(reply, "path") {
            match create.flags & EPHEMERAL {
                // Nobody may have seen that an ephemeral of this name was deleted.
                0 => self.ephemerals.remove(path),
                _ => self.ephemerals.insert(path.clone(), session),
            };
        }
    }

    /// Whether an ephemeral was deleted with this transaction.
    pub(super) fn is_of_ephemeral(&self, zxid: i64) -> bool {
        self.deleted.contains_key(&zxid)
    }

    /// Notes an event, which may show that an ephemeral has gone. Servers before 3.9, and events that a client has missed, do not
    /// tell with which transaction.
    pub(super) fn happened(&mut self, zxid: i64, event: &WatchedEvent) {
        if event.kind == EventType::NodeDeleted && zxid > 0 {
            if let Some(session) = self.ephemerals.remove(&event.path) {
                self.deleted.insert(zxid, session);
            }
        }
    }

    /// The sessions that have expired, in the order of the zxids of that. `explained` are the transactions of which the cause is known.
    pub(super) fn find(
        &self,
        timeline: &Timeline,
        base: i64,
        explained: &BTreeSet<i64>,
    ) -> Vec<(Sighting, i64)> {
        let is_open = |session: &i64| self.sessions.get(session).is_some_and(|session| !session.is_closed);
        // An ephemeral that a client has deleted shows nothing about its session.
        let shows_end = |(zxid, session): &(&i64, &i64)| !explained.contains(zxid) && is_open(session);
        let mut by_event: HashMap<i64, i64> =
            self.deleted.iter().filter(shows_end).map(|(zxid, session)| (*zxid, *session)).collect();
        // Those of which no event tells when they expired: the one whose time is over first is taken first, and at the same time the one with the smaller id.
        let mut open: Vec<_> = self.sessions.iter().filter(|(id, _)| is_open(id)).collect();
        open.retain(|(id, _)| !by_event.values().any(|session| session == *id));
        open.sort_by_key(|(id, session)| (session.end(), **id));
        let mut found = Vec::new();
        for sighting in timeline.unexplained(base, explained) {
            let before = timeline.last_before(sighting.zxid);
            let is_over = |session: &CapturedSession| {
                let latest = session.end() + session.timeout / 2 + DELAY;
                session.end() <= sighting.time && before.is_none_or(|before| before <= latest)
            };
            let session = by_event.remove(&sighting.zxid).or_else(|| {
                let at = open.iter().position(|(_, session)| is_over(session))?;
                Some(*open.remove(at).0)
            });
            found.extend(session.map(|session| (sighting, session)));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_whose_time_ends_at_once_expire_in_the_order_of_their_ids() {
        let (mut expiries, mut timeline) = (Expiries::default(), Timeline::default());
        (1..=20).for_each(|session| expiries.opened(session, 1_000, Duration::ZERO));
        timeline.add(Sighting { zxid: 20, time: Duration::from_secs(1), at: 0 });
        let found = expiries.find(&timeline, 0, &BTreeSet::new());
        assert!(found.iter().map(|(_, session)| *session).eq(1..=20), "{found:?}");
    }
}
