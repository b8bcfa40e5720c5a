//! What is wrong with a line of a `zoo.cfg`: the file, the line, the key, the value, and what it must be.

use std::path::Path;
use std::sync::Arc;

use super::properties::Entry;
use crate::text::quoted;

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}: {mistake}", .file.display())]
pub(crate) struct ConfigError {
    file: Arc<Path>,
    pub(super) line: usize,
    mistake: String,
    /// Whether the value is valid, and what the line asks for is not there.
    pub(super) is_unmet: bool,
}

impl ConfigError {
    pub(super) fn escape(file: &Arc<Path>, line: usize) -> Self {
        let mistake = "\\u must be followed by four hexadecimal digits; write \\\\ for a backslash";
        Self { file: Arc::clone(file), line, mistake: mistake.to_owned(), is_unmet: false }
    }

    fn of(entry: &Entry, mistake: String) -> Self {
        Self { file: Arc::clone(&entry.file), line: entry.line, mistake, is_unmet: false }
    }

    /// A value that cannot be used.
    pub(super) fn invalid(entry: &Entry, hint: &str) -> Self {
        Self::of(entry, format!("{} = {}: {hint}", quoted(&entry.key), quoted(entry.shown_value())))
    }

    /// A value that asks for something that is not there.
    pub(super) fn unsupported(entry: &Entry, hint: &str) -> Self {
        Self { is_unmet: true, ..Self::invalid(entry, hint) }
    }

    /// A key that nobody knows and that is close to one of a protection. Without the value, which may be a secret.
    pub(super) fn misspelt(entry: &Entry, meant: &str) -> Self {
        let mistake = format!("{} is not a key; did you mean {meant}?", quoted(&entry.key));
        Self { is_unmet: true, ..Self::of(entry, mistake) }
    }

    /// Two spellings of one key, with different values.
    pub(super) fn contradiction(entry: &Entry, other: &Entry) -> Self {
        let (key, other_key, line) = (quoted(&entry.key), quoted(&other.key), other.line);
        Self::of(entry, format!("{key} contradicts {other_key} in line {line}; keep one of them"))
    }

    /// A key that means nothing without a data directory.
    pub(super) fn no_data_dir(entry: &Entry) -> Self {
        let hint =
            "requires a data directory; set dataDir (--data-dir), or remove it to keep the state in memory";
        Self::of(entry, format!("{} {hint}", quoted(&entry.key)))
    }
}
