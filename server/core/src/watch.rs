//! The watch table, by path and by connection. A watch belongs to a connection and is dropped with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use zoolet_proto::{WatchKind, WatcherType};

use crate::message::ConnId;
use crate::paths::paths_after;
use crate::recursive_watches::RecursiveWatches;
use crate::watchers::{Lists, Spent, Watchers};

#[cfg(test)]
mod tests;

/// A set of watch modes: the watches of one connection on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modes(u8);

impl Modes {
    pub(crate) const NONE: Self = Self(0);
    /// One-shot, set by getData and exists.
    pub(crate) const DATA: Self = Self(1);
    /// One-shot, set by getChildren.
    pub(crate) const CHILD: Self = Self(2);
    /// Persistent, for changes of data and of children.
    pub(crate) const PERSISTENT: Self = Self(4);
    /// Persistent, for changes of data of the path and its descendants.
    pub(crate) const RECURSIVE: Self = Self(8);
    const ANY: Self = Self(15);

    /// The modes in each of the two tables of a real server, one for each [`Aspect`].
    const IN_DATA_TABLE: Self = Self(Self::DATA.0 | Self::PERSISTENT.0 | Self::RECURSIVE.0);
    const IN_CHILD_TABLE: Self = Self(Self::CHILD.0 | Self::PERSISTENT.0);

    /// Whether the sets share a mode.
    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn in_both_tables(self) -> bool {
        self.has(Self::IN_DATA_TABLE) && self.has(Self::IN_CHILD_TABLE)
    }

    fn of(kind: WatcherType) -> Self {
        match kind {
            WatcherType::Children => Self::CHILD,
            WatcherType::Data => Self::DATA,
            WatcherType::Any => Self::ANY,
            WatcherType::Persistent => Self::PERSISTENT,
            WatcherType::PersistentRecursive => Self::RECURSIVE,
        }
    }
}

/// A view of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchView<'t> {
    /// Its path, as the client sent it.
    pub path: &'t str,
    /// The connection that set it.
    pub conn: ConnId,
    /// Its kind. A connection that has several kinds on one path has as many watches.
    pub kind: WatchKind,
}

/// What changes at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aspect {
    /// The znode itself: created, data set.
    Data,
    /// Its list of children.
    Children,
    /// Both, at the end of the znode.
    Deleted,
}

impl Aspect {
    /// The one-shot watches that fire for it.
    pub(crate) fn one_shot(self) -> Modes {
        match self {
            Self::Data => Modes::DATA,
            Self::Children => Modes::CHILD,
            Self::Deleted => Modes(Modes::DATA.0 | Modes::CHILD.0),
        }
    }
}

/// Every watch of every connection.
#[derive(Debug, Default)]
pub struct WatchTable {
    by_path: HashMap<Arc<str>, Watchers>,
    by_conn: HashMap<ConnId, BTreeSet<Arc<str>>>,
    recursive: RecursiveWatches,
    /// Changes with every persistent watch that comes or goes. Snapshots of an earlier generation are outdated.
    generation: u64,
    /// Pairs that a real server has in both of its tables.
    double: usize,
}

impl WatchTable {
    /// The number of pairs of path and connection that have a watch.
    pub fn len(&self) -> usize {
        self.by_conn.values().map(BTreeSet::len).sum()
    }

    /// Whether there are no watches.
    pub fn is_empty(&self) -> bool {
        self.by_conn.is_empty()
    }

    /// The number of watches that a real server counts: it has data and child watches in two tables, and persistent ones in
    /// both.
    pub fn count_by_table(&self) -> usize {
        self.len() + self.double
    }

    /// The connections that have watches, in no order.
    pub fn connections(&self) -> Vec<ConnId> {
        self.by_conn.keys().copied().collect()
    }

    /// The paths that a connection watches, sorted, from the one after `after`; and whether it watches the znode itself, not
    /// only its list of children. A real server has a table for each of the two, and operators can see only the first.
    pub fn paths_of(&self, conn: ConnId, after: Option<&str>) -> impl Iterator<Item = (&Arc<str>, bool)> {
        let paths = self.by_conn.get(&conn).into_iter();
        paths.flat_map(move |paths| paths_after(paths, after)).map(move |path| {
            let modes = self.by_path.get(path).and_then(|watchers| watchers.get(conn));
            (path, modes.is_some_and(|modes| modes.has(Modes::IN_DATA_TABLE)))
        })
    }

    /// Every watch, sorted by path, then connection, then kind.
    pub fn iter(&self) -> impl Iterator<Item = WatchView<'_>> {
        let mut watches = Vec::new();
        for (path, watchers) in &self.by_path {
            for (conn, modes) in watchers.iter() {
                let kinds =
                    WatchKind::ALL.into_iter().filter(|kind| modes.has(Modes::of(kind.watcher_type())));
                watches.extend(kinds.map(|kind| WatchView { path, conn, kind }));
            }
        }
        watches.sort_unstable();
        watches.into_iter()
    }

    /// The number of paths that `conn` watches.
    pub fn count(&self, conn: ConnId) -> usize {
        self.by_conn.get(&conn).map_or(0, BTreeSet::len)
    }

    /// Whether `conn` has a watch of any kind on exactly that path.
    pub(crate) fn watches(&self, conn: ConnId, path: &str) -> bool {
        self.by_path.get(path).is_some_and(|watchers| watchers.get(conn).is_some())
    }

    /// Sets a watch. Idempotent.
    pub(crate) fn add(&mut self, conn: ConnId, path: &str, mode: Modes) {
        let path = match self.by_path.get_key_value(path) {
            Some((path, _)) => Arc::clone(path),
            None => Arc::from(path),
        };
        let watchers =
            self.by_path.entry(Arc::clone(&path)).or_insert_with(|| Watchers::One(conn, Modes::NONE));
        let old = watchers.get(conn).unwrap_or(Modes::NONE);
        let new = Modes(old.0 | mode.0);
        if new == old {
            return;
        }
        watchers.set(conn, new);
        if new.has(Modes::RECURSIVE) && !old.has(Modes::RECURSIVE) {
            self.recursive.add(&path);
        }
        self.note(old, new);
        self.by_conn.entry(conn).or_default().insert(path);
    }

    /// Whether `conn` has a watch of that kind on exactly that path.
    pub(crate) fn contains(&self, conn: ConnId, path: &str, kind: WatcherType) -> bool {
        let modes = self.by_path.get(path).and_then(|watchers| watchers.get(conn));
        modes.is_some_and(|modes| modes.has(Modes::of(kind)))
    }

    /// Removes the watches of that kind on exactly that path; returns false if there is none.
    pub(crate) fn remove(&mut self, conn: ConnId, path: &str, kind: WatcherType) -> bool {
        let found = self.contains(conn, path, kind);
        if found {
            self.clear(conn, path, Modes::of(kind));
        }
        found
    }

    /// Removes the watches of a connection.
    pub(crate) fn drop_connection(&mut self, conn: ConnId) {
        while let Some(path) = self.by_conn.get_mut(&conn).and_then(BTreeSet::pop_first) {
            self.clear(conn, &path, Modes::ANY);
        }
        self.by_conn.remove(&conn);
    }

    /// The connections to notify of a change, each in one of the lists. Removes the one-shot watches among them.
    ///
    /// Persistent recursive watches are found on the ancestors. They do not fire for a change of children, as they do for the
    /// child itself. Lists of persistent watches are the same ones until such a watch comes or goes.
    pub(crate) fn trigger(&mut self, path: &str, aspect: Aspect) -> Lists {
        let Self { by_path, recursive, generation, .. } = self;
        let mut lists = Lists::new();
        let mut spent = Spent::new();
        if aspect != Aspect::Children {
            recursive.collect(path, *generation, by_path, &mut lists);
        }
        if let Some(watchers) = by_path.get_mut(path) {
            watchers.collect(aspect, *generation, &mut lists, &mut spent);
        }
        for conn in spent {
            self.clear(conn, path, aspect.one_shot());
        }
        lists
    }

    fn clear(&mut self, conn: ConnId, path: &str, gone: Modes) {
        let Some(watchers) = self.by_path.get_mut(path) else { return };
        let Some(old) = watchers.get(conn) else { return };
        let new = old.without(gone);
        watchers.set(conn, new);
        if watchers.is_empty() {
            self.by_path.remove(path);
        }
        if old.has(Modes::RECURSIVE) && !new.has(Modes::RECURSIVE) {
            self.recursive.remove(path);
        }
        self.note(old, new);
        if new != Modes::NONE {
            return;
        }
        if let Some(paths) = self.by_conn.get_mut(&conn) {
            paths.remove(path);
            if paths.is_empty() {
                self.by_conn.remove(&conn);
            }
        }
    }

    /// Counts a change of the modes of a connection on a path.
    fn note(&mut self, old: Modes, new: Modes) {
        const PERSISTENT: Modes = Modes(Modes::PERSISTENT.0 | Modes::RECURSIVE.0);
        self.double += usize::from(new.in_both_tables());
        self.double -= usize::from(old.in_both_tables());
        self.generation += u64::from((old.0 ^ new.0) & PERSISTENT.0 != 0);
    }
}
