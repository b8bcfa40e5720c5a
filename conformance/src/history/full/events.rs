//! Watches during the replay: requests set and remove them, and each change must produce its events.

use std::collections::BTreeMap;

use zoolet_proto::records::{CheckWatches, RemoveWatches, WatchedEvent};
use zoolet_proto::{
    AddWatchMode, ErrorCode, EventType, KeeperState, Reply, Request, WatchKind, WatcherType, Zxid,
};

use super::operations::{CheckedOp, Connection, ReceivedEvent};
use super::replay::Replay;
use super::watches::{ExpectedEvent, Presence};
use crate::history::verdict::{CheckError, Rule, broken};
use crate::wire::requests::{RestoredWatch, relative_zxid, watch_set, watches_restored};

impl Replay<'_, '_> {
    /// Compares the received events with those of the latest transaction.
    ///
    /// # Errors
    /// A missing event, or an event on a connection that does not expect it.
    pub(super) fn check_events_of(&mut self, zxid: Zxid, in_any_order: bool) -> Result<(), CheckError> {
        let all = self.all;
        // A connection without a message of this zxid or later may have ended before.
        let alive = |conn: usize| all.conns[conn].latest() >= zxid;
        let mut expected: BTreeMap<usize, Vec<ExpectedEvent>> = BTreeMap::new();
        for change in &self.model.changes {
            for event in self.watches.trigger(change, &alive) {
                expected.entry(event.conn).or_default().push(event);
            }
        }
        expected
            .into_iter()
            .try_for_each(|(conn, expected)| self.check_events(conn, zxid, expected, in_any_order))
    }

    /// Fails if an event of a transaction before `zxid` remains.
    pub(super) fn no_unexpected_event(&self, conn: usize, zxid: Zxid) -> Result<(), CheckError> {
        match self.all.conns[conn].events.get(self.received[conn]) {
            Some(received) if received.zxid < zxid => Err(self.unexpected_event(conn, received)),
            _ => Ok(()),
        }
    }

    fn unexpected_event(&self, conn: usize, received: &ReceivedEvent<'_>) -> CheckError {
        let event = self.all.name_event(conn, received.zxid, received.event);
        broken(Rule::EventExpected, event, None, "no such event on this connection", "the event")
    }

    fn check_events(
        &mut self,
        conn: usize,
        zxid: Zxid,
        mut expected: Vec<ExpectedEvent>,
        in_any_order: bool,
    ) -> Result<(), CheckError> {
        self.no_unexpected_event(conn, zxid)?;
        let Connection { events, replied, notified, .. } = &self.all.conns[conn];
        let mut missing = Vec::new();
        while let Some(event) = events.get(self.received[conn]).filter(|event| event.zxid == zxid) {
            let at = expected.iter().position(|expected| matches_event(expected, event.event));
            let at = at.ok_or_else(|| self.unexpected_event(conn, event))?;
            if in_any_order {
                expected.remove(at);
            } else {
                missing.extend(expected.drain(..=at).take(at));
            }
            self.received[conn] += 1;
        }
        // The rest may still be in flight, unless a message arrived that must follow it.
        let shown = replied
            .filter(|observed| observed.zxid >= zxid)
            .or(notified.filter(|observed| observed.zxid > zxid));
        if shown.is_some() {
            missing.append(&mut expected);
        }
        let Some(ExpectedEvent { kind, path, by, .. }) = missing.iter().find(|event| !event.uncertain) else {
            return Ok(());
        };
        let event = WatchedEvent { kind: *kind, state: KeeperState::SyncConnected, path: path.clone() };
        let operation = self.all.name_event(conn, zxid, &event);
        let seen = match shown {
            Some(observed) => format!("zxid {} without the event", observed.zxid),
            None => "a later event of the same transaction without the event".to_owned(),
        };
        let expected = "the event, as this connection watches the change";
        Err(broken(Rule::EventDelivered, operation, Some(self.all.name(*by)), expected, &seen))
    }

    /// Checks the reply to a request about watches, and applies it; returns false for any other request.
    pub(super) fn check_watch_request(
        &mut self,
        op: usize,
        request: &Request,
        seen: Result<&Reply, ErrorCode>,
    ) -> Result<bool, CheckError> {
        match request {
            Request::AddWatch(add) => {
                let mode = AddWatchMode::from_code(add.mode);
                let model = mode.map(|_| Reply::WatchAdded).ok_or(ErrorCode::MarshallingError);
                self.compare(Rule::WatchResult, op, model, seen)?;
                self.set_watch(op, request, seen);
            }
            Request::CheckWatches(check) => self.find_watches(op, check, seen)?,
            Request::RemoveWatches(remove) => {
                self.find_watches(op, remove, seen)?;
                self.remove_watches(op, remove, false);
            }
            Request::SetWatches(_) | Request::SetWatches2(_) => {
                self.compare(Rule::WatchResult, op, Ok(Reply::Empty), seen)?;
                self.restore_watches(op, request)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn find_watches(
        &mut self,
        op: usize,
        CheckWatches { path, kind }: &CheckWatches,
        seen: Result<&Reply, ErrorCode>,
    ) -> Result<(), CheckError> {
        let (conn, path) = (self.all.ops[op].conn, path.as_deref().unwrap_or_default());
        let found = WatcherType::from_code(*kind).map(|kind| self.watches.find(conn, path, kind));
        let model = match found {
            Some(Presence::Present) => Ok(Reply::Empty),
            Some(Presence::Absent) => Err(ErrorCode::NoWatcher),
            Some(Presence::Possible) => return Ok(()),
            None => Err(ErrorCode::MarshallingError),
        };
        self.compare(Rule::WatchResult, op, model, seen)
    }

    fn remove_watches(&mut self, op: usize, remove: &RemoveWatches, uncertain: bool) {
        if let Some(kind) = WatcherType::from_code(remove.kind) {
            let path = remove.path.as_deref().unwrap_or_default();
            self.watches.remove(self.all.ops[op].conn, path, kind, uncertain);
        }
    }

    /// Adds the watch that an answered request has set.
    pub(super) fn set_watch(&mut self, op: usize, request: &Request, seen: Result<&Reply, ErrorCode>) {
        if let Some((path, kind)) = watch_set(request, seen.err()) {
            self.watches.add(self.all.ops[op].conn, path, kind, op, false);
        }
    }

    /// Applies the possible effects on watches of a request whose reply was lost.
    pub(super) fn assume_possible(&mut self, op: usize) {
        let CheckedOp { conn, request: Some(request), .. } = &self.all.ops[op] else { return };
        match request {
            Request::RemoveWatches(remove) => self.remove_watches(op, remove, true),
            // A server sends the reply before any event of the watch.
            _ if !self.all.lossy => {}
            _ => {
                let restored = watches_restored(request).map(|watch| (watch.path, watch.kind));
                for (path, kind) in watch_set(request, None).into_iter().chain(restored) {
                    self.watches.add(*conn, path, kind, op, true);
                }
            }
        }
    }

    /// Restores watches. A watch whose znode has changed since fires at once instead.
    fn restore_watches(&mut self, op: usize, request: &Request) -> Result<(), CheckError> {
        let CheckedOp { conn, catch_up, .. } = &self.all.ops[op];
        let since = relative_zxid(request).unwrap_or_default();
        let mut expected: Vec<(EventType, &str)> = Vec::new();
        for RestoredWatch { path, kind, is_of_absent } in watches_restored(request) {
            let missed = match (kind, self.model.last_changed(path)) {
                (WatchKind::Persistent | WatchKind::Recursive, _) => None,
                (_, Some(_)) if is_of_absent => Some(EventType::NodeCreated),
                (_, None) => (!is_of_absent).then_some(EventType::NodeDeleted),
                (WatchKind::Data, Some((mzxid, _))) => (mzxid > since).then_some(EventType::NodeDataChanged),
                (WatchKind::Child, Some((_, pzxid))) => {
                    (pzxid > since).then_some(EventType::NodeChildrenChanged)
                }
            };
            match missed {
                Some(event) => expected.push((event, path)),
                None => self.watches.add(*conn, path, kind, op, false),
            }
        }
        let received: Vec<_> = catch_up.iter().map(|event| (event.kind, event.path.as_str())).collect();
        if received == expected {
            return Ok(());
        }
        let (expected, seen) = (format!("{expected:?}"), format!("{received:?}"));
        Err(broken(Rule::CatchUp, self.all.name(op), None, &expected, &seen))
    }
}

fn matches_event(expected: &ExpectedEvent, event: &WatchedEvent) -> bool {
    (expected.kind, KeeperState::SyncConnected, &expected.path) == (event.kind, event.state, &event.path)
}
