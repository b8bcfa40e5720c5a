//! Addresses, sessions, limits, and what requests may do.

use zoolet_server::{FourLetterWord, ServerBuilder};

use super::{ADDRESS, BOOL, COUNT, DIR, FILE, SettingRow, TIME, flag, key};
use crate::settings::written::{Written, decoded, int};
use crate::settings::{Settings, put};
use crate::text::quoted;

pub(super) const ROWS: &[SettingRow] = &[
    flag("bind", ADDRESS, "127.0.0.1:2181")
        .builder("ServerBuilder::bind")
        .repeats()
        .help("Address to listen on; port 0 picks a free port. Can be repeated")
        .sets(|to, value| value.bind().map(|bind| to.binds.push(bind))),
    key("clientPort", "PORT", "none")
        .builder("ServerBuilder::bind")
        .help("Port to listen on, in place of --bind")
        .sets(|to, value| put(&mut to.parts.port, value.port().map(Some))),
    key("clientPortAddress", "ADDRESS", "all")
        .builder("ServerBuilder::bind")
        .help("Address to listen on; needs clientPort")
        .sets(|to, value| put(&mut to.parts.address, value.address().map(Some))),
    flag("tick-time", TIME, "3s")
        .builder("ServerBuilder::tick_time")
        .key("tickTime")
        .help("Tick, such as 2s: sessions expire at multiples of it")
        .sets(|to, value| put(&mut to.tick_time, value.interval(int))),
    flag("min-session-timeout", TIME, "2 ticks")
        .builder("ServerBuilder::min_session_timeout")
        .key("minSessionTimeout")
        .help("Minimum session timeout")
        .sets(|to, value| put(&mut to.min_session_timeout, value.bound())),
    flag("max-session-timeout", TIME, "20 ticks")
        .builder("ServerBuilder::max_session_timeout")
        .key("maxSessionTimeout")
        .help("Maximum session timeout")
        .sets(|to, value| put(&mut to.max_session_timeout, value.bound())),
    flag("max-client-cnxns", COUNT, "60")
        .builder("ServerBuilder::max_connections_per_ip")
        .key("maxClientCnxns")
        .help("Maximum connections per client address; 0 for no limit")
        .sets(|to, value| to.server(ServerBuilder::max_connections_per_ip, value.connections(int))),
    flag("max-cnxns", COUNT, "0")
        .builder("ServerBuilder::max_connections")
        .key("maxCnxns")
        .help("Maximum connections in total; 0 for no limit")
        .sets(|to, value| to.server(ServerBuilder::max_connections, value.connections(decoded))),
    flag("max-sessions", COUNT, "no limit")
        .builder("ServerBuilder::max_sessions")
        .help("Maximum sessions")
        .sets(|to, value| to.server(ServerBuilder::max_sessions, value.count())),
    flag("max-watches-per-connection", COUNT, "no limit")
        .builder("ServerBuilder::max_watches_per_connection")
        .help("Maximum watched paths per connection")
        .sets(|to, value| to.server(ServerBuilder::max_watches_per_connection, value.count())),
    flag("listen-backlog", COUNT, "1024")
        .builder("ServerBuilder::listen_backlog")
        .key("clientPortListenBacklog")
        .help("Maximum connections that wait to be accepted")
        .sets(|to, value| to.server(backlog, value.backlog())),
    flag("sessionless-timeout", TIME, "10s")
        .builder("ServerBuilder::sessionless_timeout")
        .key("nio.sessionlessCnxnTimeout")
        .help("Close connections that do not open a session within this time")
        .sets(|to, value| to.server(ServerBuilder::sessionless_timeout, value.interval(decoded))),
    flag("max-frame", "BYTES", "1048575")
        .builder("ServerBuilder::max_frame")
        .key("jute.maxbuffer")
        .help("Maximum size of a request, in bytes")
        .sets(|to, value| to.server(ServerBuilder::max_frame, value.max_frame())),
    flag("four-letter-words", "WORDS", "none")
        .builder("ServerBuilder::four_letter_words")
        .key("4lw.commands.whitelist")
        .help("Four-letter words to answer besides srvr, such as ruok,mntr,stat, or * for all")
        .sets(four_letter_words),
    key("readonlymode.enabled", BOOL, "false")
        .builder("ServerBuilder::four_letter_words")
        .help("Answer the four-letter word isro as well")
        .sets(|to, value| put(&mut to.parts.read_only_mode, value.boolean())),
    flag("extended-types", BOOL, "false")
        .builder("ServerBuilder::extended_types")
        .key("extendedTypesEnabled")
        .help("Allow znodes with a time to live")
        .sets(|to, value| to.server(ServerBuilder::extended_types, value.boolean())),
    flag("container-check-interval", TIME, "1m")
        .builder("ServerBuilder::container_check_interval")
        .key("znode.container.checkIntervalMs")
        .help("Interval of checks for empty containers and expired znodes")
        .sets(|to, value| to.server(ServerBuilder::container_check_interval, value.interval(decoded))),
    flag("container-max-per-minute", COUNT, "10000")
        .builder("ServerBuilder::container_max_per_minute")
        .key("znode.container.maxPerMinute")
        .help("Maximum deletions of these per minute")
        .sets(|to, value| to.server(ServerBuilder::container_max_per_minute, value.deletions())),
    flag("container-max-never-used", TIME, "0")
        .builder("ServerBuilder::container_max_never_used")
        .key("znode.container.maxNeverUsedIntervalMs")
        .help("Delete containers that never had a child at this age; 0 for never")
        .sets(|to, value| to.server(ServerBuilder::container_max_never_used, value.time())),
    flag("super-digest", "DIGEST", "none")
        .builder("ServerBuilder::super_digest")
        .key("DigestAuthenticationProvider.superDigest")
        .alias("superDigest")
        .secret()
        .help(
            "Digest of the superuser: user:base64(sha1(user:password)). Prefer --super-digest-file \
             or the zoo.cfg, as arguments appear in the process list",
        )
        .sets(|to, value| to.server(ServerBuilder::super_digest, value.super_digest())),
    flag("audit", BOOL, "false")
        .builder("ServerBuilder::audit")
        .key("audit.enable")
        .help("Log who changes what, and who is refused to, whatever the log level")
        .sets(|to, value| to.server(ServerBuilder::audit, value.boolean())),
    flag("enforce-quota", BOOL, "false")
        .builder("ServerBuilder::enforce_quota")
        .key("enforceQuota")
        .help("Refuse writes that exceed a hard quota")
        .sets(|to, value| to.server(ServerBuilder::enforce_quota, value.boolean())),
    flag("skip-acl", BOOL, "false")
        .builder("ServerBuilder::skip_acl")
        .key("skipACL")
        .help("Disable ACL checks")
        .sets(|to, value| to.server(ServerBuilder::skip_acl, value.yes_or_no())),
    key("reconfigEnabled", BOOL, "false")
        .builder("ServerBuilder::reconfig_enabled")
        .help("Change the error of a reconfig, which a standalone server refuses either way")
        .sets(|to, value| to.server(ServerBuilder::reconfig_enabled, value.boolean())),
    key("standaloneEnabled", BOOL, "true")
        .help("Run one server standalone; false asks for an ensemble, and is refused")
        .sets(|to, value| put(&mut to.parts.ensemble, value.boolean().map(|standalone| !standalone))),
    key("dynamicConfigFile", FILE, "none")
        .help("File with the `server.N` line")
        .sets(|to, value| put(&mut to.parts.dynamic_file, value.file().map(Some))),
    flag("data-dir", DIR, "in memory")
        .builder("ServerBuilder::data_dir")
        .key("dataDir")
        .help("Keep the state in this directory, in the format of Apache ZooKeeper")
        .sets(data_dir),
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
