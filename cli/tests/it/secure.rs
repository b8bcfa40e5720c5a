//! TLS, SASL, the admin server and the metrics of `zoolet serve`: from flags and from a `zoo.cfg` to a client that connects.

#![cfg(unix)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use zoolet_test_support::certificates::rcgen::date_time_ymd;
use zoolet_test_support::certificates::self_signed;

use crate::common::tls::Authority;
use crate::common::{BINARY, Running, config, error_of, errors_of};

const BIND: &[&str] = &["--bind", "127.0.0.1:0"];

const JAAS: &str = "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_super=\"hush-super\"\n  \
                    user_bob=\"hush-bob\";\n};\n";

/// A connect request for a new session.
fn connect() -> Vec<u8> {
    let mut request = vec![0; 48];
    (request[3], request[31]) = (44, 16);
    request
}

/// A folder with a certificate of the authority, its key, and that of the authority.
fn folder(authority: &Authority) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.issue("server");
    for (name, text) in [("tls.crt", certificate), ("tls.key", key), ("ca.crt", authority.pem())] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The flags for a folder, without authorities of clients.
fn flags(folder: &Path) -> Vec<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    ["--tls-bind", "127.0.0.1:0", "--tls-cert", &path("tls.crt"), "--tls-key", &path("tls.key")]
        .map(str::to_owned)
        .to_vec()
}

fn started(flags: &[String], more: &[&str]) -> Running {
    Running::start(&flags.iter().map(String::as_str).chain(more.iter().copied()).collect::<Vec<_>>())
}

#[test]
fn a_port_for_tls_serves_those_who_have_a_certificate_and_opens_no_other() {
    let authority = Authority::new();
    let folder = folder(&authority);
    let mut flags = flags(folder.path());
    flags.extend(["--tls-client-ca".to_owned(), folder.path().join("ca.crt").display().to_string()]);
    let server = started(&flags, &[]);
    assert_eq!((server.addrs.len(), server.tls_addrs.len()), (0, 1));
    let client = authority.issue("client");
    assert!(authority.connect(&server.tls_addrs[0], Some(&client)).word("srvr").contains("Mode: standalone"));
    assert_eq!(authority.connect(&server.tls_addrs[0], None).word("srvr"), "");
    // Without authorities nobody is asked.
    let open = started(&self::flags(folder.path()), BIND);
    assert_eq!((open.addrs.len(), open.tls_addrs.len()), (1, 1));
    assert!(authority.connect(&open.tls_addrs[0], None).word("srvr").contains("Mode: standalone"));
}

#[test]
fn the_health_of_a_server_for_tls_alone_is_asked_with_the_files_of_a_client() {
    let authority = Authority::new();
    let folder = folder(&authority);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut flags = flags(folder.path());
    flags.extend(["--tls-client-ca".to_owned(), path("ca.crt")]);
    let server = started(&flags, &[]);
    let (certificate, key) = authority.issue("client");
    fs::write(path("client.pem"), format!("{key}{certificate}")).unwrap();
    let (trusted, own) = (path("ca.crt"), path("client.pem"));
    let with_files = ["--tls", "--tls-ca", &trusted, "--tls-identity", &own];
    for (command, arguments, reason) in [
        ("health", &with_files[..], None),
        ("wait", &with_files[..], None),
        // A file implies TLS.
        ("health", &with_files[1..], None),
        ("health", &with_files[..3], Some("cannot use it: received fatal alert: CertificateRequired")),
        ("health", &with_files[..1], Some("cannot use it: invalid peer certificate: UnknownIssuer")),
        ("health", &[], Some("a port for TLS does without --tls")),
    ] {
        let output = std::process::Command::new(BINARY)
            .args(
                [&[command, server.tls_addrs[0].as_str(), "--timeout", "30s", "--json"], arguments].concat(),
            )
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(i32::from(reason.is_some())), "{arguments:?}: {out}{err}");
        assert_eq!(out.contains("\"healthy\":true"), reason.is_none(), "{arguments:?}: {out}");
        let reason = reason.unwrap_or_default();
        assert!(out.contains(reason) && err.contains(reason), "{arguments:?}: {out}{err}");
    }
}

#[test]
fn a_server_for_tls_alone_is_asked_by_the_name_of_its_cluster() {
    let authority = Authority::new();
    let folder = folder(&authority);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut flags = flags(folder.path());
    flags.extend(["--tls-client-ca".to_owned(), path("ca.crt")]);
    let server = started(&flags, &[]);
    let (certificate, key) = authority.issue("client");
    fs::write(path("client.pem"), format!("{key}{certificate}")).unwrap();
    fs::create_dir(path("zoolet")).unwrap();
    let address = server.tls_addrs[0].as_str();
    let clusters = format!(
        "prod = {address}\nprod.tls-ca = {}\nprod.tls-identity = {}\n",
        path("ca.crt"),
        path("client.pem")
    );
    fs::write(path("zoolet/clusters"), clusters).unwrap();
    for (arguments, answer) in [
        (&["health", "@prod"][..], format!("{address} serves: standalone")),
        (&["wait"], format!("{address} serves: standalone")),
        (&["wait", "@prod", "--leader"], format!("{address} serves: standalone")),
        (&["wait", "--znode", "/zookeeper"], "/zookeeper exists: version 0".to_owned()),
    ] {
        let output = std::process::Command::new(BINARY)
            .args(arguments)
            .args(["--timeout", "30s"])
            .env("XDG_CONFIG_HOME", folder.path())
            .env("ZOOKEEPER", "@prod")
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {out}{err}");
        assert!(out.starts_with(&answer), "{arguments:?}: {out}");
    }
}

#[test]
fn a_wait_for_a_znode_authenticates_by_what_the_name_of_the_cluster_says() {
    let (jaas, required) = (config(JAAS), config("sessionRequireClientSASLAuth=true\n"));
    let path = |file: &tempfile::NamedTempFile| file.path().display().to_string();
    let server = Running::start(&[BIND, &["--jaas", &path(&jaas), "--config", &path(&required)]].concat());
    let (credentials, folder) = (config("sasl:bob:hush-bob\n"), tempfile::tempdir().unwrap());
    let clusters =
        format!("us = {0}\nanybody = {0}\nus.auth-file = {1}\n", server.addrs[0], path(&credentials));
    fs::create_dir(folder.path().join("zoolet")).unwrap();
    fs::write(folder.path().join("zoolet/clusters"), clusters).unwrap();
    for (name, code) in [("@us", 0), ("@anybody", 3)] {
        let output = std::process::Command::new(BINARY)
            .args(["wait", name, "--znode", "/zookeeper", "--timeout", "30s"])
            .env("XDG_CONFIG_HOME", folder.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_hangup_reloads_certificates_and_a_broken_file_leaves_the_old_one() {
    let authority = Authority::new();
    let folder = folder(&authority);
    let server = started(&flags(folder.path()), &["--log", "info"]);
    let connected = || {
        let mut stream = authority.connect(&server.tls_addrs[0], None);
        stream.exchange(&connect(), &mut [0; 40]);
        stream
    };
    let mut first = connected();
    let (certificate, key) = authority.issue("server");
    fs::write(folder.path().join("tls.crt"), certificate).unwrap();
    fs::write(folder.path().join("tls.key"), key).unwrap();
    server.signal("HUP");
    let renewed = loop {
        let now = connected().certificate();
        if now != first.certificate() {
            break now;
        }
    };
    // A ping on the connection from before.
    first.exchange(&[0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11], &mut [0; 20]);
    fs::write(folder.path().join("tls.key"), "no key").unwrap();
    server.signal("HUP");
    assert_eq!(connected().certificate(), renewed);
    let log = server.stop("TERM").2;
    assert!(log.contains("SIGHUP received: certificates are reloaded"), "{log}");
    assert!(log.contains("new connections use the certificates that were there before"), "{log}");
}

#[test]
fn a_certificate_that_has_expired_is_in_the_log() {
    let folder = folder(&Authority::new());
    let pem = self_signed("server", |params| params.not_after = date_time_ymd(2021, 1, 1));
    for name in ["tls.crt", "tls.key"] {
        fs::write(folder.path().join(name), &pem).unwrap();
    }
    let server = started(&flags(folder.path()), &[]);
    let log = server.stop("TERM").2;
    assert!(log.contains("the certificate has expired") && log.contains("tls.crt"), "{log}");
    assert!(log.contains("not_after=Jan  1 00:00:00 2021"), "{log}");
    // Nobody is shown it if another file is invalid.
    let refused = std::process::Command::new(BINARY)
        .args([&["serve".to_owned()], &flags(folder.path())[..]].concat())
        .args(["--tls-client-ca", "/dev/null"])
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && !log.contains("expired"), "{log}");
}

#[test]
fn a_signal_ends_a_server_that_waits_for_a_file_of_its_certificate() {
    let folder = folder(&Authority::new());
    let server = started(&flags(folder.path()), &[]);
    let file = folder.path().join("tls.crt");
    fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    server.signal("HUP");
    // Opened when the server has opened it, too. It never has an end.
    let hangs = fs::OpenOptions::new().write(true).open(&file).unwrap();
    let (took, log) = server.stop_unread("TERM");
    assert!(took.as_secs() < 10, "{took:?}: {log}");
    drop(hangs);
}

#[test]
fn what_tls_cannot_use_ends_the_start_in_one_line_that_names_it() {
    let authority = Authority::new();
    let folder = folder(&authority);
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (arguments, problem) in [
        (vec!["--tls-cert", "/no/such.pem"], "/no/such.pem: ".to_owned()),
        (vec!["--tls-cert", &path("tls.crt")], format!("{}: no private key is in it", path("tls.crt"))),
        (vec![], "needs a certificate and its key; set ssl.keyStore.location (--tls-cert)".to_owned()),
    ] {
        let message = error_of(&[&["--tls-bind", "127.0.0.1:0"], &arguments[..]].concat());
        assert!(message.contains(&problem), "{message}");
    }
}

#[test]
fn users_of_a_jaas_file_can_authenticate_and_must_if_the_file_says_so() {
    let jaas = config(JAAS);
    let arguments = [BIND, &["--jaas", jaas.path().to_str().unwrap()]].concat();
    let server = Running::start(&arguments);
    let mut stream = server.connect();
    // An empty token with xid 1.
    stream.write_all(&[connect(), vec![0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 102, 0, 0, 0, 0]].concat()).unwrap();
    let mut answer = [0; 40 + 24 + 101];
    stream.read_exact(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer[64..]).contains("realm=\"zk-sasl-md5\""), "{answer:?}");

    let file = config("sessionRequireClientSASLAuth=true\n");
    let required = Running::start(&[&arguments[..], &["--config", file.path().to_str().unwrap()]].concat());
    let mut stream = required.connect();
    stream.write_all(&[connect(), vec![0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11]].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(&answer[40 + 4 + 12..], (-124_i32).to_be_bytes(), "to the ping");
}

#[test]
fn a_jaas_file_that_is_wrong_is_named_with_its_line_and_without_its_passwords() {
    let unclosed = config(
        "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_bob=\"hush-bob\n};\n",
    );
    let other = config(&JAAS.replace("Server", "Client"));
    for (file, problem) in [(&unclosed, ":3: "), (&other, ": no section Server")] {
        let name = file.path().display().to_string();
        let message = error_of(&[BIND, &["--jaas", &name]].concat());
        assert!(message.contains(&format!("{name}{problem}")) && !message.contains("hush"), "{message}");
    }
    let missing = error_of(&[BIND, &["--jaas", "/no/such.conf"]].concat());
    assert!(missing.contains("the users of SASL: /no/such.conf: cannot be read: "), "{missing}");
}

#[test]
fn passwords_without_tls_are_a_warning_unless_only_this_machine_connects() {
    let jaas = config(JAAS);
    for (bind, warned) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let server = Running::start(&["--bind", bind, "--jaas", jaas.path().to_str().unwrap()]);
        let log = server.stop("TERM").2;
        assert_eq!(log.contains("SASL DIGEST-MD5 at a port without TLS"), warned, "{log}");
    }
}

/// The response to a request over HTTP, with the identity of somebody; empty where the server wants TLS and ends the connection,
/// which may reset it.
fn get(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let request = format!(
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: digest a:b\r\nConnection: close\r\n\r\n"
    );
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    match stream.read_to_end(&mut response) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("{error}"),
        _ => String::from_utf8_lossy(&response).into_owned(),
    }
}

#[test]
fn the_admin_server_and_the_metrics_answer_where_the_start_line_says() {
    let server = Running::start(&[BIND, &["--admin", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]].concat());
    let (admin, metrics) = (server.admin.clone().unwrap(), server.metrics.clone().unwrap());
    assert!(get(&format!("{admin}/commands/ruok")).contains("\"command\" : \"ruok\""));
    assert!(get(&metrics).contains("# TYPE znode_count gauge"));
    assert_eq!(server.stop("TERM").0, Some(0));

    let quiet = Running::start(BIND);
    assert_eq!((quiet.admin.as_ref(), quiet.metrics.as_ref()), (None, None));
}

#[test]
fn what_the_file_switches_off_the_admin_server_does_not_do() {
    for (enabled, status) in [("true", "200"), ("false", "503")] {
        let file = config(&format!("admin.serverPort=0\nadmin.snapshot.enabled={enabled}\n"));
        let server = Running::start(&[BIND, &["--config", file.path().to_str().unwrap()]].concat());
        let response = get(&format!("{}/commands/snapshot", server.admin.as_ref().unwrap()));
        assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{enabled}: {response}");
    }
}

#[test]
fn the_admin_server_speaks_https_with_the_stores_of_the_quorum() {
    const ASK: &str = "GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let authority = Authority::new();
    let (certificate, key) = authority.issue("server");
    let folder = tempfile::tempdir().unwrap();
    let (store, trust) = (folder.path().join("server.pem"), folder.path().join("ca.pem"));
    fs::write(&store, format!("{key}{certificate}")).unwrap();
    fs::write(&trust, authority.pem()).unwrap();
    let stores = format!(
        "admin.serverPort=0\nssl.quorum.keyStore.location={}\nssl.quorum.trustStore.location={}\n",
        store.display(),
        trust.display()
    );
    let client = authority.issue("operator");
    for (keys, plain, without_certificate) in [
        ("admin.forceHttps=true", false, true),
        ("admin.portUnification=true", true, true),
        ("admin.forceHttps=true\nadmin.needClientAuth=true", false, false),
    ] {
        let file = config(&format!("{stores}{keys}\n"));
        let server = Running::start(&[BIND, &["--config", file.path().to_str().unwrap()]].concat());
        let admin = server.admin.clone().unwrap();
        let addr = admin.split("://").nth(1).unwrap().trim_end_matches('/').to_owned();
        let asked = || authority.connect(&addr, Some(&client)).word(ASK).contains("\"command\" : \"ruok\"");
        assert!(asked(), "{keys}");
        assert_eq!(authority.connect(&addr, None).word(ASK).contains("ruok"), without_certificate, "{keys}");
        assert_eq!(get(&format!("http://{addr}/commands/ruok")).contains("ruok"), plain, "{keys}");
        fs::write(&store, "no key").unwrap();
        server.signal("HUP");
        assert!(asked(), "{keys}");
        let log = server.stop("TERM").2;
        assert!(
            log.contains("SIGHUP received: new connections use the certificates that were"),
            "{keys}: {log}"
        );
        fs::write(&store, format!("{key}{certificate}")).unwrap();
    }
    let bare = config("admin.serverPort=0\nadmin.forceHttps=true\n");
    let message = error_of(&[BIND, &["--config", bare.path().to_str().unwrap()]].concat());
    assert!(message.contains("set ssl.quorum.keyStore.location"), "{message}");
}

#[test]
fn an_admin_port_in_use_ends_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let message = error_of(&[BIND, &["--admin", &addr]].concat());
    assert!(message.contains(&format!("cannot listen on {addr} for HTTP")), "{message}");
}

/// Every password of a file, a JAAS file and stores: not in the log at any level, not where an operator asks for the settings, and
/// not in an error.
#[test]
fn no_password_is_in_a_log_in_the_shown_settings_or_in_an_error() {
    let authority = Authority::new();
    let (folder, jaas) = (folder(&authority), config(JAAS));
    let (certificate, key) = authority.issue("server");
    fs::write(folder.path().join("both.pem"), format!("{key}{certificate}")).unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(folder.path().join("password"), "hush-file\n").unwrap();
    let text = format!(
        "clientPort=0\nclientPortAddress=127.0.0.1\nsecureClientPort=0\nsecureClientPortAddress=127.0.0.1\n\
         ssl.keyStore.location={}\nssl.keyStore.password=hush-key\nssl.trustStore.location={}\nssl.trustStore.password=hush-trust\n\
         ssl.trustStore.passwordPath={}\nssl.quorum.keyStore.password=hush-quorum\nadmin.serverPort=0\naudit.enable=true\n\
         kerberos.keytab.pass=hush-unknown\n\
         java.security.auth.login.config={}\nSASLAuthenticationProvider.superPassword=hush-replaced\n\
         DigestAuthenticationProvider.superDigest=super:Kz6jdc4U6rKfTLJWdDJTT8YZz2c=\n",
        path("both.pem"),
        path("ca.crt"),
        path("password"),
        jaas.path().display(),
    );
    let file = config(&text);
    let arguments = ["--config", file.path().to_str().unwrap(), "--log", "trace"];
    let server = Running::start(&arguments);
    let shown = get(&format!("{}/commands/initial_configuration", server.admin.as_ref().unwrap()));
    assert!(shown.contains("ssl.keyStore.location"), "{shown}");
    // A wrong answer to the challenge, an addauth, and a header of HTTP.
    let token = b"username=\"bob\",realm=\"zk-sasl-md5\",response=hush-token";
    let mut sasl =
        vec![0, 0, 0, 12 + token.len() as u8, 0, 0, 0, 2, 0, 0, 0, 102, 0, 0, 0, token.len() as u8];
    sasl.extend(token);
    let empty = vec![0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 102, 0, 0, 0, 0];
    server.answer_to(&[connect(), empty, sasl].concat());
    server.answer_to(
        &[&connect()[..], b"\0\0\0\x23\xff\xff\xff\xfc\0\0\0\x64\0\0\0\0\0\0\0\x04none\0\0\0\x0bhush-secret"]
            .concat(),
    );
    let admin = server.admin.clone().unwrap();
    let mut stream = TcpStream::connect(admin.strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(b"GET /commands/snapshot HTTP/1.1\r\nHost: localhost\r\nAuthorization: digest root:hush-header\r\nConnection: close\r\n\r\n").unwrap();
    // The snapshot that comes is not text.
    stream.read_to_end(&mut Vec::new()).unwrap();
    let log = server.stop("TERM").2;
    assert!(log.contains("session opened") && log.contains("authentication failed"), "{log}");
    for seen in [&log, &shown] {
        for secret in ["hush", "Kz6jdc4U6rKfTLJWdDJTT8YZz2c"] {
            assert!(!seen.contains(secret), "{secret} in {seen}");
        }
    }
    let invalid = config(&format!(
        "{text}ssl.keyStore.type=hus\nsuperDigest=hush-digest\nzookeeper.ssl.keyStore.password=hush-other\n"
    ));
    let lines = errors_of(&["--config", invalid.path().to_str().unwrap()]);
    assert!(lines.len() >= 3 && !lines.iter().any(|line| line.contains("hush")), "{lines:?}");
}
