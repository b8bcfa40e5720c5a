//! Whole small files and directories, with errors that name them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, DiskEntry, DiskFile};
use crate::error::StorageError;

/// The entries of a directory, sorted by name; none if it does not exist.
pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<DiskEntry>, StorageError> {
    match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        result => {
            let mut entries = result.map_err(StorageError::io("list", dir))?;
            entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        }
    }
}

/// The beginning of a file, at most `most` bytes; `None` if there is no such file.
pub(crate) fn read(disk: &dyn Disk, path: &Path, most: usize) -> Result<Option<Vec<u8>>, StorageError> {
    let file = match disk.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(StorageError::io("open", path))?,
    };
    let mut bytes = vec![0; most];
    let len = fill(&*file, &mut bytes, 0).map_err(StorageError::io("read", path))?;
    bytes.truncate(len);
    Ok(Some(bytes))
}

/// Reads from `offset` on until the buffer is full or the file ends. Returns how many bytes these are.
pub(crate) fn fill(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Creates a file, and makes its content durable, but not its name.
pub(crate) fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let mut file = disk.create(path).map_err(StorageError::io("create", path))?;
    file.write_at(bytes, 0).map_err(StorageError::io("write", path))?;
    file.sync().map_err(StorageError::io("sync", path))
}

/// Removes a file when it is dropped, unless it was renamed.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) path: PathBuf,
    pub(crate) is_there: bool,
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if self.is_there {
            // The next server that opens the directory removes what cannot be removed now.
            let _ = self.disk.remove(&self.path);
        }
    }
}
