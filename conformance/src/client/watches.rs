//! [`Watches`]: the watches of a session that have not fired, as its client knows them.

use std::collections::BTreeMap;
use std::time::Duration;

use zoolet_proto::records::WatchedEvent;
use zoolet_proto::{ErrorCode, EventType, Request, WatchKind};

use crate::wire::requests::{RestoredWatch, watch_set, watches_restored};

#[derive(Debug, Clone)]
struct Armed {
    since: Duration,
    /// Whether it was set on the connection that is open, or again.
    is_current: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// By kind and path. Data and existence are one kind: some clients tell them apart by the reply, others by the request.
    armed: BTreeMap<(WatchKind, String), Armed>,
}

impl Watches {
    /// Whether all have fired, or none was set.
    pub(crate) fn is_empty(&self) -> bool {
        self.armed.is_empty()
    }

    /// The length of all their paths together.
    pub(crate) fn path_bytes(&self) -> usize {
        self.armed.keys().map(|(_, path)| path.len()).sum()
    }

    /// Takes note of a reply that has been delivered.
    pub(crate) fn replied(&mut self, request: &Request, error: Option<ErrorCode>, at: Duration) {
        if let Some((path, kind)) = watch_set(request, error) {
            self.armed.insert((kind, path.to_owned()), Armed { since: at, is_current: true });
        }
    }

    /// Takes note of a request that has been sent: one that sets watches again, or after which the client may drop some.
    pub(crate) fn requested(&mut self, request: &Request) {
        for RestoredWatch { path, kind, .. } in watches_restored(request) {
            if let Some(armed) = self.armed.get_mut(&(kind, path.to_owned())) {
                armed.is_current = true;
            }
        }
        // The Java client sends checkWatches to remove one of several watchers, and drops the watch even if that fails.
        if let Request::RemoveWatches(dropped) | Request::CheckWatches(dropped) = request {
            let path = dropped.path.as_deref().unwrap_or_default();
            self.armed.retain(|(_, other), _| other != path);
        }
    }

    /// Takes note of an event that has been delivered.
    pub(crate) fn fired(&mut self, event: &WatchedEvent) {
        let consumed: &[WatchKind] = match event.kind {
            EventType::NodeCreated | EventType::NodeDataChanged => &[WatchKind::Data],
            EventType::NodeChildrenChanged => &[WatchKind::Child],
            _ => &[WatchKind::Data, WatchKind::Child],
        };
        for kind in consumed {
            self.armed.remove(&(*kind, event.path.clone()));
        }
    }

    /// The connection is gone. A watch that was set after `certain` may be unknown to the client.
    pub(crate) fn disconnected(&mut self, certain: Duration) {
        self.armed.retain(|_, armed| armed.since <= certain);
        self.armed.values_mut().for_each(|armed| armed.is_current = false);
    }

    /// Those that are to be set again.
    pub(crate) fn owed(&self) -> impl Iterator<Item = (WatchKind, &str)> {
        self.armed
            .iter()
            .filter(|(_, armed)| !armed.is_current)
            .map(|((kind, path), _)| (*kind, path.as_str()))
    }

    /// Forgets those that are to be set again.
    pub(crate) fn drop_owed(&mut self) {
        self.armed.retain(|_, armed| armed.is_current);
    }
}
