//! How files are parsed.

use std::time::Duration;

use tempfile::NamedTempFile;
use zoolet_server::tls::{ClientAuth, Protocols, ServerTls, Store};
use zoolet_server::{AuthScheme, FourLetterWord, Server, ServerBuilder};
use zoolet_storage::{Compression, Durability, StorageOptions};

use super::*;
use crate::settings::GROUPS;

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

/// A zoo.cfg with these lines, and the name of its dynamic file with those.
fn with_dynamic(text: &str, dynamic: &str) -> (NamedTempFile, String) {
    let file = dynamic_file(dynamic);
    let text = format!("{text}\ndynamicConfigFile={}", file.path().display());
    (file, text)
}

const TLS_KEYS: &str = "secureClientPort=2281\nsecureClientPortAddress=::1\nclient.portUnification=true\n\
    ssl.keyStore.location=/key.p12\nssl.keyStore.password=hush\nssl.keyStore.passwordPath=/secret\nssl.keyStore.type=pkcs12\n\
    ssl.trustStore.location=/trust.pem\nssl.trustStore.password=hush\nssl.trustStore.passwordPath=/secret\nssl.trustStore.type=PEM\n\
    ssl.clientAuth=WANT\nssl.enabledProtocols=TLSv1.2,TLSv1.3\nssl.protocol=TLSv1.3\nssl.ciphersuites=TLS_AES_128_GCM_SHA256\n\
    ssl.hostnameVerification=true\nssl.clientHostnameVerification=true\nssl.crl=false\nnetty.server.outstandingHandshake.limit=50\n";

const AUTH_KEYS: &str = "java.security.auth.login.config=/jaas\nsasl.serverconfig=Own\nSASLAuthenticationProvider.superPassword=hush\n\
    superUser=root\nsuperUser.2=operator\nX509AuthenticationProvider.superUser=CN=admin,O=Acme\n\
    authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\nDigestAuthenticationProvider.enabled=false\n\
    enforce.auth.enabled=true\nenforce.auth.schemes=sasl, x509\nsessionRequireClientSASLAuth=false\nallowSaslFailedClients=true\n";

const HTTP_KEYS: &str = "admin.enableServer=true\nadmin.serverAddress=::1\nadmin.serverPort=9990\nadmin.idleTimeout=5000\n\
    admin.commandURL=/ask\nadmin.snapshot.enabled=false\nadmin.restore.enabled=false\nadmin.rateLimiterIntervalInMS=7000\n\
    admin.forceHttps=true\nadmin.portUnification=true\nadmin.needClientAuth=true\n\
    ssl.quorum.keyStore.location=/key.p12\nssl.quorum.keyStore.password=hush\nssl.quorum.keyStore.passwordPath=/secret\n\
    ssl.quorum.keyStore.type=pkcs12\nssl.quorum.trustStore.location=/trust.pem\nssl.quorum.trustStore.password=hush\n\
    ssl.quorum.trustStore.passwordPath=/secret\nssl.quorum.trustStore.type=PEM\n\
    metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
    metricsProvider.httpHost=::2\nmetricsProvider.httpPort=9991\nmetricsProvider.exportJvmInfo=false\n";

#[test]
fn every_key_is_known_by_its_name_in_files_and_in_properties() {
    let dynamic = dynamic_file("");
    let text = "standaloneEnabled=true\ntickTime=2000\nclientPort=2181\nclientPortAddress=::1\nclientPortListenBacklog=128\n\
                minSessionTimeout=4000\nmaxSessionTimeout=40000\nmaxClientCnxns=10\nmaxCnxns=100\n\
                reconfigEnabled=true\nreadonlymode.enabled=false\n4lw.commands.whitelist=stat, ruok\nextendedTypesEnabled=TRUE\n\
                enforceQuota=false\nskipACL=yes\naudit.enable=TRUE\njute.maxbuffer=0x3fffff\nnio.sessionlessCnxnTimeout=5000\n\
                DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n\
                znode.container.checkIntervalMs=1000\nznode.container.maxPerMinute=5\n\
                znode.container.maxNeverUsedIntervalMs=7000\n\
                dataDir=/data\ndataLogDir=/log\nforceSync=no\nfsync.warningthresholdms=50\npreAllocSize=16\n\
                txnLogSizeLimitInKb=0x20\nsnapCount=500\nsnapSizeLimitInKb=1024\nautopurge.purgeInterval=1\n\
                autopurge.snapRetainCount=5\nsnapshot.compression.method=GZ\nsnapshot.trust.empty=true\n\
                datadir.autocreate=false\ndb.autocreate=false\ndigest.enabled=false\n\
                serializeLastProcessedZxid.enabled=false\n";
    let text =
        format!("{text}{TLS_KEYS}{AUTH_KEYS}{HTTP_KEYS}dynamicConfigFile={}\n", dynamic.path().display());
    let mut options = StorageOptions::new("/data");
    options.log_dir = Some("/log".into());
    options.durability = Durability::Os;
    options.slow_sync = Duration::from_millis(50);
    options.pre_alloc = 16 << 10;
    options.log_size_limit = Some(32 << 10);
    options.snapshot_after_txns = 500;
    options.snapshot_after_bytes = Some(1 << 20);
    options.retain = Some(5);
    options.compression = Compression::Gzip;
    options.trust_empty_snapshot = true;
    options.create_directories = false;
    options.create_database = false;
    options.digests = false;
    options.last_zxid_section = false;
    let secs = Duration::from_secs;
    let expected = Server::builder()
        .bind("[::1]:2181")
        .tick_time(secs(2))
        .min_session_timeout(secs(4))
        .max_session_timeout(secs(40))
        .max_connections_per_ip(10)
        .max_connections(100)
        .listen_backlog(128)
        .sessionless_timeout(secs(5))
        .max_frame(0x3f_ffff)
        .four_letter_words([FourLetterWord::Stat, FourLetterWord::Ruok])
        .extended_types(true)
        .container_check_interval(secs(1))
        .container_max_per_minute(5)
        .container_max_never_used(secs(7))
        .super_digest("super:lK75jTNcA+U9vtVEw5vB51mj/w4=")
        .audit(true)
        .enforce_quota(false)
        .skip_acl(true)
        .reconfig_enabled(true)
        .digest(false)
        .x509(true)
        .x509_super_user("CN=admin,O=Acme")
        .sasl_scheme(true)
        .sasl_super_user("root")
        .sasl_super_user("operator")
        .allow_sasl_failed_clients(true)
        .enforce_auth([AuthScheme::Sasl, AuthScheme::X509])
        .tls(
            ServerTls::new(Store::file("/key.p12"))
                .trust_store(Store::file("/trust.pem"))
                .client_auth(ClientAuth::Want)
                .protocols(Protocols::ALL)
                .cipher_suites("TLS_AES_128_GCM_SHA256".parse().unwrap())
                .verify_client_address(true),
        )
        .bind_tls("[::1]:2281")
        .unified_ports(true)
        .max_tls_handshakes(50)
        .storage(options);
    let expected = shown(expected);
    let keys = GROUPS.iter().flat_map(|group| group.rows).filter(|row| row.key.is_some());
    assert_eq!(text.lines().count(), keys.count(), "every key is covered here");
    assert_eq!(built(&text), expected);
    let http = format!("{:?}", settings(HTTP_KEYS).http);
    for set in [
        "admin: Some(true)",
        "\"::1\"",
        "9990",
        "5s",
        "\"/ask\"",
        "snapshots: Some(false)",
        "restores: Some(false)",
        "7s",
        "metrics: true",
        "\"::2\"",
        "9991",
        "without_process: true",
    ] {
        assert!(http.contains(set), "{set} in {http}");
    }
    let prefixed: String = text.lines().map(|line| format!("zookeeper.{line}\n")).collect();
    assert_eq!(built(&prefixed), expected);
}

/// However it is written: with any separator, on several lines, with escapes.
#[test]
fn what_is_shown_of_a_file_has_no_value_of_a_secret_key() {
    for row in GROUPS.iter().flat_map(|group| group.rows).filter(|row| row.secret) {
        let key = row.key.expect("a key");
        for text in [
            format!("{key} hunter2"),
            format!("zookeeper.{key}: hunter2"),
            format!("{key}=\\\n  hunter2"),
            format!("tickTime=2000\r{key}=hunter2"),
            format!("\\u{:04x}{}=hunter2", u32::from(key.as_bytes()[0]), &key[1..]),
            format!("#{key}=hunter2"),
        ] {
            let shown = format!("{:?}", parse(Path::new("zoo.cfg"), text.as_bytes()).unwrap().settings.http);
            assert!(!shown.contains("hunter2"), "{text}: {shown}");
        }
    }
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
fn without_a_client_port_the_line_of_the_server_has_the_address() {
    let binds = |text| shown(read(text).settings.builder());
    let at = |address: &str| shown(default().bind(address));
    assert_eq!(binds("server.1=localhost:2888:3888;2181"), at("[::]:2181"));
    assert_eq!(binds("server.1=a:2888:3888:participant; 127.0.0.1:2182"), at("127.0.0.1:2182"));
    assert_eq!(binds("server.7=a:2888:3888|b:2888:3888;[::1]:2183"), at("[::1]:2183"));
    assert_eq!(binds("server.1=a:1:2;2181\nserver.1=a:1:2;2182"), at("[::]:2182"));
    assert_eq!(binds("server.1=a:1:2;2181\nclientPort=2199"), at("[::]:2199"));
    assert_eq!(binds("server.1=a:2888:3888"), at("127.0.0.1:2181"));
    assert_eq!(
        read("server.1=a:1:2;2181").warnings,
        ["zoo.cfg: ignored unsupported keys: server.1 (no ensemble; only its client address is used)"]
    );
    assert_eq!(
        error("server.1=a:2888:3888;x"),
        "zoo.cfg:1: server.1 = a:2888:3888;x: after the semicolon: must be a port from 0 to 65535"
    );
    assert_eq!(
        error("server.1=a:2888:3888;::1:2181"),
        "zoo.cfg:1: server.1 = a:2888:3888;::1:2181: after the semicolon: an IPv6 address needs brackets"
    );
}

#[test]
fn several_servers_are_rejected_as_each_would_run_alone() {
    for port in ["", "clientPort=2181\n"] {
        let text = format!("{port}server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2");
        assert!(
            error(&text).ends_with(
                "server.2 = b:1:2: ensembles are not supported, and members that each run alone would \
                 each grant the same lock; see docs/graduate.md for the way back from an ensemble, then keep the line of one server"
            ),
            "{}",
            error(&text)
        );
    }
}

#[test]
fn the_servers_of_a_dynamic_file_count_as_those_of_the_file() {
    let three = "server.1=a:1:2:participant;2181\nserver.2=b:1:2:participant;2181\nserver.3=c:1:2";
    for text in ["clientPort=2181", ""] {
        let (file, text) = with_dynamic(text, three);
        assert_eq!(
            error(&text),
            format!(
                "{}:2: server.2 = b:1:2:participant;2181: ensembles are not supported, and members that each run alone would \
                 each grant the same lock; see docs/graduate.md for the way back from an ensemble, then keep the line of one server",
                file.path().display()
            )
        );
    }
}

#[test]
fn one_server_in_a_dynamic_file_runs_standalone_at_its_address() {
    let one = "# by ZooKeeper\ngroup.1=1\nweight.1=1\nserver.1=a:1:2:participant;127.0.0.1:2182\n";
    let (file, text) = with_dynamic("", one);
    let config = read(&text);
    assert_eq!(shown(config.settings.builder()), shown(default().bind("127.0.0.1:2182")));
    // Of the file with the line, not of the zoo.cfg.
    assert_eq!(
        config.warnings,
        [format!(
            "{}: ignored unsupported keys: server.1 (no ensemble; only its client address is used)",
            file.path().display()
        )]
    );
    let (_file, text) = with_dynamic("clientPort=2199", one);
    assert_eq!(shown(read(&text).settings.builder()), shown(default().bind("[::]:2199")));
    let (_file, text) = with_dynamic("clientPort=2199", "");
    assert_eq!(built(&text), shown(default().bind("[::]:2199")));
}

#[test]
fn a_dynamic_file_that_zookeeper_would_refuse_is_refused() {
    let missing = error("tickTime=2000\ndynamicConfigFile=no/such.dynamic");
    let absolute = std::env::current_dir().unwrap().join("no/such.dynamic");
    let expected =
        format!("zoo.cfg:2: dynamicConfigFile = no/such.dynamic: cannot read {}: ", absolute.display());
    assert!(missing.starts_with(&expected), "{missing}");
    assert_eq!(error("dynamicConfigFile="), "zoo.cfg:1: dynamicConfigFile = : must be a file");
    let (file, text) = with_dynamic("", "version=100000000\nserver.1=a:1:2");
    let begin = format!(
        "{}:1: version = 100000000: a dynamic configuration file only has lines",
        file.path().display()
    );
    assert!(error(&text).starts_with(&begin), "{}", error(&text));
    let (_file, text) = with_dynamic("server.1=a:1:2", "server.2=b:1:2");
    let errors = errors(&text);
    assert!(errors[0].starts_with("zoo.cfg:1: server.1 = a:1:2: must be in the file"), "{errors:?}");
    assert!(errors[1].contains("server.2 = b:1:2: ensembles are not supported"), "{errors:?}");
    let (_file, text) = with_dynamic("", "server.1=\\u12");
    assert!(error(&text).contains(":1: \\u must be followed by four"), "{}", error(&text));
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
fn protections_that_are_not_there_are_not_ignored() {
    assert_eq!(
        error("zookeeper.ensembleAuthName=prod"),
        "zoo.cfg:1: zookeeper.ensembleAuthName = prod: the scheme ensemble is not supported; remove the key to run without it"
    );
    for (line, what) in [
        ("ssl.ocsp=true", "to ask an OCSP server about client certificates"),
        ("ssl.authProvider=own", "a provider for certificates other than x509"),
        ("sslQuorum=true", "TLS between servers"),
        ("quorum.auth.enableSasl=true", "SASL between servers"),
        ("DigestAuthenticationProvider.digestAlg=SHA3-256", "a digest other than SHA1"),
    ] {
        let expected = format!(": {what} is not supported; remove the key to run without it");
        assert!(error(line).ends_with(&expected), "{}", error(line));
    }
    let own = error("zookeeper.authProvider.own=com.example.Provider");
    assert!(
        own.contains("an authentication provider other than those of digest, ip, sasl and x509"),
        "{own}"
    );
    let store = error("ssl.keyStore.type=BCFKS");
    assert!(store.contains("is not a type of a store; use PEM, PKCS12 or JKS"), "{store}");
    assert!(error("ssl.clientAuth=yes").ends_with("is not one of need, want and none"));
    assert!(error("ssl.ocsp=on").ends_with("must be true or false"));
}

#[test]
fn a_misspelt_protection_is_not_ignored_and_its_value_not_shown() {
    for (line, meant) in [
        ("secureClientPrt=2281", "secureClientPort"),
        ("zookeeper.ssl.clientAuht=need", "ssl.clientAuth"),
        ("ssl.keyStore.pasword=hush", "ssl.keyStore.password"),
        ("enforce.auth.enabeld=true", "enforce.auth.enabled"),
        ("sslQourum=true", "sslQuorum"),
    ] {
        let key = line.split('=').next().unwrap();
        assert_eq!(error(line), format!("zoo.cfg:1: {key} is not a key; did you mean {meant}?"));
    }
}

#[test]
fn a_protection_that_a_file_declines_needs_no_word() {
    settings(
        "DigestAuthenticationProvider.enabled=true\nensembleAuthName=\nssl.clientAuth=none\nsslQuorum=false\n\
         client.portUnification=false\nDigestAuthenticationProvider.digestAlg=sha1\nssl.authProvider=x509\nssl.crl=false\n\
         authProvider.1=org.apache.zookeeper.server.auth.DigestAuthenticationProvider\n",
    );
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
fn a_file_for_tls_alone_opens_no_other_port() {
    let tls = "secureClientPort=2281\nssl.keyStore.location=/key.pem\nssl.trustStore.location=/ca.pem";
    let by_tls = ServerTls::new(Store::file("/key.pem")).trust_store(Store::file("/ca.pem"));
    let expected = || default().x509(true).tls(by_tls.clone()).bind_tls("[::]:2281");
    assert_eq!(built(tls), shown(expected()));
    assert_eq!(built(&format!("clientPort=2181\n{tls}")), shown(expected().bind("[::]:2181")));
}

#[test]
fn a_port_for_tls_needs_a_certificate_and_an_address_needs_a_port() {
    let together =
        |text: &str| -> Vec<String> { settings(text).check().iter().map(ToString::to_string).collect() };
    for text in ["secureClientPort=2281", "client.portUnification=true"] {
        assert!(
            together(text)[0].contains("needs a certificate and its key; set ssl.keyStore.location"),
            "{text}"
        );
    }
    assert_eq!(
        together("ssl.keyStore.location=/key.pem"),
        Vec::<String>::new(),
        "as for a port of another server"
    );
    assert!(together("ssl.crl=true")[0].contains("name their files with --tls-crl"));
    let message = error("secureClientPortAddress=::1");
    assert_eq!(message, "zoo.cfg:1: secureClientPortAddress = ::1: requires secureClientPort");
}

#[test]
fn what_clients_are_required_to_have_must_be_there() {
    let together =
        |text: &str| -> Vec<String> { settings(text).check().iter().map(ToString::to_string).collect() };
    for (text, problem) in [
        ("sessionRequireClientSASLAuth=true", "there are no users"),
        ("enforce.auth.enabled=true", "needs enforce.auth.schemes"),
        ("enforce.auth.enabled=true\nenforce.auth.schemes=sasl", "there are no users"),
        ("enforce.auth.enabled=true\nenforce.auth.schemes=x509", "there is no TLS"),
        (
            "enforce.auth.enabled=true\nenforce.auth.schemes=digest\nDigestAuthenticationProvider.enabled=false",
            "switches off",
        ),
    ] {
        let found = together(text);
        assert!(found.len() == 1 && found[0].contains(problem), "{text}: {found:?}");
    }
    assert_eq!(together("enforce.auth.schemes=sasl"), Vec::<String>::new());
    assert!(
        error("enforce.auth.schemes=sasl,kerberos")
            .ends_with("kerberos: must be schemes of ip, digest, x509, sasl")
    );
}

#[test]
fn an_admin_server_and_metrics_are_there_only_if_the_file_asks_for_them() {
    let provider =
        "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    for (text, admin, metrics) in [
        ("tickTime=2000", None, None),
        ("admin.enableServer=true", Some("127.0.0.1:8080"), None),
        ("admin.serverPort=9990", Some("127.0.0.1:9990"), None),
        ("admin.serverPort=9990\nadmin.enableServer=false", None, None),
        ("admin.enableServer=true\nadmin.serverAddress=::1", Some("[::1]:8080"), None),
        (provider, None, Some("[::]:7000")),
        ("metricsProvider.httpPort=7001", None, None),
        ("metricsProvider.className=org.apache.zookeeper.metrics.impl.DefaultMetricsProvider", None, None),
    ] {
        let http = settings(text).http;
        assert_eq!(
            (http.admin_addr().as_deref(), http.metrics_addr().as_deref()),
            (admin, metrics),
            "{text}"
        );
    }
    assert!(
        error("metricsProvider.className=com.example.Own")
            .contains("only org.apache.zookeeper.metrics.prometheus")
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
