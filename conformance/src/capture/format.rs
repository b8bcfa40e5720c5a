//! The file of a capture: a header, then records, the last of which says that it is whole.
//!
//! Everything has a checksum, so damage is always noticed. A file that ends early is not damage: it is what a capture leaves
//! that was killed.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};

use crate::error::CaptureError;
use crate::history::Side;

/// The first bytes of every capture. The last of them is the version of the format.
pub(super) const MAGIC: [u8; 8] = *b"zlcaptr\x01";

/// The bytes of a record before its content, without their checksum.
const HEADER: usize = 4 + 8 + 4 + 1;
const CHECKSUM: usize = 4;

/// The longest content of a record.
pub(super) const MAX_CONTENT: usize = 64 << 20;

/// The connection that stands for the observer in a capture.
pub(super) const OBSERVER: u32 = 0;

/// Something that happened on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Since the begin of the capture, in whole microseconds.
    pub(crate) time: Duration,
    /// Connections are counted from 1. 0 is the capture itself, which watches what is deleted.
    pub(crate) connection: u32,
    pub(crate) kind: RecordKind,
    /// The payload of a frame, or bytes that are not a frame.
    pub(crate) content: Bytes,
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A client has connected.
    Opened,
    /// A frame of this end.
    Frame(Side),
    /// Bytes of this end that are not a frame, such as a four-letter word.
    Bytes(Side),
    /// This end has ended the connection; of the server also that it could not be reached.
    Ended(Side),
    /// The capture has ended, and with it all connections that are open. The last record.
    Finished,
}

impl RecordKind {
    const ALL: [Self; 8] = [
        Self::Opened,
        Self::Frame(Side::Client),
        Self::Frame(Side::Server),
        Self::Bytes(Side::Client),
        Self::Bytes(Side::Server),
        Self::Ended(Side::Client),
        Self::Ended(Side::Server),
        Self::Finished,
    ];

    /// Its number in the file.
    const fn number(self) -> u8 {
        match self {
            Self::Opened => 1,
            Self::Frame(Side::Client) => 2,
            Self::Frame(Side::Server) => 3,
            Self::Bytes(Side::Client) => 4,
            Self::Bytes(Side::Server) => 5,
            Self::Ended(Side::Client) => 6,
            Self::Ended(Side::Server) => 7,
            Self::Finished => 8,
        }
    }
}

/// Appends a record.
pub(super) fn write_record(record: &Record, out: &mut impl Write) -> io::Result<()> {
    let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "a record is too long");
    let length = u32::try_from(record.content.len()).map_err(too_long)?;
    let micros = u64::try_from(record.time.as_micros()).unwrap_or(u64::MAX);
    let mut header = Vec::with_capacity(HEADER);
    header.put_u32(length);
    header.put_u64(micros);
    header.put_u32(record.connection);
    header.push(record.kind.number());
    out.write_all(&header)?;
    out.write_all(&crc32fast::hash(&header).to_be_bytes())?;
    out.write_all(&record.content)?;
    out.write_all(&crc32fast::hash(&record.content).to_be_bytes())
}

/// Reads the records of a file.
#[derive(Debug)]
pub(crate) struct Records<R = BufReader<File>> {
    input: R,
    file: PathBuf,
    /// Where the next record begins.
    offset: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// The last record has been read.
    Whole,
    /// The file ended before the last record.
    Torn,
}

impl Records {
    pub(crate) fn open(file: &Path) -> Result<Self, CaptureError> {
        let input = File::open(file).map_err(|source| CaptureError::read(file, source))?;
        Records::new(BufReader::with_capacity(1 << 16, input), file)
    }
}

impl<R: Read> Records<R> {
    fn new(input: R, file: &Path) -> Result<Self, CaptureError> {
        let offset = MAGIC.len() as u64;
        let mut records = Self { input, file: file.to_owned(), offset, state: State::Reading };
        let mut magic = [0; MAGIC.len()];
        let is_whole = records.fill(&mut magic)?;
        let (name, version) = (&MAGIC[..7], MAGIC[7]);
        if !is_whole || magic[..7] != *name {
            return Err(CaptureError::NoCapture { file: file.to_owned() });
        }
        if magic[7] != version {
            return Err(CaptureError::Version { file: file.to_owned(), version: magic[7] });
        }
        Ok(records)
    }

    /// The next record. None at the end, and where the file breaks off.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, CaptureError> {
        if self.state != State::Reading {
            return Ok(None);
        }
        let mut header = [0; HEADER + CHECKSUM];
        if !self.fill(&mut header)? {
            return Ok(None);
        }
        let (mut fields, mut checksum) = header.split_at(HEADER);
        if crc32fast::hash(fields) != checksum.get_u32() {
            return Err(self.damaged());
        }
        let (length, micros) = (fields.get_u32() as usize, fields.get_u64());
        let (connection, number) = (fields.get_u32(), fields.get_u8());
        let kind = RecordKind::ALL.into_iter().find(|kind| kind.number() == number);
        let (Some(kind), true) = (kind, length <= MAX_CONTENT) else { return Err(self.damaged()) };
        let mut content = vec![0; length];
        let mut checksum = [0; CHECKSUM];
        if !self.fill(&mut content)? || !self.fill(&mut checksum)? {
            return Ok(None);
        }
        if crc32fast::hash(&content).to_be_bytes() != checksum {
            return Err(self.damaged());
        }
        self.offset += (HEADER + CHECKSUM + length + CHECKSUM) as u64;
        if kind == RecordKind::Finished {
            self.state = State::Whole;
            return Ok(None);
        }
        let time = Duration::from_micros(micros);
        Ok(Some(Record { time, connection, kind, content: content.into() }))
    }

    /// What is missing, if the file has ended before its last record.
    pub(crate) fn warning(&self) -> Option<String> {
        (self.state == State::Torn).then(|| {
            format!(
                "{} breaks off at offset {}: the capture was not ended by a signal; what comes before is used",
                self.file.display(),
                self.offset
            )
        })
    }

    /// Fills the buffer. False, and the file is torn, if it ends before.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, CaptureError> {
        match self.input.read_exact(buffer) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.state = State::Torn;
                Ok(false)
            }
            Err(source) => Err(CaptureError::read(&self.file, source)),
        }
    }

    fn damaged(&self) -> CaptureError {
        CaptureError::Damaged { file: self.file.clone(), offset: self.offset }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    fn records() -> Vec<Record> {
        let record = |micros, kind, content: &'static [u8]| Record {
            time: Duration::from_micros(micros),
            connection: 7,
            kind,
            content: Bytes::from_static(content),
        };
        vec![
            record(0, RecordKind::Opened, b""),
            record(12, RecordKind::Frame(Side::Client), b"a frame"),
            record(u64::from(u32::MAX) + 5, RecordKind::Ended(Side::Server), b""),
        ]
    }

    fn file(finished: bool) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        records().iter().for_each(|record| write_record(record, &mut bytes).unwrap());
        if finished {
            let last = Record { kind: RecordKind::Finished, content: Bytes::new(), ..records()[0].clone() };
            write_record(&last, &mut bytes).unwrap();
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(Vec<Record>, Option<String>), CaptureError> {
        let mut reader = Records::new(bytes, Path::new("x.cap"))?;
        let mut records = Vec::new();
        while let Some(record) = reader.next()? {
            records.push(record);
        }
        Ok((records, reader.warning()))
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(read(&file(true)).unwrap(), (records(), None));
    }

    #[test]
    fn a_file_that_breaks_off_anywhere_gives_the_whole_records_and_a_warning() {
        let bytes = file(true);
        for end in MAGIC.len()..bytes.len() {
            let (found, warning) = read(&bytes[..end]).unwrap();
            assert_eq!(found, records()[..found.len()], "{end} bytes");
            let warning = warning.unwrap_or_else(|| panic!("no warning at {end} bytes"));
            assert!(warning.starts_with("x.cap breaks off at offset "), "{warning}");
        }
        let (found, warning) = read(&file(false)).unwrap();
        assert_eq!((found, warning.is_some()), (records(), true));
    }

    #[test]
    fn every_changed_bit_is_an_error() {
        let bytes = file(true);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(read(&damaged).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn damage_is_reported_with_the_offset_of_its_record() {
        let mut bytes = file(true);
        // The first record has no content.
        let second = MAGIC.len() + HEADER + 2 * CHECKSUM;
        bytes[second + HEADER + CHECKSUM] ^= 1;
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains(&format!("offset {second}")), "{error}");
    }

    #[test]
    fn another_file_and_another_version_are_refused() {
        let refused = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert_eq!(refused(b""), "x.cap is not a capture: it does not begin as `zoolet capture` writes it");
        assert_eq!(refused(b"#!/bin/sh\n"), refused(b""));
        assert!(refused(b"zlcaptr\x02").contains("version 2"), "{}", refused(b"zlcaptr\x02"));
    }
}
