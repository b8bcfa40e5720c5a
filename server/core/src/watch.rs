//! The watch table, by path and by connection. A watch belongs to a connection and is dropped with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use zoolet_proto::{WatchKind, WatcherType, path};

use crate::message::ConnId;

/// A set of watch modes: the watches of one connection on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modes(u8);

impl Modes {
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

    fn has(self, other: Self) -> bool {
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
    /// The znode itself: created, deleted, data set.
    Data,
    /// Its list of children.
    Children,
}

/// Every watch of every connection.
#[derive(Debug, Default)]
pub struct WatchTable {
    by_path: HashMap<Arc<str>, BTreeMap<ConnId, Modes>>,
    by_conn: HashMap<ConnId, BTreeSet<Arc<str>>>,
    recursive: usize,
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

    /// The watches on znodes themselves, in no order. This is the one of a real server's two tables that operators can see; it
    /// has no child watches.
    pub fn data_watches(&self) -> impl Iterator<Item = (&str, ConnId)> {
        self.by_path.iter().flat_map(|(path, watchers)| {
            let on_data = watchers.iter().filter(|(_, modes)| modes.has(Modes::IN_DATA_TABLE));
            on_data.map(move |(conn, _)| (&**path, *conn))
        })
    }

    /// Every watch, sorted by path, then connection, then kind.
    pub fn iter(&self) -> impl Iterator<Item = WatchView<'_>> {
        let mut watches: Vec<_> = self
            .by_path
            .iter()
            .flat_map(|(path, watchers)| watchers.iter().map(move |(conn, modes)| (path, conn, modes)))
            .flat_map(|(path, conn, modes)| {
                let kinds =
                    WatchKind::ALL.into_iter().filter(|kind| modes.has(Modes::of(kind.watcher_type())));
                kinds.map(move |kind| WatchView { path, conn: *conn, kind })
            })
            .collect();
        watches.sort_unstable();
        watches.into_iter()
    }

    /// The number of paths that `conn` watches.
    pub(crate) fn count(&self, conn: ConnId) -> usize {
        self.by_conn.get(&conn).map_or(0, BTreeSet::len)
    }

    /// Whether `conn` has a watch of any kind on exactly that path.
    pub(crate) fn watches(&self, conn: ConnId, path: &str) -> bool {
        self.by_path.get(path).is_some_and(|watchers| watchers.contains_key(&conn))
    }

    /// Sets a watch. Idempotent.
    pub(crate) fn add(&mut self, conn: ConnId, path: &str, mode: Modes) {
        let path = match self.by_path.get_key_value(path) {
            Some((path, _)) => Arc::clone(path),
            None => Arc::from(path),
        };
        let modes = self.by_path.entry(Arc::clone(&path)).or_default().entry(conn).or_insert(Modes(0));
        if mode.has(Modes::RECURSIVE) && !modes.has(Modes::RECURSIVE) {
            self.recursive += 1;
        }
        let double = modes.in_both_tables();
        modes.0 |= mode.0;
        self.double += usize::from(modes.in_both_tables() && !double);
        self.by_conn.entry(conn).or_default().insert(path);
    }

    /// Whether `conn` has a watch of that kind on exactly that path.
    pub(crate) fn contains(&self, conn: ConnId, path: &str, kind: WatcherType) -> bool {
        let modes = self.by_path.get(path).and_then(|watchers| watchers.get(&conn));
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

    /// The connections to notify of a change, each once, lowest first. Removes the one-shot watches among them.
    ///
    /// Persistent recursive watches are found on the ancestors. They do not fire for a change of children, as they do for the
    /// child itself.
    pub(crate) fn trigger(&mut self, path: &str, aspect: Aspect) -> Vec<ConnId> {
        let (wanted, used_up) = match aspect {
            Aspect::Data => (Modes::IN_DATA_TABLE, Modes::DATA),
            Aspect::Children => (Modes::IN_CHILD_TABLE, Modes::CHILD),
        };
        let mut notified = Vec::new();
        let mut spent = Vec::new();
        if let Some(watchers) = self.by_path.get(path) {
            for (conn, modes) in watchers.iter().filter(|(_, modes)| modes.has(wanted)) {
                notified.push(*conn);
                if modes.has(used_up) {
                    spent.push(*conn);
                }
            }
        }
        for conn in spent {
            self.clear(conn, path, used_up);
        }
        if aspect == Aspect::Data && self.recursive > 0 {
            let mut above = path;
            while above.len() > 1 {
                above = path::parent(above);
                let watchers = self.by_path.get(above).into_iter().flatten();
                notified
                    .extend(watchers.filter(|(_, modes)| modes.has(Modes::RECURSIVE)).map(|(conn, _)| *conn));
            }
            notified.sort_unstable();
            notified.dedup();
        }
        notified
    }

    fn clear(&mut self, conn: ConnId, path: &str, gone: Modes) {
        let Some(watchers) = self.by_path.get_mut(path) else { return };
        let Some(modes) = watchers.get_mut(&conn) else { return };
        if modes.has(Modes::RECURSIVE) && gone.has(Modes::RECURSIVE) {
            self.recursive -= 1;
        }
        let double = modes.in_both_tables();
        *modes = modes.without(gone);
        self.double -= usize::from(double && !modes.in_both_tables());
        if *modes != Modes(0) {
            return;
        }
        watchers.remove(&conn);
        if watchers.is_empty() {
            self.by_path.remove(path);
        }
        if let Some(paths) = self.by_conn.get_mut(&conn) {
            paths.remove(path);
            if paths.is_empty() {
                self.by_conn.remove(&conn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnId = ConnId(1);
    const B: ConnId = ConnId(2);

    #[test]
    fn a_one_shot_watch_is_used_up_and_a_persistent_one_stays() {
        let mut table = WatchTable::default();
        table.add(A, "/a", Modes::DATA);
        table.add(B, "/a", Modes::PERSISTENT);
        assert_eq!(table.trigger("/a", Aspect::Data), [A, B]);
        assert_eq!(table.trigger("/a", Aspect::Data), [B]);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn several_modes_on_one_path_notify_once() {
        let mut table = WatchTable::default();
        for mode in [Modes::DATA, Modes::PERSISTENT, Modes::RECURSIVE] {
            table.add(A, "/a", mode);
        }
        table.add(A, "/", Modes::RECURSIVE);
        assert_eq!(table.trigger("/a", Aspect::Data), [A]);
        assert!(table.contains(A, "/a", WatcherType::Persistent));
        assert!(table.remove(A, "/a", WatcherType::PersistentRecursive));
        assert!(!table.remove(A, "/a", WatcherType::Data));
        assert_eq!(table.trigger("/a", Aspect::Children), [A]);
    }

    #[test]
    fn a_recursive_watch_fires_for_every_descendant_but_never_for_lists_of_children() {
        let mut table = WatchTable::default();
        table.add(A, "/r", Modes::RECURSIVE);
        assert_eq!(table.trigger("/r/x/y", Aspect::Data), [A]);
        assert_eq!(table.trigger("/r", Aspect::Data), [A]);
        assert_eq!(table.trigger("/rx", Aspect::Data), []);
        assert_eq!(table.trigger("/r", Aspect::Children), []);
    }

    #[test]
    fn watches_are_dropped_with_their_connection() {
        let mut table = WatchTable::default();
        table.add(A, "/a", Modes::CHILD);
        table.add(A, "/b", Modes::RECURSIVE);
        table.add(B, "/a", Modes::CHILD);
        table.drop_connection(A);
        assert_eq!((table.len(), table.recursive), (1, 0));
        assert_eq!(table.trigger("/a", Aspect::Children), [B]);
    }

    #[test]
    fn every_watch_is_listed_once_for_each_kind_sorted_by_path_connection_and_kind() {
        let mut table = WatchTable::default();
        table.add(B, "/b", Modes::RECURSIVE);
        table.add(B, "/a", Modes::PERSISTENT);
        table.add(A, "/a/x", Modes::CHILD);
        table.add(A, "/a", Modes::CHILD);
        table.add(A, "/a", Modes::DATA);
        let listed = |table: &WatchTable| -> Vec<String> {
            table.iter().map(|watch| format!("{} {} {}", watch.path, watch.conn, watch.kind)).collect()
        };
        let all = ["/a 1 data", "/a 1 child", "/a 2 persistent", "/a/x 1 child", "/b 2 recursive"];
        assert_eq!(listed(&table), all);
        table.trigger("/a", Aspect::Data);
        assert_eq!(listed(&table), all[1..]);
    }

    #[test]
    fn watches_are_counted_by_table_as_a_real_server_does() {
        let mut table = WatchTable::default();
        table.add(A, "/a", Modes::DATA);
        table.add(A, "/b", Modes::CHILD);
        table.add(A, "/c", Modes::PERSISTENT);
        table.add(B, "/a", Modes::RECURSIVE);
        assert_eq!((table.len(), table.count_by_table()), (4, 5));
        let mut on_data: Vec<_> = table.data_watches().collect();
        on_data.sort_unstable();
        assert_eq!(on_data, [("/a", A), ("/a", B), ("/c", A)]);

        table.add(A, "/a", Modes::CHILD);
        assert_eq!((table.len(), table.count_by_table()), (4, 6));
        table.trigger("/a", Aspect::Data);
        assert_eq!((table.len(), table.count_by_table()), (4, 5));
        table.drop_connection(A);
        table.drop_connection(B);
        assert_eq!((table.len(), table.count_by_table()), (0, 0));
    }
}
