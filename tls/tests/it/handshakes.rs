//! Who is accepted, and the alert that others get.

use zoolet_test_support::certificates::rcgen::{
    BasicConstraints, CertificateRevocationListParams, IsCa, KeyIdMethod, RevokedCertParams, SerialNumber,
    date_time_ymd,
};
use zoolet_test_support::certificates::{Authority, CertificateParams, KeyPair, named, self_signed};
use zoolet_tls::{CipherSuites, ClientAuth, ClientTls, Protocols, ServerTls, Store, TlsSettings};

use crate::common::{Outcome, connect, for_servers, handshake, issue, store};

fn server(authority: &Authority, auth: ClientAuth) -> ServerTls {
    ServerTls::new(issue(authority, "server", |_| {})).trust_store(store(authority)).client_auth(auth)
}

fn client(authority: &Authority) -> ClientTls {
    ClientTls::new().trust_store(store(authority))
}

#[tokio::test]
async fn a_certificate_is_needed_wanted_or_not_asked_for() {
    let authority = Authority::new("authority");
    let (anonymous, alice) =
        (client(&authority), client(&authority).key_store(issue(&authority, "alice", |_| {})));
    let need = server(&authority, ClientAuth::Need);
    assert_eq!(connect(&need, &alice).await, Outcome::accepted(Some("CN=alice")));
    assert_eq!(connect(&need, &anonymous).await.alert(), "CertificateRequired");
    let want = server(&authority, ClientAuth::Want);
    assert_eq!(connect(&want, &alice).await, Outcome::accepted(Some("CN=alice")));
    assert_eq!(connect(&want, &anonymous).await, Outcome::accepted(None));
    let none = server(&authority, ClientAuth::None);
    assert_eq!(connect(&none, &alice).await, Outcome::accepted(None));
}

#[tokio::test]
async fn a_certificate_that_cannot_be_verified_gets_one_alert_whatever_is_wrong() {
    let (authority, other) = (Authority::new("authority"), Authority::new("authority"));
    let expired = |params: &mut CertificateParams| {
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    };
    let not_yet = |params: &mut CertificateParams| params.not_before = date_time_ymd(2100, 1, 1);
    for auth in [ClientAuth::Need, ClientAuth::Want] {
        for protocols in [Protocols::ALL, "TLSv1.2".parse().expect("a version")] {
            for store in [
                issue(&other, "alice", |_| {}),
                issue(&authority, "alice", expired),
                issue(&authority, "alice", not_yet),
                issue(&authority, "alice", for_servers),
                Store::pem(self_signed("alice", |_| {})),
            ] {
                let client = client(&authority).key_store(store).protocols(protocols);
                let outcome = connect(&server(&authority, auth).protocols(protocols), &client).await;
                assert_eq!(outcome.alert(), "CertificateUnknown", "{outcome:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_reason_of_a_refusal_is_in_the_error_of_the_server() {
    let authority = Authority::new("authority");
    let client = client(&authority).key_store(Store::pem(self_signed("mallory", |_| {})));
    let outcome = connect(&server(&authority, ClientAuth::Need), &client).await;
    assert!(outcome.server.as_ref().expect_err("refused").contains("UnknownIssuer"), "{outcome:?}");
}

#[tokio::test]
async fn a_certificate_in_the_trust_store_is_trusted_itself() {
    let as_authority = |params: &mut CertificateParams| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    };
    // As keytool makes them, and as "openssl req -x509" does.
    for pem in [self_signed("alice", |_| {}), self_signed("alice", as_authority)] {
        let store = || Store::pem(pem.clone());
        let server = ServerTls::new(store()).trust_store(store());
        let client = ClientTls::new().trust_store(store()).key_store(store());
        assert_eq!(connect(&server, &client).await, Outcome::accepted(Some("CN=alice")));
        let elsewhere =
            handshake(server.load().expect("a server"), client.load().expect("a client"), "elsewhere").await;
        assert!(elsewhere.client.expect_err("another name").contains("not valid for name"));
    }
    let expired = self_signed("alice", |params| {
        as_authority(params);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let authority = Authority::new("authority");
    let server = ServerTls::new(issue(&authority, "server", |_| {})).trust_store(Store::pem(expired.clone()));
    let outcome = connect(&server, &client(&authority).key_store(Store::pem(expired))).await;
    assert_eq!(outcome.alert(), "CertificateUnknown");
}

#[tokio::test]
async fn a_client_verifies_the_authority_and_the_name_of_the_server() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let server = server(&authority, ClientAuth::None);
    let outcome = connect(&server, &client(&other)).await;
    assert_eq!(outcome.client, Err("invalid peer certificate: UnknownIssuer".to_owned()));
    let config = || client(&authority).load().expect("a client");
    let by_address = handshake(server.load().expect("a server"), config(), "127.0.0.1").await;
    assert_eq!(by_address, Outcome::accepted(None));
    let elsewhere = handshake(server.load().expect("a server"), config(), "example.com").await;
    assert!(elsewhere.client.expect_err("another name").contains("not valid for name \"example.com\""));
    let any = client(&other).dangerously_accept_any_certificate();
    assert_eq!(connect(&server, &any).await, Outcome::accepted(None));
}

#[tokio::test]
async fn the_version_and_the_cipher_suite_are_those_that_the_server_prefers() {
    let authority = Authority::new("authority");
    let old = client(&authority).protocols("TLSv1.2".parse().expect("a version"));
    let server = server(&authority, ClientAuth::None);
    assert_eq!(connect(&server, &old).await.alert(), "ProtocolVersion");
    let server = server.protocols(Protocols::ALL);
    assert_eq!(connect(&server, &old).await, Outcome::accepted(None));
    let suite = |name: &str| name.parse::<CipherSuites>().expect(name);
    let chacha = old.clone().cipher_suites(suite("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"));
    assert_eq!(connect(&server, &chacha).await.alert(), "HandshakeFailure");
    let server =
        server.cipher_suites(suite("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"));
    assert_eq!(connect(&server, &chacha).await, Outcome::accepted(None));
    let error =
        server.protocols(Protocols::TLS13).cipher_suites(suite("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"));
    let error = error.load().expect_err("no suite").to_string();
    assert_eq!(error, "no cipher suite of the list is of a version of TLS that is enabled");
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_and_one_that_no_list_covers() {
    let authority = Authority::new("authority");
    let numbered = |number| {
        issue(&authority, "alice", move |params| params.serial_number = Some(SerialNumber::from(number)))
    };
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, authority: &Authority, revoked: Vec<u64>, until: i32| {
        let file = folder.path().join(name);
        let revoked = revoked.into_iter().map(|number| RevokedCertParams {
            serial_number: SerialNumber::from(number),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&authority.0).expect("a list");
        std::fs::write(&file, list.pem().expect("PEM")).expect("a file");
        file
    };
    let current = write("current.pem", &authority, vec![7], 2100);
    let stale = write("stale.pem", &authority, vec![], 2025);
    let of_other = write("other.pem", &Authority::new("other"), vec![], 2100);
    for (number, list, is_accepted) in
        [(8, &current, true), (7, &current, false), (8, &stale, false), (8, &of_other, false)]
    {
        let server = server(&authority, ClientAuth::Need).revocation_lists([list]);
        let outcome = connect(&server, &client(&authority).key_store(numbered(number))).await;
        match is_accepted {
            true => assert_eq!(outcome, Outcome::accepted(Some("CN=alice"))),
            false => assert_eq!(outcome.alert(), "CertificateUnknown", "{number} by {}", list.display()),
        }
    }
    let none = folder.path().join("none");
    std::fs::write(&none, "nothing").expect("a file");
    let error = server(&authority, ClientAuth::Need).revocation_lists([&none]).load().expect_err("no list");
    assert_eq!(error.problem(), "no list of revoked certificates (X509 CRL) is in it");
}

#[test]
fn the_address_of_a_client_is_looked_up_in_its_certificate() {
    let key = KeyPair::generate().expect("a key");
    let certificate = named("alice", &["127.0.0.1", "::1"]).self_signed(&key).expect("a certificate");
    let server = ServerTls::new(Store::pem("")).verify_client_address(true);
    for (address, is_named) in
        [("127.0.0.1", true), ("::ffff:127.0.0.1", true), ("::1", true), ("127.0.0.2", false)]
    {
        let address = address.parse().expect("an address");
        let subject = server.client_subject(Some(&[certificate.der().clone()]), address);
        assert_eq!(subject.is_ok(), is_named, "{address}");
    }
}
