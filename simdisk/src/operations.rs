//! What the operations of a [`Disk`] do to the [`Machine`] of their process.

use std::any::Any;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use zoolet_storage::disk::{DirLock, Disk, DiskEntry, DiskFile};

use crate::directory::NameTarget;
use crate::disk::SimulatedDisk;
use crate::fault::{DiskFault, DiskOp};
use crate::machine::{File, Machine, OpOutcome};
use crate::open_file::OpenFile;

impl Disk for SimulatedDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let machine = &mut *self.running_process()?;
        if let Err(error) = machine.dir(dir) {
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
        }
        // As the real disk does it, in the same order.
        let missing: Vec<_> = dir.ancestors().take_while(|dir| machine.dir(dir).is_err()).collect();
        let exists = missing.last().map_or(Some(dir), |first| first.parent());
        if let Some(parent) = exists.and_then(Path::parent) {
            _ = machine.sync_dir(parent);
        }
        for dir in missing.into_iter().rev() {
            let (above, name) = machine.parent(dir)?;
            let id = machine.next_id();
            machine.dirs.insert(id, Arc::default());
            machine.change(DiskOp::CreateDir, above, vec![(name, Some(NameTarget::Dir(id)))])?;
            if let Some(parent) = dir.parent() {
                machine.sync_dir(parent)?;
            }
        }
        machine.check_on()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DiskEntry>> {
        let machine = &mut *self.running_process()?;
        let id = machine.dir(dir)?;
        machine.begin(DiskOp::List, &name_of(dir)).and_then(OpOutcome::pass)?;
        let entry = |(name, target): (&OsStr, _)| match target {
            NameTarget::File(file) => DiskEntry {
                name: name.into(),
                len: machine.files[&file].state.len(),
                is_dir: false,
                is_file: true,
            },
            NameTarget::Dir(_) => DiskEntry { name: name.into(), len: 0, is_dir: true, is_file: false },
        };
        Ok(machine.dirs[&id].names().map(entry).collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open_existing(path, false)
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open_existing(path, true)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let machine = &mut *self.running_process()?;
        let (dir, name) = machine.parent(path)?;
        let file = match machine.dirs[&dir].get(&name) {
            Some(NameTarget::Dir(_)) => return Err(ErrorKind::IsADirectory.into()),
            Some(NameTarget::File(id)) => {
                let outcome = machine.begin(DiskOp::Create, &name)?;
                if machine.takes_effect(outcome) {
                    machine.cut(id, 0);
                }
                outcome.pass()?;
                id
            }
            None => {
                let id = machine.next_id();
                machine.files.insert(id, Arc::new(File { name: name.clone(), ..File::default() }));
                machine.change(DiskOp::Create, dir, vec![(name, Some(NameTarget::File(id)))])?;
                id
            }
        };
        Ok(self.opened(machine, file, true))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let machine = &mut *self.running_process()?;
        let file = machine.file(from)?;
        let ((dir, old), (new_dir, new)) = (machine.parent(from)?, machine.parent(to)?);
        if dir != new_dir {
            return Err(ErrorKind::CrossesDevices.into());
        }
        match machine.dirs[&dir].get(&new) {
            Some(NameTarget::Dir(_)) => return Err(ErrorKind::IsADirectory.into()),
            Some(NameTarget::File(there)) if there == file => return Ok(()),
            _ => {}
        }
        let names = vec![(old, None), (new.clone(), Some(NameTarget::File(file)))];
        machine.change(DiskOp::Rename, dir, names)?;
        machine.file_mut(file).name = new;
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let machine = &mut *self.running_process()?;
        machine.file(path)?;
        let (dir, name) = machine.parent(path)?;
        machine.change(DiskOp::Remove, dir, vec![(name, None)])
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.running_process()?.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<DirLock>> {
        let machine = &mut *self.running_process()?;
        let id = machine.dir(dir)?;
        machine.begin(DiskOp::Lock, &name_of(dir)).and_then(OpOutcome::pass)?;
        let lock = || -> DirLock { Box::new(Locked { disk: self.clone(), dir: id }) };
        Ok(machine.locked.insert(id).then(lock))
    }

    fn blocks(&self) -> bool {
        false
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// The lock of a directory.
struct Locked {
    disk: SimulatedDisk,
    dir: u64,
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.disk.of_process(|machine| _ = machine.locked.remove(&self.dir));
    }
}

impl SimulatedDisk {
    fn open_existing(&self, path: &Path, is_writable: bool) -> io::Result<Box<dyn DiskFile>> {
        let machine = &mut *self.running_process()?;
        let file = machine.file(path)?;
        machine.begin(DiskOp::Open, &name_of(path)).and_then(OpOutcome::pass)?;
        Ok(self.opened(machine, file, is_writable))
    }

    fn opened(&self, machine: &mut Machine, file: u64, is_writable: bool) -> Box<dyn DiskFile> {
        machine.file_mut(file).handles += 1;
        Box::new(OpenFile { disk: self.clone(), file, is_writable })
    }
}

impl Machine {
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

    fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let dir = self.dir(path)?;
        let outcome = self.begin(DiskOp::SyncDir, &name_of(path))?;
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
}

fn name_of(path: &Path) -> OsString {
    path.file_name().unwrap_or(OsStr::new("/")).to_owned()
}
