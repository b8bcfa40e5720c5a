//! [`Directory`]: the names that it shows, which of them are durable, and what is between.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use rand::RngExt as _;
use rand::rngs::SmallRng;

use crate::file::Survival;

/// File systems commit their journal on their own: the most changes that can be unsynced.
const MAX_PENDING: usize = 1024;

/// What a name stands for, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameTarget {
    File(u64),
    Dir(u64),
}

/// A directory. Of the changes since its last sync any may be lost, in any order, as on a file system without a journal. Only what
/// every file system keeps is kept: a rename is one change, and a change of a name needs the earlier ones of that name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory {
    names: BTreeMap<OsString, NameTarget>,
    durable: BTreeMap<OsString, NameTarget>,
    pending: Vec<NameChange>,
}

/// Names and what each stands for from now on.
#[derive(Debug, Clone)]
struct NameChange {
    step: u64,
    names: Vec<(OsString, Option<NameTarget>)>,
}

impl Directory {
    pub(crate) fn get(&self, name: &OsStr) -> Option<NameTarget> {
        self.names.get(name).copied()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = (&OsStr, NameTarget)> {
        self.names.iter().map(|(name, target)| (name.as_os_str(), *target))
    }

    /// The names that a power loss may bring back.
    pub(crate) fn unsynced_removals(&self) -> impl Iterator<Item = &OsStr> {
        self.durable.keys().filter(|name| !self.names.contains_key(*name)).map(OsString::as_os_str)
    }

    pub(crate) fn is_durable(&self, name: &OsStr) -> bool {
        self.durable.get(name) == self.names.get(name)
    }

    /// The step of the oldest change that is not synced.
    pub(crate) fn first_change(&self) -> Option<u64> {
        self.pending.first().map(|change| change.step)
    }

    /// All that is, was or may again be in it.
    pub(crate) fn targets(&self) -> impl Iterator<Item = NameTarget> {
        let pending = self.pending.iter().flat_map(|change| &change.names).filter_map(|(_, target)| *target);
        self.names.values().chain(self.durable.values()).copied().chain(pending)
    }

    /// Changes names, all or none of which survive a power loss.
    pub(crate) fn change(&mut self, step: u64, names: Vec<(OsString, Option<NameTarget>)>) {
        apply(&mut self.names, &names);
        self.pending.push(NameChange { step, names });
        if self.pending.len() > MAX_PENDING {
            for change in self.pending.drain(..MAX_PENDING / 2) {
                apply(&mut self.durable, &change.names);
            }
        }
    }

    /// Gives it a name that has been on disk for long.
    pub(crate) fn insert_durable(&mut self, name: OsString, target: NameTarget) {
        self.sync();
        self.names.insert(name.clone(), target);
        self.durable.insert(name, target);
    }

    pub(crate) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            apply(&mut self.durable, &change.names);
        }
    }

    pub(crate) fn lose_power(&mut self, survival: Survival, rng: &mut SmallRng) {
        let mut lost = BTreeSet::new();
        for change in self.pending.drain(..) {
            let survives = match survival {
                Survival::Nothing => false,
                Survival::Everything => true,
                Survival::UpTo(last) => change.step <= last,
                Survival::Torn => rng.random_bool(0.5),
            };
            if survives && !change.names.iter().any(|(name, _)| lost.contains(name)) {
                apply(&mut self.durable, &change.names);
            } else {
                lost.extend(change.names.into_iter().map(|(name, _)| name));
            }
        }
        self.names = self.durable.clone();
    }
}

fn apply(names: &mut BTreeMap<OsString, NameTarget>, changes: &[(OsString, Option<NameTarget>)]) {
    for (name, target) in changes {
        match target {
            Some(target) => _ = names.insert(name.clone(), *target),
            None => _ = names.remove(name),
        }
    }
}
