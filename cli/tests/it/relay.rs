//! `zoolet conform`, `capture` and `replay` at a server that wants TLS and SASL.

use std::path::PathBuf;

use tempfile::TempDir;
use zoolet_server::tls::{ServerTls, Store};
use zoolet_server::{AuthScheme, SaslUsers, Server};

use crate::common::directory::run;

fn store(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/stores").join(name)
}

/// A server by TLS alone, for clients with a certificate and a user.
async fn server() -> Server {
    let tls =
        ServerTls::new(Store::file(store("pkcs8.pem"))).trust_store(Store::file(store("authority.pem")));
    let server = Server::builder().tls(tls).bind_tls("127.0.0.1:0").on_own_thread();
    let server = server.sasl(SaslUsers::new().user("bob", "secret")).enforce_auth([AuthScheme::Sasl]);
    server.start().await.unwrap()
}

/// The flags that reach it, with this password.
fn flags(temp: &TempDir, password: &str) -> Vec<String> {
    let file = temp.path().join("password");
    std::fs::write(&file, format!("{password}\n")).unwrap();
    let sasl = format!("bob:{}", file.display());
    let ca = store("authority.pem").display().to_string();
    let identity = store("openssl.p12").display().to_string();
    let secret = temp.path().join("store-password");
    std::fs::write(&secret, "changeit").unwrap();
    let secret = secret.display().to_string();
    ["--tls", "--tls-ca", &ca, "--tls-identity", &identity, "--tls-password-file", &secret, "--sasl", &sasl]
        .map(str::to_owned)
        .to_vec()
}

fn conform(address: &str, flags: &[String]) -> crate::common::directory::Ran {
    let mut all = vec!["conform", address, "--only", "create/*"];
    all.extend(flags.iter().map(String::as_str));
    run(&all)
}

#[tokio::test]
async fn a_server_that_wants_tls_and_sasl_is_judged() {
    let (server, temp) = (server().await, TempDir::new().unwrap());
    let address = format!("localhost:{}", server.tls_addrs()[0].port());
    let ran = conform(&address, &flags(&temp, "secret"));
    assert!(
        ran.out.contains(&format!("{address}: 46 cases, 46 passed, 0 failed")),
        "{} {}",
        ran.out,
        ran.err
    );
    let flags = flags(&temp, "secret");
    let mut other = vec!["conform", &*address, "--only", "entry/x509-create"];
    other.extend(flags.iter().map(String::as_str));
    let ran = run(&other);
    let again = format!("again: zoolet conform {address} {} --only entry/x509-create\n", flags.join(" "));
    assert!(ran.out.contains(&again), "{} {}", ran.out, ran.err);
    server.shutdown().await;
}

#[tokio::test]
async fn what_keeps_it_from_a_server_is_a_line() {
    let (server, temp) = (server().await, TempDir::new().unwrap());
    let address = format!("localhost:{}", server.tls_addrs()[0].port());
    let wrong = conform(&address, &flags(&temp, "wrong"));
    assert!(wrong.err.contains("SASL: the server refuses the user or the password"), "{}", wrong.err);
    assert!(!wrong.err.contains("wrong"), "{}", wrong.err);
    let untrusted = conform(&address, &["--tls".to_owned()]);
    assert!(untrusted.err.contains(&format!("cannot use {address}: ")), "{}", untrusted.err);
    assert_eq!(untrusted.code, Some(2), "{}", untrusted.err);
    let missing = conform(&address, &["--tls", "--tls-ca", "none.pem"].map(str::to_owned));
    assert!(missing.err.contains("TLS: none.pem: cannot be read"), "{}", missing.err);
    server.shutdown().await;
}

#[test]
fn a_password_file_that_no_store_uses_is_a_mistake_of_every_command() {
    let mistake = "zoolet: TLS: --tls-password-file is used by no store; set --tls-ca or --tls-identity\n";
    let temp = TempDir::new().unwrap();
    let file = temp.path().join("password");
    std::fs::write(&file, "changeit").unwrap();
    let file = file.to_str().unwrap();
    for command in [
        &["health", "127.0.0.1:1"][..],
        &["wait", "127.0.0.1:1", "--timeout", "100ms"],
        &["conform", "127.0.0.1:1"],
        &["get", "/", "--server", "127.0.0.1:1", "--timeout", "100ms"],
        &["words", "--server", "127.0.0.1:1"],
    ] {
        for tls in [&[][..], &["--tls"]] {
            let ran = run(&[command, tls, &["--tls-password-file", file]].concat());
            assert_eq!((ran.code, &*ran.err), (Some(2), mistake), "{command:?} {tls:?}");
        }
    }
}
