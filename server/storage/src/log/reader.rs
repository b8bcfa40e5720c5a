//! [`LogReader`]: the entries of one log file, and how it ends.

use std::path::Path;

use bytes::Buf;
use zoolet_proto::Zxid;
use zoolet_server_core::{Txn, TxnOp};

use super::entry::{self, END, Entry, EntryHeader, MAX_PAYLOAD, MIN_PAYLOAD, PREFIX};
use super::fields::Fields;
use super::format::{FILE_HEADER, MAGIC, VERSION};
use super::record::{RecordParser, is_known};
use super::window::Window;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

/// An entry of a log file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogEntry {
    /// Where it begins in its file.
    pub offset: u64,
    /// How many bytes it has there.
    pub len: u64,
    /// What it says.
    pub txn: Txn,
    /// Where the batch begins that it was written with, if the entry says that: those of Apache do not.
    pub batch: Option<u64>,
}

impl LogEntry {
    /// Whether it is a refused write with the zxid of the one before: Apache gives those that it cannot decode no zxid of their own. Nothing
    /// of ours is such an entry.
    pub(crate) fn repeats(&self, last: Zxid) -> bool {
        self.batch.is_none() && self.txn.zxid == last && matches!(self.txn.op, TxnOp::Error(_))
    }
}

/// How a log file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogEnd {
    /// After the last entry there is nothing, or only zeros.
    Clean {
        /// Where the last entry ends.
        offset: u64,
    },
    /// The last write was not finished: the entry at `offset` is bad, and all valid ones after it, if any, were written with it.
    /// None of them was acknowledged.
    Torn {
        /// Where the bad entry begins.
        offset: u64,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The entry at `offset` is bad, and was not written last: it may have been acknowledged.
    Damaged {
        /// Where the bad entry begins.
        offset: u64,
        /// What is wrong with it.
        fault: Fault,
        /// Where the next valid entry is, and its zxid.
        next: Option<(u64, Zxid)>,
    },
}

impl LogEnd {
    /// Where the readable part ends.
    pub fn offset(&self) -> u64 {
        match self {
            Self::Clean { offset } | Self::Torn { offset, .. } | Self::Damaged { offset, .. } => *offset,
        }
    }
}

/// What is wrong with an entry, or with the beginning of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file ends within it.
    #[error("the file ends within an entry")]
    CutShort,
    /// No entry has that length.
    #[error("the length of an entry is {0}")]
    Length(i32),
    /// The last byte is another one than that of an entry.
    #[error("the last byte of an entry is {0:#04x} instead of 0x42")]
    LastByte(u8),
    /// The checksum is not that of the content.
    #[error("the checksum of an entry is wrong")]
    Checksum,
    /// The checksum is right, but no server writes such content.
    #[error("an entry with a right checksum has {0}")]
    Malformed(&'static str),
    /// The file does not begin as a log does.
    #[error("the file does not begin with ZKLG")]
    NoLog,
    /// The format of the file is of this version, which is not 2.
    #[error("the format has version {0} instead of 2")]
    Version(i32),
}

/// What a [`LogReader`] finds next.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "nearly all are entries")]
pub enum LogItem {
    /// An entry.
    Entry(LogEntry),
    /// The end, again and again.
    End(LogEnd),
}

/// Reads a log file from the front. Needs a megabyte, or as much as the longest entry has, and no entry has more than 64 MiB.
#[derive(Debug)]
pub struct LogReader {
    window: Window,
    records: RecordParser,
    next: u64,
    /// Where bad bytes were read a second time.
    read_again: Option<u64>,
    end: Option<LogEnd>,
}

impl LogReader {
    /// Begins to read `file`, whose name is `path`.
    ///
    /// # Errors
    /// The disk's. A file that is not a log is not an error: its end says so.
    pub fn new(file: Box<dyn DiskFile>, path: &Path) -> Result<Self, StorageError> {
        let window = Window::new(file, path)?;
        let records = RecordParser::default();
        let mut reader = Self { window, records, next: FILE_HEADER, read_again: None, end: None };
        reader.end = reader.check_file_header()?;
        Ok(reader)
    }

    /// Opens a file, and begins to read it.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Self, StorageError> {
        Self::new(disk.open(path).map_err(StorageError::io("open", path))?, path)
    }

    /// The next entry, or the end of the file.
    ///
    /// # Errors
    /// The disk's. Wrong content is not an error here: it is a [`LogEnd`].
    #[allow(clippy::should_implement_trait, reason = "the end is a value, and so is an error")]
    pub fn next(&mut self) -> Result<LogItem, StorageError> {
        if let Some(end) = self.end {
            return Ok(LogItem::End(end));
        }
        let offset = self.next;
        let fault = match self.probe(offset)? {
            Ok(len) => match self.parse(offset, len)? {
                Ok(entry) => {
                    self.next += entry.len;
                    return Ok(LogItem::Entry(entry));
                }
                Err(reason) => Fault::Malformed(reason),
            },
            Err(fault) => fault,
        };
        let end = self.classify(offset, fault)?;
        if matches!(end, LogEnd::Damaged { .. }) && self.read_again != Some(offset) {
            // A server may have been writing it. What follows was written later, so by now it is complete.
            self.read_again = Some(offset);
            self.window.forget();
            return self.next();
        }
        self.end = Some(end);
        Ok(LogItem::End(end))
    }

    /// Goes on reading at `offset`, after damage.
    pub fn resume_at(&mut self, offset: u64) {
        self.next = offset;
        self.end = None;
    }

    /// The first valid entry after `offset`, where a bad one is: its offset and its zxid.
    pub(crate) fn find_after(&mut self, offset: u64) -> Result<Option<(u64, Zxid)>, StorageError> {
        let mut search = self.begin_search(offset)?;
        Ok(self.search(&mut search)?.map(|entry| (entry.offset, entry.txn.zxid)))
    }

    fn check_file_header(&mut self) -> Result<Option<LogEnd>, StorageError> {
        let header = self.window.at(0, 16)?;
        let version = header.strip_prefix(&MAGIC).and_then(|mut rest| rest.try_get_i32().ok());
        let fault = match version {
            // Begun and not finished, as Apache creates files: the name first.
            _ if header.len() < 16 && MAGIC.starts_with(&header[..header.len().min(4)]) => Fault::CutShort,
            Some(VERSION) => return Ok(None),
            Some(version) => {
                return Ok(Some(LogEnd::Damaged { offset: 4, fault: Fault::Version(version), next: None }));
            }
            None => Fault::NoLog,
        };
        let blank = self.window.next_nonzero(0)?.is_none();
        Ok(Some(if blank || fault == Fault::CutShort {
            LogEnd::Torn { offset: 0, fault }
        } else {
            LogEnd::Damaged { offset: 0, fault, next: None }
        }))
    }

    /// The checksum and the length of the whole entry at `offset`, if its length is one of an entry and its last byte is right.
    fn frame(&mut self, offset: u64) -> Result<Result<([u8; 8], usize), Fault>, StorageError> {
        let Some((prefix, _)) = self.window.at(offset, PREFIX)?.split_first_chunk::<PREFIX>() else {
            return Ok(Err(Fault::CutShort));
        };
        let [sum @ .., l0, l1, l2, l3] = *prefix;
        let len = i32::from_be_bytes([l0, l1, l2, l3]);
        let Some(payload_len) = usize::try_from(len).ok().filter(|len| (1..=MAX_PAYLOAD).contains(len))
        else {
            return Ok(Err(Fault::Length(len)));
        };
        let whole = PREFIX + payload_len + 1;
        Ok(match self.window.peek(offset + whole as u64 - 1)? {
            None => Err(Fault::CutShort),
            Some(END) => Ok((sum, whole)),
            Some(last) => Err(Fault::LastByte(last)),
        })
    }

    /// The length of the entry with a right checksum at `offset`, or why there is none.
    fn probe(&mut self, offset: u64) -> Result<Result<usize, Fault>, StorageError> {
        // The last byte first, so that a wrong length loads nothing.
        let (sum, whole) = match self.frame(offset)? {
            Ok(frame) => frame,
            Err(fault) => return Ok(Err(fault)),
        };
        let bytes = self.window.at(offset, whole)?;
        let sums = bytes.get(PREFIX..whole - 1).is_some_and(|payload| entry::sum_matches(sum, payload));
        Ok(if sums { Ok(whole) } else { Err(Fault::Checksum) })
    }

    /// Parses the entry of `len` bytes at `offset`, whose checksum is right.
    fn parse(&mut self, offset: u64, len: usize) -> Result<Result<LogEntry, &'static str>, StorageError> {
        let bytes = self.window.at(offset, len)?;
        let payload = bytes.get(PREFIX..len - 1).unwrap_or_default();
        Ok(entry::parse(payload, &mut self.records).map(|Entry { txn, distance }| {
            let batch = distance.and_then(|distance| offset.checked_sub(u64::from(distance)));
            let batch = batch.filter(|batch| *batch >= FILE_HEADER);
            LogEntry { offset, len: len as u64, txn, batch }
        }))
    }

    /// What a bad entry at `offset` is: the end, a torn write or damage.
    fn classify(&mut self, offset: u64, fault: Fault) -> Result<LogEnd, StorageError> {
        let may_be_zeros = matches!(fault, Fault::Length(0) | Fault::CutShort);
        if may_be_zeros && self.window.next_nonzero(offset)?.is_none() {
            return Ok(LogEnd::Clean { offset });
        }
        let mut search = self.begin_search(offset)?;
        let mut next = None;
        // Checked and stored long ago: no power loss changes such an entry.
        let mut damaged = matches!(fault, Fault::Malformed(_));
        while let Some(entry) = self.search(&mut search)? {
            next = next.or(Some((entry.offset, entry.txn.zxid)));
            damaged |= entry.batch.is_none_or(|batch| batch > offset);
            if damaged {
                break;
            }
            search.next = entry.offset + entry.len;
        }
        Ok(if damaged || search.given_up {
            LogEnd::Damaged { offset, fault, next }
        } else {
            LogEnd::Torn { offset, fault }
        })
    }

    /// A search for valid entries after the bad one at `offset`.
    fn begin_search(&mut self, offset: u64) -> Result<EntrySearch, StorageError> {
        // Not within the bad entry, if where it ends is beyond doubt: the data of a znode may look like an entry.
        let next = self.certain_end(offset)?.unwrap_or(offset + 1);
        Ok(EntrySearch { next, budget: 16 * self.window.len() + (64 << 20), given_up: false })
    }

    /// Where the bad entry at `offset` ends, if its last byte is right and another entry or the end of the log follows.
    fn certain_end(&mut self, offset: u64) -> Result<Option<u64>, StorageError> {
        let Ok((_, whole)) = self.frame(offset)? else { return Ok(None) };
        let end = offset + whole as u64;
        let certain = self.probe(end)?.is_ok() || self.window.next_nonzero(end)?.is_none();
        Ok(certain.then_some(end))
    }

    /// The next valid entry from `search.next` on, at any offset.
    fn search(&mut self, search: &mut EntrySearch) -> Result<Option<LogEntry>, StorageError> {
        // As far as the type in the header.
        const NEEDED: usize = PREFIX + MIN_PAYLOAD;
        while let Some(nonzero) = self.window.next_nonzero(search.next)? {
            // The length of an entry is not zero.
            search.next = search.next.max(nonzero.saturating_sub(PREFIX as u64 - 1));
            let bytes = self.window.at_least(search.next, NEEDED + 1)?;
            let candidates = bytes.len().saturating_sub(NEEDED);
            if candidates == 0 {
                return Ok(None);
            }
            let Some(at) = bytes.windows(NEEDED).take(candidates).position(may_begin_entry) else {
                search.next += candidates as u64;
                continue;
            };
            let offset = search.next + at as u64;
            match self.probe(offset)? {
                Ok(len) => {
                    if let Ok(entry) = self.parse(offset, len)? {
                        return Ok(Some(entry));
                    }
                }
                Err(Fault::Checksum) => {
                    let Some(budget) = search.budget.checked_sub(self.claimed_len(offset)?) else {
                        search.given_up = true;
                        return Ok(None);
                    };
                    search.budget = budget;
                }
                Err(_) => {}
            }
            search.next = offset + 1;
        }
        Ok(None)
    }

    fn claimed_len(&mut self, offset: u64) -> Result<u64, StorageError> {
        let len = self.window.at(offset + 8, 4)?.iter().fold(0, |len, byte| len << 8 | u64::from(*byte));
        Ok(len)
    }
}

/// A search for valid entries.
struct EntrySearch {
    /// Where to look next.
    next: u64,
    /// How many more bytes are summed in vain before the search gives up: data that is made for it costs quadratic time.
    budget: u64,
    /// Whether it has given up.
    given_up: bool,
}

/// Whether these could be the first bytes of an entry, before its checksum is calculated.
fn may_begin_entry(bytes: &[u8]) -> bool {
    let Some((prefix, header)) = bytes.split_first_chunk::<PREFIX>() else { return false };
    let [0, 0, 0, 0, .., l0, l1, l2, l3] = *prefix else { return false };
    let len = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    (MIN_PAYLOAD..=MAX_PAYLOAD).contains(&len)
        && EntryHeader::parse(&mut Fields(header))
            .is_ok_and(|header| header.zxid.0 > 0 && is_known(header.kind))
}
