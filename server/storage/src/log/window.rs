//! [`Window`]: a file read through a buffer that moves along.

use std::path::{Path, PathBuf};

use crate::disk::DiskFile;
use crate::disk::files::fill;
use crate::error::StorageError;

/// How much is read at once, unless more is asked for.
const CHUNK: usize = 1 << 20;

/// The part of a file that is in memory. It moves forward with what is asked for, and back if it must.
#[derive(Debug)]
pub(crate) struct Window {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    pub(crate) fn new(file: Box<dyn DiskFile>, path: &Path) -> Result<Self, StorageError> {
        let len = file.len().map_err(StorageError::io("read", path))?;
        Ok(Self { path: path.to_owned(), file, len, start: 0, bytes: Vec::new() })
    }

    /// The length of the file when it was opened.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// How many bytes there are from `offset` on, at most `most`.
    fn until_end(&self, offset: u64, most: usize) -> usize {
        usize::try_from(self.len.saturating_sub(offset)).map_or(most, |left| left.min(most))
    }

    /// The bytes from `offset` on: `want` of them, or fewer at the end of the file.
    pub(crate) fn at(&mut self, offset: u64, want: usize) -> Result<&[u8], StorageError> {
        let bytes = self.at_least(offset, want)?;
        Ok(&bytes[..bytes.len().min(want)])
    }

    /// The bytes from `offset` on: at least `want` of them, or fewer at the end of the file. More, as far as they are in memory.
    pub(crate) fn at_least(&mut self, offset: u64, want: usize) -> Result<&[u8], StorageError> {
        let want = self.until_end(offset, want);
        if want == 0 {
            return Ok(&[]);
        }
        let held = offset.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        let skip = match held {
            Some(skip) if skip + want <= self.bytes.len() => skip,
            held => {
                self.move_to(offset, held, want)?;
                0
            }
        };
        Ok(self.bytes.get(skip..).unwrap_or_default())
    }

    /// The byte at `offset`. Moves nothing.
    pub(crate) fn peek(&self, offset: u64) -> Result<Option<u8>, StorageError> {
        if offset >= self.len {
            return Ok(None);
        }
        let held = offset.checked_sub(self.start).and_then(|at| self.bytes.get(usize::try_from(at).ok()?));
        if let Some(byte) = held {
            return Ok(Some(*byte));
        }
        let mut byte = [0];
        Ok((self.file.read_at(&mut byte, offset).map_err(StorageError::io("read", &self.path))? == 1)
            .then_some(byte[0]))
    }

    /// Moves the start to `offset`, and keeps what is in memory already.
    fn move_to(&mut self, offset: u64, held: Option<usize>, want: usize) -> Result<(), StorageError> {
        // What is not kept is overwritten and not filled with zeros before: without optimization, zeros for the 64 MiB at the end of
        // a file took most of a start.
        let mut filled = match held {
            Some(skip) if skip < self.bytes.len() => {
                drop(self.bytes.drain(..skip));
                self.bytes.len()
            }
            _ => 0,
        };
        self.start = offset;
        let target = self.until_end(offset, want.max(CHUNK));
        if filled == 0 && self.bytes.capacity() < target {
            // Pages of zeros from the allocator.
            self.bytes = vec![0; target];
        }
        self.bytes.resize(target.max(filled), 0);
        self.bytes.shrink_to(4 * CHUNK);
        let read = fill(&*self.file, &mut self.bytes[filled..], offset + filled as u64);
        filled += *read.as_ref().unwrap_or(&0);
        // Also after an error: what was not read is not in memory.
        self.bytes.truncate(filled);
        read.map_err(StorageError::io("read", &self.path))?;
        if filled < target {
            // Somebody has cut the file.
            self.len = offset + filled as u64;
        }
        Ok(())
    }

    /// Reads what is in memory again, when it is asked for.
    pub(crate) fn forget(&mut self) {
        self.bytes.clear();
    }

    /// Where the first byte at or after `offset` is that is not zero.
    pub(crate) fn next_nonzero(&mut self, mut offset: u64) -> Result<Option<u64>, StorageError> {
        loop {
            let bytes = self.at_least(offset, 1)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            if let Some(at) = first_nonzero(bytes) {
                return Ok(Some(offset + at as u64));
            }
            offset += bytes.len() as u64;
        }
    }
}

/// Compares by blocks, as most files end with 64 MiB of zeros.
fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    static ZEROS: [u8; 4096] = [0; 4096];
    let block = bytes.chunks(ZEROS.len()).position(|block| block != &ZEROS[..block.len()])?;
    let start = block * ZEROS.len();
    bytes[start..].iter().position(|byte| *byte != 0).map(|at| start + at)
}
