//! Who holds a lock, derived only from the znodes in its directories and the transactions that made them. Written from the
//! rules of the recipes and without a look at their code.

use std::collections::{BTreeMap, BTreeSet};

use crate::locks::recipe::{DIR, LEASES, QUEUE};

/// When a znode was put in line: the transaction, and its place in that.
pub type Place = (i64, usize);

/// A znode in line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stand {
    pub place: Place,
    /// The fencing token of its owner.
    pub token: u64,
    pub session: i64,
}

/// Everybody in line, by the path of the znode.
pub type Line = BTreeMap<String, Stand>;

/// Which of the contenders in the queue hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The first; each watches the one in front of it.
    First,
    /// The first; all watch the directory.
    FirstOfAll,
    /// The owner of the znode; all others watch it.
    Single,
    /// The contender that is first in every directory, with znodes that one transaction created.
    Together { dirs: &'static [&'static str], znodes: usize },
    /// Readers without a writer before them, writers without any contender before them.
    ReadWrite,
    /// All owners of permits. The first in the queue takes permits if enough are left.
    Permits(usize),
}

impl Rule {
    /// Whether a znode is one in line.
    pub fn counts(self, path: &str) -> bool {
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        match self {
            Self::First | Self::FirstOfAll | Self::ReadWrite => dir == DIR,
            Self::Single => path == DIR,
            Self::Together { dirs, .. } => dirs.contains(&dir),
            Self::Permits(_) => dir == QUEUE || dir == LEASES,
        }
    }

    /// The znodes of all holders.
    pub fn holders(self, line: &Line) -> Vec<&str> {
        match self {
            Self::First | Self::FirstOfAll | Self::Single => {
                in_order(line, DIR).into_iter().take(1).collect()
            }
            Self::Together { dirs, .. } => {
                let mut wholes = line.keys().filter(|path| self.is_whole(line, path));
                let first = |path: &&String| {
                    let of_it = with_it(line, path);
                    dirs.iter().all(|dir| of_it.contains(in_order(line, dir).first().unwrap_or(&"")))
                };
                wholes.find(first).map(|path| with_it(line, path)).unwrap_or_default()
            }
            Self::ReadWrite => {
                let order = in_order(line, DIR);
                let readers = order.iter().take_while(|path| is_reader(path)).copied();
                let holders: Vec<_> = readers.collect();
                if holders.is_empty() { order.into_iter().take(1).collect() } else { holders }
            }
            Self::Permits(_) => in_order(line, LEASES),
        }
    }

    /// Whether everything is there that belongs to a znode in line.
    pub fn is_whole(self, line: &Line, path: &str) -> bool {
        match self {
            Self::Together { znodes, .. } => with_it(line, path).len() == znodes,
            _ => line.contains_key(path),
        }
    }

    /// Exactly what is watched, by which session. Those that `wait` need not be in the queue.
    pub fn watches(self, line: &Line, wait: &[i64]) -> BTreeSet<(i64, String)> {
        let holders = self.holders(line);
        let waiting = line.iter().filter(|(path, _)| !holders.contains(&path.as_str()));
        let watch = |(path, stand): (&String, &Stand)| Some((stand.session, self.waits_for(line, path)?));
        match self {
            Self::Single if line.is_empty() => BTreeSet::new(),
            Self::Single => wait.iter().map(|session| (*session, DIR.to_owned())).collect(),
            _ => waiting.filter_map(watch).collect(),
        }
    }

    /// What a contender in the queue waits for if it does not hold.
    fn waits_for(self, line: &Line, path: &str) -> Option<String> {
        match self {
            Self::First => in_front(line, DIR, path).pop().map(str::to_owned),
            Self::FirstOfAll | Self::Single => Some(DIR.to_owned()),
            Self::Together { dirs, .. } => {
                let of_it = with_it(line, path);
                let in_the_way = |dir: &&str| {
                    let first = of_it.iter().find(|path| path.starts_with(&format!("{dir}/")))?;
                    in_front(line, dir, first).pop().map(str::to_owned)
                };
                dirs.iter().find_map(in_the_way)
            }
            Self::ReadWrite => {
                let mut others = in_front(line, DIR, path);
                others.retain(|other| !is_reader(path) || !is_reader(other));
                others.pop().map(str::to_owned)
            }
            Self::Permits(_) => Some(in_front(line, QUEUE, path).pop().unwrap_or(LEASES).to_owned()),
        }
    }
}

fn is_reader(path: &str) -> bool {
    path.contains("__READ__")
}

/// Those in line in one directory, or in its place, the first in front.
pub fn in_order<'l>(line: &'l Line, dir: &str) -> Vec<&'l str> {
    let here = |path: &str| path == dir || path.rsplit_once('/').is_some_and(|(above, _)| above == dir);
    let mut order: Vec<_> = line.iter().filter(|(path, _)| here(path)).collect();
    order.sort_by_key(|(_, stand)| stand.place);
    order.into_iter().map(|(path, _)| path.as_str()).collect()
}

/// Those in front of one, the nearest last.
fn in_front<'l>(line: &'l Line, dir: &str, path: &str) -> Vec<&'l str> {
    let mut order = in_order(line, dir);
    order.truncate(order.iter().position(|other| *other == path).unwrap_or(0));
    order
}

/// What was put in line by the same transaction, in its order.
fn with_it<'l>(line: &'l Line, path: &str) -> Vec<&'l str> {
    let Some(one) = line.get(path) else { return Vec::new() };
    let mut of_it: Vec<_> = line.iter().filter(|(_, stand)| stand.place.0 == one.place.0).collect();
    of_it.sort_by_key(|(_, stand)| stand.place);
    of_it.into_iter().map(|(path, _)| path.as_str()).collect()
}
