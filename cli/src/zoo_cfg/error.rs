//! What is wrong with a `zoo.cfg`: the file, the line, the key, the value, and what it must be.

use std::io;
use std::path::{Path, PathBuf};

use super::properties::Entry;
use crate::settings::SettingRow;
use crate::text::quoted;

/// Why a file is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {}: {source}", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{}:{line}: \\u must be followed by four hexadecimal digits; write \\\\ for a backslash", .file.display())]
    Escape { file: PathBuf, line: usize },
    #[error("{}:{line}: {key} = {value}: {hint}", .file.display())]
    Value { file: PathBuf, line: usize, key: String, value: String, hint: String },
    #[error("{}:{line}: {key} = {value}: {hint}", .file.display())]
    Unsupported { file: PathBuf, line: usize, key: String, value: String, hint: String },
    /// Without the value, which may be a secret.
    #[error("{}:{line}: {key} is not a key; did you mean {meant}?", .file.display())]
    Misspelt { file: PathBuf, line: usize, key: String, meant: &'static str },
    #[error("{}:{line}: {key} contradicts {other} in line {other_line}; keep one of them", .file.display())]
    Contradiction { file: PathBuf, line: usize, key: String, other: String, other_line: usize },
    #[error(
        "{}:{line}: {key} requires a data directory; set dataDir (--data-dir), or remove it to keep the state in memory",
        .file.display()
    )]
    NoDataDir { file: PathBuf, line: usize, key: String },
}

impl ConfigError {
    /// A value that cannot be used.
    pub(super) fn invalid(file: &Path, entry: &Entry, hint: String) -> Self {
        let secret = SettingRow::of_key(&entry.key).is_some_and(|row| row.secret);
        let value = if secret { "(not shown)".to_owned() } else { quoted(&entry.value) };
        Self::Value { file: file.to_owned(), line: entry.line, key: quoted(&entry.key), value, hint }
    }

    /// A value that asks for something that is not there.
    pub(super) fn unsupported(file: &Path, entry: &Entry, hint: String) -> Self {
        let (key, value) = (quoted(&entry.key), quoted(&entry.value));
        Self::Unsupported { file: file.to_owned(), line: entry.line, key, value, hint }
    }

    /// A key that nobody knows and that is close to one of a protection.
    pub(super) fn misspelt(file: &Path, entry: &Entry, meant: &'static str) -> Self {
        Self::Misspelt { file: file.to_owned(), line: entry.line, key: quoted(&entry.key), meant }
    }

    /// Two spellings of one key, with different values.
    pub(super) fn contradiction(file: &Path, entry: &Entry, other: &Entry) -> Self {
        let (key, other_line) = (quoted(&entry.key), other.line);
        Self::Contradiction {
            file: file.to_owned(),
            line: entry.line,
            key,
            other: quoted(&other.key),
            other_line,
        }
    }

    /// A key that means nothing without a data directory.
    pub(super) fn no_data_dir(file: &Path, entry: &Entry) -> Self {
        Self::NoDataDir { file: file.to_owned(), line: entry.line, key: quoted(&entry.key) }
    }

    /// The line, if it is one.
    pub(super) fn line(&self) -> Option<usize> {
        match self {
            Self::Read { .. } => None,
            Self::Escape { line, .. }
            | Self::Value { line, .. }
            | Self::Unsupported { line, .. }
            | Self::Misspelt { line, .. }
            | Self::Contradiction { line, .. }
            | Self::NoDataDir { line, .. } => Some(*line),
        }
    }
}
