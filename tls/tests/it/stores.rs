//! Stores that Java and OpenSSL have written.

use std::path::PathBuf;

use zoolet_test_support::certificates::Authority;
use zoolet_tls::{ClientAuth, ClientTls, ServerTls, Store, StoreKind, TlsSettings};

use crate::common::{Outcome, connect};

const PASSWORD: &str = "changeit";

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/stores").join(name)
}

fn store(name: &str) -> Store {
    Store::file(path(name)).password(PASSWORD)
}

fn server(store: Store) -> ServerTls {
    ServerTls::new(store).client_auth(ClientAuth::None)
}

/// The error of a server with this key store, without the path.
fn refusal(store: Store) -> String {
    let text = server(store).load().expect_err("a refusal").to_string();
    let folder = path("").display().to_string();
    assert!(!text.contains('\n') && !text.contains(PASSWORD), "{text}");
    text.strip_prefix(&folder).unwrap_or(&text).to_owned()
}

#[tokio::test]
async fn a_server_has_a_key_from_every_format() {
    let any = ClientTls::new().dangerously_accept_any_certificate();
    let of_authority = ClientTls::new().trust_store(Store::file(path("authority.pem")));
    for name in [
        "pkcs8.pem",
        "pkcs1.pem",
        "pbes2.pem",
        "pbes2-des3.pem",
        "pbes1.pem",
        "openssl.p12",
        "openssl-legacy.p12",
    ] {
        assert_eq!(connect(&server(store(name)), &of_authority).await, Outcome::accepted(None), "{name}");
    }
    for name in
        ["sec1.pem", "ed25519.pem", "java.p12", "java-ec.p12", "java-legacy.p12", "java.jks", "java-ec.jks"]
    {
        assert_eq!(connect(&server(store(name)), &any).await, Outcome::accepted(None), "{name}");
    }
}

#[tokio::test]
async fn a_client_has_an_identity_and_a_server_its_authorities_from_every_format() {
    let client = ClientTls::new().dangerously_accept_any_certificate().key_store(store("openssl.p12"));
    for name in ["authority.pem", "pkcs8.pem", "trust.p12", "trust-legacy.p12", "trust.jks"] {
        let server = ServerTls::new(store("pkcs8.pem")).trust_store(store(name));
        // The subject as OpenSSL wrote it.
        assert_eq!(connect(&server, &client).await, Outcome::accepted(Some("CN=rsa,O=Zoolet")), "{name}");
    }
}

#[test]
fn pkcs12_and_jks_stand_for_each_other_and_pem_does_not() {
    for (name, kinds) in [
        ("java.p12", [StoreKind::Pkcs12, StoreKind::Jks]),
        ("java.jks", [StoreKind::Pkcs12, StoreKind::Jks]),
        ("pkcs8.pem", [StoreKind::Pem; 2]),
    ] {
        for kind in kinds {
            assert!(server(store(name).kind(kind)).load().is_ok(), "{name} as {kind:?}");
        }
    }
    assert_eq!(
        refusal(store("java.p12").kind(StoreKind::Pem)),
        "java.p12: it is not PEM, as which it is declared"
    );
    let declared = "pkcs8.pem: it is PEM, and is declared as another type of store";
    assert_eq!(refusal(store("pkcs8.pem").kind(StoreKind::Jks)), declared);
    assert_eq!("pkcs12".parse(), Ok(StoreKind::Pkcs12));
    let unknown = "P12".parse::<StoreKind>().expect_err("not a type").to_string();
    assert_eq!(unknown, "\"P12\" is not a type of a store; use PEM, PKCS12 or JKS");
}

#[test]
fn a_password_is_read_from_a_file_without_one_line_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    for (text, is_right) in
        [("changeit", true), ("changeit\n", true), ("changeit\r\n", true), ("changeit\n\n", false)]
    {
        std::fs::write(&file, text).expect("a file");
        let store = Store::file(path("java.jks")).password("not this one").password_file(&file);
        assert_eq!(server(store).load().is_ok(), is_right, "{text:?}");
    }
    let missing = refusal(Store::file(path("java.jks")).password_file(folder.path().join("none")));
    assert!(missing.ends_with("none: cannot be read: No such file or directory (os error 2)"), "{missing}");
}

#[test]
fn what_cannot_be_used_is_refused_in_one_line_with_its_name() {
    let wrong = |name| Store::file(path(name)).password("wrong");
    let without = |name| Store::file(path(name));
    let password = "the password is wrong, or the store is damaged";
    for (store, error) in [
        (wrong("java.p12"), format!("java.p12: {password}")),
        (wrong("java-legacy.p12"), format!("java-legacy.p12: {password}")),
        (wrong("openssl.p12"), format!("openssl.p12: {password}")),
        (wrong("java.jks"), format!("java.jks: {password}")),
        (wrong("pbes2.pem"), format!("pbes2.pem: {password}")),
        (wrong("pbes1.pem"), format!("pbes1.pem: {password}")),
        (without("pbes2.pem"), "pbes2.pem: its private key is encrypted; a password is needed".to_owned()),
        (without("java.p12"), "java.p12: it has a password, which is not set, or the store is damaged".to_owned()),
        (without("java.jks"), "java.jks: a JKS store needs a password".to_owned()),
        (
            store("old-encryption.pem"),
            "old-encryption.pem: its private key is encrypted in an old way; convert it with \"openssl pkcs8 -topk8\"".to_owned(),
        ),
        (
            store("jceks.jks"),
            "jceks.jks: a JCEKS store is not supported; convert it with \"keytool -importkeystore -deststoretype PKCS12\""
                .to_owned(),
        ),
        (
            store("p521.pem"),
            "p521.pem: its private key is damaged, or does not belong to its first certificate, or is neither RSA of 2048 bits and more, ECDSA on P-256 or P-384, nor Ed25519"
                .to_owned(),
        ),
        (store("mismatch.pem"), "mismatch.pem: its private key does not belong to its first certificate".to_owned()),
        (
            store("authority.pem"),
            "authority.pem: no private key is in it; a key store has a key and its certificates".to_owned(),
        ),
        (store("make").key_file(path("mismatch.pem")), "make: it is neither PEM nor PKCS12 nor JKS".to_owned()),
        (store("authority.pem").key_file(path("make")), "make: no private key in PEM is in it".to_owned()),
        (store("make"), "make: it is neither PEM nor PKCS12 nor JKS".to_owned()),
        (store("none.pem"), "none.pem: cannot be read: No such file or directory (os error 2)".to_owned()),
    ] {
        assert_eq!(refusal(store), error);
    }
    assert_eq!(
        refusal(store("version1.pem")),
        "version1.pem: its certificate is X.509 of version 1 or 2; issue one of version 3, in openssl with -extfile"
    );
}

#[tokio::test]
async fn a_key_file_has_the_key_alone_and_its_store_the_certificates_alone() {
    let authority = Authority::new("any");
    let (certificate, key) = authority.issue_parts("server");
    let (_, other_key) = authority.issue_parts("other");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key.pem");
    std::fs::write(&file, key + &authority.pem()).expect("a file");
    let store = |text| Store::pem(text).key_file(&file);
    let client = ClientTls::new().trust_store(Store::pem(authority.pem()));
    let outcome = connect(&server(store(other_key.clone() + &certificate)), &client).await;
    assert_eq!(outcome, Outcome::accepted(None));
    assert_eq!(refusal(store(other_key)), "the certificate of its private key is not in it");
}

#[test]
fn a_key_of_java_that_belongs_to_another_certificate_is_refused_with_that_as_a_reason() {
    // As Java writes a key of P-256: without its public half.
    let begin = b"\x30\x41\x02\x01\0\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x04\x27\x30\x25\x02\x01\x01\x04\x20";
    let key = pem::encode(&pem::Pem::new("PRIVATE KEY", [&begin[..], &[1; 32]].concat()));
    let authority = Authority::new("any");
    let error = refusal(Store::pem(authority.pem() + &key));
    assert!(error.contains("belong to its first certificate"), "{error}");
}

#[test]
fn a_trust_store_without_authorities_is_refused() {
    for (name, problem) in [
        ("java.jks", "no trusted certificate is in it; a trust store has those of the authorities"),
        (
            "java.p12",
            "none of its certificates is marked as trusted; import those of the authorities with \"keytool -importcert\"",
        ),
    ] {
        let error = ServerTls::new(store("pkcs8.pem")).trust_store(store(name)).load().expect_err(name);
        assert_eq!((error.file(), error.problem()), (Some(path(name).as_path()), problem));
    }
    let missing = ServerTls::new(store("pkcs8.pem")).load().expect_err("no trust store").to_string();
    assert!(missing.contains("set ssl.trustStore.location, or ssl.clientAuth=none"), "{missing}");
}

#[test]
fn all_files_that_are_wrong_are_named_at_once_and_each_once() {
    let missing = |name: &str| Store::file(name).key_file(format!("{name}.key")).password_file("password");
    let names = |error: String| {
        let files =
            error.split("; ").map(|part| part.split(": cannot be read").next().unwrap_or(part).to_owned());
        files.collect::<Vec<_>>()
    };
    let server = ServerTls::new(missing("a")).trust_store(Store::file("b")).revocation_lists(["c", "d"]);
    let error = server.load().expect_err("no files").to_string();
    assert_eq!(names(error), ["a", "password", "a.key", "b", "c", "d"]);
    let client = ClientTls::new().trust_store(Store::file("a")).key_store(Store::file("a"));
    assert_eq!(names(client.load().expect_err("no file").to_string()), ["a"]);
}

#[test]
fn damaged_stores_are_refused() {
    for name in ["java-ec.p12", "java-ec.jks", "pbes2.pem", "openssl-legacy.p12"] {
        let whole = std::fs::read(path(name)).expect("a store");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("store");
        // Every byte takes minutes where each try derives a key.
        let step = if name.ends_with("jks") { 1 } else { 401 };
        for end in (0..whole.len() - 1).step_by(step) {
            std::fs::write(&file, &whole[..end]).expect("a file");
            let _ = server(Store::file(&file).password(PASSWORD)).load().map(|_| panic!("{name} to {end}"));
            let mut flipped = whole.clone();
            flipped[end] ^= 0x55;
            std::fs::write(&file, flipped).expect("a file");
            let loaded = server(Store::file(&file).password(PASSWORD)).load();
            // The other formats have bytes that nothing depends on.
            assert!(loaded.is_err() || !name.ends_with("jks"), "{name} at {end}");
        }
    }
}
