//! [`Machine`]: the state behind all handles of a simulated disk, and what each operation does to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Component, Path};
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::directory::{Directory, NameTarget};
use crate::fault::{DiskFault, DiskOp, DiskRules};
use crate::file::{FileState, Survival};

pub(crate) const ROOT: u64 = 0;

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// The process that may do something.
    pub(crate) process: u64,
    pub(crate) is_off: bool,
    pub(crate) crash_at: Option<u64>,
    pub(crate) steps: u64,
    pub(crate) rules: DiskRules,
    pub(crate) free: Option<u64>,
    pub(crate) history: Option<Vec<Machine>>,
    pub(crate) files: BTreeMap<u64, Arc<File>>,
    pub(crate) dirs: BTreeMap<u64, Arc<Directory>>,
    pub(crate) locked: BTreeSet<u64>,
    last_id: u64,
    pub(crate) rng: SmallRng,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    /// As faults match it: the last name that it was given, as far as the process knows.
    pub(crate) name: OsString,
    pub(crate) state: FileState,
    pub(crate) handles: usize,
}

/// How an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpOutcome {
    Normal,
    Fault(DiskFault),
    /// The machine stops now.
    Crash,
}

impl OpOutcome {
    pub(crate) fn pass(self) -> io::Result<()> {
        match self {
            Self::Normal => Ok(()),
            Self::Fault(fault) => Err(fault.error()),
            Self::Crash => Err(io::Error::other("the simulated machine stops")),
        }
    }
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            process: 0,
            is_off: false,
            crash_at: None,
            steps: 0,
            rules: DiskRules::default(),
            free: None,
            history: None,
            files: BTreeMap::new(),
            dirs: BTreeMap::from([(ROOT, Arc::default())]),
            locked: BTreeSet::new(),
            last_id: ROOT,
            rng: SmallRng::seed_from_u64(seed),
        }
    }

    /// The same disk, without its history, for a process of its own.
    pub(crate) fn fork(&mut self) -> Self {
        let history = self.history.take();
        let mut fork = self.clone();
        self.history = history;
        fork.kill();
        fork
    }

    /// Starts the next process.
    pub(crate) fn kill(&mut self) -> u64 {
        for file in self.files.values_mut().filter(|file| file.handles > 0) {
            Arc::make_mut(file).handles = 0;
        }
        self.locked.clear();
        self.is_off = false;
        self.crash_at = None;
        self.process += 1;
        self.collect();
        // The last process may not have learnt what became of a rename, and a power loss takes names back.
        for (name, target) in self.dirs.values().flat_map(|dir| dir.names()) {
            if let NameTarget::File(file) = target {
                let file = self.files.entry(file).or_default();
                if file.name != name {
                    Arc::make_mut(file).name = name.to_owned();
                }
            }
        }
        self.process
    }

    pub(crate) fn lose_power(&mut self, seed: u64) -> u64 {
        // From the seed alone, so that a loss can be repeated on a fork, whatever was drawn before.
        let mut rng = SmallRng::seed_from_u64(seed);
        let changes = self.files.values().filter_map(|file| file.state.first_change());
        let first = changes
            .chain(self.dirs.values().filter_map(|dir| dir.first_change()))
            .min()
            .unwrap_or(self.steps);
        let kind = |number, rng: &mut SmallRng| match number {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            2 => Survival::UpTo(rng.random_range(first..=self.steps)),
            _ => Survival::Torn,
        };
        // Half of the power losses treat all files alike, as the seed would hardly ever do by chance.
        let number = rng.random_range(0..8);
        let whole = (number < 4).then(|| kind(number, &mut rng));
        let draw = |rng: &mut SmallRng| {
            let number = rng.random_range(0..6);
            whole.unwrap_or_else(|| kind(number, rng))
        };
        let before = self.allocated();
        for file in self.files.values_mut() {
            let survival = draw(&mut rng);
            Arc::make_mut(file).state.lose_power(survival, &mut rng);
        }
        let after = self.allocated();
        self.free = self.free.map(|free| (free + before).saturating_sub(after));
        for dir in self.dirs.values_mut() {
            let survival = draw(&mut rng);
            Arc::make_mut(dir).lose_power(survival, &mut rng);
        }
        self.rng = rng;
        self.kill()
    }

    /// Fails if the machine is off.
    pub(crate) fn check_on(&self) -> io::Result<()> {
        if self.is_off { Err(io::Error::other("the simulated machine is off")) } else { Ok(()) }
    }

    /// Begins an operation on a file or directory of this name: counts it, if it is a step, and decides how it goes.
    pub(crate) fn begin(&mut self, op: DiskOp, name: &OsStr) -> io::Result<OpOutcome> {
        // An operation may have several steps: it may have stopped the machine at an earlier one.
        self.check_on()?;
        if op.is_step() {
            if self.history.is_some() {
                let fork = self.fork();
                self.history.get_or_insert_default().push(fork);
            }
            self.steps += 1;
            if self.crash_at == Some(self.steps) {
                self.is_off = true;
                return Ok(OpOutcome::Crash);
            }
        }
        Ok(self.rules.fire(op, name, self.steps).map_or(OpOutcome::Normal, OpOutcome::Fault))
    }

    /// Forgets what no directory names, now or after a power loss, and no process has open.
    pub(crate) fn collect(&mut self) {
        let (mut files, mut dirs, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![ROOT]);
        while let Some(dir) = open.pop() {
            if dirs.insert(dir) {
                for target in self.dirs[&dir].targets() {
                    match target {
                        NameTarget::File(file) => _ = files.insert(file),
                        NameTarget::Dir(dir) => open.push(dir),
                    }
                }
            }
        }
        self.dirs.retain(|dir, _| dirs.contains(dir));
        let mut given_back = 0;
        self.files.retain(|id, file| {
            let kept = file.handles > 0 || files.contains(id);
            given_back += if kept { 0 } else { file.state.allocated() };
            kept
        });
        self.free = self.free.map(|free| free + given_back);
    }

    /// The bytes of pages that all files take.
    pub(crate) fn allocated(&self) -> u64 {
        self.files.values().map(|file| file.state.allocated()).sum()
    }

    /// Whether an operation takes effect. One at which the machine stops may.
    pub(crate) fn takes_effect(&mut self, outcome: OpOutcome) -> bool {
        outcome == OpOutcome::Normal || outcome == OpOutcome::Crash && self.rng.random_bool(0.5)
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn file_mut(&mut self, file: u64) -> &mut File {
        Arc::make_mut(self.files.entry(file).or_default())
    }

    pub(crate) fn dir_mut(&mut self, dir: u64) -> &mut Directory {
        Arc::make_mut(self.dirs.entry(dir).or_default())
    }

    pub(crate) fn dir(&self, path: &Path) -> io::Result<u64> {
        components(path)?.iter().try_fold(ROOT, |dir, name| match self.dirs[&dir].get(name) {
            Some(NameTarget::Dir(below)) => Ok(below),
            Some(NameTarget::File(_)) => Err(ErrorKind::NotADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        })
    }

    pub(crate) fn parent(&self, path: &Path) -> io::Result<(u64, OsString)> {
        let name = components(path)?.pop().ok_or(ErrorKind::IsADirectory)?;
        Ok((self.dir(path.parent().unwrap_or(Path::new("")))?, name))
    }

    pub(crate) fn file(&self, path: &Path) -> io::Result<u64> {
        let (dir, name) = self.parent(path)?;
        match self.dirs[&dir].get(&name) {
            Some(NameTarget::File(file)) => Ok(file),
            Some(NameTarget::Dir(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }
}

/// The names in a path from the root on; relative paths are taken as from there.
pub(crate) fn components(path: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            Component::ParentDir => {
                return Err(io::Error::new(ErrorKind::InvalidInput, "a simulated disk knows no `..`"));
            }
        }
    }
    Ok(names)
}
