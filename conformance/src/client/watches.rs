//! [`Watches`]: the watches of a session that have not fired, as its client knows them.

use std::collections::BTreeMap;
use std::time::Duration;

use zoolet_proto::records::{SetWatches2, WatchedEvent};
use zoolet_proto::{AddWatchMode, ErrorCode, EventType, Request};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchOf {
    /// The data of a znode or its existence: some clients tell them apart by the reply, others by the request.
    Data,
    Children,
    Persistent,
    Recursive,
}

#[derive(Debug, Clone)]
struct Armed {
    since: Duration,
    /// Whether it was set on the connection that is open, or again.
    is_current: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Watches {
    armed: BTreeMap<(WatchOf, String), Armed>,
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
        let ok = error.is_none();
        match request {
            Request::GetData(read) if read.watch && ok => self.arm(WatchOf::Data, &read.path, at),
            Request::Exists(read) if read.watch && (ok || error == Some(ErrorCode::NoNode)) => {
                self.arm(WatchOf::Data, &read.path, at);
            }
            Request::GetChildren(read) | Request::GetChildren2(read) if read.watch && ok => {
                self.arm(WatchOf::Children, &read.path, at);
            }
            Request::AddWatch(add) if ok => {
                let recursive = add.mode == AddWatchMode::PersistentRecursive.code();
                let of = if recursive { WatchOf::Recursive } else { WatchOf::Persistent };
                self.arm(of, add.path.as_deref().unwrap_or_default(), at);
            }
            _ => {}
        }
    }

    /// Takes note of a request that has been sent: one that sets watches again, or after which the client may drop some.
    pub(crate) fn requested(&mut self, request: &Request) {
        match request {
            Request::SetWatches(set) => self.set_again(&set.clone().into()),
            Request::SetWatches2(set) => self.set_again(set),
            // The Java client sends checkWatches to remove one of several watchers, and drops the watch even if that fails.
            Request::RemoveWatches(remove) => self.forget(remove.path.as_deref().unwrap_or_default()),
            Request::CheckWatches(check) => self.forget(check.path.as_deref().unwrap_or_default()),
            _ => {}
        }
    }

    /// Takes note of an event that has been delivered.
    pub(crate) fn fired(&mut self, event: &WatchedEvent) {
        let consumed: &[WatchOf] = match event.kind {
            EventType::NodeCreated | EventType::NodeDataChanged => &[WatchOf::Data],
            EventType::NodeChildrenChanged => &[WatchOf::Children],
            _ => &[WatchOf::Data, WatchOf::Children],
        };
        for of in consumed {
            self.armed.remove(&(*of, event.path.clone()));
        }
    }

    /// The connection is gone. A watch that was set after `certain` may be unknown to the client.
    pub(crate) fn disconnected(&mut self, certain: Duration) {
        self.armed.retain(|_, armed| armed.since <= certain);
        self.armed.values_mut().for_each(|armed| armed.is_current = false);
    }

    /// Those that are to be set again.
    pub(crate) fn owed(&self) -> impl Iterator<Item = (WatchOf, &str)> {
        self.armed.iter().filter(|(_, armed)| !armed.is_current).map(|((of, path), _)| (*of, path.as_str()))
    }

    /// Forgets those that are to be set again.
    pub(crate) fn drop_owed(&mut self) {
        self.armed.retain(|_, armed| armed.is_current);
    }

    fn arm(&mut self, of: WatchOf, path: &str, since: Duration) {
        self.armed.insert((of, path.to_owned()), Armed { since, is_current: true });
    }

    fn set_again(&mut self, set: &SetWatches2) {
        for (of, paths) in [
            (WatchOf::Data, &set.data),
            (WatchOf::Data, &set.exist),
            (WatchOf::Children, &set.child),
            (WatchOf::Persistent, &set.persistent),
            (WatchOf::Recursive, &set.recursive),
        ] {
            for path in paths {
                if let Some(armed) = self.armed.get_mut(&(of, path.clone())) {
                    armed.is_current = true;
                }
            }
        }
    }

    fn forget(&mut self, path: &str) {
        self.armed.retain(|(_, other), _| other != path);
    }
}
