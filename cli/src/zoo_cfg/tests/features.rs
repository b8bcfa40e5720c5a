//! Keys of TLS, of identities, of the admin server and of metrics, with every other key.

use zoolet_server::AuthScheme;
use zoolet_server::tls::{ClientAuth, Protocols, ServerTls, Store};
use zoolet_storage::{Compression, Durability};

use super::*;
use crate::settings::GROUPS;

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
    for url in ["/", "/ask/", "/api", "/api/commands"] {
        assert!(
            error(&format!("admin.commandURL={url}")).contains("must be a path such as /commands"),
            "{url}"
        );
    }
    assert!(
        error("metricsProvider.className=com.example.Own")
            .contains("only org.apache.zookeeper.metrics.prometheus")
    );
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
        (
            "IPAuthenticationProvider.usexforwardedfor=true",
            "to take the address of a client from X-Forwarded-For",
        ),
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
