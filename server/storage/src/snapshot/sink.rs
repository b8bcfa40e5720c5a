//! [`Sink`]: a file that a snapshot is written to, compressed or not.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::write::GzEncoder;

use super::snappy;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::options::Compression;

/// Bytes written at once.
pub(super) const CHUNK: usize = 256 << 10;

/// Writes a file from its beginning to its end.
pub(super) enum Sink {
    Plain(Appender),
    Gzip(GzEncoder<BufWriter<Appender>>),
    Snappy(Box<snappy::Encoder<BufWriter<Appender>>>),
}

impl Sink {
    pub(super) fn create(
        disk: &dyn Disk,
        path: &Path,
        compression: Compression,
    ) -> Result<Self, StorageError> {
        let file = disk.create(path).map_err(StorageError::io("create", path))?;
        let file = Appender { file, len: 0, synced: 0 };
        let buffered = |file| BufWriter::with_capacity(CHUNK, file);
        Ok(match compression {
            Compression::None => Self::Plain(file),
            Compression::Gzip => Self::Gzip(GzEncoder::new(buffered(file), flate2::Compression::default())),
            Compression::Snappy => {
                let encoder =
                    snappy::Encoder::new(buffered(file)).map_err(StorageError::io("write", path))?;
                Self::Snappy(Box::new(encoder))
            }
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Snappy(encoder) => encoder.write_all(bytes),
        }
    }

    /// Syncs what was written to the file, if anything was.
    pub(super) fn sync_written(&mut self) -> io::Result<()> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Gzip(encoder) => encoder.get_mut().get_mut(),
            Self::Snappy(encoder) => encoder.get_mut().get_mut(),
        };
        if file.len > file.synced {
            file.file.sync()?;
            file.synced = file.len;
        }
        Ok(())
    }

    /// Writes what is left. The file that is returned is complete, but not synced.
    pub(super) fn finish(self) -> io::Result<Appender> {
        let unbuffered =
            |buffer: BufWriter<Appender>| buffer.into_inner().map_err(io::IntoInnerError::into_error);
        match self {
            Self::Plain(file) => Ok(file),
            Self::Gzip(encoder) => unbuffered(encoder.finish()?),
            Self::Snappy(encoder) => unbuffered(encoder.finish()?),
        }
    }
}

/// Appends to a file.
pub(super) struct Appender {
    pub(super) file: Box<dyn DiskFile>,
    pub(super) len: u64,
    synced: u64,
}

impl Write for Appender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.len)?;
        self.len += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
