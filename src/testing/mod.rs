//! For tests of whatever talks ZooKeeper.
//!
//! - [`History`] records what passes between clients and a server, and checks it against the rules of ZooKeeper: one
//!   order that agrees with real time, all-or-nothing multis, watches that miss nothing.
//! - [`Tap`] sits on a client's end of a connection, and counts or records what passes.
//! - [`Model`] is a naive tree to compare a server with.

mod check;
mod history;
mod model;
mod recorder;
mod tap;

pub use check::{CheckError, Checker, Operation, Rule, Undecided, Verdict, Violation};
pub use history::{Conn, Entry, History, Side, What};
pub use model::{Model, Outcome, Unmodelled};
pub use tap::{Tap, TapCounts};
