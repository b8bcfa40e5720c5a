//! How files are parsed.

mod features;
mod members;

use std::time::Duration;

use tempfile::NamedTempFile;
use zoolet_server::{FourLetterWord, Server, ServerBuilder};
use zoolet_storage::StorageOptions;

use super::*;

fn read(text: &str) -> ZooCfg {
    let config = parse(Path::new("zoo.cfg"), text.as_bytes()).unwrap();
    assert!(config.mistakes.is_empty(), "{:?}", config.mistakes);
    config
}

fn settings(text: &str) -> Settings {
    let config = read(text);
    assert_eq!(config.warnings, Vec::<String>::new(), "{text}");
    config.settings
}

/// The builder that a file without warnings makes, as text that can be compared.
fn built(text: &str) -> String {
    shown(settings(text).builder())
}

fn shown(builder: ServerBuilder) -> String {
    format!("{builder:#?}")
}

/// The builder of an empty file, but for where it listens.
fn default() -> ServerBuilder {
    Server::builder().max_connections_per_ip(60)
}

fn storage(text: &str) -> StorageOptions {
    settings(text).builder().storage_options().expect("a data directory").clone()
}

fn errors(text: &str) -> Vec<String> {
    match parse(Path::new("zoo.cfg"), text.as_bytes()) {
        Ok(config) => config.mistakes.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// The only mistake.
fn error(text: &str) -> String {
    let mut errors = errors(text);
    assert_eq!(errors.len(), 1, "{text}: {errors:?}");
    errors.remove(0)
}

fn dynamic_file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn the_super_digest_has_a_short_name_too() {
    for name in ["superDigest", "zookeeper.superDigest"] {
        let text = format!("{name}=super:lK75jTNcA+U9vtVEw5vB51mj/w4=");
        let digest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";
        assert_eq!(built(&text), shown(default().super_digest(digest).bind("127.0.0.1:2181")));
    }
}

#[test]
fn values_that_mean_the_default_keep_it() {
    let text = "minSessionTimeout=-1\nmaxSessionTimeout=-1\nclientPortListenBacklog=-1";
    let local = || default().bind("127.0.0.1:2181");
    assert_eq!(built(text), shown(local()));
    let none = built("maxClientCnxns=-1\nmaxCnxns=0\nznode.container.maxNeverUsedIntervalMs=-5");
    let expected = local().max_connections_per_ip(0).max_connections(0);
    assert_eq!(none, shown(expected.container_max_never_used(Duration::ZERO)));
    assert_eq!(built("4lw.commands.whitelist="), shown(local().four_letter_words([])));
}

#[test]
fn a_port_without_an_address_is_on_every_address() {
    assert_eq!(built("clientPort=2181"), shown(default().bind("[::]:2181")));
    assert_eq!(built("clientPort=0\nclientPortAddress=localhost"), shown(default().bind("localhost:0")));
    assert_eq!(
        error("\nclientPortAddress=localhost"),
        "zoo.cfg:2: clientPortAddress = localhost: requires clientPort"
    );
}

#[test]
fn an_ensemble_of_one_server_and_an_observer_alone_are_refused() {
    for servers in ["", "\nserver.1=a:1:2"] {
        let message = error(&format!("standaloneEnabled=False{servers}"));
        assert!(
            message.starts_with("zoo.cfg:1: standaloneEnabled = False: asks for an ensemble"),
            "{message}"
        );
        assert_eq!(message.contains("there is no server line"), servers.is_empty(), "{message}");
    }
    settings("standaloneEnabled=true");
    assert!(error("standaloneEnabled=no").ends_with("must be true or false"));
    for line in ["server.1=a:1:2:observer", "server.1=a:1:2:OBSERVER;2181"] {
        assert!(error(line).contains(": an observer needs an ensemble"), "{}", error(line));
    }
}

#[test]
fn an_invalid_value_is_rejected_with_its_line_and_a_hint() {
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
            "zoo.cfg:1: minSessionTimeout = -2: must be a number of milliseconds from 1 to 2147483647, or -1 to derive it from tickTime",
        ),
    ];
    for (text, said) in cases {
        assert_eq!(error(text), said);
    }
    assert_eq!(
        error("a=1\nb=\\u00"),
        "zoo.cfg:2: \\u must be followed by four hexadecimal digits; write \\\\ for a backslash"
    );
}

#[test]
fn an_invalid_setting_of_the_data_directory_is_rejected_with_what_it_must_be() {
    let cases = [
        ("dataDir=", "zoo.cfg:1: dataDir = : must be a directory"),
        (
            "snapCount=100k",
            "zoo.cfg:1: snapCount = 100k: must be a number of transactions from -2147483648 to 2147483647",
        ),
        (
            "preAllocSize=64M",
            "zoo.cfg:1: preAllocSize = 64M: must be a number of KiB up to 9007199254740991, where 0 or less \
             extends by what is written",
        ),
        (
            "snapSizeLimitInKb=9007199254740992",
            "zoo.cfg:1: snapSizeLimitInKb = 9007199254740992: must be a number of KiB up to \
             9007199254740991, where 0 or less is no limit",
        ),
        (
            "fsync.warningthresholdms=1s",
            "zoo.cfg:1: fsync.warningthresholdms = 1s: must be a number of milliseconds",
        ),
        ("forceSync=false", "zoo.cfg:1: forceSync = false: must be yes or no"),
        (
            "snapshot.compression.method=gzip",
            "zoo.cfg:1: snapshot.compression.method = gzip: must be gz or snappy, or empty for none",
        ),
        (
            "autopurge.purgeInterval=1h",
            "zoo.cfg:1: autopurge.purgeInterval = 1h: must be a number of hours, where 0 is never, from -2147483648 \
             to 2147483647",
        ),
    ];
    for (text, said) in cases {
        assert_eq!(error(text), said);
    }
}

#[test]
fn limits_of_the_log_that_are_not_positive_are_none_and_counts_that_are_too_small_are_raised() {
    let none =
        storage("dataDir=/data\nsnapSizeLimitInKb=0\ntxnLogSizeLimitInKb=-1\npreAllocSize=-1\nsnapCount=0");
    assert_eq!((none.snapshot_after_bytes, none.log_size_limit, none.pre_alloc), (None, None, 0));
    assert_eq!(none.snapshot_after_txns, 2);
    let text = "dataDir=/data\nautopurge.purgeInterval=24\nautopurge.snapRetainCount=1";
    assert_eq!(storage(text).retain, Some(3));
}

#[test]
fn without_a_purge_interval_all_snapshots_of_a_file_are_kept() {
    let kept = |text: &str| storage(text).retain;
    assert_eq!(kept("dataDir=/data"), None);
    assert_eq!(kept("dataDir=/data\nautopurge.snapRetainCount=5"), None);
    assert_eq!(kept("dataDir=/data\nautopurge.purgeInterval=0\nautopurge.snapRetainCount=5"), None);
    assert_eq!(kept("dataDir=/data\nautopurge.purgeInterval=1"), Some(3));
    // A flag may add the data directory.
    let mut without = settings("tickTime=2000");
    without.data_dir = Some("/data".into());
    assert_eq!(without.builder().storage_options().expect("a data directory").retain, Some(3));
}

#[test]
fn an_invalid_secret_is_not_shown() {
    assert_eq!(
        error("superDigest=super:secret"),
        "zoo.cfg:1: superDigest = (not shown): must be user:base64(sha1(user:password)), with 28 \
         characters after the colon"
    );
}

#[test]
fn two_spellings_must_agree_and_a_repeated_one_overwrites() {
    let most = |count| shown(default().bind("127.0.0.1:2181").max_connections(count));
    assert_eq!(built("maxCnxns=1\nzookeeper.maxCnxns=1"), most(1));
    assert_eq!(built("maxCnxns=1\nmaxCnxns=2"), most(2));
    assert_eq!(built("maxCnxns=1\nzookeeper.maxCnxns=2\nmaxCnxns=2"), most(2));
    assert_eq!(
        error("maxCnxns=1\n\nzookeeper.maxCnxns=2"),
        "zoo.cfg:3: zookeeper.maxCnxns contradicts maxCnxns in line 1; keep one of them"
    );
}

#[test]
fn unsupported_keys_are_listed_in_one_line_without_their_values() {
    let config = read("initLimit=10\nssl.quorum.ocsp=hush\ncloseSessionTxn.enabled=false\ninitLimit=5");
    assert_eq!(
        config.warnings,
        [
            "zoo.cfg: ignored unsupported keys: closeSessionTxn.enabled (the list of ephemerals is always written), \
             initLimit, ssl.quorum.ocsp"
        ]
    );
    assert_eq!(shown(config.settings.builder()), shown(Settings::default().builder()));
}

#[test]
fn misspelt_keys_come_before_those_that_are_ignored_on_purpose() {
    let config = read("initLimit=10\nticktime=1\nmaxSesionTimeout=1\nzookeeper.skipACl=yes");
    let [misspelt, _] = &config.warnings[..] else { panic!("{:?}", config.warnings) };
    assert_eq!(
        misspelt,
        "zoo.cfg: ignored unknown keys: maxSesionTimeout (did you mean maxSessionTimeout?), \
         ticktime (did you mean tickTime?), \
         zookeeper.skipACl (did you mean skipACL?)"
    );
}

#[test]
fn unknown_words_in_the_whitelist_are_a_warning_as_a_real_server_starts_too() {
    let config = read("4lw.commands.whitelist=ruok,stats,mntr");
    assert_eq!(config.warnings, ["zoo.cfg: ignored unknown four-letter words: stats"]);
    let words = [FourLetterWord::Ruok, FourLetterWord::Mntr];
    let expected = default().bind("127.0.0.1:2181").four_letter_words(words);
    assert_eq!(shown(config.settings.builder()), shown(expected));
}

#[test]
fn the_read_only_mode_adds_isro_to_the_words() {
    let words = |words: &[FourLetterWord]| {
        shown(default().bind("127.0.0.1:2181").four_letter_words(words.iter().copied()))
    };
    assert_eq!(built("readonlymode.enabled=true"), words(&[FourLetterWord::Isro]));
    let both = built("4lw.commands.whitelist=ruok\nreadonlymode.enabled=true");
    assert_eq!(both, words(&[FourLetterWord::Ruok, FourLetterWord::Isro]));
    assert_eq!(built("readonlymode.enabled=false"), words(&[]));
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once_in_its_order() {
    let text = "ssl.ocsp=true\ntickTime=fast\nsslQuorum=true\nmaxCnxns=1\nzookeeper.maxCnxns=2\n\
                quorum.auth.enableSasl=true\nserver.1=a:1:2\nserver.2=b:1:2";
    let starts = errors(text)
        .iter()
        .map(|error| error.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>();
    assert_eq!(
        starts,
        [
            "zoo.cfg:1: ssl.ocsp",
            "zoo.cfg:2: tickTime",
            "zoo.cfg:3: sslQuorum",
            "zoo.cfg:5: zookeeper.maxCnxns",
            "zoo.cfg:6: quorum.auth.enableSasl",
            "zoo.cfg:8: server.2",
        ]
    );
}

#[test]
fn a_key_that_no_zookeeper_reads_says_what_to_write_instead() {
    let config = read("requireClientAuthScheme=sasl");
    assert!(
        config.warnings[0].contains("sessionRequireClientSASLAuth refuses them"),
        "{:?}",
        config.warnings
    );
}
