//! `zoo.cfg`: the keys that mean something here, under every spelling, and what their values say.
//!
//! Values are read as ZooKeeper reads them, but one that it would silently take for something else is refused. A key
//! that means nothing here is not: people come with the file they have.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::properties::{self, Entry};
use crate::settings::{Settings, quoted, words};
use crate::values::{
    address, age, backlog, boolean, bound, decoded, decoded_interval, deletions, int, interval, limit,
    max_frame, port, super_digest, yes_or_no,
};

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
    #[error("{}:{line}: {key} = {value}: {mend}", .file.display())]
    Value { file: PathBuf, line: usize, key: String, value: String, mend: String },
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
    for Entry { line, key, value } in entries {
        let entry = Entry { line, key: key.trim().to_owned(), value: value.trim().to_owned() };
        let Some(key) = Key::find(&entry.key) else {
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
        (key.take)(&entry.value, &mut taken).map_err(|mend| wrong(file, key, entry, mend))?;
    }
    if taken.port.is_none() {
        if let Some((key, entry)) = given.iter().find(|(key, _)| key.name == "clientPortAddress") {
            return Err(wrong(file, key, entry, "needs a clientPort beside it".to_owned()));
        }
    }
    Ok(ZooCfg { settings: taken.into_settings(), file: file.to_owned(), ignored })
}

fn wrong(file: &Path, key: &Key, entry: &Entry, mend: String) -> ConfigError {
    let secret = key.name == SUPER_DIGEST;
    let value = if secret { "(not shown)".to_owned() } else { quoted(&entry.value) };
    ConfigError::Value { file: file.to_owned(), line: entry.line, key: quoted(&entry.key), value, mend }
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
        Settings { binds: bind.into_iter().collect(), ..self.settings }
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
        _ if name.starts_with("server.") => "there is no ensemble",
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zoolet_server::FourLetterWord;

    use crate::settings::{Secret, Words};

    use super::*;

    fn read(text: &str) -> ZooCfg {
        parse(Path::new("zoo.cfg"), text.as_bytes()).unwrap()
    }

    fn settings(text: &str) -> Settings {
        let config = read(text);
        assert_eq!(config.warning(), None, "{text}");
        config.settings
    }

    fn refused(text: &str) -> String {
        parse(Path::new("zoo.cfg"), text.as_bytes()).unwrap_err().to_string()
    }

    fn secs(secs: u64) -> Option<Duration> {
        Some(Duration::from_secs(secs))
    }

    #[test]
    fn every_key_is_taken_under_its_name_in_files_and_in_properties() {
        let text = "tickTime=2000\nclientPort=2181\nclientPortAddress=::1\nclientPortListenBacklog=128\n\
                    minSessionTimeout=4000\nmaxSessionTimeout=40000\nmaxClientCnxns=10\nmaxCnxns=100\n\
                    reconfigEnabled=true\n4lw.commands.whitelist=stat, ruok\nextendedTypesEnabled=TRUE\n\
                    enforceQuota=false\nskipACL=yes\njute.maxbuffer=0x3fffff\nnio.sessionlessCnxnTimeout=5000\n\
                    DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n\
                    znode.container.checkIntervalMs=1000\nznode.container.maxPerMinute=5\n\
                    znode.container.maxNeverUsedIntervalMs=7000\n";
        let expected = Settings {
            binds: vec!["[::1]:2181".to_owned()],
            tick_time: secs(2),
            min_session_timeout: secs(4),
            max_session_timeout: secs(40),
            max_client_cnxns: Some(10),
            max_cnxns: Some(100),
            max_sessions: None,
            max_watches_per_connection: None,
            listen_backlog: Some(128),
            sessionless_timeout: secs(5),
            max_frame: Some(0x3f_ffff),
            four_letter_words: Some(Words(vec![FourLetterWord::Stat, FourLetterWord::Ruok])),
            extended_types: Some(true),
            container_check_interval: secs(1),
            container_max_per_minute: Some(5),
            container_max_never_used: secs(7),
            super_digest: Some(Secret::from("super:lK75jTNcA+U9vtVEw5vB51mj/w4=")),
            enforce_quota: Some(false),
            skip_acl: Some(true),
            reconfig_enabled: Some(true),
        };
        assert_eq!(text.lines().count(), KEYS.len(), "every key is tried here");
        assert_eq!(settings(text), expected);
        let prefixed: String = text.lines().map(|line| format!("zookeeper.{line}\n")).collect();
        assert_eq!(settings(&prefixed), expected);
    }

    #[test]
    fn the_super_digest_has_a_short_name_too() {
        for name in ["superDigest", "zookeeper.superDigest"] {
            let text = format!("{name}=super:lK75jTNcA+U9vtVEw5vB51mj/w4=");
            assert!(settings(&text).super_digest.is_some());
        }
    }

    #[test]
    fn values_that_stand_for_the_default_leave_it() {
        let text = "minSessionTimeout=-1\nmaxSessionTimeout=-1\nclientPortListenBacklog=-1";
        assert_eq!(settings(text), Settings::default());
        let none = settings("maxClientCnxns=-1\nmaxCnxns=0\nznode.container.maxNeverUsedIntervalMs=-5");
        assert_eq!((none.max_client_cnxns, none.max_cnxns), (Some(0), Some(0)));
        assert_eq!(none.container_max_never_used, Some(Duration::ZERO));
        assert_eq!(settings("4lw.commands.whitelist=").four_letter_words, Some(Words(Vec::new())));
    }

    #[test]
    fn a_port_without_an_address_is_on_every_address() {
        assert_eq!(settings("clientPort=2181").binds, ["[::]:2181"]);
        assert_eq!(settings("clientPort=0\nclientPortAddress=localhost").binds, ["localhost:0"]);
        assert_eq!(
            refused("\nclientPortAddress=localhost"),
            "zoo.cfg:2: clientPortAddress = localhost: needs a clientPort beside it"
        );
    }

    #[test]
    fn numbers_are_read_as_java_reads_them_at_that_key() {
        let decoded =
            ["10", "-10", "0x10", "-0X10", "#f", "010", "0", "+7"].map(|text| decoded(text).unwrap());
        assert_eq!(decoded, [10, -10, 16, -16, 15, 8, 0, 7]);
        for text in ["", "-", "0x", "08", "2147483648", "1 0", "--1", "0x-1", "1s"] {
            assert_eq!(super::decoded(text), None, "{text}");
        }
        assert_eq!(int("+7"), Some(7));
        assert_eq!(int("0x10"), None);
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_place_and_the_mend() {
        let cases = [
            ("tickTime=0", "zoo.cfg:1: tickTime = 0: must be a number of milliseconds from 1 to 2147483647"),
            (
                "# x\ntickTime=2s",
                "zoo.cfg:2: tickTime = 2s: must be a number of milliseconds from 1 to 2147483647",
            ),
            ("clientPort=65536", "zoo.cfg:1: clientPort = 65536: must be a port from 0 to 65535"),
            ("skipACL=true", "zoo.cfg:1: skipACL = true: must be yes or no"),
            ("enforceQuota=yes", "zoo.cfg:1: enforceQuota = yes: must be true or false"),
            (
                "jute.maxbuffer=4m",
                "zoo.cfg:1: jute.maxbuffer = 4m: must be a number of bytes from 64 to 2147483647",
            ),
            (
                "zookeeper.maxCnxns=",
                "zoo.cfg:1: zookeeper.maxCnxns = : must be a number of connections, where 0 is no limit, from -2147483648 to 2147483647",
            ),
            (
                "minSessionTimeout=-2",
                "zoo.cfg:1: minSessionTimeout = -2: must be a number of milliseconds from 1 to 2147483647, or -1 to leave it to tickTime",
            ),
        ];
        for (text, said) in cases {
            assert_eq!(refused(text), said);
        }
        assert_eq!(
            refused("a=1\nb=\\u00"),
            "zoo.cfg:2: \\u needs four hexadecimal digits behind it; for a backslash write two"
        );
        assert!(refused("4lw.commands.whitelist=ruok,\\nx").contains("= ruok,\\nx: there is no word x;"));
    }

    #[test]
    fn a_wrong_secret_is_not_shown() {
        assert_eq!(
            refused("superDigest=super:secret"),
            "zoo.cfg:1: superDigest = (not shown): must be user:base64(sha1(user:password)), 28 characters behind \
             the colon"
        );
    }

    #[test]
    fn two_spellings_must_agree_and_of_one_spelling_the_last_holds() {
        assert_eq!(settings("maxCnxns=1\nzookeeper.maxCnxns=1").max_cnxns, Some(1));
        assert_eq!(settings("maxCnxns=1\nmaxCnxns=2").max_cnxns, Some(2));
        assert_eq!(settings("maxCnxns=1\nzookeeper.maxCnxns=2\nmaxCnxns=2").max_cnxns, Some(2));
        assert_eq!(
            refused("maxCnxns=1\n\nzookeeper.maxCnxns=2"),
            "zoo.cfg:3: zookeeper.maxCnxns contradicts maxCnxns in line 1; keep one of them"
        );
    }

    #[test]
    fn keys_that_mean_nothing_here_are_named_in_one_line_without_their_values() {
        let config =
            read("ticktime=1\ninitLimit=10\ndataDir=/var/lib/zk\nssl.keyStore.password=hush\ninitLimit=5");
        assert_eq!(
            config.warning().unwrap(),
            "zoo.cfg: ignored, as they mean nothing here: dataDir (state is kept in memory), initLimit, \
             ssl.keyStore.password, ticktime (did you mean tickTime?)"
        );
        assert_eq!(config.settings, Settings::default());
    }
}
