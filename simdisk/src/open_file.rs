//! [`OpenFile`]: a file of a simulated disk that a process has open.

use std::io;
use std::sync::MutexGuard;

use zoolet_storage::disk::DiskFile;

use crate::disk::SimulatedDisk;
use crate::machine::Machine;

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
        self.disk.running_process()?.read_at(self.file, buffer, offset)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.to_write()?.write_at(self.file, bytes, offset)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.to_write()?.set_len(self.file, len)
    }

    fn reserve(&mut self, len: u64) -> io::Result<()> {
        self.to_write()?.reserve(self.file, len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.running_process()?.sync(self.file)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.disk.of_process(|machine| machine.file_mut(self.file).handles -= 1);
    }
}
