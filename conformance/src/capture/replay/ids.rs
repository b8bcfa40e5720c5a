//! [`Ids`]: which ids of the new server stand for those of the captured one, and answers without what must differ.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use zoolet_proto::records::ConnectResponse;

use crate::wire::fields::{Fields, field, show};
use crate::wire::normal::normal;

/// The ids of a replay.
#[derive(Debug)]
pub(super) struct Ids {
    /// By how much a zxid of the new server is larger than that of the captured one for which it stands.
    pub(super) offset: i64,
    /// The zxids of both servers at the begin: what is older has nothing to do with the capture.
    captured_base: i64,
    new_base: i64,
    /// By the id in the capture.
    sessions: HashMap<i64, ReplayedSession>,
}

/// A session of the new server that stands for one of the capture.
#[derive(Debug, Clone)]
pub(super) struct ReplayedSession {
    pub(super) id: i64,
    pub(super) password: Bytes,
    /// What the server has granted.
    pub(super) timeout: Duration,
    /// When its client last said something.
    pub(super) heard: Instant,
    pub(super) is_closed: bool,
}

impl Ids {
    pub(super) fn new(captured_base: i64, new_base: i64) -> Self {
        Self { offset: new_base - captured_base, captured_base, new_base, sessions: HashMap::new() }
    }

    /// The zxid of the new server that stands for one of the capture. 0 and −1 mean something of their own.
    pub(super) fn new_zxid(&self, captured: i64) -> i64 {
        if captured > 0 { captured + self.offset } else { captured }
    }

    pub(super) fn session(&self, captured: i64) -> Option<&ReplayedSession> {
        self.sessions.get(&captured)
    }

    /// The session of a connection, if it has one, to note something about it.
    pub(super) fn session_mut(&mut self, captured: Option<i64>) -> Option<&mut ReplayedSession> {
        self.sessions.get_mut(&captured?)
    }

    /// Notes that a session stands for another.
    pub(super) fn opened(&mut self, captured: i64, by: &ConnectResponse) {
        let (id, password) = (by.session.0, by.password.clone());
        let timeout = Duration::from_millis(u64::try_from(by.timeout).unwrap_or(0));
        let session = ReplayedSession { id, password, timeout, heard: Instant::now(), is_closed: false };
        self.sessions.insert(captured, session);
    }

    /// What was captured, as it is compared.
    pub(super) fn normal_captured(&self, fields: &Fields) -> Fields {
        self.comparable(fields, self.captured_base, 0, &|session| session)
    }

    /// What the new server has sent, in the ids of the capture.
    pub(super) fn normal(&self, fields: &Fields) -> Fields {
        let captured = |id| {
            let stands_for = self.sessions.iter().find(|(_, session)| session.id == id);
            stands_for.map_or(id, |(captured, _)| *captured)
        };
        self.comparable(fields, self.new_base, self.offset, &captured)
    }

    /// `base` is a zxid of the server that has sent the fields, and `offset` by how much its zxids are larger than captured ones.
    fn comparable(&self, fields: &Fields, base: i64, offset: i64, session: &dyn Fn(i64) -> i64) -> Fields {
        let zxid = |zxid: i64| if zxid > base { format!("{:#x}", zxid - offset) } else { "older".to_owned() };
        let mut fields = normal(fields, &zxid, &|id| Some(format!("{:#x}", session(id))));
        // They are masked.
        fields.retain(|(name, _)| *name != "password" && *name != "token");
        fields
    }
}

/// Events as they are compared: those of a transaction, and those that a setWatches makes up for, have no order that means
/// anything.
pub(super) fn show_events(events: &[Fields]) -> String {
    let mut shown: Vec<_> = events.iter().map(|event| (field(event, "zxid"), show(event))).collect();
    // The zxids stay in the order in which they came; only events of one zxid are sorted.
    for group in shown.chunk_by_mut(|one, other| one.0 == other.0) {
        group.sort_by(|one, other| one.1.cmp(&other.1));
    }
    let shown: Vec<_> = shown.into_iter().map(|(_, event)| event).collect();
    if shown.is_empty() { "no event".to_owned() } else { shown.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fields::Value;

    fn event(zxid: i64, path: &str) -> Fields {
        vec![("zxid", Value::Int(zxid)), ("path", Value::Text(path.to_owned()))]
    }

    #[test]
    fn only_the_events_of_one_transaction_may_come_in_another_order() {
        let shown = |events: &[(i64, &str)]| {
            show_events(&events.iter().map(|(zxid, path)| event(*zxid, path)).collect::<Vec<_>>())
        };
        assert_eq!(shown(&[(7, "/a"), (7, "/b"), (8, "/c")]), shown(&[(7, "/b"), (7, "/a"), (8, "/c")]));
        for other in [
            [(8, "/c"), (7, "/a"), (7, "/b")].as_slice(),
            &[(7, "/a"), (8, "/c"), (7, "/b")],
            &[(7, "/a"), (7, "/b")],
            &[(7, "/a"), (7, "/b"), (8, "/c"), (8, "/c")],
            &[(7, "/a"), (7, "/b"), (9, "/c")],
            &[],
        ] {
            assert_ne!(shown(&[(7, "/a"), (7, "/b"), (8, "/c")]), shown(other), "{other:?}");
        }
    }
}
