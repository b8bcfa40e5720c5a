//! The watches of all connections, and the events that a change triggers.

use std::collections::{BTreeMap, HashMap};
use std::iter;

use zoolet_proto::{EventType, WatchKind, WatcherType, path};

use crate::history::model::TreeChange;

/// The watches of all connections.
#[derive(Default)]
pub(super) struct Watches {
    by_path: HashMap<String, BTreeMap<Watcher, usize>>,
}

/// A watch on a path, stored with the request that set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Watcher {
    conn: usize,
    kind: WatchKind,
    /// Whether it may not exist, as the reply was lost. Such a watch is never used up.
    uncertain: bool,
}

/// An event that a connection must receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExpectedEvent {
    pub(super) conn: usize,
    pub(super) kind: EventType,
    pub(super) path: String,
    /// The request that set the watch.
    pub(super) by: usize,
    /// Whether it may be absent.
    pub(super) uncertain: bool,
}

/// Whether a connection has a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Present,
    Absent,
    Possible,
}

impl Watches {
    /// Sets a watch. Setting it again changes nothing.
    pub(super) fn add(&mut self, conn: usize, path: &str, kind: WatchKind, by: usize, uncertain: bool) {
        let watchers = self.by_path.entry(path.to_owned()).or_default();
        watchers.entry(Watcher { conn, kind, uncertain }).or_insert(by);
    }

    /// Whether `conn` has a watch of these kinds on exactly this path.
    pub(super) fn find(&self, conn: usize, path: &str, wanted: WatcherType) -> Presence {
        let has = |uncertain| {
            let watchers = self.by_path.get(path);
            let has = |kind| watchers.is_some_and(|set| set.contains_key(&Watcher { conn, kind, uncertain }));
            kinds(wanted).any(has)
        };
        match (has(false), has(true)) {
            (true, _) => Presence::Present,
            (false, true) => Presence::Possible,
            (false, false) => Presence::Absent,
        }
    }

    /// Removes the watches of these kinds on exactly this path. With `uncertain` they may also remain.
    pub(super) fn remove(&mut self, conn: usize, path: &str, wanted: WatcherType, uncertain: bool) {
        let Some(watchers) = self.by_path.get_mut(path) else { return };
        for kind in kinds(wanted) {
            let by = watchers.remove(&Watcher { conn, kind, uncertain: false });
            if uncertain {
                by.map(|by| watchers.insert(Watcher { conn, kind, uncertain: true }, by));
            } else {
                watchers.remove(&Watcher { conn, kind, uncertain: true });
            }
        }
    }

    /// The events of one change, in order. Removes one-shot watches that fire, and watches of connections that are not
    /// `alive`.
    pub(super) fn trigger(
        &mut self,
        change: &TreeChange,
        alive: &impl Fn(usize) -> bool,
    ) -> Vec<ExpectedEvent> {
        let TreeChange { kind, path, readable, parent_readable } = change;
        let mut expected = Vec::new();
        let mut add = |fired: BTreeMap<usize, (usize, bool)>, kind, path: &str, readable: bool| {
            // Without read permission there is no event, though the watch is used up.
            let fired = fired.into_iter().filter(|_| readable);
            expected.extend(fired.map(|(conn, (by, uncertain))| ExpectedEvent {
                conn,
                kind,
                path: path.to_owned(),
                by,
                uncertain,
            }));
        };
        // A connection gets one event, however many of its watches match.
        let kinds = [WatchKind::Data, WatchKind::Persistent, WatchKind::Recursive, WatchKind::Child];
        let kinds = if *kind == EventType::NodeDeleted { &kinds[..] } else { &kinds[..3] };
        add(self.fire(path, kinds, alive), *kind, path, *readable);
        if *kind != EventType::NodeDataChanged {
            let parent = path::parent(path);
            let fired = self.fire(parent, &[WatchKind::Child, WatchKind::Persistent], alive);
            add(fired, EventType::NodeChildrenChanged, parent, *parent_readable);
        }
        expected
    }

    /// The connections with a watch of these kinds on `path`, each with the request that set it and whether that is
    /// uncertain.
    fn fire(
        &mut self,
        path: &str,
        kinds: &[WatchKind],
        alive: &impl Fn(usize) -> bool,
    ) -> BTreeMap<usize, (usize, bool)> {
        let mut fired = BTreeMap::new();
        // Recursive watches are on the path itself or above it.
        for at in iter::successors(Some(path), |&at| (at != "/").then(|| path::parent(at))) {
            let Some(watchers) = self.by_path.get_mut(at) else { continue };
            watchers.retain(|watcher, by| {
                let matches =
                    kinds.contains(&watcher.kind) && (at == path || watcher.kind == WatchKind::Recursive);
                if matches && alive(watcher.conn) {
                    add_watcher(&mut fired, watcher, *by);
                }
                let is_one_shot = matches!(watcher.kind, WatchKind::Data | WatchKind::Child);
                alive(watcher.conn) && !(matches && is_one_shot && !watcher.uncertain)
            });
        }
        fired
    }
}

fn add_watcher(watchers: &mut BTreeMap<usize, (usize, bool)>, watcher: &Watcher, by: usize) {
    let entry = watchers.entry(watcher.conn).or_insert((by, watcher.uncertain));
    if entry.1 && !watcher.uncertain {
        *entry = (by, false);
    }
}

fn kinds(wanted: WatcherType) -> impl Iterator<Item = WatchKind> {
    let is_wanted = move |kind: &WatchKind| wanted == WatcherType::Any || wanted == kind.watcher_type();
    WatchKind::ALL.into_iter().filter(is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whichever of the two fires, the server sends one event.
    #[test]
    fn a_deletion_gives_one_certain_event_beside_a_watch_that_may_not_exist() {
        for uncertain in [WatchKind::Data, WatchKind::Child] {
            let mut watches = Watches::default();
            for (by, kind) in [WatchKind::Data, WatchKind::Child].into_iter().enumerate() {
                watches.add(1, "/a", kind, by, kind == uncertain);
            }
            let change = TreeChange {
                kind: EventType::NodeDeleted,
                path: "/a".to_owned(),
                readable: true,
                parent_readable: true,
            };
            let expected = watches.trigger(&change, &|_| true);
            let uncertain: Vec<_> = expected.iter().map(|event| event.uncertain).collect();
            assert_eq!(uncertain, [false], "{expected:?}");
        }
    }
}
