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

/// The files of the built-in cases.
const FILES: &[(&str, &str)] = &[
    ("create.case", include_str!("../../cases/create.case")),
    ("delete.case", include_str!("../../cases/delete.case")),
    ("data.case", include_str!("../../cases/data.case")),
    ("acl.case", include_str!("../../cases/acl.case")),
    ("children.case", include_str!("../../cases/children.case")),
    ("multi.case", include_str!("../../cases/multi.case")),
    ("watch.case", include_str!("../../cases/watch.case")),
    ("session.case", include_str!("../../cases/session.case")),
    ("handshake.case", include_str!("../../cases/handshake.case")),
    ("frame.case", include_str!("../../cases/frame.case")),
    ("pipeline.case", include_str!("../../cases/pipeline.case")),
    ("order.case", include_str!("../../cases/order.case")),
    ("part.case", include_str!("../../cases/part.case")),
    ("hand.case", include_str!("../../cases/hand.case")),
    ("entry.case", include_str!("../../cases/entry.case")),
    ("address.case", include_str!("../../cases/address.case")),
    ("identity.case", include_str!("../../cases/identity.case")),
    ("path.case", include_str!("../../cases/path.case")),
    ("odd.case", include_str!("../../cases/odd.case")),
    ("unwatch.case", include_str!("../../cases/unwatch.case")),
    ("rearm.case", include_str!("../../cases/rearm.case")),
    ("fire.case", include_str!("../../cases/fire.case")),
    ("malformed.case", include_str!("../../cases/malformed.case")),
    ("null.case", include_str!("../../cases/null.case")),
    ("ttl.case", include_str!("../../cases/ttl.case")),
    ("quota.case", include_str!("../../cases/quota.case")),
    ("super.case", include_str!("../../cases/super.case")),
    ("deviation.case", include_str!("../../cases/deviation.case")),
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
