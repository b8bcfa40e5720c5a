//! The transaction log: files of entries, each named by the zxid of its first one.
//!
//! A file has a header of 16 bytes, entries one after the other (`entry.rs`), and zeros up to the length that is reserved. The next
//! one is made ready while it is filled (`spare.rs`).

mod entry;
mod fields;
mod format;
mod reader;
mod record;
mod spare;
#[cfg(test)]
mod tests;
mod window;
mod writer;

pub use format::follows;
pub use reader::{Fault, LogEnd, LogEntry, LogItem, LogReader};
pub use spare::{SpareJob, SpareLog};
pub use writer::LogWriter;
