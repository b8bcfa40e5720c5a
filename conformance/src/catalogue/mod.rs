//! [`Catalogue`]: the cases that are built in, or those of a file. Read in this order: `lex`, `parse`, `case`, `request` and `pattern`,
//! `scene`, `run`.

pub(crate) mod case;
mod cleanup;
mod coherence;
pub(crate) mod lex;
mod matrix;
mod parse;
pub(crate) mod pattern;
pub(crate) mod request;
pub(crate) mod run;
mod scene;
mod settings;

use crate::error::SyntaxError;
use parse::cases;

pub use case::{Case, Profile, Setting};
pub use matrix::Matrix;
pub use run::{CaseOutcome, Failure, Runner};

/// A list of cases.
#[derive(Debug, Clone)]
pub struct Catalogue {
    cases: Vec<Case>,
}

/// Files of cases, each with its text.
macro_rules! files {
    ($($file:literal,)*) => { &[$(($file, include_str!(concat!("../../cases/", $file))),)*] };
}

/// The files of the built-in cases.
#[rustfmt::skip]
const FILES: &[(&str, &str)] = files![
    "create.case", "delete.case", "data.case", "acl.case", "children.case", "multi.case", "watch.case",
    "session.case", "handshake.case", "frame.case", "pipeline.case", "order.case", "part.case", "hand.case",
    "entry.case", "address.case", "identity.case", "path.case", "odd.case", "unwatch.case", "rearm.case",
    "fire.case", "malformed.case", "null.case", "ttl.case", "quota.case", "super.case", "deviation.case",
];

impl Catalogue {
    /// The cases that are built in, by file and in their order.
    ///
    /// # Panics
    /// Never: a test reads them all.
    pub fn builtin() -> Self {
        let all = FILES.iter().flat_map(|(file, text)| match cases(file, text) {
            Ok(cases) => cases,
            Err(error) => panic!("{error}"),
        });
        Self { cases: all.collect() }
    }

    /// Reads the cases of a text; `file` is its name in errors.
    ///
    /// # Errors
    /// If a line is none of a case: the first such line, and what is wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Self, SyntaxError> {
        cases(file, text).map(|cases| Self { cases })
    }

    /// All cases.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }
}
