//! Clients that authenticate by SASL, and servers that require it.

use std::future::IntoFuture;
use std::time::Duration;

use zoolet::client::{Acl, Client, ConnectOptions, Error, ErrorCode, Perms};
use zoolet::server::{AuthScheme, SaslUsers, Server, ServerBuilder};
use zoolet::testing::TestServer;
use zoolet::{Lock, SessionState};

use crate::common::{test_ensemble, test_server};

fn with_users() -> ServerBuilder {
    Server::builder()
        .sasl(SaslUsers::new().user("alice", "secret").user("root", "secret"))
        .sasl_super_user("root")
}

fn requiring_sasl() -> ServerBuilder {
    with_users().enforce_auth([AuthScheme::Sasl])
}

async fn server(settings: ServerBuilder) -> TestServer {
    test_server().server(settings).start().await.expect("a server that starts")
}

fn as_user(zk: &TestServer, user: &str) -> ConnectOptions {
    zk.options().sasl_digest_md5(user, "secret")
}

fn only_alice() -> Vec<Acl> {
    vec![Acl::new(Perms::ALL, "sasl", "alice")]
}

#[tokio::test(start_paused = true)]
async fn a_user_of_sasl_owns_what_it_creates_also_after_a_lost_connection() {
    let zk = server(with_users()).await;
    let alice = zk.connect(as_user(&zk, "alice")).await.expect("a session");
    alice.create("/private", "data").acl(only_alice()).await.expect("created");
    alice.create("/own", "").acl(Acl::creator_all()).await.expect("created");
    assert_eq!(alice.get_acl("/own").await.expect("readable").0, only_alice());
    let other = zk.client().await;
    assert_eq!(other.get_data("/private").await.expect_err("no user").code(), Some(ErrorCode::NoAuth));
    let root = zk.connect(as_user(&zk, "root")).await.expect("a session");
    root.get_data("/private").await.expect("a super user");

    zk.disconnect(alice.session_id()).await.expect("connected");
    alice.set_data("/private", "again").await.expect("authenticated anew");
    zk.restart().await.expect("a restart");
    alice.get_data("/private").await.expect("authenticated anew");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_of_an_ensemble_authenticates_for_reads_and_writes() {
    let zk = test_ensemble(3).server(requiring_sasl()).start().await.expect("an ensemble");
    let alice = zk.connect_at(1, as_user(&zk, "alice")).await.expect("a session");
    alice.create("/private", "data").acl(only_alice()).await.expect("a write at the leader");
    alice.sync("/private").await.expect("synced");
    alice.get_data("/private").await.expect("a read at the endpoint");
}

#[tokio::test(start_paused = true)]
async fn locks_work_for_users_of_a_server_that_requires_sasl() {
    let zk = server(requiring_sasl()).await;
    let [one, two] = [
        zk.connect(as_user(&zk, "alice")).await.expect("a session"),
        zk.connect(as_user(&zk, "alice")).await.expect("a session"),
    ];
    let [first, second] =
        [&one, &two].map(|zk| Lock::builder(zk, "/locks/a").acl(Acl::creator_all()).build());
    let guard = first.acquire().await.expect("free");
    let waiting = second.acquire().into_future();
    tokio::pin!(waiting);
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut waiting).await.is_err(), "held");
    zk.disconnect(one.session_id()).await.expect("connected");
    guard.release().await.expect("released on another connection");
    drop(waiting.await.expect("free"));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_an_error_of_connect_that_says_so() {
    for settings in [with_users(), requiring_sasl(), Server::builder()] {
        let zk = server(settings).await;
        let wrong = zk.options().sasl_digest_md5("alice", "wrong");
        let error = zk.connect(wrong).await.expect_err("refused");
        assert!(matches!(error, Error::AuthFailed(_)), "{error:?}");
        assert!(error.to_string().starts_with("connect: authentication failed; the server "), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_user_is_told_what_a_server_requires() {
    let zk = server(requiring_sasl()).await;
    let plain = zk.client().await;
    let error = plain.get_data("/").await.expect_err("refused");
    assert_eq!(error.code(), Some(ErrorCode::SessionClosedRequireSaslAuth));
    assert!(error.to_string().contains("sasl_digest_md5"), "{error}");
    let closed = plain.close().await.expect_err("refused as well");
    assert_eq!(closed.code(), Some(ErrorCode::SessionClosedRequireSaslAuth));
    assert_eq!(plain.state(), SessionState::Closed);
}

#[tokio::test]
async fn two_starts_of_a_server_give_different_challenges() {
    use zoolet_proto::records::SaslToken;
    use zoolet_proto::{Reply, Request};
    use zoolet_test_support::{Hello, Wire};
    let mut challenges = Vec::new();
    for _ in 0..2 {
        let zk = with_users().start().await.expect("a server");
        let mut wire = Wire::open(zk.in_process()().into_inner().expect("a stream"), Hello::new()).await;
        let first = Request::Sasl(SaslToken(Some(Default::default())));
        let Reply::Sasl(Some(challenge)) = wire.ask(first).await.reply else { panic!("no challenge") };
        challenges.push(challenge);
    }
    assert_ne!(challenges[0], challenges[1]);
}

#[tokio::test]
async fn a_scheme_that_is_required_must_be_known() {
    for (scheme, hint) in [(AuthScheme::Sasl, "sasl()"), (AuthScheme::X509, "x509(true)")] {
        let error = Server::builder().enforce_auth([scheme]).start().await.expect_err("nobody gets in");
        let expected = format!("enforce_auth = {}: needs scheme", scheme.name());
        assert!(error.to_string().starts_with(&expected) && error.to_string().contains(hint), "{error}");
    }
    let error = Server::builder().digest(false).enforce_auth([AuthScheme::Digest]).start().await;
    assert!(error.expect_err("switched off").to_string().contains("switched off"));
    for known in [
        Server::builder().sasl(SaslUsers::new()).enforce_auth([AuthScheme::Sasl]),
        Server::builder().sasl_scheme(true).enforce_auth([AuthScheme::Sasl]),
        Server::builder().x509(true).enforce_auth([AuthScheme::X509, AuthScheme::Ip]),
    ] {
        known.start().await.expect("a known scheme").shutdown().await;
    }
    let unknown =
        Server::builder().sasl(SaslUsers::new()).sasl_scheme(false).enforce_auth([AuthScheme::Sasl]);
    unknown.start().await.expect_err("not known to ACLs");
    let unknown =
        Server::builder().sasl_scheme(false).sasl(SaslUsers::new()).enforce_auth([AuthScheme::Sasl]);
    unknown.start().await.expect_err("in either order");
}

#[tokio::test]
async fn a_client_authenticates_by_tcp() {
    let server = requiring_sasl().bind("127.0.0.1:0").start().await.expect("a server");
    let options = Client::options().sasl_digest_md5("alice", "secret");
    let alice = options.connect(server.connect_string()).await.expect("a session");
    alice.create("/private", "data").acl(only_alice()).await.expect("created");
    alice.close().await.expect("closed");
    server.shutdown().await;
}
