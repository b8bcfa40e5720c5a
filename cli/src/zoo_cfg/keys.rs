//! The keys with a meaning, and what each of them sets.

use std::path::PathBuf;

use zoolet_server::FourLetterWord;

use crate::settings::storage::Retention;
use crate::settings::written::{
    address, age, backlog, boolean, bound, compression, decoded, decoded_interval, decoded_long, deletions,
    directory, file, force_sync, int, interval, kibibytes, limit, long, max_frame, port, purge_interval,
    retained, super_digest, threshold, transactions, yes_or_no,
};
use crate::settings::{KnownWords, Settings, Words, known_words};
use crate::zoo_cfg::members::ANY_ADDRESS;

/// The settings of a file. Address and port are two keys there and one setting here, as are the four-letter words and the
/// read-only mode, which on a standalone server only adds `isro` to them, and the two keys of the purge.
#[derive(Default)]
pub(super) struct Parsed {
    pub(super) settings: Settings,
    address: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) words: Option<KnownWords>,
    read_only_mode: Option<bool>,
    pub(super) standalone: Option<bool>,
    /// Has the servers.
    pub(super) dynamic_file: Option<PathBuf>,
    purge: Option<bool>,
    retained: Option<usize>,
}

impl Parsed {
    pub(super) fn into_settings(self) -> Settings {
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

const DATA_DIR: &str = "dataDir";

pub(super) const SUPER_DIGEST: &str = "DigestAuthenticationProvider.superDigest";

/// A key with a meaning.
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Applies the value, or returns what it must be.
    pub(super) apply: fn(&str, &mut Parsed) -> Result<(), String>,
}

impl Key {
    /// Finds a key by its name in a file or by that of its JVM property, which usually has a prefix.
    pub(super) fn find(spelling: &str) -> Option<&'static Self> {
        let name = spelling.strip_prefix("zookeeper.").unwrap_or(spelling);
        let name = if name == "superDigest" { SUPER_DIGEST } else { name };
        KEYS.iter().chain(STORAGE_KEYS).find(|key| key.name == name)
    }

    /// Whether it means nothing without a data directory.
    pub(super) fn needs_data_dir(&self) -> bool {
        self.name != DATA_DIR && STORAGE_KEYS.iter().any(|key| key.name == self.name)
    }
}

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

pub(super) const KEYS: &[Key] = keys! {
    value;
    "tickTime" => settings.tick_time = interval(value);
    "clientPort" => port = port(value);
    "clientPortAddress" => address = address(value);
    "clientPortListenBacklog" => settings.listen_backlog = backlog(value);
    "minSessionTimeout" => settings.min_session_timeout = bound(value);
    "maxSessionTimeout" => settings.max_session_timeout = bound(value);
    "maxClientCnxns" => settings.max_client_cnxns = limit(int(value));
    "maxCnxns" => settings.max_cnxns = limit(decoded(value));
    "standaloneEnabled" => standalone = boolean(value);
    "dynamicConfigFile" => dynamic_file = file(value);
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
};

/// Those that mean nothing without a data directory, and the directory itself.
pub(super) const STORAGE_KEYS: &[Key] = keys! {
    value;
    DATA_DIR => settings.storage.data_dir = directory(value);
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
