//! Files as images, operators and manuals write them: each starts, or is refused for a reason that it names. Paths and ports are those
//! of the test.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::common::tls::Authority;
use crate::common::{Running, errors_of};

/// A folder with a `zoo.cfg` of this text, in which `{dir}` is the folder.
fn deployed(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), text);
    folder
}

fn write(folder: &Path, text: &str) {
    fs::write(folder.join("zoo.cfg"), text.replace("{dir}", folder.to_str().unwrap())).unwrap();
}

fn start(folder: &Path, arguments: &[&str]) -> Running {
    let file = folder.join("zoo.cfg");
    Running::start(&[&["--config", file.to_str().unwrap()], arguments].concat())
}

/// The lines with which it is refused.
fn refused(folder: &Path) -> Vec<String> {
    errors_of(&["--config", folder.join("zoo.cfg").to_str().unwrap()])
}

/// What a server that has started warns of.
fn warnings(server: Running) -> Vec<String> {
    let (code, _, log) = server.stop("TERM");
    assert_eq!(code, Some(0), "{log}");
    log.lines().map(str::to_owned).collect()
}

/// As Kafka ships it for a broker that is tried out.
#[test]
fn the_file_that_kafka_ships_starts_without_a_warning() {
    let text = "# the directory where the snapshot is stored.\ndataDir={dir}/zookeeper\n# the port at which the clients will connect\n\
                clientPort=0\n# disable the per-ip limit on the number of connections\nmaxClientCnxns=0\n\
                # Disable the adminserver by default to avoid port conflicts.\nadmin.enableServer=false\n# admin.serverPort=8080\n";
    let folder = deployed(text);
    let server = start(folder.path(), &[]);
    assert!(server.word("srvr").contains("Mode: standalone") && server.admin.is_none());
    assert_eq!(warnings(server), Vec::<String>::new());
}

const HBASE: &str = "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={dir}/zookeeper\nclientPort=0\nmaxClientCnxns=300\npreAllocSize=1024\n\
                     snapCount=100000\nmaxSessionTimeout=180000\nautopurge.snapRetainCount=10\nautopurge.purgeInterval=1\n\
                     4lw.commands.whitelist=stat,ruok,conf,isro,srvr,mntr\n\
                     authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
                     kerberos.removeHostFromPrincipal=true\nkerberos.removeRealmFromPrincipal=true\njaasLoginRenew=3600000\n\
                     java.security.auth.login.config={dir}/jaas.conf\n";

/// Below HBase, whose services share one ZooKeeper with long sessions.
#[test]
fn a_file_below_hbase_starts_with_users_of_digest_md5_and_is_refused_with_kerberos() {
    let folder = deployed(HBASE);
    let jaas = folder.path().join("jaas.conf");
    let kerberos = "Server {\n  com.sun.security.auth.module.Krb5LoginModule required\n  useKeyTab=true\n  keyTab=\"/etc/zk.keytab\"\n  \
                    principal=\"zookeeper/host@EXAMPLE.COM\";\n};\n";
    fs::write(&jaas, kerberos).unwrap();
    let lines = refused(folder.path());
    assert!(
        lines.len() == 1 && lines[0].contains("jaas.conf:2: ") && lines[0].contains("Kerberos"),
        "{lines:?}"
    );

    let digest = "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_hbase=\"hush\";\n};\n";
    fs::write(&jaas, digest).unwrap();
    let server = start(folder.path(), &[]);
    assert!(server.word("conf").contains("maxSessionTimeout=180000"));
    let log = warnings(server);
    assert!(
        log.len() == 2 && log[0].contains("ignored unsupported keys: initLimit, jaasLoginRenew, kerberos."),
        "{log:?}"
    );
    assert!(log[1].contains("SASL DIGEST-MD5 at a port without TLS"), "{log:?}");
}

const SOLR: &str = "tickTime=2000\ndataDir={dir}/data\nclientPort=0\ninitLimit=5\nsyncLimit=2\nautopurge.snapRetainCount=3\n\
                    autopurge.purgeInterval=1\n4lw.commands.whitelist=mntr,conf,ruok\njute.maxbuffer=0x7fffff\n\
                    metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
                    metricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort=0\nmetricsProvider.exportJvmInfo=true\n\
                    server.1=zoo1:2888:3888\n";

/// Below SolrCloud, as its manual has it.
#[test]
fn a_file_of_one_server_below_solr_starts_with_metrics_and_one_of_three_is_refused() {
    let folder = deployed(SOLR);
    let server = start(folder.path(), &[]);
    assert!(server.metrics.is_some());
    assert!(server.word("ruok") == "imok" && server.word("mntr").contains("zk_version"));
    let log = warnings(server);
    assert!(
        log.len() == 1 && log[0].contains("server.1 (no ensemble; only its client address is used)"),
        "{log:?}"
    );

    write(folder.path(), &format!("{SOLR}server.2=zoo2:2888:3888\nserver.3=zoo3:2888:3888\n"));
    let lines = refused(folder.path());
    assert!(lines.len() == 1 && lines[0].contains("ensembles are not supported"), "{lines:?}");
}

const STRIMZI: &str = "dataDir={dir}/data\n4lw.commands.whitelist=*\nreconfigEnabled=true\nclientPort=0\nclientPortAddress=127.0.0.1\n\
                       serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nssl.clientAuth=need\n\
                       ssl.quorum.clientAuth=need\nsecureClientPort=0\n\
                       ssl.trustStore.location={dir}/cluster.truststore.p12\nssl.trustStore.password=hush-store\nssl.trustStore.type=PKCS12\n\
                       ssl.quorum.trustStore.location={dir}/cluster.truststore.p12\nssl.quorum.trustStore.password=hush-store\n\
                       ssl.keyStore.location={dir}/cluster.keystore.p12\nssl.keyStore.password=hush-store\nssl.keyStore.type=PKCS12\n\
                       ssl.quorum.keyStore.location={dir}/cluster.keystore.p12\nssl.quorum.keyStore.password=hush-store\n\
                       tickTime=2000\ninitLimit=5\nsyncLimit=2\nautopurge.purgeInterval=1\n";

/// As the operator Strimzi writes it, also for one node: a member of an ensemble, which others can join.
#[test]
fn a_file_of_strimzi_is_refused_as_an_ensemble_and_without_that_serves_those_who_have_a_certificate() {
    let authority = Authority::new();
    let ensemble = "standaloneEnabled=false\nsslQuorum=true\n";
    let folder = deployed(&format!("{STRIMZI}{ensemble}"));
    fs::write(folder.path().join("cluster.truststore.p12"), authority.pkcs12("hush-store")).unwrap();
    fs::write(folder.path().join("cluster.keystore.p12"), authority.issue_pkcs12("zookeeper", "hush-store"))
        .unwrap();
    let lines = refused(folder.path());
    assert!(
        lines.iter().any(|line| line.contains("sslQuorum = true: TLS between servers is not supported")),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line.contains("standaloneEnabled = false: asks for an ensemble")),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2, "{lines:?}");

    write(folder.path(), STRIMZI);
    let server = start(folder.path(), &[]);
    let (plain, secure) = (&server.addrs[0], &server.tls_addrs[0]);
    assert!(plain.starts_with("127.0.0.1:") && server.word("ruok") == "imok");
    assert!(
        authority
            .connect(secure, Some(&authority.issue("operator")))
            .word("srvr")
            .contains("Mode: standalone")
    );
    assert_eq!(authority.connect(secure, None).word("srvr"), "");
    let log = warnings(server).join("\n");
    assert!(log.contains("ignored unsupported keys") && !log.contains("hush"), "{log}");
}

const BITNAMI: &str = "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={dir}/data\nclientPort=0\nclientPortAddress=127.0.0.1\n\
                       maxClientCnxns=60\nmaxCnxns=0\nautopurge.snapRetainCount=3\nautopurge.purgeInterval=0\npreAllocSize=65536\n\
                       snapCount=100000\nreconfigEnabled=false\nquorumListenOnAllIPs=false\n4lw.commands.whitelist=srvr, mntr, ruok\n\
                       maxSessionTimeout=40000\nadmin.serverPort=0\nadmin.enableServer=true\n\
                       metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
                       metricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort=0\nmetricsProvider.exportJvmInfo=true\n\
                       authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\nrequireClientAuthScheme=sasl\n\
                       client.secure=true\nssl.clientAuth=none\nsecureClientPort=0\n\
                       serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
                       ssl.keyStore.location={dir}/keystore.p12\nssl.keyStore.password=hush-key\n\
                       ssl.trustStore.location={dir}/truststore.p12\nssl.trustStore.password=hush-trust\n";

/// As the entry point of an image writes it from variables: all of it switched on, and the users in a file that a JVM property names.
#[test]
fn a_file_of_the_bitnami_image_starts_with_tls_an_admin_server_metrics_and_users() {
    let authority = Authority::new();
    let folder = deployed(BITNAMI);
    fs::write(folder.path().join("keystore.p12"), authority.issue_pkcs12("zookeeper", "hush-key")).unwrap();
    fs::write(folder.path().join("truststore.p12"), authority.pkcs12("hush-trust")).unwrap();
    let jaas = folder.path().join("zoo_jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let sections = format!(
        "\nClient {{\n    {module}\n    username=\"app\"\n    password=\"hush-app\";\n}};\nServer {{\n    {module}\n    \n   \
         user_app=\"hush-app\"\n   user_other=\"hush-other\";\n}};\n"
    );
    fs::write(&jaas, sections).unwrap();
    let server = start(folder.path(), &["--jaas", jaas.to_str().unwrap()]);
    assert!(server.admin.is_some() && server.metrics.is_some());
    assert!(authority.connect(&server.tls_addrs[0], None).word("ruok").contains("imok"));
    let log = warnings(server).join("\n");
    assert!(log.contains("requireClientAuthScheme (no ZooKeeper reads it"), "{log}");
    assert!(log.contains("the admin server listens on 127.0.0.1 alone") && !log.contains("hush"), "{log}");

    // Without the property of the JVM there are no users.
    let log = warnings(start(folder.path(), &[])).join("\n");
    assert!(
        log.contains("the JVM property java.security.auth.login.config names their file, and so does --jaas"),
        "{log}"
    );
}
