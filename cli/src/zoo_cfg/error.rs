//! What is wrong with a `zoo.cfg`: the file, the line, the key, the value, and what it must be.

use std::io;
use std::path::{Path, PathBuf};

use super::properties::Entry;
use crate::text::quoted;

/// Why a file is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {}: {source}", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{}:{line}: {mistake}", .file.display())]
    Line { file: PathBuf, line: usize, mistake: LineMistake },
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineMistake {
    #[error("\\u must be followed by four hexadecimal digits; write \\\\ for a backslash")]
    Escape,
    /// A value that cannot be used.
    #[error("{key} = {value}: {hint}")]
    Value { key: String, value: String, hint: String },
    /// A value that asks for something that is not there.
    #[error("{key} = {value}: {hint}")]
    Unsupported { key: String, value: String, hint: String },
    /// A key that nobody knows and that is close to one of a protection. Without the value, which may be a secret.
    #[error("{key} is not a key; did you mean {meant}?")]
    Misspelt { key: String, meant: &'static str },
    /// Two spellings of one key, with different values.
    #[error("{key} contradicts {other} in line {other_line}; keep one of them")]
    Contradiction { key: String, other: String, other_line: usize },
    /// A key that means nothing without a data directory.
    #[error(
        "{key} requires a data directory; set dataDir (--data-dir), or remove it to keep the state in memory"
    )]
    NoDataDir { key: String },
}

impl ConfigError {
    pub(super) fn at(file: &Path, line: usize, mistake: LineMistake) -> Self {
        Self::Line { file: file.to_owned(), line, mistake }
    }

    pub(super) fn invalid(file: &Path, entry: &Entry, hint: String) -> Self {
        let (key, value) = (quoted(&entry.key), quoted(entry.shown_value()));
        Self::at(file, entry.line, LineMistake::Value { key, value, hint })
    }

    pub(super) fn unsupported(file: &Path, entry: &Entry, hint: String) -> Self {
        let (key, value) = (quoted(&entry.key), quoted(&entry.value));
        Self::at(file, entry.line, LineMistake::Unsupported { key, value, hint })
    }

    pub(super) fn misspelt(file: &Path, entry: &Entry, meant: &'static str) -> Self {
        Self::at(file, entry.line, LineMistake::Misspelt { key: quoted(&entry.key), meant })
    }

    pub(super) fn contradiction(file: &Path, entry: &Entry, other: &Entry) -> Self {
        let (key, other_line, other) = (quoted(&entry.key), other.line, quoted(&other.key));
        Self::at(file, entry.line, LineMistake::Contradiction { key, other, other_line })
    }

    pub(super) fn no_data_dir(file: &Path, entry: &Entry) -> Self {
        Self::at(file, entry.line, LineMistake::NoDataDir { key: quoted(&entry.key) })
    }

    /// The line, if it is one.
    pub(super) fn line(&self) -> Option<usize> {
        match self {
            Self::Read { .. } => None,
            Self::Line { line, .. } => Some(*line),
        }
    }
}
