//! Certificates and SASL as identities, and servers that require one.

use std::collections::HashMap;

use zoolet_proto::ErrorCode::{self, AuthFailed, InvalidAcl, NoAuth, SessionClosedRequireSaslAuth};
use zoolet_proto::digest_md5::{UserKey, respond};
use zoolet_proto::records::{ClientInfo, SaslToken};
use zoolet_proto::{Acl, OpCode, Perms, Reply, Request, Xid, frame};
use zoolet_server_core::{AuthConfig, AuthScheme, ConnId, CoreConfig, Origin, SaslServer};

use crate::common::*;

const ALICE: &str = "CN=alice,O=Acme";

fn world(change: impl FnOnce(&mut AuthConfig)) -> World {
    World::with(|config| {
        let users = ["bob", "super", "root"].map(|user| (user.to_owned(), UserKey::new(user, "secret")));
        config.auth.sasl_server = Some(SaslServer::new(HashMap::from(users), [7; 32]));
        (config.auth.x509, config.auth.sasl) = (true, true);
        config.auth.sasl_supers = vec!["root".to_owned()];
        config.auth.x509_super = Some("CN=root".to_owned());
        change(&mut config.auth);
    })
}

fn usual() -> World {
    world(|_| {})
}

/// A connection of a client with this certificate.
fn connect_with(world: &mut World, subject: &str) -> ConnId {
    let certificate = Some(subject.into());
    let origin = Origin { peer: [127, 0, 0, 1].into(), in_process: false, certificate };
    let conn = world.socket_of(origin);
    world.hello(conn, new_session());
    world.take_welcome(conn);
    conn
}

fn ids(world: &mut World, conn: ConnId) -> Vec<String> {
    let Reply::WhoAmI(ids) = world.ok(conn, Request::WhoAmI).reply else { panic!("no identities") };
    ids.iter().map(|ClientInfo { scheme, user }| format!("{scheme}:{user}")).collect()
}

fn token(bytes: impl AsRef<[u8]>) -> Request {
    Request::Sasl(SaslToken(Some(bytes.as_ref().to_vec().into())))
}

fn challenge(world: &mut World, conn: ConnId) -> Vec<u8> {
    match world.ok(conn, token("")).reply {
        Reply::Sasl(Some(token)) => token.to_vec(),
        other => panic!("no challenge but {other:?}"),
    }
}

/// What the server answers to the response of a user.
fn authenticate(world: &mut World, conn: ConnId, user: &str, password: &str) -> Answer {
    let challenge = challenge(world, conn);
    let response = respond(&challenge, user, password, "cnonce").expect("a challenge");
    let answer = world.ask(conn, token(response.token()));
    if let Reply::Sasl(Some(rspauth)) = &answer.reply {
        assert!(response.is_confirmed_by(rspauth));
    }
    answer
}

fn log_in(world: &mut World, conn: ConnId, user: &str) {
    assert_eq!(authenticate(world, conn, user, "secret").error, None);
}

/// The list that `creator_all` becomes for a connection.
fn expanded(world: &mut World, conn: ConnId) -> Vec<String> {
    world.ok(conn, create("/expanded").acl(Acl::creator_all()));
    let acl = world.ok(conn, get_acl("/expanded")).acl();
    world.ok(conn, delete("/expanded"));
    acl.iter().map(|entry| format!("{}:{}", entry.scheme, entry.id)).collect()
}

#[test]
fn a_certificate_is_an_identity_from_the_first_request_on() {
    let mut world = usual();
    let alice = connect_with(&mut world, ALICE);
    assert_eq!(ids(&mut world, alice), ["ip:127.0.0.1", "x509:CN=alice,O=Acme"]);
    assert_eq!(expanded(&mut world, alice), ["x509:CN=alice,O=Acme"]);
    world.ok(alice, create("/z").acl(only(Perms::ALL, "x509", ALICE)));
    let other = connect_with(&mut world, "CN=alice, O=Acme");
    assert_eq!(world.refusal(other, get_data("/z")), NoAuth, "compared as text");
    let nobody = world.connect();
    assert_eq!(world.refusal(nobody, get_data("/z")), NoAuth);
    // Lists of certificates can be set from any connection.
    world.ok(nobody, create("/y").acl(only(Perms::ALL, "x509", ALICE)));
    world.ok(alice, get_data("/y"));
}

#[test]
fn a_certificate_is_no_identity_if_the_scheme_is_not_known_or_its_subject_too_long() {
    let mut plain = World::new();
    let alice = connect_with(&mut plain, ALICE);
    assert_eq!(ids(&mut plain, alice), ["ip:127.0.0.1"]);
    let mut world = usual();
    let long = connect_with(&mut world, &format!("CN={}", "x".repeat(4096)));
    assert_eq!(ids(&mut world, long), ["ip:127.0.0.1"]);
    let empty = connect_with(&mut world, "");
    assert_eq!(ids(&mut world, empty), ["ip:127.0.0.1", "x509:"]);
}

#[test]
fn the_certificate_of_the_super_user_passes_every_acl() {
    let mut world = usual();
    let root = connect_with(&mut world, "CN=root");
    assert_eq!(ids(&mut world, root), ["ip:127.0.0.1", "x509:CN=root", "super:"]);
    assert_eq!(expanded(&mut world, root), ["x509:CN=root"]);
    world.ok(root, create("/z").acl(anyone(Perms::NONE)));
    world.ok(root, get_data("/z"));
}

#[test]
fn an_addauth_of_scheme_x509_needs_a_certificate_and_adds_nothing() {
    let mut world = usual();
    let alice = connect_with(&mut world, ALICE);
    world.ok(alice, auth("x509", "whatever"));
    assert_eq!(ids(&mut world, alice), ["ip:127.0.0.1", "x509:CN=alice,O=Acme"]);
    let plain = world.connect();
    assert_eq!(world.refusal(plain, auth("x509", "CN=alice,O=Acme")), AuthFailed);
    assert_eq!(world.heard(plain), ["closed"]);
}

#[test]
fn the_subject_survives_no_reconnect_on_another_connection() {
    let mut world = usual();
    let alice = connect_with(&mut world, ALICE);
    let again = world.resume(world.session(alice));
    assert_eq!(ids(&mut world, again), ["ip:127.0.0.1"]);
}

#[test]
fn ids_of_certificates_and_of_sasl_in_acls() {
    let mut world = usual();
    let a = world.connect();
    for (scheme, id, valid) in [
        ("x509", "CN=q", true),
        ("x509", "cn=q, o=z", true),
        ("x509", "CN=a,CN=", true),
        ("x509", "1.2.3=#0401ff", true),
        ("x509", "", true),
        ("x509", "garbage", false),
        ("sasl", "bob", true),
        ("sasl", "", true),
        ("sasl", "a b", true),
        ("sasl", "a/b/c", true),
        ("sasl", "a@b", true),
        ("sasl", "a/b@C", true),
        ("sasl", "@", true),
        ("sasl", "a@b@c", false),
        ("sasl", "a/b/c@d", false),
        ("sasl", "a@b/c", false),
    ] {
        let acl = only(Perms::ALL, scheme, id);
        assert_eq!(world.ask(a, create("/z").acl(acl.clone())).error, (!valid).then_some(InvalidAcl), "{id}");
        if valid {
            world.ok(a, delete("/z"));
        }
        let mut plain = World::new();
        let b = plain.connect();
        assert_eq!(plain.refusal(b, create("/z").acl(acl)), InvalidAcl, "{id} without the scheme");
    }
}

#[test]
fn a_null_id_of_sasl_or_x509_is_an_empty_one() {
    for scheme in ["sasl", "x509"] {
        let create = || Body::new().text("/z").bytes(b"").int(1).int(31).text(scheme).null().int(0);
        let mut world = usual();
        let root = world.connect();
        log_in(&mut world, root, "root");
        assert_eq!(world.ask_raw(root, OpCode::Create.code(), create()).error, None);
        assert_eq!(world.ok(root, get_acl("/z")).acl(), only(Perms::ALL, scheme, ""));
        let mut plain = World::new();
        let a = plain.connect();
        assert_eq!(plain.ask_raw(a, OpCode::Create.code(), create()).error, Some(InvalidAcl));
    }
}

#[test]
fn a_user_of_sasl_has_an_identity_before_the_last_token_is_sent() {
    let mut world = usual();
    let bob = world.connect();
    let before = ids(&mut world, bob);
    let challenge = challenge(&mut world, bob);
    let text = String::from_utf8(challenge.clone()).unwrap();
    assert!(text.starts_with("realm=\"zk-sasl-md5\",nonce=\""), "{text}");
    assert!(text.ends_with("\",charset=utf-8,algorithm=md5-sess") && text.len() == 101, "{text}");
    assert_eq!(ids(&mut world, bob), before, "ordinary requests are served in between");
    let response = respond(&challenge, "bob", "secret", "cnonce").unwrap();
    let answer = world.ok(bob, token(response.token()));
    assert_eq!(answer.zxid, 0);
    let Reply::Sasl(Some(rspauth)) = answer.reply else { panic!("no token") };
    assert!(response.is_confirmed_by(&rspauth));
    assert_eq!(ids(&mut world, bob), ["ip:127.0.0.1", "sasl:bob"]);
    assert_eq!(expanded(&mut world, bob), ["sasl:bob"]);
    world.ok(bob, create("/z").acl(only(Perms::ALL, "sasl", "bob")));
    world.ok(bob, get_data("/z"));
    let other = world.connect();
    assert_eq!(world.refusal(other, get_data("/z")), NoAuth);
    let again = world.resume(world.session(bob));
    assert_eq!(ids(&mut world, again), before, "of the connection, not of the session");
}

#[test]
fn each_connection_gets_a_nonce_that_follows_from_the_secret() {
    let mut world = usual();
    let [a, b] = [world.connect(), world.connect()];
    assert_ne!(challenge(&mut world, a), challenge(&mut world, b));
    let mut same = usual();
    let c = same.connect();
    let of_a = challenge(&mut usual_with_connection(), a);
    assert_eq!(challenge(&mut same, c), of_a);
    let mut other = self::world(|auth| auth.sasl_server.as_mut().unwrap().secret = [8; 32]);
    let d = other.connect();
    assert_ne!(challenge(&mut other, d), of_a);
}

fn usual_with_connection() -> World {
    let mut world = usual();
    world.connect();
    world
}

#[test]
fn the_first_token_may_contain_anything() {
    let mut world = usual();
    let bob = world.connect();
    let Reply::Sasl(Some(first)) = world.ok(bob, token("anything")).reply else { panic!("no challenge") };
    let response = respond(&first, "bob", "secret", "cnonce").unwrap();
    world.ok(bob, token(response.token()));
}

#[test]
fn a_token_that_is_too_long_is_refused_at_every_step() {
    let mut world = usual();
    let [a, b] = [world.connect(), world.connect()];
    challenge(&mut world, b);
    for conn in [a, b] {
        assert_eq!(world.refusal(conn, token([b'x'; 4097])), AuthFailed);
        assert_eq!(world.heard(conn), ["closed"]);
    }
}

/// The bytes of the error that refuses a token, after the length: xid, zxid, error, and a null token.
fn refusal(xid: i32, code: ErrorCode) -> Vec<u8> {
    let parts = [&xid.to_be_bytes()[..], &[0; 8], &code.code().to_be_bytes(), &[0xff; 4]];
    parts.concat()
}

#[test]
fn a_failure_is_an_error_with_a_null_token_and_closes_the_connection() {
    for (user, password) in [("bob", "wrong"), ("nobody", "secret")] {
        let mut world = usual();
        let bob = world.connect();
        let session = world.session(bob);
        let challenge = challenge(&mut world, bob);
        world.wire.clear();
        let response = respond(&challenge, user, password, "cnonce").unwrap();
        world.send_as(bob, Xid(-4), token(response.token()));
        assert_eq!(world.heard(bob), ["AuthFailed", "closed"]);
        let sent = &world.wire[&bob];
        assert_eq!(sent[frame::PREFIX..frame::PREFIX + 20], refusal(-4, AuthFailed));
        assert_eq!(sent[..frame::PREFIX], 20i32.to_be_bytes());
        world.resume(session);
    }
}

#[test]
fn a_token_after_the_exchange_is_a_failure() {
    for second in ["", "garbage"] {
        let mut world = usual();
        let bob = world.connect();
        log_in(&mut world, bob, "bob");
        world.send(bob, token(second));
        assert_eq!(world.heard(bob), ["AuthFailed", "closed"]);
    }
}

#[test]
fn an_addauth_of_scheme_sasl_is_refused() {
    let mut world = usual();
    let bob = world.connect();
    assert_eq!(world.refusal(bob, auth("sasl", "bob:secret")), AuthFailed);
    assert_eq!(world.heard(bob), ["closed"]);
}

#[test]
fn clients_that_fail_may_be_allowed_to_stay_without_an_identity() {
    let mut world = world(|auth| auth.allow_sasl_failed = true);
    let bob = world.connect();
    let failed = authenticate(&mut world, bob, "bob", "wrong");
    assert_eq!((failed.error, failed.reply), (None, Reply::Sasl(None)));
    for _ in 0..2 {
        assert_eq!(world.ok(bob, token("")).reply, Reply::Sasl(None), "no second attempt");
    }
    assert_eq!(ids(&mut world, bob), ["ip:127.0.0.1"]);
    let bob = world.connect();
    log_in(&mut world, bob, "bob");
    assert_eq!(world.ok(bob, token("")).reply, Reply::Sasl(None));
    assert_eq!(ids(&mut world, bob), ["ip:127.0.0.1", "sasl:bob"], "what it has it keeps");
}

#[test]
fn a_user_whom_acls_do_not_know_has_no_name_and_no_rights() {
    let mut world = world(|auth| auth.sasl = false);
    let bob = world.connect();
    log_in(&mut world, bob, "bob");
    assert_eq!(ids(&mut world, bob), ["ip:127.0.0.1", "sasl:"]);
    assert_eq!(world.refusal(bob, create("/z").acl(Acl::creator_all())), InvalidAcl);
    assert_eq!(world.refusal(bob, create("/z").acl(only(Perms::ALL, "sasl", "bob"))), InvalidAcl);
    // Nor do they let it in where another server has stored its name.
    let mut other = usual();
    let owner = other.connect();
    other.ok(owner, create("/theirs").acl(only(Perms::ALL, "sasl", "bob")));
    other.txns.iter().for_each(|txn| world.control(|core| core.replay(txn)));
    assert_eq!(world.refusal(bob, get_data("/theirs")), NoAuth);
}

#[test]
fn a_super_user_passes_every_acl_and_the_user_super_only_those_of_sasl() {
    let mut world = usual();
    let bob = world.connect();
    world.ok(bob, create("/sasl").acl(only(Perms::ALL, "sasl", "bob")));
    world.ok(bob, create("/x509").acl(only(Perms::ALL, "x509", ALICE)));
    let root = world.connect();
    log_in(&mut world, root, "root");
    assert_eq!(ids(&mut world, root), ["ip:127.0.0.1", "sasl:root", "super:"]);
    assert_eq!(expanded(&mut world, root), ["sasl:root"]);
    world.ok(root, get_data("/sasl"));
    world.ok(root, get_data("/x509"));
    let named_super = world.connect();
    log_in(&mut world, named_super, "super");
    assert_eq!(ids(&mut world, named_super), ["ip:127.0.0.1", "sasl:super"]);
    world.ok(named_super, get_data("/sasl"));
    assert_eq!(world.refusal(named_super, get_data("/x509")), NoAuth);
}

#[test]
fn one_connection_may_have_identities_of_every_scheme() {
    let mut world = usual();
    let alice = connect_with(&mut world, ALICE);
    world.ok(alice, auth("digest", "bob:pw"));
    log_in(&mut world, alice, "bob");
    let all = ["ip:127.0.0.1", "x509:CN=alice,O=Acme", "digest:bob", "sasl:bob"];
    assert_eq!(ids(&mut world, alice), all);
    let digest = "digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";
    assert_eq!(expanded(&mut world, alice), ["x509:CN=alice,O=Acme", digest, "sasl:bob"]);
}

#[test]
fn a_user_whose_connection_has_too_many_identities_fails() {
    let mut world = usual();
    let bob = world.connect();
    for user in 0..31 {
        world.ok(bob, auth("digest", &format!("user{user}:x")));
    }
    assert_eq!(authenticate(&mut world, bob, "bob", "secret").error, Some(AuthFailed));
}

#[test]
fn scheme_digest_can_be_unknown() {
    let mut world = world(|auth| auth.digest = false);
    let a = world.connect();
    let digest = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";
    assert_eq!(world.refusal(a, create("/z").acl(only(Perms::ALL, "digest", digest))), InvalidAcl);
    assert_eq!(world.refusal(a, auth("digest", "bob:pw")), AuthFailed);
    assert_eq!(world.heard(a), ["closed"]);
}

#[test]
fn a_connection_without_a_required_identity_is_refused_at_its_first_request() {
    for request in [Request::Ping, get_data("/"), create("/z"), Request::CloseSession, Request::WhoAmI] {
        let mut world = world(|auth| auth.required = vec![AuthScheme::Sasl, AuthScheme::X509]);
        let a = world.connect();
        let (session, zxid) = (world.session(a), world.zxid());
        // Whatever else it has.
        world.ok(a, auth("digest", "bob:pw"));
        world.advance(5_000);
        world.send_as(a, Xid(-2), request);
        assert_eq!(
            world.received(a).iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["SessionClosedRequireSaslAuth", "closed"]
        );
        let frame = [&[0xff, 0xff, 0xff, 0xfe][..], &[0; 8], &(-124i32).to_be_bytes()].concat();
        assert!(world.wire[&a].windows(16).any(|sent| sent == frame), "{:?}", world.wire[&a]);
        assert_eq!(world.zxid(), zxid);
        assert!(world.core.sessions().get(session).is_some(), "the session stays until its timeout");
        // The refused request did not keep it alive.
        world.advance(i64::from(TIMEOUT) + TICK - 5_000);
        assert!(world.core.sessions().get(session).is_none());
    }
}

#[test]
fn an_unknown_request_is_refused_for_want_of_an_identity_too() {
    let mut world = world(|auth| auth.required = vec![AuthScheme::Sasl]);
    let a = world.connect();
    assert_eq!(world.ask_raw(a, 999, Body::new()).error, Some(SessionClosedRequireSaslAuth));
}

#[test]
fn every_required_scheme_suffices() {
    let required = |schemes: &[AuthScheme]| world(|auth| auth.required = schemes.to_vec());
    let mut sasl = required(&[AuthScheme::Sasl, AuthScheme::X509]);
    let bob = sasl.connect();
    log_in(&mut sasl, bob, "bob");
    sasl.ok(bob, get_data("/"));
    let alice = connect_with(&mut sasl, ALICE);
    sasl.ok(alice, get_data("/"));
    let mut digest = required(&[AuthScheme::Digest]);
    let a = digest.connect();
    digest.ok(a, auth("digest", "bob:pw"));
    digest.ok(a, get_data("/"));
    let mut ip = required(&[AuthScheme::Ip]);
    let a = ip.connect();
    ip.ok(a, get_data("/"));
}

#[test]
fn where_sasl_is_required_a_failure_has_its_own_error_whatever_else_is_allowed() {
    let mut world = world(|auth| {
        auth.required = vec![AuthScheme::Sasl];
        auth.allow_sasl_failed = true;
    });
    let bob = world.connect();
    world.wire.clear();
    let failed = authenticate(&mut world, bob, "bob", "wrong");
    assert_eq!((failed.error, failed.reply), (Some(SessionClosedRequireSaslAuth), Reply::Sasl(None)));
    assert_eq!(world.heard(bob), ["closed"]);
}

#[test]
fn a_session_that_moved_is_refused_as_moved_by_an_authenticated_connection() {
    let mut world = world(|auth| auth.required = vec![AuthScheme::Sasl]);
    let bob = world.connect();
    log_in(&mut world, bob, "bob");
    let session = world.session(bob);
    assert!(world.control(|core| core.move_session(session)));
    assert_eq!(world.refusal(bob, get_data("/")), ErrorCode::SessionMoved);
}

#[test]
fn users_and_keys_stay_out_of_debug_output() {
    let mut config = CoreConfig::default();
    let users = HashMap::from([("bob".to_owned(), UserKey::new("bob", "secret"))]);
    config.auth.sasl_server = Some(SaslServer::new(users, [77; 32]));
    let shown = format!("{config:?} {:?}", config.auth);
    assert!(shown.contains("users: 1") && !shown.contains("77") && !shown.contains("bob"), "{shown}");
}

#[test]
fn every_scheme_is_known_by_its_name() {
    for scheme in AuthScheme::ALL {
        assert_eq!(AuthScheme::from_name(scheme.name()), Some(scheme));
    }
    assert_eq!(AuthScheme::from_name("world"), None);
    assert_eq!(OpCode::Sasl.code(), 102);
}
