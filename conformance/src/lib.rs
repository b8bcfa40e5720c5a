//! Judges whether a server speaks the ZooKeeper protocol as Apache ZooKeeper does.
//!
//! A [`Catalogue`] is a list of [cases](Case): short scripts of requests, and what must come back. The built-in one,
//! [`Catalogue::builtin`], passes on Apache ZooKeeper 3.8 and 3.9. [`Runner`] runs cases on a server; each has a subtree and
//! sessions of its own, deletes what it has created, and can run concurrently with others.
//!
//! The format of the cases is described in `docs/conformance.md`.

mod case;
mod catalogue;
mod connection;
mod fields;
mod lex;
mod parse;
mod pattern;
mod request;
mod run;
mod scene;

pub use case::{Case, Profile};
pub use catalogue::Catalogue;
pub use parse::SyntaxError;
pub use run::{Failure, Outcome, RunError, Runner};
