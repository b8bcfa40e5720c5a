//! What changes from one snapshot to the next.

use std::fmt;
use std::sync::Arc;

use zoolet_client::Zxid;

use super::entry::{Entry, UnreadableReason};
use super::error::CacheError;
use super::snapshot::Snapshot;

/// A change of a cache, from [`CacheChanges`](super::CacheChanges).
#[non_exhaustive]
pub enum CacheChange<T> {
    /// A znode is new.
    Created(Arc<Entry<T>>),
    /// The data of a znode was set, if only to what it was.
    Changed {
        /// Before.
        old: Arc<Entry<T>>,
        /// After.
        new: Arc<Entry<T>>,
    },
    /// A znode is gone. If another one took its place, `Created` follows.
    Deleted(Arc<Entry<T>>),
    /// A znode exists and cannot be read. If its data could before, `Deleted` comes first, and once it can be read, `Created`
    /// follows. If only its children cannot be listed, the znode itself stays, and its children as they are known.
    Unreadable {
        /// The znode.
        path: Arc<str>,
        /// Why.
        reason: UnreadableReason,
    },
    /// All that was there at the beginning has been told; from here on it is changes.
    Initialized {
        /// The zxid of the first snapshot.
        as_of: Zxid,
    },
    /// Changes no longer arrive. The cache keeps what it has, exact at this zxid.
    Stale {
        /// The zxid of the snapshot.
        as_of: Zxid,
    },
    /// Changes arrive again. Those of the time between came before this, without the values in between.
    Restored {
        /// The zxid of the snapshot that has them.
        as_of: Zxid,
    },
    /// The servers went back to an older state. `Deleted` for all that was, and `Created` for all that is, follow.
    Reset,
    /// The cache has ended, for this reason. The last item.
    Ended(CacheError),
}

impl<T> CacheChange<T> {
    /// The znode that it is about.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Created(entry) | Self::Changed { new: entry, .. } | Self::Deleted(entry) => {
                Some(entry.path())
            }
            Self::Unreadable { path, .. } => Some(path),
            _ => None,
        }
    }
}

impl<T> Clone for CacheChange<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Created(new) => Self::Created(Arc::clone(new)),
            Self::Changed { old, new } => Self::Changed { old: Arc::clone(old), new: Arc::clone(new) },
            Self::Deleted(old) => Self::Deleted(Arc::clone(old)),
            Self::Unreadable { path, reason } => Self::Unreadable { path: Arc::clone(path), reason: *reason },
            Self::Initialized { as_of } => Self::Initialized { as_of: *as_of },
            Self::Stale { as_of } => Self::Stale { as_of: *as_of },
            Self::Restored { as_of } => Self::Restored { as_of: *as_of },
            Self::Reset => Self::Reset,
            Self::Ended(error) => Self::Ended(error.clone()),
        }
    }
}

impl<T> fmt::Debug for CacheChange<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created(new) => write!(f, "Created({})", new.path()),
            Self::Changed { new, .. } => write!(f, "Changed({})", new.path()),
            Self::Deleted(old) => write!(f, "Deleted({})", old.path()),
            Self::Unreadable { path, reason } => write!(f, "Unreadable({path}, {reason:?})"),
            Self::Initialized { as_of } => write!(f, "Initialized({as_of})"),
            Self::Stale { as_of } => write!(f, "Stale({as_of})"),
            Self::Restored { as_of } => write!(f, "Restored({as_of})"),
            Self::Reset => f.write_str("Reset"),
            Self::Ended(error) => write!(f, "Ended({error})"),
        }
    }
}

/// What happened from `old` to `new`, if only the znodes at `paths` can differ. Deletions come first, children before
/// parents; then the rest in the order of its transactions, parents before children.
pub(super) fn between<'p, T: 'p>(
    old: &Snapshot<T>,
    new: &Snapshot<T>,
    paths: impl IntoIterator<Item = &'p Arc<str>>,
) -> Vec<CacheChange<T>> {
    let mut changes = Vec::new();
    if old.epoch != new.epoch {
        // Equal zxids are no sign of equal data any more.
        changes.push(CacheChange::Reset);
        changes.extend(old.nodes.values().rev().cloned().map(CacheChange::Deleted));
        changes.extend(in_order(new.iter().cloned().map(CacheChange::Created).collect()));
        push_unreadable(&mut changes, &Snapshot::empty(new.epoch), new);
    } else {
        let mut later = Vec::new();
        for path in paths {
            match (old.get(path), new.get(path)) {
                (None, None) => {}
                (Some(old), None) => changes.push(CacheChange::Deleted(Arc::clone(old))),
                (None, Some(new)) => later.push(CacheChange::Created(Arc::clone(new))),
                (Some(old), Some(new)) if old.is_same(new) => {}
                (Some(old), Some(new)) if old.stat().czxid == new.stat().czxid => {
                    later.push(CacheChange::Changed { old: Arc::clone(old), new: Arc::clone(new) });
                }
                (Some(old), Some(new)) => {
                    changes.push(CacheChange::Deleted(Arc::clone(old)));
                    later.push(CacheChange::Created(Arc::clone(new)));
                }
            }
        }
        changes.sort_by(|one, other| other.path().cmp(&one.path()));
        changes.extend(in_order(later));
        push_unreadable(&mut changes, old, new);
    }
    match (old.stale_since, new.stale_since) {
        (None, Some(_)) => changes.push(CacheChange::Stale { as_of: new.as_of }),
        (Some(_), None) => changes.push(CacheChange::Restored { as_of: new.as_of }),
        _ => {}
    }
    changes
}

/// As [`between`], for any two snapshots.
pub(super) fn between_all<T>(old: &Snapshot<T>, new: &Snapshot<T>) -> Vec<CacheChange<T>> {
    // Those that only the new one has, and all of the old one.
    let added = new.nodes.keys().filter(|path| !old.nodes.contains_key(*path));
    between(old, new, old.nodes.keys().chain(added))
}

fn in_order<T>(mut changes: Vec<CacheChange<T>>) -> Vec<CacheChange<T>> {
    let order = |change: &CacheChange<T>| match change {
        CacheChange::Created(new) => new.stat().czxid,
        CacheChange::Changed { new, .. } => new.stat().mzxid,
        _ => Zxid(0),
    };
    changes.sort_by(|one, other| (order(one), one.path()).cmp(&(order(other), other.path())));
    changes
}

fn push_unreadable<T>(changes: &mut Vec<CacheChange<T>>, old: &Snapshot<T>, new: &Snapshot<T>) {
    if Arc::ptr_eq(&old.unreadable, &new.unreadable) {
        return;
    }
    for (path, reason) in &*new.unreadable {
        if old.unreadable.get(path) != Some(reason) {
            changes.push(CacheChange::Unreadable { path: Arc::clone(path), reason: *reason });
        }
    }
}
