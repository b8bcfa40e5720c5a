//! Judges whether a server speaks the ZooKeeper protocol as Apache ZooKeeper does.
//!
//! A [`Catalogue`] is a list of [cases](Case): short scripts of requests, and what must come back. The built-in one,
//! [`Catalogue::builtin`], passes on Apache ZooKeeper 3.8 and 3.9. [`Runner`] runs cases on a server; each has a subtree and
//! sessions of its own, deletes what it has created, and can run concurrently with others.
//!
//! [`Matrix`] counts which answers the cases of a catalogue show.
//!
//! The format of the cases is described in `docs/case-format.md`.
//!
//! [`Fuzz`] compares two servers by random requests, and [`HistoryCheck`] checks what concurrent clients see. [`Checker`] judges a whole recorded [`History`] by a naive [`Model`]. [`Capture`] records what
//! clients and a server say to each other, [`Messages`] reads that, and [`Replay`] sends it again.
//!
//! [`ClientCheck`] judges clients: it runs a command in each [`ClientScenario`], disturbs the connections of its ZooKeeper client, and
//! returns each [`Mistake`] with the frame that shows it. The [rules](ClientRule) and what known clients do are in `docs/clients.md`.

mod capture;
mod catalogue;
mod client;
mod compare;
mod error;
mod history;
mod wire;

pub use capture::{Capture, Captured, Message, Messages, Replay, ReplayDifference, Replayed};
pub use catalogue::{Case, CaseOutcome, Catalogue, Failure, Matrix, Profile, Runner, Setting};
pub use client::{ClientCheck, ClientRule, ClientScenario, ClientVerdict, Evidence, Mistake};
pub use compare::{Difference, Fuzz};
pub use error::{CaptureError, ClientError, RunError, SyntaxError};
pub use history::{
    CheckError, Checker, Conn, Decided, Decision, History, HistoryCheck, HistoryEntry, HistoryEvent,
    HistoryReport, Model, Operation, Outcome, Rule, Side, Tap, TapCounts, Tapping, Undecided, Unmodelled,
    Verdict, Violation,
};
pub use wire::{ANSWER_LIMIT, until_it_serves};
