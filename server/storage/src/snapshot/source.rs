//! [`Source`]: the uncompressed bytes of a snapshot, with their running checksum.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;
use simd_adler32::Adler32;

use super::snappy;
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, StorageError};
use crate::options::Compression;

/// What to do about a damaged snapshot.
pub(crate) const HINT: &str =
    "move the file away if an older snapshot and the log since then are complete, or restore it from a copy";

/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// Reads a snapshot from its beginning to its end. A length in the file never reserves more memory than there are bytes.
pub(crate) struct Source {
    path: PathBuf,
    /// Returns 0 only at the end.
    stream: Box<dyn Read + Send>,
    file_len: u64,
    /// How many bytes of the file the stream has read.
    file_read: Arc<AtomicU64>,
    /// Holds bytes that were read: those in `start..end` are not taken yet.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The checksum includes the buffer up to here. Never greater than `start`.
    summed: usize,
    sum: Adler32,
    /// The position of the buffer's first byte in the uncompressed stream.
    base: u64,
}

impl Source {
    pub(crate) fn open(disk: &dyn Disk, path: &Path, compression: Compression) -> Result<Self, StorageError> {
        let file = disk.open(path).map_err(StorageError::io("open", path))?;
        let file_len = file.len().map_err(StorageError::io("read", path))?;
        let file_read = Arc::new(AtomicU64::new(0));
        let cursor = FileCursor { file, len: file_len, offset: Arc::clone(&file_read) };
        let buffered = |cursor| BufReader::with_capacity(CHUNK, cursor);
        let stream: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(cursor),
            Compression::Gzip => Box::new(WholeGzip(GzDecoder::new(buffered(cursor)))),
            Compression::Snappy => Box::new(snappy::Decoder::new(buffered(cursor))),
        };
        let buffer = match compression {
            Compression::None => vec![0; usize::try_from(file_len).map_or(CHUNK, |len| len.clamp(1, CHUNK))],
            _ => vec![0; CHUNK],
        };
        Ok(Self {
            path: path.to_owned(),
            stream,
            file_len,
            file_read,
            buffer,
            start: 0,
            end: 0,
            summed: 0,
            sum: Adler32::new(),
            base: 0,
        })
    }

    /// The position of the next byte in the uncompressed stream.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// How many bytes of the file have been read, and how many it has.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.file_read.load(Ordering::Relaxed), self.file_len)
    }

    /// Damage at this position of the uncompressed stream.
    pub(crate) fn damage(&self, offset: u64, reason: impl Into<String>) -> Damage {
        Damage { file: self.path.clone(), offset: Some(offset), reason: reason.into(), hint: HINT }
    }

    /// The checksum of all bytes taken.
    pub(crate) fn checksum(&mut self) -> u32 {
        self.sum.write(&self.buffer[self.summed..self.start]);
        self.summed = self.start;
        self.sum.finish()
    }

    /// Takes the next `len` bytes. `part` names what they belong to.
    #[inline]
    pub(crate) fn take(&mut self, len: usize, part: &'static str) -> Result<&[u8], StorageError> {
        if self.end - self.start < len && self.fill(len)? < len {
            let end = self.base + self.end as u64;
            return Err(self.damage(end, format!("the file ends within {part}")).into());
        }
        self.start += len;
        Ok(&self.buffer[self.start - len..self.start])
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, part: &'static str) -> Result<[u8; N], StorageError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N, part)?);
        Ok(bytes)
    }

    #[inline]
    pub(crate) fn int(&mut self, part: &'static str) -> Result<i32, StorageError> {
        Ok(i32::from_be_bytes(self.array(part)?))
    }

    #[inline]
    pub(crate) fn long(&mut self, part: &'static str) -> Result<i64, StorageError> {
        Ok(i64::from_be_bytes(self.array(part)?))
    }

    /// A count of elements.
    pub(crate) fn count(&mut self, part: &'static str) -> Result<u32, StorageError> {
        let at = self.offset();
        let count = self.int(part)?;
        count.try_into().map_err(|_| self.damage(at, format!("a count of {count} in {part}")).into())
    }

    /// Bytes with their length before them; −1 is null.
    #[inline]
    pub(crate) fn field(&mut self, part: &'static str) -> Result<Option<&[u8]>, StorageError> {
        match self.int(part)? {
            -1 => Ok(None),
            len => match usize::try_from(len) {
                Ok(len) => self.take(len, part).map(Some),
                Err(_) => Err(self.damage(self.offset() - 4, format!("a length of {len} in {part}")).into()),
            },
        }
    }

    /// Shows the next bytes without taking them: `len` of them, or all that are left.
    pub(crate) fn peek(&mut self, len: usize) -> Result<&[u8], StorageError> {
        let available = self.fill(len)?.min(len);
        Ok(&self.buffer[self.start..self.start + available])
    }

    /// Reads on until `len` bytes are there or the stream ends, and returns how many are there.
    #[cold]
    fn fill(&mut self, len: usize) -> Result<usize, StorageError> {
        self.checksum();
        self.buffer.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        (self.start, self.end, self.summed) = (0, self.end - self.start, 0);
        while self.end < len {
            if self.end == self.buffer.len() {
                self.buffer.resize((2 * self.end).min(len), 0);
            }
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(read) => self.end += read,
                Err(error) => return Err(self.explain(error)),
            }
        }
        Ok(self.end)
    }

    /// Distinguishes an error of the disk from one of the decoder.
    fn explain(&self, error: io::Error) -> StorageError {
        match error.downcast() {
            Ok(DiskError(error)) => StorageError::io("read", &self.path)(error),
            Err(error) => {
                self.damage(self.base + self.end as u64, format!("cannot decompress: {error}")).into()
            }
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("path", &self.path)
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}

/// A gzip stream with nothing after it.
struct WholeGzip(GzDecoder<BufReader<FileCursor>>);

impl Read for WholeGzip {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !self.0.get_mut().fill_buf()?.is_empty() => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "bytes after the end of the gzip stream"))
            }
            read => Ok(read),
        }
    }
}

/// A file read from its beginning to the length that it had when it was opened.
struct FileCursor {
    file: Box<dyn DiskFile>,
    len: u64,
    offset: Arc<AtomicU64>,
}

/// An error of the disk. A decoder's own errors have the same type, so the disk's travel through it in this one.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct DiskError(io::Error);

impl Read for FileCursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let offset = self.offset.load(Ordering::Relaxed);
        let left = usize::try_from(self.len - offset).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..wanted], offset);
        let read = read.map_err(|error| io::Error::new(error.kind(), DiskError(error)))?;
        self.offset.store(offset + read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
