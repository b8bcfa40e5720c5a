//! What the operations of a disk do to a [`Machine`].

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use zoolet_storage::disk::DiskEntry;

use crate::content::PAGE;
use crate::directory::Target;
use crate::fault::{DiskFault, DiskOp, full};
use crate::machine::{Course, File, Held, Machine, ROOT, components};

impl Machine {
    pub(crate) fn create_dir(&mut self, process: u64, path: &Path) -> io::Result<()> {
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

    pub(crate) fn list(&mut self, process: u64, path: &Path) -> io::Result<Vec<DiskEntry>> {
        self.check(process)?;
        let dir = self.dir(path)?;
        self.begin(process, DiskOp::List, &name_of(path)).and_then(Course::pass)?;
        let entry = |(name, target): (&OsStr, _)| match target {
            Target::File(file) => DiskEntry {
                name: name.into(),
                len: self.files[&file].state.len(),
                is_dir: false,
                is_file: true,
            },
            Target::Dir(_) => DiskEntry { name: name.into(), len: 0, is_dir: true, is_file: false },
        };
        Ok(self.dirs[&dir].names().map(entry).collect())
    }

    pub(crate) fn lock_dir(&mut self, process: u64, path: &Path) -> io::Result<Option<u64>> {
        self.check(process)?;
        let dir = self.dir(path)?;
        self.begin(process, DiskOp::Lock, &name_of(path)).and_then(Course::pass)?;
        Ok(self.locked.insert(dir).then_some(dir))
    }

    pub(crate) fn unlock_dir(&mut self, process: u64, dir: u64) {
        if process == self.process {
            self.locked.remove(&dir);
        }
    }

    pub(crate) fn open(&mut self, process: u64, path: &Path) -> io::Result<Held> {
        self.check(process)?;
        let file = self.file(path)?;
        self.begin(process, DiskOp::Open, &name_of(path)).and_then(Course::pass)?;
        Ok(self.hold(file))
    }

    pub(crate) fn create(&mut self, process: u64, path: &Path) -> io::Result<Held> {
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

    pub(crate) fn rename(&mut self, process: u64, from: &Path, to: &Path) -> io::Result<()> {
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

    pub(crate) fn remove(&mut self, process: u64, path: &Path) -> io::Result<()> {
        self.check(process)?;
        self.file(path)?;
        let (dir, name) = self.parent(path)?;
        self.change(process, DiskOp::Remove, dir, vec![(name, None)])
    }

    pub(crate) fn sync_dir(&mut self, process: u64, path: &Path) -> io::Result<()> {
        self.check(process)?;
        let dir = self.dir(path)?;
        self.sync_dir_id(process, dir, &name_of(path))
    }

    pub(crate) fn close(&mut self, held: &Held) {
        if held.process == self.process {
            self.file_mut(held.file).handles -= 1;
        }
    }

    pub(crate) fn len(&self, held: &Held) -> io::Result<u64> {
        self.check(held.process)?;
        Ok(self.files[&held.file].state.len())
    }

    pub(crate) fn read_at(&mut self, held: &Held, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let most = match self.begin_on(held, DiskOp::Read)? {
            Course::Fault(DiskFault::Short { bytes }) => bytes.max(1).min(buffer.len()),
            course => course.pass().map(|()| buffer.len())?,
        };
        Ok(self.files[&held.file].state.read(&mut buffer[..most], offset))
    }

    pub(crate) fn write_at(&mut self, held: &Held, bytes: &[u8], offset: u64) -> io::Result<()> {
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

    pub(crate) fn set_len(&mut self, held: &Held, len: u64) -> io::Result<()> {
        let course = self.begin_on(held, DiskOp::SetLen)?;
        if course == Course::Normal || course == Course::Crash && self.dice.chance(50) {
            self.cut(held.file, len);
        }
        course.pass()
    }

    pub(crate) fn reserve(&mut self, held: &Held, len: u64) -> io::Result<()> {
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

    pub(crate) fn sync(&mut self, held: &Held) -> io::Result<()> {
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

    fn begin_on(&mut self, held: &Held, op: DiskOp) -> io::Result<Course> {
        self.check(held.process)?;
        // A new reference instead of a copied name.
        let file = Arc::clone(&self.files[&held.file]);
        self.begin(held.process, op, &file.name)
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
            // Unlike pages, names stay in the journal: they are as unsynced as before.
            Course::Fault(_) | Course::Crash => {}
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
}

fn name_of(path: &Path) -> OsString {
    path.file_name().unwrap_or(OsStr::new("/")).to_owned()
}
