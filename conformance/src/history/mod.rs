//! Checks of what concurrent clients saw. [`Checker`] judges every operation of a server whose whole past is recorded;
//! [`HistoryCheck`] judges servers that are in use, or an ensemble, by registers and names of its own.

mod decided;
mod entry;
mod full;
mod model;
mod recorder;
mod recording;
mod registers;
mod tap;
mod verdict;

pub use decided::{Decided, Decision};
pub use entry::{Conn, HistoryEntry, HistoryEvent, Side};
pub use full::Checker;
pub use model::{Model, Outcome, Unmodelled};
pub use recording::{History, Tapping};
pub use registers::{HistoryCheck, HistoryReport};
pub use tap::{Tap, TapCounts};
pub use verdict::{CheckError, Operation, Rule, Undecided, Verdict, Violation};
