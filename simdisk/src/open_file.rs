//! [`OpenFile`]: a file of a simulated disk that a process has open.

use std::io;
use std::sync::{Arc, MutexGuard};

use rand::RngExt as _;
use zoolet_storage::disk::DiskFile;

use crate::content::PAGE;
use crate::disk::SimulatedDisk;
use crate::fault::{DiskFault, DiskOp, full};
use crate::machine::{Machine, OpOutcome};

#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) disk: SimulatedDisk,
    pub(crate) file: u64,
    pub(crate) is_writable: bool,
}

impl OpenFile {
    fn to_write(&self) -> io::Result<MutexGuard<'_, Machine>> {
        if !self.is_writable {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is open to be read only"));
        }
        self.disk.running_process()
    }
}

impl DiskFile for OpenFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.running_process()?.files[&self.file].state.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let machine = &mut *self.disk.running_process()?;
        let most = match machine.begin_on(self.file, DiskOp::Read)? {
            OpOutcome::Fault(DiskFault::Short { bytes }) => bytes.max(1).min(buffer.len()),
            outcome => outcome.pass().map(|()| buffer.len())?,
        };
        Ok(machine.files[&self.file].state.read(&mut buffer[..most], offset))
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let machine = &mut *self.to_write()?;
        let outcome = machine.begin_on(self.file, DiskOp::Write)?;
        let done = match outcome {
            OpOutcome::Normal => bytes.len(),
            OpOutcome::Crash => machine.rng.random_range(0..=bytes.len()),
            OpOutcome::Fault(DiskFault::Short { bytes: most }) => most.min(bytes.len()),
            OpOutcome::Fault(_) => 0,
        };
        let fitting = machine.allocate(self.file, &bytes[..done], offset);
        let step = machine.steps;
        machine.file_mut(self.file).state.write(&bytes[..fitting], offset, step);
        outcome.pass()?;
        if fitting < done { Err(full()) } else { Ok(()) }
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let machine = &mut *self.to_write()?;
        let outcome = machine.begin_on(self.file, DiskOp::SetLen)?;
        if machine.takes_effect(outcome) {
            machine.cut(self.file, len);
        }
        outcome.pass()
    }

    fn reserve(&mut self, len: u64) -> io::Result<()> {
        let machine = &mut *self.to_write()?;
        let outcome = machine.begin_on(self.file, DiskOp::Reserve)?;
        if machine.takes_effect(outcome) {
            let mut reserved = machine.files[&self.file].state.clone();
            let before = reserved.allocated();
            reserved.reserve(len, machine.steps);
            if let Some(free) = &mut machine.free {
                *free = free.checked_sub(reserved.allocated() - before).ok_or_else(full)?;
            }
            machine.file_mut(self.file).state = reserved;
        }
        outcome.pass()
    }

    fn sync(&mut self) -> io::Result<()> {
        let machine = &mut *self.disk.running_process()?;
        let outcome = machine.begin_on(self.file, DiskOp::Sync)?;
        match outcome {
            OpOutcome::Normal => machine.file_mut(self.file).state.sync(),
            OpOutcome::Fault(DiskFault::Lie) => return Ok(()),
            OpOutcome::Fault(_) => {
                let file = Arc::make_mut(machine.files.entry(self.file).or_default());
                file.state.fail_sync(&mut machine.rng);
            }
            OpOutcome::Crash => {}
        }
        outcome.pass()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.disk.of_process(|machine| machine.file_mut(self.file).handles -= 1);
    }
}

impl Machine {
    fn begin_on(&mut self, file: u64, op: DiskOp) -> io::Result<OpOutcome> {
        // A new reference instead of a copied name.
        let file = Arc::clone(&self.files[&file]);
        self.begin(op, &file.name)
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

    /// Cuts or extends a file. The disk gets the room back.
    pub(crate) fn cut(&mut self, file: u64, len: u64) {
        let step = self.steps;
        let state = &mut self.file_mut(file).state;
        let before = state.allocated();
        state.set_len(len, step);
        let given_back = before - state.allocated();
        self.free = self.free.map(|free| free + given_back);
    }
}
