//! What the operations of a disk do to a [`Machine`].

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use rand::RngExt as _;
use zoolet_storage::disk::DiskEntry;

use crate::content::PAGE;
use crate::directory::NameTarget;
use crate::fault::{DiskFault, DiskOp, full};
use crate::machine::{File, Machine, OpOutcome, ROOT, components};

impl Machine {
    pub(crate) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let (mut parent, mut dir, mut parent_name) = (None, ROOT, OsString::from("/"));
        let mut is_new = false;
        for name in components(path)? {
            match self.dirs[&dir].get(&name) {
                Some(NameTarget::Dir(below)) => (parent, dir) = (Some(dir), below),
                Some(NameTarget::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                None => {
                    // As the real disk does it, in the same order.
                    if let (Some(parent), false) = (parent, is_new) {
                        _ = self.sync_dir_id(parent, &parent_name);
                    }
                    let id = self.next_id();
                    self.dirs.insert(id, Arc::default());
                    self.change(DiskOp::CreateDir, dir, vec![(name.clone(), Some(NameTarget::Dir(id)))])?;
                    self.sync_dir_id(dir, &parent_name)?;
                    (parent, dir, is_new) = (Some(dir), id, true);
                }
            }
            parent_name = name;
        }
        if let (Some(parent), false) = (parent, is_new) {
            _ = self.sync_dir_id(parent, &parent_name);
        }
        self.check_on()
    }

    pub(crate) fn list(&mut self, path: &Path) -> io::Result<Vec<DiskEntry>> {
        let dir = self.dir(path)?;
        self.begin(DiskOp::List, &name_of(path)).and_then(OpOutcome::pass)?;
        let entry = |(name, target): (&OsStr, _)| match target {
            NameTarget::File(file) => DiskEntry {
                name: name.into(),
                len: self.files[&file].state.len(),
                is_dir: false,
                is_file: true,
            },
            NameTarget::Dir(_) => DiskEntry { name: name.into(), len: 0, is_dir: true, is_file: false },
        };
        Ok(self.dirs[&dir].names().map(entry).collect())
    }

    pub(crate) fn lock_dir(&mut self, path: &Path) -> io::Result<Option<u64>> {
        let dir = self.dir(path)?;
        self.begin(DiskOp::Lock, &name_of(path)).and_then(OpOutcome::pass)?;
        Ok(self.locked.insert(dir).then_some(dir))
    }

    pub(crate) fn open(&mut self, path: &Path) -> io::Result<u64> {
        let file = self.file(path)?;
        self.begin(DiskOp::Open, &name_of(path)).and_then(OpOutcome::pass)?;
        Ok(self.hold(file))
    }

    pub(crate) fn create(&mut self, path: &Path) -> io::Result<u64> {
        let (dir, name) = self.parent(path)?;
        let id = match self.dirs[&dir].get(&name) {
            Some(NameTarget::Dir(_)) => return Err(ErrorKind::IsADirectory.into()),
            Some(NameTarget::File(id)) => {
                let outcome = self.begin(DiskOp::Create, &name)?;
                if self.takes_effect(outcome) {
                    self.cut(id, 0);
                }
                outcome.pass()?;
                id
            }
            None => {
                let id = self.next_id();
                self.files.insert(id, Arc::new(File { name: name.clone(), ..File::default() }));
                self.change(DiskOp::Create, dir, vec![(name, Some(NameTarget::File(id)))])?;
                id
            }
        };
        Ok(self.hold(id))
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.file(from)?;
        let ((dir, old), (new_dir, new)) = (self.parent(from)?, self.parent(to)?);
        if dir != new_dir {
            return Err(ErrorKind::CrossesDevices.into());
        }
        match self.dirs[&dir].get(&new) {
            Some(NameTarget::Dir(_)) => return Err(ErrorKind::IsADirectory.into()),
            Some(NameTarget::File(there)) if there == file => return Ok(()),
            _ => {}
        }
        self.change(DiskOp::Rename, dir, vec![(old, None), (new.clone(), Some(NameTarget::File(file)))])?;
        self.file_mut(file).name = new;
        Ok(())
    }

    pub(crate) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.file(path)?;
        let (dir, name) = self.parent(path)?;
        self.change(DiskOp::Remove, dir, vec![(name, None)])
    }

    pub(crate) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let dir = self.dir(path)?;
        self.sync_dir_id(dir, &name_of(path))
    }

    pub(crate) fn read_at(&mut self, file: u64, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let most = match self.begin_on(file, DiskOp::Read)? {
            OpOutcome::Fault(DiskFault::Short { bytes }) => bytes.max(1).min(buffer.len()),
            outcome => outcome.pass().map(|()| buffer.len())?,
        };
        Ok(self.files[&file].state.read(&mut buffer[..most], offset))
    }

    pub(crate) fn write_at(&mut self, file: u64, bytes: &[u8], offset: u64) -> io::Result<()> {
        let outcome = self.begin_on(file, DiskOp::Write)?;
        let done = match outcome {
            OpOutcome::Normal => bytes.len(),
            OpOutcome::Crash => self.rng.random_range(0..=bytes.len()),
            OpOutcome::Fault(DiskFault::Short { bytes: most }) => most.min(bytes.len()),
            OpOutcome::Fault(_) => 0,
        };
        let fitting = self.allocate(file, &bytes[..done], offset);
        let step = self.steps;
        self.file_mut(file).state.write(&bytes[..fitting], offset, step);
        outcome.pass()?;
        if fitting < done { Err(full()) } else { Ok(()) }
    }

    pub(crate) fn set_len(&mut self, file: u64, len: u64) -> io::Result<()> {
        let outcome = self.begin_on(file, DiskOp::SetLen)?;
        if self.takes_effect(outcome) {
            self.cut(file, len);
        }
        outcome.pass()
    }

    pub(crate) fn reserve(&mut self, file: u64, len: u64) -> io::Result<()> {
        let outcome = self.begin_on(file, DiskOp::Reserve)?;
        if self.takes_effect(outcome) {
            let mut reserved = self.files[&file].state.clone();
            let before = reserved.allocated();
            reserved.reserve(len, self.steps);
            if let Some(free) = &mut self.free {
                *free = free.checked_sub(reserved.allocated() - before).ok_or_else(full)?;
            }
            self.file_mut(file).state = reserved;
        }
        outcome.pass()
    }

    pub(crate) fn sync(&mut self, file: u64) -> io::Result<()> {
        let outcome = self.begin_on(file, DiskOp::Sync)?;
        match outcome {
            OpOutcome::Normal => self.file_mut(file).state.sync(),
            OpOutcome::Fault(DiskFault::Lie) => return Ok(()),
            OpOutcome::Fault(_) => {
                let file = Arc::make_mut(self.files.entry(file).or_default());
                file.state.fail_sync(&mut self.rng);
            }
            OpOutcome::Crash => {}
        }
        outcome.pass()
    }

    fn begin_on(&mut self, file: u64, op: DiskOp) -> io::Result<OpOutcome> {
        // A new reference instead of a copied name.
        let file = Arc::clone(&self.files[&file]);
        self.begin(op, &file.name)
    }

    /// Changes names of a directory. The last of them is the one that faults match.
    fn change(&mut self, op: DiskOp, dir: u64, names: Vec<(OsString, Option<NameTarget>)>) -> io::Result<()> {
        let name = names.last().map(|(name, _)| name.clone()).unwrap_or_default();
        let outcome = self.begin(op, &name)?;
        if self.takes_effect(outcome) {
            let step = self.steps;
            self.dir_mut(dir).change(step, names);
        }
        outcome.pass()
    }

    fn sync_dir_id(&mut self, dir: u64, name: &OsStr) -> io::Result<()> {
        let outcome = self.begin(DiskOp::SyncDir, name)?;
        match outcome {
            OpOutcome::Normal => {
                self.dir_mut(dir).sync();
                self.collect();
            }
            OpOutcome::Fault(DiskFault::Lie) => return Ok(()),
            // Unlike pages, names stay in the journal: they are as unsynced as before.
            OpOutcome::Fault(_) | OpOutcome::Crash => {}
        }
        outcome.pass()
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

    fn hold(&mut self, file: u64) -> u64 {
        self.file_mut(file).handles += 1;
        file
    }
}

fn name_of(path: &Path) -> OsString {
    path.file_name().unwrap_or(OsStr::new("/")).to_owned()
}
