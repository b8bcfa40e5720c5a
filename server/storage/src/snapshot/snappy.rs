//! Snappy as Java's `SnappyOutputStream` writes it: a header of 16 bytes, then blocks with their compressed length.

use std::io::{self, Read, Write};

/// Magic, version, and the oldest version that is compatible.
const HEADER: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

/// The uncompressed length of the blocks that are written.
const BLOCK: usize = 32 << 10;

/// No block may be longer uncompressed. Java's default is [`BLOCK`].
const LONGEST: usize = 4 << 20;

/// Decompresses.
#[derive(Debug)]
pub(super) struct Decoder<R> {
    inner: R,
    started: bool,
    compressed: Vec<u8>,
    block: Vec<u8>,
    taken: usize,
}

impl<R: Read> Decoder<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, started: false, compressed: Vec::new(), block: Vec::new(), taken: 0 }
    }

    /// Reads the next block. `false` at the end.
    fn next_block(&mut self) -> io::Result<bool> {
        if !self.started {
            let mut header = [0; HEADER.len()];
            self.inner.read_exact(&mut header)?;
            // Java's reader does not compare the versions either.
            if header[..8] != HEADER[..8] {
                return Err(invalid("wrong magic bytes of snappy"));
            }
            self.started = true;
        }
        let mut len = [0; 4];
        match self.inner.read(&mut len[..1])? {
            0 => return Ok(false),
            _ => self.inner.read_exact(&mut len[1..])?,
        }
        let len = u32::from_be_bytes(len);
        if len as usize > snap::raw::max_compress_len(LONGEST) {
            return Err(invalid("a block of snappy is too long"));
        }
        self.compressed.clear();
        if (&mut self.inner).take(len.into()).read_to_end(&mut self.compressed)? < len as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let uncompressed = snap::raw::decompress_len(&self.compressed).map_err(io::Error::other)?;
        if uncompressed > LONGEST {
            return Err(invalid("a block of snappy is too long"));
        }
        self.block.resize(uncompressed, 0);
        snap::raw::Decoder::new().decompress(&self.compressed, &mut self.block).map_err(io::Error::other)?;
        self.taken = 0;
        Ok(true)
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.block.len() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let read = buffer.len().min(self.block.len() - self.taken);
        buffer[..read].copy_from_slice(&self.block[self.taken..self.taken + read]);
        self.taken += read;
        Ok(read)
    }
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Compresses.
pub(super) struct Encoder<W> {
    inner: W,
    block: Vec<u8>,
    encoder: snap::raw::Encoder,
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(mut inner: W) -> io::Result<Self> {
        inner.write_all(&HEADER)?;
        Ok(Self { inner, block: Vec::with_capacity(BLOCK), encoder: snap::raw::Encoder::new() })
    }

    pub(super) fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// Writes the last block.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.write_block()?;
        Ok(self.inner)
    }

    fn write_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let compressed = self.encoder.compress_vec(&self.block).map_err(io::Error::other)?;
        let len = u32::try_from(compressed.len()).map_err(io::Error::other)?;
        self.inner.write_all(&len.to_be_bytes())?;
        self.inner.write_all(&compressed)?;
        self.block.clear();
        Ok(())
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = bytes.len().min(BLOCK - self.block.len());
        self.block.extend_from_slice(&bytes[..written]);
        if self.block.len() == BLOCK {
            self.write_block()?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_decompresses_to_the_same() {
        for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17] {
            let text: Vec<u8> = (0..len).map(|i| (i / 7 % 251) as u8).collect();
            let mut encoder = Encoder::new(Vec::new()).unwrap();
            encoder.write_all(&text).unwrap();
            let compressed = encoder.finish().unwrap();
            assert_eq!(compressed[..16], HEADER);
            let mut again = Vec::new();
            Decoder::new(&compressed[..]).read_to_end(&mut again).unwrap();
            assert_eq!(again, text, "{len} bytes");
        }
    }

    #[test]
    fn a_block_that_claims_more_than_there_is_or_may_be_is_refused() {
        let decode = |blocks: &[u8]| {
            let bytes = [&HEADER[..], blocks].concat();
            Decoder::new(&bytes[..]).read_to_end(&mut Vec::new()).map_err(|error| error.kind())
        };
        assert_eq!(decode(&[0, 0, 0, 9, 1, 0]), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(decode(&[0, 0]), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff]), Err(io::ErrorKind::InvalidData));
        // A block of five bytes that promises four gigabytes.
        assert_eq!(decode(&[0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x0f]), Err(io::ErrorKind::InvalidData));
        assert_eq!(decode(&[]), Ok(0));
    }
}
