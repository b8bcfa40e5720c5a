//! The transaction log: files of entries, each named by the zxid of its first one.
//!
//! A file has a header of 16 bytes, entries one after the other (`entry.rs`), and zeros up to the length that is reserved. The next
//! one is made ready while it is filled (`spare.rs`).

mod entry;
mod fields;
mod reader;
mod record;
mod spare;
#[cfg(test)]
mod tests;
mod window;
mod writer;

pub use reader::{Fault, LogEnd, LogEntry, LogItem, LogReader};
pub use spare::{SpareJob, SpareLog};
pub use writer::LogWriter;

use zoolet_proto::Zxid;

/// The first bytes of a log file: `ZKLG`.
const MAGIC: [u8; 4] = *b"ZKLG";
const VERSION: i32 = 2;
/// The length of the header: magic, version, and a database id, which is 0.
const FILE_HEADER: u64 = 16;

/// Whether a transaction may come after another one: the zxid is one higher, or the first of a later epoch, which an ensemble
/// begins when it elects a leader.
pub(crate) fn follows(last: Zxid, next: Zxid) -> bool {
    let (epoch, counter) = (next.0 >> 32, next.0 & 0xffff_ffff);
    next.0 > last.0 && (next.0 - 1 == last.0 || (epoch > last.0 >> 32 && counter == 1))
}
