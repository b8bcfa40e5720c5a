//! Who watches what, and which events that owes them.

use std::collections::{BTreeMap, HashMap};

use zoolet_proto::{EventType, WatcherType};

use crate::testing::model::Change;

/// A way of watching a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Once, changes of the znode: from getData and exists.
    Data,
    /// Once, changes of its list of children: from getChildren.
    Child,
    /// Both, until it is removed.
    Persistent,
    /// Changes of the znode and of everything below, until it is removed.
    Recursive,
}

/// Every watch of every connection.
#[derive(Default)]
pub(super) struct Watches {
    by_path: HashMap<String, BTreeMap<Watcher, usize>>,
}

/// A watch on some path; with it is kept the request that set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Watcher {
    line: usize,
    kind: Kind,
    /// Whether it may not be there: the reply that would tell was lost. Never used up then.
    doubtful: bool,
}

/// An event that a connection must get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owed {
    pub(super) line: usize,
    pub(super) kind: EventType,
    pub(super) path: String,
    /// The request that set the watch.
    pub(super) by: usize,
    /// Whether it may also not come.
    pub(super) doubtful: bool,
}

/// Whether a connection has a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Yes,
    No,
    Perhaps,
}

impl Watches {
    /// Sets a watch. Setting it again changes nothing.
    pub(super) fn add(&mut self, line: usize, path: &str, kind: Kind, by: usize, doubtful: bool) {
        let watchers = self.by_path.entry(path.to_owned()).or_default();
        watchers.entry(Watcher { line, kind, doubtful }).or_insert(by);
    }

    /// Whether `line` has a watch of these kinds on exactly this path.
    pub(super) fn find(&self, line: usize, path: &str, wanted: WatcherType) -> Found {
        let has = |doubtful| {
            let watchers = self.by_path.get(path);
            let mut wanted = kinds(wanted).iter();
            wanted.any(|kind| {
                watchers.is_some_and(|set| set.contains_key(&Watcher { line, kind: *kind, doubtful }))
            })
        };
        match (has(false), has(true)) {
            (true, _) => Found::Yes,
            (false, true) => Found::Perhaps,
            (false, false) => Found::No,
        }
    }

    /// Removes the watches of these kinds on exactly this path; with `perhaps` they may also stay.
    pub(super) fn remove(&mut self, line: usize, path: &str, wanted: WatcherType, perhaps: bool) {
        let Some(watchers) = self.by_path.get_mut(path) else { return };
        for kind in kinds(wanted) {
            let by = watchers.remove(&Watcher { line, kind: *kind, doubtful: false });
            if perhaps {
                by.map(|by| watchers.insert(Watcher { line, kind: *kind, doubtful: true }, by));
            } else {
                watchers.remove(&Watcher { line, kind: *kind, doubtful: true });
            }
        }
    }

    /// The events of one change, in order. One-shot watches are used up by it, and those of connections that are not
    /// `alive` forgotten.
    pub(super) fn trigger(&mut self, change: &Change, alive: &impl Fn(usize) -> bool) -> Vec<Owed> {
        let Change { kind, path, readable, parent, parent_readable } = change;
        let mut owed = Vec::new();
        let mut owe = |told: BTreeMap<usize, (usize, bool)>, kind, path: &str, readable: bool| {
            // Who may not read the znode learns nothing, though its watch is used up.
            let told = told.into_iter().filter(|_| readable);
            owed.extend(told.map(|(line, (by, doubtful))| Owed {
                line,
                kind,
                path: path.to_owned(),
                by,
                doubtful,
            }));
        };
        let told = self.fire(path, &[Kind::Data, Kind::Persistent, Kind::Recursive], alive);
        let mut children = match kind {
            EventType::NodeDeleted => self.fire(path, &[Kind::Child, Kind::Persistent], alive),
            _ => BTreeMap::new(),
        };
        // One event for each connection, however many of its watches fit; a doubtful one may leave room for the other.
        children.retain(|line, _| told.get(line).is_none_or(|(_, doubtful)| *doubtful));
        owe(told, *kind, path, *readable);
        owe(children, *kind, path, *readable);
        if *kind != EventType::NodeDataChanged {
            let told = self.fire(parent, &[Kind::Child, Kind::Persistent], alive);
            owe(told, EventType::NodeChildrenChanged, parent, *parent_readable);
        }
        owed
    }

    /// The connections that watch `path` in one of these ways, each with the request that set the watch and whether that
    /// is doubtful.
    fn fire(
        &mut self,
        path: &str,
        kinds: &[Kind],
        alive: &impl Fn(usize) -> bool,
    ) -> BTreeMap<usize, (usize, bool)> {
        let mut told = BTreeMap::new();
        if let Some(watchers) = self.by_path.get_mut(path) {
            watchers.retain(|watcher, by| {
                let fits = kinds.contains(&watcher.kind);
                if fits && alive(watcher.line) {
                    tell(&mut told, watcher, *by);
                }
                let used_up = fits && !watcher.doubtful && matches!(watcher.kind, Kind::Data | Kind::Child);
                alive(watcher.line) && !used_up
            });
        }
        let mut above = path;
        while let Some(at) = above.rfind('/').filter(|_| kinds.contains(&Kind::Recursive) && above != "/") {
            above = if at == 0 { "/" } else { &above[..at] };
            let Some(watchers) = self.by_path.get_mut(above) else { continue };
            watchers.retain(|watcher, _| alive(watcher.line));
            let recursive = watchers.iter().filter(|(watcher, _)| watcher.kind == Kind::Recursive);
            recursive.for_each(|(watcher, by)| tell(&mut told, watcher, *by));
        }
        told
    }
}

fn tell(told: &mut BTreeMap<usize, (usize, bool)>, watcher: &Watcher, by: usize) {
    let entry = told.entry(watcher.line).or_insert((by, watcher.doubtful));
    if entry.1 && !watcher.doubtful {
        *entry = (by, false);
    }
}

fn kinds(wanted: WatcherType) -> &'static [Kind] {
    match wanted {
        WatcherType::Children => &[Kind::Child],
        WatcherType::Data => &[Kind::Data],
        WatcherType::Any => &[Kind::Data, Kind::Child, Kind::Persistent, Kind::Recursive],
        WatcherType::Persistent => &[Kind::Persistent],
        WatcherType::PersistentRecursive => &[Kind::Recursive],
    }
}
