//! What is wrong with a line of a `zoo.cfg`: the file, the line, the key, the value, and what it must be.

use std::path::{Path, PathBuf};

use super::properties::Entry;
use crate::text::quoted;

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}: {mistake}", .file.display())]
pub(crate) struct ConfigError {
    file: PathBuf,
    pub(super) line: usize,
    mistake: String,
    /// Whether the value is valid, and what the line asks for is not there.
    pub(super) is_unmet: bool,
}

impl ConfigError {
    fn at(file: &Path, line: usize, mistake: String) -> Self {
        Self { file: file.to_owned(), line, mistake, is_unmet: false }
    }

    pub(super) fn escape(file: &Path, line: usize) -> Self {
        let mistake = "\\u must be followed by four hexadecimal digits; write \\\\ for a backslash";
        Self::at(file, line, mistake.to_owned())
    }

    /// A value that cannot be used.
    pub(super) fn invalid(file: &Path, entry: &Entry, hint: &str) -> Self {
        let (key, value) = (quoted(&entry.key), quoted(entry.shown_value()));
        Self::at(file, entry.line, format!("{key} = {value}: {hint}"))
    }

    /// A value that asks for something that is not there.
    pub(super) fn unsupported(file: &Path, entry: &Entry, hint: &str) -> Self {
        Self { is_unmet: true, ..Self::invalid(file, entry, hint) }
    }

    /// A key that nobody knows and that is close to one of a protection. Without the value, which may be a secret.
    pub(super) fn misspelt(file: &Path, entry: &Entry, meant: &str) -> Self {
        let mistake = format!("{} is not a key; did you mean {meant}?", quoted(&entry.key));
        Self { is_unmet: true, ..Self::at(file, entry.line, mistake) }
    }

    /// Two spellings of one key, with different values.
    pub(super) fn contradiction(file: &Path, entry: &Entry, other: &Entry) -> Self {
        let (key, other_key, line) = (quoted(&entry.key), quoted(&other.key), other.line);
        let mistake = format!("{key} contradicts {other_key} in line {line}; keep one of them");
        Self::at(file, entry.line, mistake)
    }

    /// A key that means nothing without a data directory.
    pub(super) fn no_data_dir(file: &Path, entry: &Entry) -> Self {
        let key = quoted(&entry.key);
        let mistake = format!(
            "{key} requires a data directory; set dataDir (--data-dir), or remove it to keep the state in memory"
        );
        Self::at(file, entry.line, mistake)
    }
}
