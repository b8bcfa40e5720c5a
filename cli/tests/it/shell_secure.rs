//! Commands on a server that is reached by TLS, or that wants to know who asks.

#![cfg(unix)]

use std::fs;

use tempfile::TempDir;

use crate::common::tls::Authority;
use crate::common::{Running, config};
use crate::shell::{ended, run_with, shell_command};

const PASSWORD: &str = "hush-store";

/// A server for TLS alone, which wants a certificate; and the files of a client.
struct Secured {
    server: Running,
    folder: TempDir,
}

impl Secured {
    fn start() -> Self {
        let authority = Authority::new();
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
        let (certificate, key) = authority.issue("server");
        write("server.crt", certificate.as_bytes());
        write("server.key", key.as_bytes());
        write("ca.pem", authority.pem().as_bytes());
        let (certificate, key) = authority.issue("client");
        write("client.pem", format!("{key}{certificate}").as_bytes());
        write("ca.p12", &authority.pkcs12(PASSWORD));
        write("client.p12", &authority.issue_pkcs12("client", PASSWORD));
        write("password", format!("{PASSWORD}\n").as_bytes());
        write("other.pem", Authority::new().pem().as_bytes());
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (certificate, key, authorities) = (path("server.crt"), path("server.key"), path("ca.pem"));
        let flags = ["--tls-bind", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key];
        let more = ["--tls-client-ca", &authorities, "--four-letter-words", "ruok,cons"];
        let server = Running::start(&[&flags[..], &more[..]].concat());
        Self { server, folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// The flags with these files.
    fn flags(&self, files: &[(&str, &str)]) -> Vec<String> {
        files.iter().flat_map(|(flag, file)| [(*flag).to_owned(), self.path(file)]).collect()
    }

    fn run(&self, line: &[&str], flags: &[String]) -> (i32, String, String) {
        let arguments: Vec<_> = line.iter().copied().chain(flags.iter().map(String::as_str)).collect();
        ended(shell_command(&self.server.tls_addrs[0], &arguments).output().unwrap())
    }
}

#[test]
fn a_server_for_tls_alone_is_reached_with_the_files_of_a_client() {
    let secured = Secured::start();
    let pem = secured.flags(&[("--tls-ca", "ca.pem"), ("--tls-identity", "client.pem")]);
    assert_eq!(secured.run(&["create", "/a", "x"], &pem), (0, "/a\n".to_owned(), String::new()));
    let stores =
        [("--tls-ca", "ca.p12"), ("--tls-identity", "client.p12"), ("--tls-password-file", "password")];
    assert_eq!(secured.run(&["get", "/a"], &secured.flags(&stores)), (0, "x".to_owned(), String::new()));
    for (files, code, part) in [
        (&[][..], 5, "closed the connection before it opened a session"),
        (&[("--tls-ca", "ca.pem")], 5, "requires a certificate of the client"),
        (&[("--tls-ca", "other.pem"), ("--tls-identity", "client.pem")], 5, "invalid peer certificate"),
        (&[("--tls-ca", "absent.pem")], 6, "absent.pem"),
        (&[("--tls-ca", "ca.p12"), ("--tls-password-file", "absent")], 6, "absent"),
        (&stores[..2], 2, "ca.p12"),
    ] {
        let mut flags = secured.flags(files);
        flags.extend(["--timeout", "300ms"].map(str::to_owned));
        let (seen, out, err) = secured.run(&["get", "/a"], &flags);
        assert_eq!((seen, out.as_str()), (code, ""), "{files:?}: {err}");
        assert!(
            err.contains(part) && err.lines().count() == 1 && !err.contains(PASSWORD),
            "{files:?}: {err}"
        );
    }
}

#[test]
fn who_does_not_reach_a_server_is_told_the_flag_of_tls_that_helps() {
    let secured = Secured::start();
    let plain = Running::start(&["--bind", "127.0.0.1:0"]);
    let (by_tls, in_plaintext) = (secured.server.tls_addrs[0].as_str(), plain.addrs[0].as_str());
    let (ca, other) = (secured.path("ca.pem"), secured.path("other.pem"));
    for (server, flags, advice) in [
        ("127.0.0.1:1", &[][..], "name a server that runs by --server or ZOOKEEPER"),
        (by_tls, &[], "name a server that runs by --server or ZOOKEEPER; a port for TLS needs --tls"),
        (by_tls, &["--tls"], "give its authority by --tls-ca if you trust it"),
        (by_tls, &["--tls-ca", &other], "give its authority by --tls-ca if you trust it"),
        (by_tls, &["--tls-ca", &ca], "give a certificate and its key by --tls-identity"),
        (
            in_plaintext,
            &["--tls-ca", &ca],
            "name a server that runs by --server or ZOOKEEPER; a port for plaintext takes none of the flags of TLS",
        ),
    ] {
        let arguments = [&["get", "/", "--timeout", "300ms"], flags].concat();
        let (code, _, err) = ended(shell_command(server, &arguments).output().unwrap());
        assert_eq!(code, 5, "{err}");
        assert!(err.ends_with(&format!("; {advice}\n")), "{flags:?}: {err}");
        assert_eq!(err.contains("name a server"), advice.contains("name a server"), "{flags:?}: {err}");
    }
}

#[test]
fn four_letter_words_and_the_addresses_of_sessions_come_by_tls_too() {
    let secured = Secured::start();
    let flags = secured.flags(&[("--tls-ca", "ca.pem"), ("--tls-identity", "client.pem")]);
    let address = &secured.server.tls_addrs[0];
    assert_eq!(secured.run(&["words", "ruok"], &flags), (0, format!("{address}:\n  imok\n"), String::new()));
    let (code, _, err) = secured.run(&["words", "ruok", "--patience", "300ms"], &[]);
    assert_eq!(code, 5, "{err}");
    let (code, out, _) = secured.run(&["words", "ruok", "--server", &format!("zk+tls://{address}")], &[]);
    assert!(code == 5 && out.contains("invalid peer certificate"), "the system does not trust it: {out}");
    let (code, _, err) = secured.run(&["words", "ruok"], &secured.flags(&[("--tls-ca", "absent.pem")]));
    assert!(code == 6 && err.contains("absent.pem"), "{err}");
    let arguments: Vec<_> = ["sh"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let (code, out, err) = run_with(address, &arguments, b"create -e /e\nsessions -l\nwords ruok\n");
    assert_eq!(code, 0, "{err}");
    let owner = out.lines().find(|line| line.ends_with("1 ephemeral")).unwrap();
    assert!(owner.contains("  127.0.0.1:"), "{out}");
    assert!(out.ends_with("  imok\n"), "{out}");
}

#[test]
fn a_cluster_by_name_has_its_files_of_tls() {
    let secured = Secured::start();
    let settings = [("tls-ca", "ca.p12"), ("tls-identity", "client.p12"), ("tls-password-file", "password")];
    let mut file = format!("prod = {}\n", secured.server.tls_addrs[0]);
    file.extend(settings.map(|(setting, name)| format!("prod.{setting} = {}\n", secured.path(name))));
    fs::create_dir(secured.path("zoolet")).unwrap();
    fs::write(secured.path("zoolet/clusters"), &file).unwrap();
    let mut command = shell_command("@prod", &["create", "/a"]);
    let output = command.env("XDG_CONFIG_HOME", secured.folder.path()).output().unwrap();
    assert_eq!(ended(output), (0, "/a\n".to_owned(), String::new()));
    // A password that its stores alone need is no mistake about the servers that have none.
    let plain = Running::start(&["--bind", "127.0.0.1:0"]);
    fs::write(secured.path("zoolet/clusters"), file.lines().take(3).collect::<Vec<_>>().join("\n")).unwrap();
    let flags = ["--to-server", &plain.addrs[0], "--tls-password-file", &secured.path("password")];
    let mut command = shell_command("@prod", &[&["diff", "/a", "/"], &flags[..]].concat());
    let output = command.env("XDG_CONFIG_HOME", secured.folder.path()).output().unwrap();
    assert_eq!(ended(output), (0, String::new(), String::new()));
}

#[test]
fn who_proves_by_sasl_who_they_are_has_the_rights_of_that_name() {
    let jaas = config(
        "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_bob=\"hush-bob\";\n};\n",
    );
    let server = Running::start(&["--bind", "127.0.0.1:0", "--jaas", jaas.path().to_str().unwrap()]);
    let run = |auth: &str, arguments: &[&str]| {
        let mut command = shell_command(&server.addrs[0], arguments);
        ended(command.env("ZOOLET_AUTH", auth).output().unwrap())
    };
    let bob = "sasl:bob:hush-bob";
    assert!(run(bob, &["whoami"]).1.contains("sasl:bob\n"));
    assert_eq!(run(bob, &["create", "/bob", "x", "--acl", "sasl:bob:cdrwa"]).0, 0);
    assert_eq!(run(bob, &["get", "/bob"]), (0, "x".to_owned(), String::new()));
    assert_eq!(run("", &["get", "/bob"]).0, 3);
    let (code, _, err) = run("sasl:bob:hush-wrong", &["get", "/bob"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("--auth-file or ZOOLET_AUTH") && !err.contains("hush"), "{err}");
    let (code, _, err) = run("", &["whoami", "--server", &format!("bob@{}", server.addrs[0])]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.ends_with(
            "bob has no password: give it by a line sasl:USER:PASSWORD of --auth-file or ZOOLET_AUTH\n"
        ),
        "{err}"
    );
    let (code, _, err) = run(bob, &["whoami", "--server", &format!("alice@{}", server.addrs[0])]);
    assert_eq!(code, 2, "{err}");
    assert!(err.ends_with("names alice, and --auth-file or ZOOLET_AUTH bob\n"), "{err}");
}
