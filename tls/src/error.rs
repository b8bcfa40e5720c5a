//! Why TLS cannot be set up.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why TLS cannot be set up: one line that names the file, if it is about one, and what is wrong with it, and then other files that are
/// wrong. It never contains a password or a part of a key.
///
/// `Debug` prints the same line, because that is what a `main` which returns the error shows its user.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub struct TlsError {
    file: Option<PathBuf>,
    problem: String,
}

impl TlsError {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self { file: None, problem: problem.into() }
    }

    /// The same problem, with the file that has it.
    pub(crate) fn of(self, file: Option<&Path>) -> Self {
        Self { file: self.file.or_else(|| file.map(Path::to_owned)), ..self }
    }

    /// The first file that is missing, unreadable or invalid, if the problem is one of a file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What is wrong, without that file.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// Both, or all that is wrong with either.
pub(crate) fn both<A, B>(a: Result<A, TlsError>, b: Result<B, TlsError>) -> Result<(A, B), TlsError> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(a), Err(b)) if a != b => Err(TlsError { problem: format!("{}; {b}", a.problem), ..a }),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}: {}", file.to_string_lossy().escape_debug(), self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl fmt::Debug for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
