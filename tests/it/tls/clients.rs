//! The client by TLS.

use zoolet::client::tls::{ClientAuth, ClientTls, Protocols, Store};
use zoolet::client::{Client, Error, Sessions};
use zoolet::server::SaslUsers;
use zoolet_test_support::certificates::Authority;
use zoolet_test_support::*;

use super::Secured;

impl Secured {
    async fn connect(&self, tls: ClientTls, host: &str) -> Result<Client, Error> {
        let target = format!("{host}:{}", self.addr().port());
        Client::options().connect_timeout(millis(300)).tls(tls).connect(target).await
    }

    /// Why no connection was made.
    async fn failure(&self, tls: ClientTls, host: &str) -> String {
        match self.connect(tls, host).await.expect_err("no connection") {
            Error::Unreachable { hosts, .. } => hosts.last().expect("a host").reason().to_owned(),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_client_connects_with_and_without_a_certificate_by_every_version() {
    for auth in [ClientAuth::None, ClientAuth::Want, ClientAuth::Need] {
        let secured = Secured::start(auth).await;
        for host in ["localhost", "127.0.0.1"] {
            for client in [secured.client_named("alice"), secured.client()] {
                let has_certificate = format!("{client:?}").contains("key_store: Some");
                if auth == ClientAuth::Need && !has_certificate {
                    continue;
                }
                let zk = secured.connect(client, host).await.expect("a session");
                zk.create("/a", "x").await.expect("a znode");
                zk.delete("/a").await.expect("a znode");
                zk.close().await.expect("an end");
            }
        }
    }
}

#[tokio::test]
async fn a_certificate_is_an_identity_without_another_setting() {
    let secured = Secured::start(ClientAuth::Want).await;
    for (client, subject) in [(secured.client_named("alice"), Some("CN=alice")), (secured.client(), None)] {
        let zk = secured.connect(client, "localhost").await.expect("a session");
        let ids = zk.who_am_i().await.expect("identities");
        let known = ids.iter().find(|id| id.scheme == "x509").map(|id| id.user.as_str());
        assert_eq!(known, subject);
        zk.close().await.expect("an end");
    }
}

#[tokio::test]
async fn a_connect_string_alone_says_tls_and_who_authenticates() {
    let users = SaslUsers::new().user("alice", "secret");
    let secured = Secured::with(ClientAuth::None, |server| server.bind_tls("127.0.0.1:0").sasl(users)).await;
    let target = format!("zk+tls://alice@localhost:{}/app", secured.addr().port());
    let options = || Client::options().connect_timeout(millis(300));
    // Several sessions share what the string says.
    let sessions = Sessions::open(options().tls(secured.client()).sasl_password("secret"), &target);
    let zk = sessions.expect("a target").client().await.expect("a session");
    let ids = zk.who_am_i().await.expect("identities");
    assert!(ids.iter().any(|id| (&*id.scheme, &*id.user) == ("sasl", "alice")), "{ids:?}");
    zk.close().await.expect("an end");

    let refused = options().tls(secured.client()).sasl_password("wrong").connect(&target).await;
    assert!(matches!(refused, Err(Error::AuthFailed(_))), "{refused:?}");
    // No authority of the system has issued the certificate, if there is any.
    let strange =
        options().sasl_password("secret").connect(&target).await.expect_err("a stranger").to_string();
    assert!(strange.contains("TLS: "), "{strange}");
}

#[tokio::test]
async fn what_has_failed_is_in_the_error_of_the_connection() {
    let secured = Secured::start(ClientAuth::Need).await;
    let (other, any) = (Authority::new("other"), "TLS: the server refuses the connection: ");
    for (client, host, reason) in [
        (
            ClientTls::new().trust_store(Store::pem(other.pem())),
            "localhost",
            "TLS: the certificate of the server is not of a trusted authority".to_owned(),
        ),
        // With TLS 1.3 only the first read learns it.
        (
            secured.client(),
            "localhost",
            format!("{any}it requires a certificate of the client (alert CertificateRequired)"),
        ),
        (
            secured.client().key_store(Store::pem(other.issue("mallory"))),
            "localhost",
            format!("{any}it does not trust the certificate of the client (alert CertificateUnknown)"),
        ),
        (
            secured.client().protocols("TLSv1.2".parse().expect("a version")),
            "localhost",
            format!("{any}it has no version of TLS in common with the client (alert ProtocolVersion)"),
        ),
    ] {
        assert_eq!(secured.failure(client, host).await, reason);
    }
    let elsewhere = secured.failure(secured.client().server_name("example.com"), "localhost").await;
    assert!(elsewhere.contains("not valid for name \"example.com\""), "{elsewhere}");

    let plain = Zk::start_tcp().await;
    let target = plain.connect_string();
    let options = Client::options().connect_timeout(millis(300)).tls(secured.client());
    let error = options.connect(target).await.expect_err("no TLS there").to_string();
    assert!(error.contains("TLS: the server closed the connection during the handshake"), "{error}");
}

#[tokio::test]
async fn the_name_and_the_verification_of_a_server_can_be_set() {
    let secured = Secured::start(ClientAuth::None).await;
    let other = Authority::new("other");
    let untrusting = || ClientTls::new().trust_store(Store::pem(other.pem()));
    assert!(secured.connect(untrusting().dangerously_accept_any_certificate(), "localhost").await.is_ok());
    assert!(secured.connect(secured.client().server_name("localhost"), "127.0.0.1").await.is_ok());

    // A closure has no name of its own.
    let addr = secured.addr();
    let dial = move || tokio::net::TcpStream::connect(addr);
    let error = Client::options().tls(secured.client()).connect(dial).await.expect_err("no name").to_string();
    assert_eq!(
        error,
        "connect: TLS: a connection that is not made from a connect string needs ClientTls::server_name"
    );
    assert!(Client::options().tls(secured.client().server_name("localhost")).connect(dial).await.is_ok());
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_at_once() {
    let error = Client::options()
        .tls(ClientTls::new().trust_store(Store::file("none.pem")).protocols(Protocols::TLS13))
        .connect("localhost:1")
        .await;
    let text = error.expect_err("no file").to_string();
    assert_eq!(text, "connect: TLS: none.pem: cannot be read: No such file or directory (os error 2)");
}

#[tokio::test]
async fn a_session_goes_on_with_the_new_certificate_of_its_client() {
    let secured = Secured::start(ClientAuth::Need).await;
    let file = secured.file("client.pem");
    std::fs::write(&file, secured.authority.issue("before")).expect("a file");
    let zk = secured
        .connect(secured.client().key_store(Store::file(&file)), "localhost")
        .await
        .expect("a session");
    zk.create("/a", "x").await.expect("a znode");
    let session = zk.session_id();
    // The authority of the first certificate is not trusted any more by the server's next configuration: the client must use the new one.
    std::fs::write(&file, secured.authority.issue("after")).expect("a file");
    secured.zk.reload_tls().await.expect("files that can be used");
    assert_eq!(zk.get_data("/a").await.expect("a znode").0, "x");
    assert_eq!(zk.session_id(), session);
}
