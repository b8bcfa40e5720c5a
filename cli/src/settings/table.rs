//! Every setting of `zoolet serve`, in one table. The flags and their help, the keys of a `zoo.cfg`, the suggestions for misspelt
//! keys and `docs/settings.md` follow from it. A new setting is a new row; "Add a setting" in CONTRIBUTING.md has the rest.

use zoolet_server::{FourLetterWord, ServerBuilder};

use super::written::{Written, decoded, int, long};
use super::{Settings, put};
use crate::text::quoted;

/// A setting: its names, its description, and its effect.
pub(crate) struct SettingRow {
    /// The flag, without its dashes.
    pub(crate) flag: Option<&'static str>,
    /// The key in a `zoo.cfg`, where it may also be written with `zookeeper.` before it, as Java system properties are.
    pub(crate) key: Option<&'static str>,
    /// A second name of the key.
    pub(crate) alias: Option<&'static str>,
    /// The kind of value of the flag, or of the key if there is no flag.
    pub(crate) takes: &'static str,
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
    /// Whether the flag can be repeated.
    pub(crate) repeats: bool,
    /// Whether the value must not appear in messages.
    pub(crate) secret: bool,
    /// Whether it is a mistake to give it without a data directory.
    pub(crate) needs_data_dir: bool,
    /// Sets the value, or returns what it must be. A file is applied before the flags, so flags take precedence.
    pub(crate) set: fn(&mut Settings, Written<'_>) -> Result<(), String>,
}

impl SettingRow {
    /// A row without names and effect.
    const fn new(takes: &'static str, default: &'static str) -> Self {
        Self {
            flag: None,
            key: None,
            alias: None,
            takes,
            default,
            help: "",
            repeats: false,
            secret: false,
            needs_data_dir: false,
            set: |_, _| Ok(()),
        }
    }

    const fn key(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    const fn alias(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }

    const fn repeats(self) -> Self {
        Self { repeats: true, ..self }
    }

    const fn secret(self) -> Self {
        Self { secret: true, ..self }
    }

    const fn sets(self, set: fn(&mut Settings, Written<'_>) -> Result<(), String>) -> Self {
        Self { set, ..self }
    }

    /// As `sets`, for a setting that means nothing without a data directory.
    const fn stores(self, set: fn(&mut Settings, Written<'_>) -> Result<(), String>) -> Self {
        Self { set, needs_data_dir: true, ..self }
    }

    /// Finds a row by the name of its key in a file or by that of its Java system property.
    pub(crate) fn of_key(spelling: &str) -> Option<&'static Self> {
        let name = Some(spelling.strip_prefix("zookeeper.").unwrap_or(spelling));
        SETTINGS.iter().find(|row| row.key == name || row.alias == name)
    }
}

/// A row with a flag: its name, what it takes, and its default.
const fn flag(name: &'static str, takes: &'static str, default: &'static str) -> SettingRow {
    SettingRow { flag: Some(name), ..SettingRow::new(takes, default) }
}

/// A row without a flag: the name of its key, what that takes, and its default.
const fn key(name: &'static str, takes: &'static str, default: &'static str) -> SettingRow {
    SettingRow::new(takes, default).key(name)
}

pub(super) const BOOL: &str = "BOOL";
const COUNT: &str = "COUNT";
pub(crate) const DIR: &str = "DIR";
const SIZE: &str = "SIZE";
const TIME: &str = "TIME";

pub(crate) const SETTINGS: &[SettingRow] = &[
    flag("bind", "ADDRESS:PORT", "127.0.0.1:2181")
        .repeats()
        .help("Address to listen on; port 0 picks a free port. Can be repeated")
        .sets(|to, value| value.bind().map(|bind| to.binds.push(bind))),
    key("clientPort", "PORT", "none")
        .help("Port to listen on, in place of --bind")
        .sets(|to, value| put(&mut to.parts.port, value.port().map(Some))),
    key("clientPortAddress", "ADDRESS", "all")
        .help("Address to listen on; needs clientPort")
        .sets(|to, value| put(&mut to.parts.address, value.address().map(Some))),
    flag("tick-time", TIME, "3s")
        .key("tickTime")
        .help("Tick, such as 2s: sessions expire at multiples of it")
        .sets(|to, value| put(&mut to.tick_time, value.interval(int))),
    flag("min-session-timeout", TIME, "2 ticks")
        .key("minSessionTimeout")
        .help("Minimum session timeout")
        .sets(|to, value| put(&mut to.min_session_timeout, value.bound())),
    flag("max-session-timeout", TIME, "20 ticks")
        .key("maxSessionTimeout")
        .help("Maximum session timeout")
        .sets(|to, value| put(&mut to.max_session_timeout, value.bound())),
    flag("max-client-cnxns", COUNT, "60")
        .key("maxClientCnxns")
        .help("Maximum connections per client address; 0 for no limit")
        .sets(|to, value| to.server(ServerBuilder::max_connections_per_ip, value.connections(int))),
    flag("max-cnxns", COUNT, "0")
        .key("maxCnxns")
        .help("Maximum connections in total; 0 for no limit")
        .sets(|to, value| to.server(ServerBuilder::max_connections, value.connections(decoded))),
    flag("max-sessions", COUNT, "no limit")
        .help("Maximum sessions")
        .sets(|to, value| to.server(ServerBuilder::max_sessions, value.count())),
    flag("max-watches-per-connection", COUNT, "no limit")
        .help("Maximum watched paths per connection")
        .sets(|to, value| to.server(ServerBuilder::max_watches_per_connection, value.count())),
    flag("listen-backlog", COUNT, "1024")
        .key("clientPortListenBacklog")
        .help("Maximum connections that wait to be accepted")
        .sets(|to, value| to.server(backlog, value.backlog())),
    flag("sessionless-timeout", TIME, "10s")
        .key("nio.sessionlessCnxnTimeout")
        .help("Close connections that do not open a session within this time")
        .sets(|to, value| to.server(ServerBuilder::sessionless_timeout, value.interval(decoded))),
    flag("max-frame", "BYTES", "1048575")
        .key("jute.maxbuffer")
        .help("Maximum size of a request, in bytes")
        .sets(|to, value| to.server(ServerBuilder::max_frame, value.max_frame())),
    flag("four-letter-words", "WORDS", "none")
        .key("4lw.commands.whitelist")
        .help("Four-letter words to answer besides srvr, such as ruok,mntr,stat, or * for all")
        .sets(four_letter_words),
    key("readonlymode.enabled", BOOL, "false")
        .help("Answer the four-letter word isro as well")
        .sets(|to, value| put(&mut to.parts.read_only_mode, value.boolean())),
    flag("extended-types", BOOL, "false")
        .key("extendedTypesEnabled")
        .help("Allow znodes with a time to live")
        .sets(|to, value| to.server(ServerBuilder::extended_types, value.boolean())),
    flag("container-check-interval", TIME, "1m")
        .key("znode.container.checkIntervalMs")
        .help("Interval of checks for empty containers and expired znodes")
        .sets(|to, value| to.server(ServerBuilder::container_check_interval, value.interval(decoded))),
    flag("container-max-per-minute", COUNT, "10000")
        .key("znode.container.maxPerMinute")
        .help("Maximum deletions of these per minute")
        .sets(|to, value| to.server(ServerBuilder::container_max_per_minute, value.deletions())),
    flag("container-max-never-used", TIME, "0")
        .key("znode.container.maxNeverUsedIntervalMs")
        .help("Delete containers that never had a child at this age; 0 for never")
        .sets(|to, value| to.server(ServerBuilder::container_max_never_used, value.time())),
    flag("super-digest", "DIGEST", "none")
        .key("DigestAuthenticationProvider.superDigest")
        .alias("superDigest")
        .secret()
        .help(
            "Digest of the superuser: user:base64(sha1(user:password)). Prefer --super-digest-file \
             or the zoo.cfg, as arguments appear in the process list",
        )
        .sets(|to, value| to.server(ServerBuilder::super_digest, value.super_digest())),
    flag("audit", BOOL, "false")
        .key("audit.enable")
        .help("Log who changes what, and who is refused to, whatever the log level")
        .sets(|to, value| to.server(ServerBuilder::audit, value.boolean())),
    flag("enforce-quota", BOOL, "false")
        .key("enforceQuota")
        .help("Refuse writes that exceed a hard quota")
        .sets(|to, value| to.server(ServerBuilder::enforce_quota, value.boolean())),
    flag("skip-acl", BOOL, "false")
        .key("skipACL")
        .help("Disable ACL checks")
        .sets(|to, value| to.server(ServerBuilder::skip_acl, value.yes_or_no())),
    key("reconfigEnabled", BOOL, "false")
        .help("Change the error of a reconfig, which a standalone server refuses either way")
        .sets(|to, value| to.server(ServerBuilder::reconfig_enabled, value.boolean())),
    key("standaloneEnabled", BOOL, "true")
        .help("Run one server standalone; false asks for an ensemble, and is refused")
        .sets(|to, value| put(&mut to.parts.ensemble, value.boolean().map(|standalone| !standalone))),
    key("dynamicConfigFile", "FILE", "none")
        .help("File with the `server.N` line")
        .sets(|to, value| put(&mut to.parts.dynamic_file, value.file().map(Some))),
    flag("data-dir", DIR, "in memory")
        .key("dataDir")
        .help("Keep the state in this directory, in the format of Apache ZooKeeper")
        .sets(data_dir),
    flag("log-dir", DIR, "the data directory")
        .key("dataLogDir")
        .help("Keep the transaction log in this directory")
        .stores(|to, value| put(&mut to.storage.log_dir, value.directory().map(Some))),
    flag("durability", "sync|os", "sync")
        .key("forceSync")
        .help(
            "What an acknowledged write survives: sync, also a power loss, or os, only the end of \
             this process",
        )
        .stores(|to, value| put(&mut to.storage.durability, value.durability())),
    flag("slow-sync", TIME, "1s")
        .key("fsync.warningthresholdms")
        .help("Warn of a sync of the log that takes longer")
        .stores(|to, value| put(&mut to.storage.slow_sync, value.time())),
    flag("pre-alloc", SIZE, "64MiB")
        .key("preAllocSize")
        .help("Extend log files by this size at once; 0 for no more than is written")
        .stores(|to, value| put(&mut to.storage.pre_alloc, value.size(long, "extends by what is written"))),
    flag("log-size-limit", SIZE, "0")
        .key("txnLogSizeLimitInKb")
        .help("Begin a new log file after this size; 0 for no limit")
        .stores(|to, value| put(&mut to.storage.log_size_limit, value.size_limit())),
    flag("snap-count", COUNT, "100000")
        .key("snapCount")
        .help("Write a snapshot after this many transactions")
        .stores(|to, value| put(&mut to.storage.snapshot_after_txns, value.transactions())),
    flag("snap-size-limit", SIZE, "4GiB")
        .key("snapSizeLimitInKb")
        .help("Write a snapshot after this size of log; 0 for no limit")
        .stores(|to, value| put(&mut to.storage.snapshot_after_bytes, value.size_limit())),
    flag("retain-snapshots", "COUNT|all", "3, or as autopurge of the zoo.cfg")
        .help("Keep this many snapshots, with the log since the oldest of them, or all")
        .stores(|to, value| put(&mut to.storage.retain, value.retention())),
    key("autopurge.purgeInterval", "HOURS", "0")
        .help(
            "Keep only some snapshots, as --retain-snapshots does; 0 or less keeps all. Purges after \
             each snapshot, whatever the number of hours",
        )
        .stores(|to, value| put(&mut to.parts.purge, value.purge_interval().map(Some))),
    key("autopurge.snapRetainCount", COUNT, "3")
        .help("How many snapshots a purge keeps, at least 3")
        .stores(|to, value| put(&mut to.parts.retained, value.retained().map(Some))),
    flag("snapshot-compression", "METHOD", "none")
        .key("snapshot.compression.method")
        .help("Compress snapshots: none, gz or snappy")
        .stores(|to, value| put(&mut to.storage.compression, value.compression())),
    flag("trust-empty-snapshot", BOOL, "false")
        .key("snapshot.trust.empty")
        .help("Start from a log without a snapshot, as a directory of ZooKeeper 3.4 may be")
        .stores(|to, value| put(&mut to.storage.trust_empty_snapshot, value.boolean())),
    key("datadir.autocreate", BOOL, "true")
        .help("Create directories that do not exist")
        .stores(|to, value| put(&mut to.storage.create_directories, value.boolean())),
    key("db.autocreate", BOOL, "true")
        .help("Begin with an empty database in an empty directory, even without the file initialize")
        .stores(|to, value| put(&mut to.storage.create_database, value.boolean())),
    key("digest.enabled", BOOL, "true")
        .help("Write digests of the tree to the log and to snapshots")
        .stores(|to, value| put(&mut to.storage.digests, value.boolean())),
    key("serializeLastProcessedZxid.enabled", BOOL, "true")
        .help("Write the last section of snapshots, which only 3.9 has")
        .stores(|to, value| put(&mut to.storage.last_zxid_section, value.boolean())),
];

/// A file may have unknown words, as ZooKeeper starts with them, too. The flag may not.
fn four_letter_words(to: &mut Settings, value: Written<'_>) -> Result<(), String> {
    let (mut words, mut unknown) = (Vec::new(), Vec::new());
    for name in value.text().split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match FourLetterWord::from_name(name) {
            _ if name == "*" => words = FourLetterWord::ALL.to_vec(),
            Some(word) => words.push(word),
            None => unknown.push(quoted(name)),
        }
    }
    match (value, unknown.first()) {
        (Written::Flag(_), Some(unknown)) => {
            let known: Vec<_> = FourLetterWord::ALL.iter().map(|word| word.name()).collect();
            Err(format!("unknown four-letter word {unknown}; use {}, or * for all", known.join(", ")))
        }
        _ => {
            (to.words, to.parts.unknown_words) = (words, unknown);
            Ok(())
        }
    }
}

/// Without a number the default stays.
fn backlog(server: ServerBuilder, connections: Option<u32>) -> ServerBuilder {
    connections.into_iter().fold(server, ServerBuilder::listen_backlog)
}

/// The log of a file belongs to the data directory of that file.
fn data_dir(to: &mut Settings, value: Written<'_>) -> Result<(), String> {
    if matches!(value, Written::Flag(_)) {
        to.storage.log_dir = None;
    }
    put(&mut to.data_dir, value.directory().map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_trimmed_and_an_unknown_one_is_named() {
        let words = |text| {
            let mut settings = Settings::default();
            four_letter_words(&mut settings, Written::Flag(text)).map(|()| settings.words)
        };
        assert_eq!(words(" ruok, stat,,").unwrap(), [FourLetterWord::Ruok, FourLetterWord::Stat]);
        assert_eq!(words("ruok,*").unwrap(), FourLetterWord::ALL);
        assert!(
            words("ruok,stats").unwrap_err().starts_with("unknown four-letter word stats; use conf, cons")
        );
    }
}
