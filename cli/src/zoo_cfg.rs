//! `zoo.cfg`: the supported keys, in every spelling, and their values.
//!
//! Values are parsed as ZooKeeper does, but a value that it would silently misread is an error. Unsupported keys are ignored
//! with a warning, so that an existing file works.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use zoolet_server::FourLetterWord;

use crate::members::{ANY_ADDRESS, Members};
use crate::properties::{self, Entry};
use crate::settings::{KnownWords, Settings, Words, known_words};
use crate::storage_settings::Retention;
use crate::text::quoted;
use crate::values::{
    address, age, backlog, boolean, bound, compression, decoded, decoded_interval, decoded_long, deletions,
    directory, force_sync, int, interval, kibibytes, limit, long, max_frame, port, purge_interval, retained,
    super_digest, threshold, transactions, yes_or_no,
};

#[cfg(test)]
mod tests;

/// The content of a file.
#[derive(Debug)]
pub(crate) struct ZooCfg {
    pub(crate) settings: Settings,
    file: PathBuf,
    ignored: BTreeSet<String>,
    unknown_words: Vec<String>,
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
    #[error("{}:{line}: {key} contradicts {other} in line {other_line}; keep one of them", .file.display())]
    Contradiction { file: PathBuf, line: usize, key: String, other: String, other_line: usize },
}

/// Reads and parses a file.
pub(crate) fn read(file: &Path) -> Result<ZooCfg, ConfigError> {
    match std::fs::read(file) {
        Ok(bytes) => parse(file, &bytes),
        Err(source) => Err(ConfigError::Read { file: file.to_owned(), source }),
    }
}

impl ZooCfg {
    /// What deserves a warning, the likely mistakes first. Values are omitted, as some of them are secrets.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |what: &str, names: Vec<String>| {
            if !names.is_empty() {
                warnings.push(format!("{}: {what}: {}", self.file.display(), names.join(", ")));
            }
        };
        warn(
            "ignored unknown four-letter words",
            self.unknown_words.iter().map(|word| quoted(word)).collect(),
        );
        let (mut misspelt, mut unsupported) = (Vec::new(), Vec::new());
        for key in &self.ignored {
            match (meant(key), why_ignored(key)) {
                (Some(meant), _) => misspelt.push(format!("{} (did you mean {meant}?)", quoted(key))),
                (None, Some(why)) => unsupported.push(format!("{} ({why})", quoted(key))),
                (None, None) => unsupported.push(quoted(key)),
            }
        }
        warn("ignored unknown keys", misspelt);
        warn("ignored unsupported keys", unsupported);
        warnings
    }
}

/// Parses the content of a file; its name is for messages.
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
        // If a spelling is repeated, the last line wins, as in any properties file.
        given.retain(|(_, before)| before.key != entry.key);
        given.push((key, entry));
    }
    let mut parsed = Parsed::default();
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
        (key.apply)(&entry.value, &mut parsed).map_err(|hint| invalid(file, entry, hint))?;
    }
    if parsed.port.is_none() {
        if let Some((_, entry)) = given.iter().find(|(key, _)| key.name == "clientPortAddress") {
            return Err(invalid(file, entry, "requires clientPort".to_owned()));
        }
    }
    let bind = members.bind().map_err(|(entry, hint)| invalid(file, entry, hint))?;
    if parsed.port.is_none() {
        parsed.settings.binds.extend(bind);
    }
    let unknown_words = parsed.words.as_ref().map_or_else(Vec::new, |words| words.unknown.clone());
    Ok(ZooCfg { settings: parsed.into_settings(), file: file.to_owned(), ignored, unknown_words })
}

fn invalid(file: &Path, entry: &Entry, hint: String) -> ConfigError {
    let secret = Key::find(&entry.key).is_some_and(|key| key.name == SUPER_DIGEST);
    let value = if secret { "(not shown)".to_owned() } else { quoted(&entry.value) };
    ConfigError::Value { file: file.to_owned(), line: entry.line, key: quoted(&entry.key), value, hint }
}

/// The settings of a file. Address and port are two keys there and one setting here, as are the four-letter words and the
/// read-only mode, which on a standalone server only adds `isro` to them, and the two keys of the purge.
#[derive(Default)]
struct Parsed {
    settings: Settings,
    address: Option<String>,
    port: Option<u16>,
    words: Option<KnownWords>,
    read_only_mode: Option<bool>,
    purge: Option<bool>,
    retained: Option<usize>,
}

impl Parsed {
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
        settings.four_letter_words = self.words.map(|KnownWords { words, .. }| Words(words));
        if self.read_only_mode == Some(true) {
            let Words(words) = settings.four_letter_words.get_or_insert_with(|| Words(Vec::new()));
            words.push(FourLetterWord::Isro);
        }
        // Without an interval an Apache server removes nothing: what is in an existing directory stays.
        let storage = &mut settings.storage;
        storage.retain_snapshots = match self.purge {
            Some(true) => Some(Retention::Newest(self.retained.unwrap_or(DEFAULT_RETAINED))),
            None if storage.data_dir.is_none() && self.retained.is_none() => None,
            _ => Some(Retention::All),
        };
        settings
    }
}

/// `autopurge.snapRetainCount` if only the interval is given.
const DEFAULT_RETAINED: usize = 3;

const SUPER_DIGEST: &str = "DigestAuthenticationProvider.superDigest";

/// A key with a meaning.
struct Key {
    name: &'static str,
    /// Applies the value, or returns what it must be.
    apply: fn(&str, &mut Parsed) -> Result<(), String>,
}

impl Key {
    /// Finds a key by its name in a file or by that of its JVM property, which usually has a prefix.
    fn find(spelling: &str) -> Option<&'static Self> {
        let name = spelling.strip_prefix("zookeeper.").unwrap_or(spelling);
        let name = if name == "superDigest" { SUPER_DIGEST } else { name };
        KEYS.iter().chain(UNSUPPORTED).find(|key| key.name == name)
    }
}

/// Why a key is ignored, if that needs an explanation.
fn why_ignored(spelling: &str) -> Option<&'static str> {
    match spelling.strip_prefix("zookeeper.").unwrap_or(spelling) {
        "closeSessionTxn.enabled" => Some("the list of ephemerals is always written"),
        name if name.starts_with("server.") => Some("no ensemble; only its client address is used"),
        _ => None,
    }
}

/// The key that a misspelt one most likely means. No key of ZooKeeper is as close to another.
fn meant(spelling: &str) -> Option<&'static str> {
    const TYPING_ERRORS: usize = 2;
    let name = spelling.strip_prefix("zookeeper.").unwrap_or(spelling).to_lowercase();
    let distance = |key: &Key| strsim::damerau_levenshtein(&name, &key.name.to_lowercase());
    let keys = KEYS.iter().chain(UNSUPPORTED).map(|key| (distance(key), key.name));
    keys.filter(|(distance, _)| *distance <= TYPING_ERRORS).min().map(|(_, name)| name)
}

/// Rejects a key that asks for a protection that is not implemented: ignoring it would leave the server open.
fn not_supported(what: &str) -> Result<(), String> {
    Err(format!("{what} is not supported yet; remove the key to run without it"))
}

fn no_sasl(value: &str) -> Result<(), String> {
    if boolean(value)? { not_supported("SASL") } else { Ok(()) }
}

/// Keys that must not be ignored although they are not supported.
const UNSUPPORTED: &[Key] = &[
    Key { name: "secureClientPort", apply: |_, _| not_supported("TLS") },
    Key { name: "requireClientAuthScheme", apply: |_, _| not_supported("SASL") },
    Key { name: "sessionRequireClientSASLAuth", apply: |value, _| no_sasl(value) },
    Key { name: "enforce.auth.enabled", apply: |value, _| no_sasl(value) },
    Key {
        name: "DigestAuthenticationProvider.enabled",
        apply: |value, _| if boolean(value)? { Ok(()) } else { not_supported("disabling the scheme digest") },
    },
    Key {
        name: "ensembleAuthName",
        apply: |value, _| if value.is_empty() { Ok(()) } else { not_supported("the scheme ensemble") },
    },
];

/// Each key, its place and its value there. A value that is an option may be `None`, which leaves the default.
macro_rules! keys {
    ($value:ident; $($name:expr => $($place:ident).+ = $parsed:expr;)*) => {
        &[$(Key {
            name: $name,
            apply: |$value, to| {
                to.$($place).+ = $parsed?.into();
                Ok(())
            },
        },)*]
    };
}

const NO_LIMIT: &str = "is no limit";

const KEYS: &[Key] = keys! {
    value;
    "tickTime" => settings.tick_time = interval(value);
    "clientPort" => port = port(value);
    "clientPortAddress" => address = address(value);
    "clientPortListenBacklog" => settings.listen_backlog = backlog(value);
    "minSessionTimeout" => settings.min_session_timeout = bound(value);
    "maxSessionTimeout" => settings.max_session_timeout = bound(value);
    "maxClientCnxns" => settings.max_client_cnxns = limit(int(value));
    "maxCnxns" => settings.max_cnxns = limit(decoded(value));
    "reconfigEnabled" => settings.reconfig_enabled = boolean(value);
    "4lw.commands.whitelist" => words = known_words(value);
    "readonlymode.enabled" => read_only_mode = boolean(value);
    "extendedTypesEnabled" => settings.extended_types = boolean(value);
    "enforceQuota" => settings.enforce_quota = boolean(value);
    "skipACL" => settings.skip_acl = yes_or_no(value);
    SUPER_DIGEST => settings.super_digest = super_digest(value);
    "jute.maxbuffer" => settings.max_frame = max_frame(value);
    "nio.sessionlessCnxnTimeout" => settings.sessionless_timeout = decoded_interval(value);
    "znode.container.checkIntervalMs" => settings.container_check_interval = decoded_interval(value);
    "znode.container.maxPerMinute" => settings.container_max_per_minute = deletions(value);
    "znode.container.maxNeverUsedIntervalMs" => settings.container_max_never_used = age(value);
    "dataDir" => settings.storage.data_dir = directory(value);
    "dataLogDir" => settings.storage.log_dir = directory(value);
    "forceSync" => settings.storage.durability = force_sync(value);
    "fsync.warningthresholdms" => settings.storage.slow_sync = threshold(value);
    "preAllocSize" => settings.storage.pre_alloc = kibibytes(long(value), "extends by what is written");
    "txnLogSizeLimitInKb" => settings.storage.log_size_limit = kibibytes(decoded_long(value), NO_LIMIT);
    "snapCount" => settings.storage.snap_count = transactions(value);
    "snapSizeLimitInKb" => settings.storage.snap_size_limit = kibibytes(decoded_long(value), NO_LIMIT);
    "autopurge.purgeInterval" => purge = purge_interval(value);
    "autopurge.snapRetainCount" => retained = retained(value);
    "snapshot.compression.method" => settings.storage.snapshot_compression = compression(value);
    "snapshot.trust.empty" => settings.storage.trust_empty_snapshot = boolean(value);
    "datadir.autocreate" => settings.storage.create_directories = boolean(value);
    "db.autocreate" => settings.storage.create_database = boolean(value);
    "digest.enabled" => settings.storage.digests = boolean(value);
    "serializeLastProcessedZxid.enabled" => settings.storage.last_zxid_section = boolean(value);
};
