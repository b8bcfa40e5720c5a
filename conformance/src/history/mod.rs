//! Checks of what concurrent clients saw.

mod registers;

pub use registers::{HistoryCheck, Verdict, Violation};
