//! `zoo.cfg`: the supported keys, in every spelling, and their values.
//!
//! Values are parsed as ZooKeeper does, but a value that it would silently misread is an error. Unsupported keys are ignored
//! with a warning, so that an existing file works, unless they ask for a protection that is not there. So are misspelt ones,
//! unless they are those of a protection.

mod error;
mod members;
mod properties;
mod protections;
#[cfg(test)]
mod tests;
mod warnings;

use std::collections::BTreeSet;
use std::path::Path;

use crate::failure::Failure;
use crate::settings::{DIR, SettingRow, Settings, Written, directory_of_file};
pub(crate) use error::ConfigError;
use members::Members;
use properties::Entry;

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct ZooCfg {
    /// Those that are valid.
    pub(crate) settings: Settings,
    /// Everything that keeps a server from starting with this file.
    pub(crate) mistakes: Vec<ConfigError>,
    /// The keys that mean nothing without a data directory: a mistake, each of them, if there is none.
    pub(crate) without_data_dir: Vec<ConfigError>,
    /// What deserves a warning, the likely mistakes first.
    pub(crate) warnings: Vec<String>,
}

impl ZooCfg {
    /// Whether every value can be used, if perhaps not what it asks for.
    pub(crate) fn has_valid_values(&self) -> bool {
        self.mistakes.iter().all(|mistake| mistake.is_unmet)
    }
}

/// Reads and parses a file.
///
/// # Errors
/// If it cannot be read, or is not a properties file. What else is wrong is in [`ZooCfg::mistakes`], all of it.
pub(crate) fn read(file: &Path) -> Result<ZooCfg, Failure> {
    let bytes = std::fs::read(file).map_err(Failure::file("read the configuration", file))?;
    Ok(parse(file, &bytes)?)
}

/// The entries of a file. ZooKeeper trims keys and values.
fn entries(file: &Path, bytes: &[u8]) -> Result<Vec<Entry>, ConfigError> {
    let mut entries = properties::parse(file, bytes)?;
    for Entry { key, value, .. } in &mut entries {
        (*key, *value) = (key.trim().to_owned(), value.trim().to_owned());
    }
    Ok(entries)
}

impl Entry {
    /// The value, unless the key is known for secrets.
    fn shown_value(&self) -> &str {
        match SettingRow::of_key(&self.key) {
            Some(row) if row.secret => "(not shown)",
            _ => &self.value,
        }
    }
}

/// Parses the content of a file; its name is for messages.
fn parse(file: &Path, bytes: &[u8]) -> Result<ZooCfg, ConfigError> {
    let mut mistakes = Vec::new();
    let mut ignored = BTreeSet::new();
    let mut given: Vec<(&SettingRow, Entry)> = Vec::new();
    let mut members = Members::default();
    let mut settings = Settings::default();
    for entry in entries(file, bytes)? {
        #[cfg(feature = "admin")]
        {
            // A key that is unknown here may have a secret.
            let shown = SettingRow::of_key(&entry.key).map_or("(not shown)", |_| entry.shown_value());
            settings.http.configuration.push((entry.key.clone(), shown.to_owned()));
        }
        if let Some(row) = SettingRow::of_key(&entry.key) {
            // If a spelling is repeated, the last line wins, as in any properties file.
            given.retain(|(_, before)| before.key != entry.key);
            given.push((row, entry));
            continue;
        }
        match protections::judge(&entry) {
            Some(judged) => mistakes.extend(judged.err()),
            None => match warnings::meant(&entry.key).filter(|meant| meant.protects) {
                Some(meant) => mistakes.push(ConfigError::misspelt(&entry, meant.key)),
                None => {
                    members.take(&entry);
                    ignored.insert(entry.key);
                }
            },
        }
    }
    for (n, (row, entry)) in given.iter().enumerate() {
        // Two spellings of one key must agree, as it would depend on the version of ZooKeeper which of them counts.
        let is_other = |(before, other): &&(&SettingRow, Entry)| {
            before.key == row.key && row.is_same(&other.key, &entry.key) && other.value != entry.value
        };
        if let Some((_, other)) = given[..n].iter().find(is_other) {
            mistakes.push(ConfigError::contradiction(entry, other));
        } else if let Err(hint) = (row.set)(&mut settings, Written::Key(&entry.value)) {
            mistakes.push(ConfigError::invalid(entry, &hint));
        }
    }
    settings.join_parts();
    let line_of = |key| given.iter().find(|(row, _)| row.key == Some(key)).map(|(_, entry)| entry);
    for (port, address) in
        [("clientPort", "clientPortAddress"), ("secureClientPort", "secureClientPortAddress")]
    {
        if let (None, Some(entry)) = (line_of(port), line_of(address)) {
            mistakes.push(ConfigError::invalid(entry, &format!("requires {port}")));
        }
    }
    mistakes.sort_by_key(|mistake| mistake.line);

    let dirs = given.iter().filter(|(row, _)| row.takes == DIR).filter_map(|(_, entry)| {
        let why = directory_of_file(&entry.key, entry.value.as_ref())?;
        Some(format!("{}:{}: {why}", file.display(), entry.line))
    });
    let mut warnings: Vec<_> = dirs.collect();
    let unknown_words = &settings.parts.unknown_words;
    warnings.extend(warnings::listed(file, "ignored unknown four-letter words", unknown_words));
    warnings.extend(warnings::of_ignored(file, &ignored));

    if let (Some(path), Some(entry)) = (settings.parts.dynamic_file.take(), line_of("dynamicConfigFile")) {
        let servers = members.take_dynamic(&path, entry, &mut mistakes);
        warnings.extend(warnings::of_ignored(&path, &servers));
    }
    match members.bind() {
        Ok(bind) => settings.parts.bind = settings.parts.bind.take().or(bind),
        Err(mistake) => mistakes.push(mistake),
    }
    if let (true, Some(entry)) = (settings.parts.ensemble, line_of("standaloneEnabled")) {
        mistakes.push(members.not_standalone(entry));
    }
    let needs_data_dir = given.iter().filter(|(row, _)| row.needs_data_dir);
    let without_data_dir = needs_data_dir.map(|(_, entry)| ConfigError::no_data_dir(entry)).collect();
    Ok(ZooCfg { settings, mistakes, without_data_dir, warnings })
}
