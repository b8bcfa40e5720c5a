//! `zoo.cfg`: the supported keys, in every spelling, and their values.
//!
//! Values are parsed as ZooKeeper does, but a value that it would silently misread is an error. Unsupported keys are ignored
//! with a warning, so that an existing file works, unless they ask for a protection that is not there.

mod keys;
mod members;
mod properties;
mod protections;
#[cfg(test)]
mod tests;
mod warnings;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::settings::Settings;
use crate::settings::doubtful;
use crate::text::quoted;
use keys::{Key, Parsed, SUPER_DIGEST};
use members::Members;
use properties::Entry;
use protections::Refusal;

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct ZooCfg {
    /// Those that are valid.
    pub(crate) settings: Settings,
    /// Everything that keeps a server from starting with this file.
    pub(crate) mistakes: Vec<ConfigError>,
    file: PathBuf,
    /// Keys without a meaning here, with their values.
    ignored: BTreeMap<String, String>,
    unknown_words: Vec<String>,
    /// Directories that are most likely not what is meant, each with why and where.
    doubtful: Vec<String>,
    /// Those that mean nothing without a data directory.
    storage_keys: Vec<(usize, String)>,
}

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
    pub(crate) fn invalid(file: &Path, entry: &Entry, hint: String) -> Self {
        let secret = Key::find(&entry.key).is_some_and(|key| key.name == SUPER_DIGEST);
        let value = if secret { "(not shown)".to_owned() } else { quoted(&entry.value) };
        Self::Value { file: file.to_owned(), line: entry.line, key: quoted(&entry.key), value, hint }
    }

    /// A value that asks for something that is not there.
    pub(crate) fn unsupported(file: &Path, entry: &Entry, hint: String) -> Self {
        let (key, value) = (quoted(&entry.key), quoted(&entry.value));
        Self::Unsupported { file: file.to_owned(), line: entry.line, key, value, hint }
    }

    /// The line, if it is one.
    fn line(&self) -> Option<usize> {
        match self {
            Self::Read { .. } => None,
            Self::Escape { line, .. }
            | Self::Value { line, .. }
            | Self::Unsupported { line, .. }
            | Self::Contradiction { line, .. }
            | Self::NoDataDir { line, .. } => Some(*line),
        }
    }
}

/// Reads and parses a file.
///
/// # Errors
/// If it cannot be read, or is not a properties file. What else is wrong is in [`ZooCfg::mistakes`], all of it.
pub(crate) fn read(file: &Path) -> Result<ZooCfg, ConfigError> {
    match std::fs::read(file) {
        Ok(bytes) => parse(file, &bytes),
        Err(source) => Err(ConfigError::Read { file: file.to_owned(), source }),
    }
}

impl ZooCfg {
    /// Whether every value can be used, if perhaps not what it asks for.
    pub(crate) fn has_valid_values(&self) -> bool {
        self.mistakes.iter().all(|mistake| matches!(mistake, ConfigError::Unsupported { .. }))
    }

    /// The keys that mean nothing without a data directory: a mistake, each of them, if there is none.
    pub(crate) fn without_data_dir(&self) -> impl Iterator<Item = ConfigError> + '_ {
        self.storage_keys.iter().map(|(line, key)| ConfigError::NoDataDir {
            file: self.file.clone(),
            line: *line,
            key: quoted(key),
        })
    }
}

/// Parses the content of a file; its name is for messages.
fn parse(file: &Path, bytes: &[u8]) -> Result<ZooCfg, ConfigError> {
    let entries = properties::parse(bytes)
        .map_err(|bad| ConfigError::Escape { file: file.to_owned(), line: bad.line })?;
    let mut mistakes = Vec::new();
    let mut ignored = BTreeMap::new();
    let mut given: Vec<(&Key, Entry)> = Vec::new();
    let mut members = Members::default();
    for Entry { line, key, value } in entries {
        let entry = Entry { line, key: key.trim().to_owned(), value: value.trim().to_owned() };
        if let Some(key) = Key::find(&entry.key) {
            // If a spelling is repeated, the last line wins, as in any properties file.
            given.retain(|(_, before)| before.key != entry.key);
            given.push((key, entry));
            continue;
        }
        match protections::judge(&entry.key, &entry.value) {
            Some(Ok(())) => {}
            Some(Err(Refusal::Missing(hint))) => mistakes.push(ConfigError::unsupported(file, &entry, hint)),
            Some(Err(Refusal::Invalid(hint))) => mistakes.push(ConfigError::invalid(file, &entry, hint)),
            None => {
                members.take(file, &entry);
                ignored.insert(entry.key, entry.value);
            }
        }
    }
    let mut parsed = Parsed::default();
    for (n, (key, entry)) in given.iter().enumerate() {
        let other =
            given[..n].iter().find(|(before, other)| before.name == key.name && other.value != entry.value);
        if let Some((_, other)) = other {
            mistakes.push(ConfigError::Contradiction {
                file: file.to_owned(),
                line: entry.line,
                key: quoted(&entry.key),
                other: quoted(&other.key),
                other_line: other.line,
            });
        } else if let Err(hint) = (key.apply)(&entry.value, &mut parsed) {
            mistakes.push(ConfigError::invalid(file, entry, hint));
        }
    }
    let named = |name| given.iter().find(|(key, _)| key.name == name).map(|(_, entry)| entry);
    if let (None, Some(entry)) = (named("clientPort"), named("clientPortAddress")) {
        mistakes.push(ConfigError::invalid(file, entry, "requires clientPort".to_owned()));
    }
    mistakes.sort_by_key(ConfigError::line);
    if let (Some(path), Some(entry)) = (parsed.dynamic_file.take(), named("dynamicConfigFile")) {
        members.take_dynamic(&path, file, entry, &mut mistakes);
        ignored.extend(members.keys().map(|key| (key.clone(), String::new())));
    }
    match members.bind() {
        Ok(bind) if parsed.port.is_none() => parsed.settings.binds.extend(bind),
        Ok(_) => {}
        Err(mistake) => mistakes.push(mistake),
    }
    if let (Some(false), Some(entry)) = (parsed.standalone, named("standaloneEnabled")) {
        mistakes.push(members.not_standalone(file, entry));
    }
    let storage = &parsed.settings.storage;
    let dirs = [("dataDir", &storage.data_dir), ("dataLogDir", &storage.log_dir)];
    let doubtful = dirs.into_iter().filter_map(|(key, dir)| {
        let (dir, entry) = (dir.as_ref()?, named(key)?);
        let why = doubtful::directory_of_file(&entry.key, dir)?;
        Some(format!("{}:{}: {why}", file.display(), entry.line))
    });
    let doubtful = doubtful.collect();
    let storage_keys = given.iter().filter(|(key, _)| key.needs_data_dir());
    let storage_keys = storage_keys.map(|(_, entry)| (entry.line, entry.key.clone())).collect();
    let unknown_words = parsed.words.as_ref().map_or_else(Vec::new, |words| words.unknown.clone());
    let settings = parsed.into_settings();
    Ok(ZooCfg { settings, mistakes, file: file.to_owned(), ignored, unknown_words, doubtful, storage_keys })
}
