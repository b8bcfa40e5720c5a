//! `zoo.cfg`: the keys that mean something here, under every spelling, and what their values say.
//!
//! Values are read as ZooKeeper reads them, but one that it would silently take for something else is refused. A key
//! that means nothing here is not: people come with the file they have.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::members::Members;
use crate::properties::{self, Entry};
use crate::settings::{Settings, quoted, words};
use crate::values::{
    address, age, backlog, boolean, bound, decoded, decoded_interval, deletions, int, interval, limit,
    max_frame, port, super_digest, yes_or_no,
};

#[cfg(test)]
mod tests;

/// Where a server listens whose file has a port and no address: everywhere, as ZooKeeper does. Where there
/// is no IPv6 that is what IPv4 has.
const ANY_ADDRESS: &str = "[::]";

/// What a file says.
#[derive(Debug)]
pub(crate) struct ZooCfg {
    pub(crate) settings: Settings,
    file: PathBuf,
    ignored: BTreeSet<String>,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {}: {source}", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{}:{line}: \\u needs four hexadecimal digits behind it; for a backslash write two", .file.display())]
    Escape { file: PathBuf, line: usize },
    #[error("{}:{line}: {key} = {value}: {hint}", .file.display())]
    Value { file: PathBuf, line: usize, key: String, value: String, hint: String },
    #[error("{}:{line}: {key} contradicts {other} in line {other_line}; keep one of them", .file.display())]
    Contradiction { file: PathBuf, line: usize, key: String, other: String, other_line: usize },
}

/// Reads a file.
pub(crate) fn read(file: &Path) -> Result<ZooCfg, ConfigError> {
    match std::fs::read(file) {
        Ok(bytes) => parse(file, &bytes),
        Err(source) => Err(ConfigError::Read { file: file.to_owned(), source }),
    }
}

impl ZooCfg {
    /// The line that names the keys that were ignored, if there were any. Without their values, some of which are
    /// secrets.
    pub(crate) fn warning(&self) -> Option<String> {
        if self.ignored.is_empty() {
            return None;
        }
        let named = self.ignored.iter().map(|key| match why_ignored(key) {
            Some(why) => format!("{} ({why})", quoted(key)),
            None => quoted(key),
        });
        let named: Vec<_> = named.collect();
        Some(format!("{}: ignored, as they mean nothing here: {}", self.file.display(), named.join(", ")))
    }
}

/// Reads the content of a file; its name is for messages.
fn parse(file: &Path, bytes: &[u8]) -> Result<ZooCfg, ConfigError> {
    let entries = properties::parse(bytes)
        .map_err(|bad| ConfigError::Escape { file: file.to_owned(), line: bad.line })?;
    let mut ignored = BTreeSet::new();
    let mut given: Vec<(&Key, Entry)> = Vec::new();
    let mut members = Members::default();
    for Entry { line, key, value } in entries {
        let entry = Entry { line, key: key.trim().to_owned(), value: value.trim().to_owned() };
        let Some(key) = Key::find(&entry.key) else {
            members.take(&entry);
            ignored.insert(entry.key);
            continue;
        };
        // Of a spelling that is repeated the last one holds, as in any properties file.
        given.retain(|(_, before)| before.key != entry.key);
        given.push((key, entry));
    }
    let mut taken = Taken::default();
    for (n, (key, entry)) in given.iter().enumerate() {
        let other =
            given[..n].iter().find(|(before, other)| before.name == key.name && other.value != entry.value);
        if let Some((_, other)) = other {
            return Err(ConfigError::Contradiction {
                file: file.to_owned(),
                line: entry.line,
                key: quoted(&entry.key),
                other: quoted(&other.key),
                other_line: other.line,
            });
        }
        (key.take)(&entry.value, &mut taken).map_err(|hint| wrong(file, entry, hint))?;
    }
    if taken.port.is_none() {
        if let Some((_, entry)) = given.iter().find(|(key, _)| key.name == "clientPortAddress") {
            return Err(wrong(file, entry, "needs a clientPort beside it".to_owned()));
        }
    }
    let bind = members.bind().map_err(|(entry, hint)| wrong(file, entry, hint))?;
    if taken.port.is_none() {
        taken.settings.binds.extend(bind);
    }
    Ok(ZooCfg { settings: taken.into_settings(), file: file.to_owned(), ignored })
}

fn wrong(file: &Path, entry: &Entry, hint: String) -> ConfigError {
    let secret = Key::find(&entry.key).is_some_and(|key| key.name == SUPER_DIGEST);
    let value = if secret { "(not shown)".to_owned() } else { quoted(&entry.value) };
    ConfigError::Value { file: file.to_owned(), line: entry.line, key: quoted(&entry.key), value, hint }
}

/// What the keys of a file come to. Address and port are two keys there and one setting here.
#[derive(Default)]
struct Taken {
    settings: Settings,
    address: Option<String>,
    port: Option<u16>,
}

impl Taken {
    fn into_settings(self) -> Settings {
        let bind = self.port.map(|port| {
            let address = self.address.as_deref().unwrap_or(ANY_ADDRESS);
            if address.contains(':') && !address.starts_with('[') {
                format!("[{address}]:{port}")
            } else {
                format!("{address}:{port}")
            }
        });
        let mut settings = self.settings;
        settings.binds.extend(bind);
        settings
    }
}

const SUPER_DIGEST: &str = "DigestAuthenticationProvider.superDigest";

/// A key that means something here.
struct Key {
    name: &'static str,
    /// Takes the value; or tells what it must be.
    take: fn(&str, &mut Taken) -> Result<(), String>,
}

impl Key {
    /// The key of that spelling: its name in a file, or that of its JVM property, which mostly has a prefix.
    fn find(spelling: &str) -> Option<&'static Self> {
        let name = spelling.strip_prefix("zookeeper.").unwrap_or(spelling);
        let name = if name == "superDigest" { SUPER_DIGEST } else { name };
        KEYS.iter().chain(REFUSED).find(|key| key.name == name)
    }
}

/// Why a key means nothing here, where that is worth a word.
fn why_ignored(spelling: &str) -> Option<String> {
    let name = spelling.strip_prefix("zookeeper.").unwrap_or(spelling);
    let why = match name {
        "dataDir" | "dataLogDir" => "state is kept in memory",
        _ if name.starts_with("server.") => "there is no ensemble; only where its clients connect counts",
        _ => {
            let meant = KEYS.iter().find(|key| key.name.eq_ignore_ascii_case(name))?;
            return Some(format!("did you mean {}?", meant.name));
        }
    };
    Some(why.to_owned())
}

/// Refuses what asks for a protection that is not there: whoever wrote it must not be served without.
fn no_protection(what: &str) -> Result<(), String> {
    Err(format!("cannot be had, as there is no {what} yet; remove it to serve without"))
}

fn no_sasl(value: &str) -> Result<(), String> {
    if boolean(value)? { no_protection("SASL") } else { Ok(()) }
}

/// Keys that mean something, but nothing that can be had.
const REFUSED: &[Key] = &[
    Key { name: "secureClientPort", take: |_, _| no_protection("TLS") },
    Key { name: "requireClientAuthScheme", take: |_, _| no_protection("SASL") },
    Key { name: "sessionRequireClientSASLAuth", take: |value, _| no_sasl(value) },
    Key { name: "enforce.auth.enabled", take: |value, _| no_sasl(value) },
];

const KEYS: &[Key] = &[
    Key { name: "tickTime", take: |value, to| put(&mut to.settings.tick_time, interval(value)) },
    Key { name: "clientPort", take: |value, to| put(&mut to.port, port(value)) },
    Key { name: "clientPortAddress", take: |value, to| put(&mut to.address, address(value)) },
    Key {
        name: "clientPortListenBacklog",
        take: |value, to| maybe(&mut to.settings.listen_backlog, backlog(value)),
    },
    Key {
        name: "minSessionTimeout",
        take: |value, to| maybe(&mut to.settings.min_session_timeout, bound(value)),
    },
    Key {
        name: "maxSessionTimeout",
        take: |value, to| maybe(&mut to.settings.max_session_timeout, bound(value)),
    },
    Key {
        name: "maxClientCnxns",
        take: |value, to| put(&mut to.settings.max_client_cnxns, limit(int(value))),
    },
    Key { name: "maxCnxns", take: |value, to| put(&mut to.settings.max_cnxns, limit(decoded(value))) },
    Key { name: "reconfigEnabled", take: |value, to| put(&mut to.settings.reconfig_enabled, boolean(value)) },
    Key {
        name: "4lw.commands.whitelist",
        take: |value, to| put(&mut to.settings.four_letter_words, words(value)),
    },
    Key {
        name: "extendedTypesEnabled",
        take: |value, to| put(&mut to.settings.extended_types, boolean(value)),
    },
    Key { name: "enforceQuota", take: |value, to| put(&mut to.settings.enforce_quota, boolean(value)) },
    Key { name: "skipACL", take: |value, to| put(&mut to.settings.skip_acl, yes_or_no(value)) },
    Key { name: SUPER_DIGEST, take: |value, to| put(&mut to.settings.super_digest, super_digest(value)) },
    Key { name: "jute.maxbuffer", take: |value, to| put(&mut to.settings.max_frame, max_frame(value)) },
    Key {
        name: "nio.sessionlessCnxnTimeout",
        take: |value, to| put(&mut to.settings.sessionless_timeout, decoded_interval(value)),
    },
    Key {
        name: "znode.container.checkIntervalMs",
        take: |value, to| put(&mut to.settings.container_check_interval, decoded_interval(value)),
    },
    Key {
        name: "znode.container.maxPerMinute",
        take: |value, to| put(&mut to.settings.container_max_per_minute, deletions(value)),
    },
    Key {
        name: "znode.container.maxNeverUsedIntervalMs",
        take: |value, to| put(&mut to.settings.container_max_never_used, age(value)),
    },
];

fn put<T>(place: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    maybe(place, value.map(Some))
}

fn maybe<T>(place: &mut Option<T>, value: Result<Option<T>, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}
