//! [`Machine`]: the state behind all handles of a simulated disk, and what each operation does to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{Component, Path};
use std::sync::Arc;

use super::content::PAGE;
use super::directory::{Directory, Target};
use super::fault::{DiskFault, DiskOp, Rules, full};
use super::file::{FileState, Survival};
use super::random::Dice;
use crate::disk::DiskEntry;

const ROOT: u64 = 0;

#[derive(Debug, Clone)]
pub(super) struct Machine {
    /// The process that may do something.
    pub(super) process: u64,
    pub(super) is_off: bool,
    pub(super) crash_at: Option<u64>,
    pub(super) steps: u64,
    pub(super) rules: Rules,
    pub(super) free: Option<u64>,
    pub(super) history: Option<Vec<Machine>>,
    files: BTreeMap<u64, Arc<File>>,
    dirs: BTreeMap<u64, Arc<Directory>>,
    locked: BTreeSet<u64>,
    last_id: u64,
    dice: Dice,
}

#[derive(Debug, Clone, Default)]
struct File {
    /// As faults match it: the last name that it was given.
    name: OsString,
    state: FileState,
    handles: usize,
}

/// A file that a process has open.
#[derive(Debug)]
pub(super) struct Held {
    file: u64,
    process: u64,
}

/// How an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Normal,
    Fault(DiskFault),
    /// The machine stops now.
    Crash,
}

impl Machine {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            process: 0,
            is_off: false,
            crash_at: None,
            steps: 0,
            rules: Rules::default(),
            free: None,
            history: None,
            files: BTreeMap::new(),
            dirs: BTreeMap::from([(ROOT, Arc::default())]),
            locked: BTreeSet::new(),
            last_id: ROOT,
            dice: Dice::new(seed),
        }
    }

    /// Starts the next process.
    pub(super) fn kill(&mut self) -> u64 {
        for file in self.files.values_mut().filter(|file| file.handles > 0) {
            Arc::make_mut(file).handles = 0;
        }
        self.locked.clear();
        self.is_off = false;
        self.crash_at = None;
        self.process += 1;
        self.collect();
        self.process
    }

    pub(super) fn lose_power(&mut self, seed: u64) -> u64 {
        let mut dice = Dice::new(seed);
        let changes = self.files.values().filter_map(|file| file.state.first_change());
        let first = changes
            .chain(self.dirs.values().filter_map(|dir| dir.first_change()))
            .min()
            .unwrap_or(self.steps);
        let moment = |dice: &mut Dice| Survival::UpTo(first + dice.below(self.steps + 1 - first));
        // Half of the power losses treat all files alike, as the seed would hardly ever do by chance.
        let whole = match dice.below(8) {
            0 => Some(Survival::Nothing),
            1 => Some(Survival::Everything),
            2 => Some(moment(&mut dice)),
            3 => Some(Survival::Torn),
            _ => None,
        };
        let draw = |dice: &mut Dice| match (whole, dice.below(6)) {
            (Some(whole), _) => whole,
            (None, 0) => Survival::Nothing,
            (None, 1) => Survival::Everything,
            (None, 2) => moment(dice),
            (None, _) => Survival::Torn,
        };
        for file in self.files.values_mut() {
            let survival = draw(&mut dice);
            Arc::make_mut(file).state.lose_power(survival, &mut dice);
        }
        for dir in self.dirs.values_mut() {
            let survival = draw(&mut dice);
            Arc::make_mut(dir).lose_power(survival, &mut dice);
        }
        self.dice = dice;
        self.kill()
    }

    pub(super) fn create_dir(&mut self, process: u64, path: &Path) -> io::Result<()> {
        self.check(process)?;
        let (mut parent, mut dir, mut parent_name) = (None, ROOT, OsString::from("/"));
        let mut is_new = false;
        for name in components(path)? {
            match self.dirs[&dir].get(&name) {
                Some(Target::Dir(below)) => (parent, dir) = (Some(dir), below),
                Some(Target::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                None => {
                    // As the real disk does it, in the same order.
                    if let (Some(parent), false) = (parent, is_new) {
                        _ = self.sync_dir_id(process, parent, &parent_name);
                    }
                    let id = self.next_id();
                    self.dirs.insert(id, Arc::default());
                    self.change(
                        process,
                        DiskOp::CreateDir,
                        dir,
                        vec![(name.clone(), Some(Target::Dir(id)))],
                    )?;
                    self.sync_dir_id(process, dir, &parent_name)?;
                    (parent, dir, is_new) = (Some(dir), id, true);
                }
            }
            parent_name = name;
        }
        if let (Some(parent), false) = (parent, is_new) {
            _ = self.sync_dir_id(process, parent, &parent_name);
        }
        self.check(process)
    }

    pub(super) fn list(&mut self, process: u64, path: &Path) -> io::Result<Vec<DiskEntry>> {
        self.check(process)?;
        let dir = self.dir(path)?;
        self.begin(process, DiskOp::List, &name_of(path)).and_then(Course::pass)?;
        let entry = |(name, target): (&OsStr, _)| match target {
            Target::File(file) => {
                DiskEntry { name: name.into(), len: self.files[&file].state.len(), is_dir: false }
            }
            Target::Dir(_) => DiskEntry { name: name.into(), len: 0, is_dir: true },
        };
        Ok(self.dirs[&dir].names().map(entry).collect())
    }

    pub(super) fn lock_dir(&mut self, process: u64, path: &Path) -> io::Result<Option<u64>> {
        self.check(process)?;
        let dir = self.dir(path)?;
        self.begin(process, DiskOp::Lock, &name_of(path)).and_then(Course::pass)?;
        Ok(self.locked.insert(dir).then_some(dir))
    }

    pub(super) fn unlock_dir(&mut self, process: u64, dir: u64) {
        if process == self.process {
            self.locked.remove(&dir);
        }
    }

    pub(super) fn open(&mut self, process: u64, path: &Path) -> io::Result<Held> {
        self.check(process)?;
        let file = self.file(path)?;
        self.begin(process, DiskOp::Open, &name_of(path)).and_then(Course::pass)?;
        Ok(self.hold(file))
    }

    pub(super) fn create(&mut self, process: u64, path: &Path) -> io::Result<Held> {
        self.check(process)?;
        let (dir, name) = self.parent(path)?;
        let id = match self.dirs[&dir].get(&name) {
            Some(Target::Dir(_)) => return Err(ErrorKind::IsADirectory.into()),
            Some(Target::File(id)) => {
                let course = self.begin(process, DiskOp::Create, &name)?;
                if course == Course::Normal || course == Course::Crash && self.dice.chance(50) {
                    self.cut(id, 0);
                }
                course.pass()?;
                id
            }
            None => {
                let id = self.next_id();
                self.files.insert(id, Arc::new(File { name: name.clone(), ..File::default() }));
                self.change(process, DiskOp::Create, dir, vec![(name, Some(Target::File(id)))])?;
                id
            }
        };
        Ok(self.hold(id))
    }

    pub(super) fn rename(&mut self, process: u64, from: &Path, to: &Path) -> io::Result<()> {
        self.check(process)?;
        let file = self.file(from)?;
        let ((dir, old), (new_dir, new)) = (self.parent(from)?, self.parent(to)?);
        if dir != new_dir {
            return Err(ErrorKind::CrossesDevices.into());
        }
        match self.dirs[&dir].get(&new) {
            Some(Target::Dir(_)) => return Err(ErrorKind::IsADirectory.into()),
            Some(Target::File(there)) if there == file => return Ok(()),
            _ => {}
        }
        self.change(
            process,
            DiskOp::Rename,
            dir,
            vec![(old, None), (new.clone(), Some(Target::File(file)))],
        )?;
        self.file_mut(file).name = new;
        Ok(())
    }

    pub(super) fn remove(&mut self, process: u64, path: &Path) -> io::Result<()> {
        self.check(process)?;
        self.file(path)?;
        let (dir, name) = self.parent(path)?;
        self.change(process, DiskOp::Remove, dir, vec![(name, None)])
    }

    pub(super) fn sync_dir(&mut self, process: u64, path: &Path) -> io::Result<()> {
        self.check(process)?;
        let dir = self.dir(path)?;
        self.sync_dir_id(process, dir, &name_of(path))
    }

    pub(super) fn close(&mut self, held: &Held) {
        if held.process == self.process {
            self.file_mut(held.file).handles -= 1;
        }
    }

    pub(super) fn len(&self, held: &Held) -> io::Result<u64> {
        self.check(held.process)?;
        Ok(self.files[&held.file].state.len())
    }

    pub(super) fn read_at(&mut self, held: &Held, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let most = match self.begin_on(held, DiskOp::Read)? {
            Course::Fault(DiskFault::Short { bytes }) => bytes.max(1).min(buffer.len()),
            course => course.pass().map(|()| buffer.len())?,
        };
        Ok(self.files[&held.file].state.read(&mut buffer[..most], offset))
    }

    pub(super) fn write_at(&mut self, held: &Held, bytes: &[u8], offset: u64) -> io::Result<()> {
        let course = self.begin_on(held, DiskOp::Write)?;
        let done = match course {
            Course::Normal => bytes.len(),
            Course::Crash => self.dice.below(bytes.len() as u64 + 1) as usize,
            Course::Fault(DiskFault::Short { bytes: most }) => most.min(bytes.len()),
            Course::Fault(_) => 0,
        };
        let fitting = self.allocate(held.file, &bytes[..done], offset);
        let step = self.steps;
        self.file_mut(held.file).state.write(&bytes[..fitting], offset, step);
        course.pass()?;
        if fitting < done { Err(full()) } else { Ok(()) }
    }

    pub(super) fn set_len(&mut self, held: &Held, len: u64) -> io::Result<()> {
        let course = self.begin_on(held, DiskOp::SetLen)?;
        if course == Course::Normal || course == Course::Crash && self.dice.chance(50) {
            self.cut(held.file, len);
        }
        course.pass()
    }

    pub(super) fn reserve(&mut self, held: &Held, len: u64) -> io::Result<()> {
        let course = self.begin_on(held, DiskOp::Reserve)?;
        if course == Course::Normal || course == Course::Crash && self.dice.chance(50) {
            let mut reserved = self.files[&held.file].state.clone();
            let before = reserved.allocated();
            reserved.reserve(len, self.steps);
            if let Some(free) = &mut self.free {
                *free = free.checked_sub(reserved.allocated() - before).ok_or_else(full)?;
            }
            self.file_mut(held.file).state = reserved;
        }
        course.pass()
    }

    pub(super) fn sync(&mut self, held: &Held) -> io::Result<()> {
        let course = self.begin_on(held, DiskOp::Sync)?;
        match course {
            Course::Normal => self.file_mut(held.file).state.sync(),
            Course::Fault(DiskFault::Lie) => return Ok(()),
            Course::Fault(_) => {
                let mut dice = self.dice.clone();
                self.file_mut(held.file).state.fail_sync(&mut dice);
                self.dice = dice;
            }
            Course::Crash => {}
        }
        course.pass()
    }

    pub(super) fn flip(&mut self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        let file = self.file(path)?;
        if offset >= self.files[&file].state.len() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.file_mut(file).state.flip(offset, bit);
        Ok(())
    }

    pub(super) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = &self.files[&self.file(path)?].state;
        let mut bytes = vec![0; state.len() as usize];
        state.read(&mut bytes, 0);
        Ok(bytes)
    }

    pub(super) fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut names = components(path)?;
        let name = names.pop().ok_or(ErrorKind::IsADirectory)?;
        let mut dir = ROOT;
        for name in names {
            dir = match self.dirs[&dir].get(&name) {
                Some(Target::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                Some(Target::Dir(below)) => below,
                None => {
                    let id = self.next_id();
                    self.dirs.insert(id, Arc::default());
                    self.dir_mut(dir).insert_durable(name, Target::Dir(id));
                    id
                }
            };
        }
        if let Some(Target::Dir(_)) = self.dirs[&dir].get(&name) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let id = self.next_id();
        let file = File { name: name.clone(), state: FileState::durable(bytes), handles: 0 };
        self.files.insert(id, Arc::new(file));
        self.dir_mut(dir).insert_durable(name, Target::File(id));
        Ok(())
    }

    pub(super) fn tree(&self) -> String {
        let mut lines = String::new();
        self.write_tree(&mut lines, ROOT, 0);
        lines
    }

    fn write_tree(&self, lines: &mut String, dir: u64, depth: usize) {
        let indent = "  ".repeat(depth);
        let dir = &self.dirs[&dir];
        for (name, target) in dir.names() {
            let unsynced = if dir.is_durable(name) { "" } else { ", name not synced" };
            let name = name.to_string_lossy();
            _ = match target {
                Target::Dir(_) => writeln!(lines, "{indent}{name}/{unsynced}"),
                Target::File(file) => {
                    let state = &self.files[&file].state;
                    let (len, durable, dirty) = (state.len(), state.durable_len(), state.dirty_pages());
                    let shorter =
                        if len == durable { String::new() } else { format!(", {durable} of them synced") };
                    let dirty =
                        if dirty == 0 { String::new() } else { format!(", {dirty} pages not synced") };
                    writeln!(lines, "{indent}{name}: {len} bytes{shorter}{dirty}{unsynced}")
                }
            };
            if let Target::Dir(below) = target {
                self.write_tree(lines, below, depth + 1);
            }
        }
        for name in dir.undead() {
            _ = writeln!(lines, "{indent}({}: gone, not synced)", name.to_string_lossy());
        }
    }

    /// Fails if the process is dead or the machine is off.
    fn check(&self, process: u64) -> io::Result<()> {
        if process != self.process {
            return Err(io::Error::other(
                "the process of this handle was killed; use the handle of the next one",
            ));
        }
        if self.is_off {
            return Err(io::Error::other("the simulated machine is off"));
        }
        Ok(())
    }

    fn begin_on(&mut self, held: &Held, op: DiskOp) -> io::Result<Course> {
        self.check(held.process)?;
        // A new reference instead of a copied name.
        let file = Arc::clone(&self.files[&held.file]);
        self.begin(held.process, op, &file.name)
    }

    fn begin(&mut self, process: u64, op: DiskOp, name: &OsStr) -> io::Result<Course> {
        self.check(process)?;
        if op.is_step() {
            if let Some(mut history) = self.history.take() {
                let mut fork = self.clone();
                _ = fork.kill();
                history.push(fork);
                self.history = Some(history);
            }
            self.steps += 1;
            if self.crash_at == Some(self.steps) {
                self.is_off = true;
                return Ok(Course::Crash);
            }
        }
        Ok(self.rules.fire(op, name, self.steps).map_or(Course::Normal, Course::Fault))
    }

    /// Changes names of a directory. The last of them is the one that faults match.
    fn change(
        &mut self,
        process: u64,
        op: DiskOp,
        dir: u64,
        names: Vec<(OsString, Option<Target>)>,
    ) -> io::Result<()> {
        let name = names.last().map(|(name, _)| name.clone()).unwrap_or_default();
        let course = self.begin(process, op, &name)?;
        if course == Course::Normal || course == Course::Crash && self.dice.chance(50) {
            let step = self.steps;
            self.dir_mut(dir).change(step, names);
        }
        course.pass()
    }

    fn sync_dir_id(&mut self, process: u64, dir: u64, name: &OsStr) -> io::Result<()> {
        let course = self.begin(process, DiskOp::SyncDir, name)?;
        match course {
            Course::Normal => {
                self.dir_mut(dir).sync();
                self.collect();
            }
            Course::Fault(DiskFault::Lie) => return Ok(()),
            Course::Fault(_) => self.dir_mut(dir).fail_sync(),
            Course::Crash => {}
        }
        course.pass()
    }

    /// How many of these bytes fit on the disk, which gives them the room.
    fn allocate(&mut self, file: u64, bytes: &[u8], offset: u64) -> usize {
        let Some(free) = &mut self.free else { return bytes.len() };
        let state = &self.files[&file].state;
        let mut fitting = 0;
        while fitting < bytes.len() {
            let at = offset + fitting as u64;
            if !state.has_room(at) {
                let Some(rest) = free.checked_sub(PAGE) else { break };
                *free = rest;
            }
            fitting = bytes.len().min(fitting + (PAGE - at % PAGE) as usize);
        }
        fitting
    }

    fn cut(&mut self, file: u64, len: u64) {
        let step = self.steps;
        let state = &mut self.file_mut(file).state;
        let before = state.allocated();
        state.set_len(len, step);
        let given_back = before - state.allocated();
        self.free = self.free.map(|free| free + given_back);
    }

    fn hold(&mut self, file: u64) -> Held {
        self.file_mut(file).handles += 1;
        Held { file, process: self.process }
    }

    /// Forgets what no directory names, now or after a power loss, and no process has open.
    fn collect(&mut self) {
        let (mut files, mut dirs, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![ROOT]);
        while let Some(dir) = open.pop() {
            if dirs.insert(dir) {
                for target in self.dirs[&dir].targets() {
                    match target {
                        Target::File(file) => _ = files.insert(file),
                        Target::Dir(dir) => open.push(dir),
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

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn file_mut(&mut self, file: u64) -> &mut File {
        Arc::make_mut(self.files.entry(file).or_default())
    }

    fn dir_mut(&mut self, dir: u64) -> &mut Directory {
        Arc::make_mut(self.dirs.entry(dir).or_default())
    }

    fn dir(&self, path: &Path) -> io::Result<u64> {
        components(path)?.iter().try_fold(ROOT, |dir, name| match self.dirs[&dir].get(name) {
            Some(Target::Dir(below)) => Ok(below),
            Some(Target::File(_)) => Err(ErrorKind::NotADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        })
    }

    fn parent(&self, path: &Path) -> io::Result<(u64, OsString)> {
        let name = components(path)?.pop().ok_or(ErrorKind::IsADirectory)?;
        Ok((self.dir(path.parent().unwrap_or(Path::new("")))?, name))
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        let (dir, name) = self.parent(path)?;
        match self.dirs[&dir].get(&name) {
            Some(Target::File(file)) => Ok(file),
            Some(Target::Dir(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }
}

impl Course {
    fn pass(self) -> io::Result<()> {
        match self {
            Self::Normal => Ok(()),
            Self::Fault(fault) => Err(fault.error()),
            Self::Crash => Err(io::Error::other("the simulated machine stops")),
        }
    }
}

/// The names in a path from the root on; relative paths are taken as from there.
fn components(path: &Path) -> io::Result<Vec<OsString>> {
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

fn name_of(path: &Path) -> OsString {
    path.file_name().unwrap_or(OsStr::new("/")).to_owned()
}
