//! The watchers of one path.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::message::{ConnId, Recipients};
use crate::watch::{Aspect, Modes};

/// Whom a change notifies, each in one of the lists. Most often there are none or one.
pub(crate) type Lists = SmallVec<[Recipients; 1]>;

/// Connections whose one-shot watches are used up.
pub(crate) type Spent = SmallVec<[ConnId; 1]>;

/// The connections that watch one path, and how. Most paths have one, which takes no memory of its own.
#[derive(Debug)]
pub(crate) enum Watchers {
    One(ConnId, Modes),
    Many(Box<Many>),
}

/// Several connections.
#[derive(Debug, Default)]
pub(crate) struct Many {
    modes: BTreeMap<ConnId, Modes>,
    /// How many of them have each of the modes that a change looks for.
    data: usize,
    child: usize,
    persistent: usize,
    snapshot: Option<Snapshot>,
}

/// The persistent watchers. Valid as long as the watch table counts no change of persistent watches.
#[derive(Debug)]
struct Snapshot {
    generation: u64,
    all: Arc<[ConnId]>,
    /// Those that no recursive watch notifies of a change of the znode; computed when that is needed.
    uncovered: Option<Arc<[ConnId]>>,
}

impl Watchers {
    /// Every watcher, lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnId, Modes)> {
        let (one, many) = match self {
            Self::One(conn, modes) => (Some((*conn, *modes)), None),
            Self::Many(many) => (None, Some(&many.modes)),
        };
        one.into_iter().chain(many.into_iter().flatten().map(|(conn, modes)| (*conn, *modes)))
    }

    /// The modes of a connection.
    pub(crate) fn get(&self, conn: ConnId) -> Option<Modes> {
        match self {
            Self::One(only, modes) => (*only == conn).then_some(*modes),
            Self::Many(many) => many.modes.get(&conn).copied(),
        }
    }

    /// Sets the modes of a connection. [`Modes::NONE`] removes it, unless it is the only one.
    pub(crate) fn set(&mut self, conn: ConnId, modes: Modes) {
        match self {
            Self::One(only, old) if *only == conn => *old = modes,
            Self::One(only, old) => {
                let mut many = Box::<Many>::default();
                many.set(*only, *old);
                many.set(conn, modes);
                *self = Self::Many(many);
            }
            Self::Many(many) => many.set(conn, modes),
        }
    }

    /// Whether nobody watches any more.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::One(_, modes) => *modes == Modes::NONE,
            Self::Many(many) => many.modes.is_empty(),
        }
    }

    /// Adds to `lists` the connections whose watches on exactly this path fire, unless a list in it has them already, and
    /// to `spent` those with a one-shot watch among them.
    pub(crate) fn collect(&mut self, aspect: Aspect, generation: u64, lists: &mut Lists, spent: &mut Spent) {
        let one_shot = aspect.one_shot();
        match self {
            Self::One(conn, modes) => {
                if modes.has(one_shot) {
                    spent.push(*conn);
                }
                let fires = modes.has(one_shot) || modes.has(Modes::PERSISTENT);
                if fires && !is_covered(*conn, lists) {
                    lists.push(Recipients::One(*conn));
                }
            }
            Self::Many(many) => many.collect(one_shot, generation, lists, spent),
        }
    }
}

impl Many {
    fn set(&mut self, conn: ConnId, modes: Modes) {
        let old = match modes {
            Modes::NONE => self.modes.remove(&conn),
            _ => self.modes.insert(conn, modes),
        };
        let old = old.unwrap_or(Modes::NONE);
        for (count, mode) in [
            (&mut self.data, Modes::DATA),
            (&mut self.child, Modes::CHILD),
            (&mut self.persistent, Modes::PERSISTENT),
        ] {
            *count = *count + usize::from(modes.has(mode)) - usize::from(old.has(mode));
        }
    }

    fn collect(&mut self, one_shot: Modes, generation: u64, lists: &mut Lists, spent: &mut Spent) {
        let mut found = Vec::new();
        let one_shots = if one_shot.has(Modes::DATA) { self.data } else { 0 }
            + if one_shot.has(Modes::CHILD) { self.child } else { 0 };
        if one_shots > 0 {
            for (conn, modes) in self.modes.iter().filter(|(_, modes)| modes.has(one_shot)) {
                spent.push(*conn);
                if !modes.has(Modes::PERSISTENT) && !is_covered(*conn, lists) {
                    found.push(*conn);
                }
            }
        }
        if self.persistent > 0 {
            let persistent = self.persistent(generation, lists);
            push_unless_empty(lists, (&persistent).into());
        }
        push_unless_empty(lists, found.into());
    }

    /// The persistent watchers that are in none of `lists`, which are those of recursive watches or empty.
    fn persistent(&mut self, generation: u64, lists: &[Recipients]) -> Arc<[ConnId]> {
        let snapshot = match &mut self.snapshot {
            Some(snapshot) if snapshot.generation == generation => snapshot,
            outdated => {
                let persistent = self.modes.iter().filter(|(_, modes)| modes.has(Modes::PERSISTENT));
                let all = persistent.map(|(conn, _)| *conn).collect();
                outdated.insert(Snapshot { generation, all, uncovered: None })
            }
        };
        let Snapshot { all, uncovered, .. } = snapshot;
        if lists.is_empty() {
            return Arc::clone(all);
        }
        let not_in_lists = || all.iter().copied().filter(|conn| !is_covered(*conn, lists)).collect();
        Arc::clone(uncovered.get_or_insert_with(not_in_lists))
    }
}

/// Whether one of the lists has the connection. They are sorted.
pub(crate) fn is_covered(conn: ConnId, lists: &[Recipients]) -> bool {
    lists.iter().any(|list| list.binary_search(&conn).is_ok())
}

pub(crate) fn push_unless_empty(lists: &mut Lists, list: Recipients) {
    if !list.is_empty() {
        lists.push(list);
    }
}
