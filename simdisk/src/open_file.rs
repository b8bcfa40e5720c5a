//! [`OpenFile`]: a file of a simulated disk that a process has open.

use std::fmt;
use std::io;

use zoolet_storage::disk::DiskFile;

use crate::disk::SimulatedDisk;
use crate::machine::Held;

pub(crate) struct OpenFile {
    disk: SimulatedDisk,
    held: Held,
    is_writable: bool,
}

impl OpenFile {
    pub(crate) fn new(disk: SimulatedDisk, held: Held, is_writable: bool) -> Self {
        Self { disk, held, is_writable }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.is_writable {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is open to be read only"))
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile").field("file", &self.held).finish_non_exhaustive()
    }
}

impl DiskFile for OpenFile {
    fn len(&self) -> io::Result<u64> {
        self.disk.machine().len(&self.held)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.machine().read_at(&self.held, buffer, offset)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        self.disk.machine().write_at(&self.held, bytes, offset)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        self.disk.machine().set_len(&self.held, len)
    }

    fn reserve(&mut self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        self.disk.machine().reserve(&self.held, len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.machine().sync(&self.held)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.disk.machine().close(&self.held);
    }
}
