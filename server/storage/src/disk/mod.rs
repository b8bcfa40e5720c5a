//! [`Disk`]: the file operations that storage needs. [`RealDisk`] is the machine's; `zoolet-simdisk` has one in memory for tests.

pub(crate) mod files;
mod real;

use std::any::Any;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::SystemTime;

pub use real::RealDisk;

/// The file system, as storage uses it. Every call returns when it is done.
///
/// What survives a power loss: the content of a file up to its last [`DiskFile::sync`], and the names in a directory up to its last
/// [`Disk::sync_dir`]. Anything later may be lost, kept, or kept in part.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Creates a directory and its parents, as far as they do not exist, and makes them durable.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// The entries of a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<DiskEntry>>;

    /// Opens a file to read it.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file to read and to write it.
    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Creates an empty file to read and to write it. An existing file of that name is emptied.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file. An existing file of the new name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable: files created, renamed and removed.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Locks a directory until the lock is dropped or the process ends. `None` if it is locked already, by this process or
    /// another one.
    fn lock(&self, dir: &Path) -> io::Result<Option<DirLock>>;

    /// When a file was last written, if the disk knows.
    fn modified(&self, _path: &Path) -> Option<SystemTime> {
        None
    }

    /// Whether a call may take long, so that a server must call it on a thread of its own.
    fn blocks(&self) -> bool {
        true
    }

    /// This disk under its own type, for a test harness that controls it while a server uses it.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// Holds the lock of a directory.
pub type DirLock = Box<dyn Any + Send + Sync>;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskEntry {
    /// Its name, without the directory.
    pub name: OsString,
    /// Its length in bytes, of a file.
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Whether it is a regular file, or a link to one. A pipe, a socket, and a link to nothing are neither.
    pub is_file: bool,
}

/// An open file.
pub trait DiskFile: fmt::Debug + Send + 'static {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads bytes from `offset` on, and returns how many: 0 at the end of the file, and otherwise perhaps fewer than `buffer` holds.
    /// If the system interrupts it, it is tried again here.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all bytes at `offset`. On an error any part of them may be written.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts the file to `len` bytes, or makes it that long with zeros.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Makes the file at least `len` bytes long, with zeros, and has the file system keep room for them, where it can do that.
    fn reserve(&mut self, len: u64) -> io::Result<()>;

    /// Makes the content and the length durable (`fdatasync`).
    fn sync(&mut self) -> io::Result<()>;

    /// Has the disk begin to write these bytes, where the system offers that, so that a later sync finds less to do. Nothing
    /// is known to be durable after it.
    fn begin_write(&mut self, _offset: u64, _len: u64) {}
}
