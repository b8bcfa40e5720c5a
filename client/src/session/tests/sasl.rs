//! The SASL exchange: when it happens, and every way in which it fails.

use zoolet_proto::digest_md5::{UserKey, challenge, judge};
use zoolet_proto::records::SaslToken;

use super::*;
use crate::session::SaslCredentials;

const NONCE: &str = "nonce";

fn credentials() -> Option<SaslCredentials> {
    Some(SaslCredentials::new("bob".to_owned(), "secret".to_owned()))
}

fn harness() -> Harness {
    Harness::new(SessionSettings { sasl: credentials(), ..settings() })
}

/// The xid and the token that are all that was sent.
fn token(harness: &mut Harness) -> (i32, Bytes) {
    match &mut harness.incoming()[..] {
        [Incoming { xid, body: Ok(Request::Sasl(SaslToken(Some(token)))), .. }] => (xid.0, token.clone()),
        other => panic!("no token but {other:?}"),
    }
}

fn answer(harness: &mut Harness, xid: i32, token: Option<&str>) {
    harness.reply(xid, 0, Reply::Sasl(token.map(|token| Bytes::copy_from_slice(token.as_bytes()))));
}

/// Sends the challenge. Returns the xid of the response, and what confirms it.
fn challenged(harness: &mut Harness) -> (i32, String) {
    let (xid, first) = token(harness);
    assert!(first.is_empty());
    answer(harness, xid, Some(&challenge(NONCE)));
    let (xid, response) = token(harness);
    let user = judge(NONCE, &response, |_| Some(UserKey::new("bob", "secret"))).expect("the right password");
    assert_eq!(user.name, "bob");
    (xid, user.rspauth)
}

fn authenticated(harness: &mut Harness) {
    let (xid, rspauth) = challenged(harness);
    answer(harness, xid, Some(&rspauth));
}

#[test]
fn everything_waits_until_the_exchange_is_over_on_every_connection() {
    let mut harness = Harness::new(SessionSettings {
        sasl: credentials(),
        auths: vec![match auth("u:p") {
            Request::Auth(packet) => packet,
            _ => unreachable!(),
        }],
        ..settings()
    });
    harness.connect();
    let mut read = harness.call(get_watched("/w"));
    assert_eq!(harness.state(), SessionState::Connecting);
    let (xid, rspauth) = challenged(&mut harness);
    assert_eq!((xid, harness.state()), (2, SessionState::Connecting));
    assert!(harness.frames().is_empty());
    answer(&mut harness, xid, Some(&rspauth));
    let sent: Vec<_> = harness.incoming();
    assert_eq!(sent.iter().map(|sent| sent.xid.0).collect::<Vec<_>>(), [-4, 3]);
    harness.reply(Xid::AUTH.0, 0, Reply::Empty);
    assert_eq!(harness.state(), SessionState::Connected);
    harness.reply(3, 40, data());
    let _watch = read.watch();

    harness.cut();
    let _write = harness.call(set("/new"));
    harness.connect();
    assert_eq!(harness.state(), SessionState::Disconnected);
    let (xid, rspauth) = challenged(&mut harness);
    assert_eq!(xid, 5, "numbers go on");
    answer(&mut harness, xid, Some(&rspauth));
    assert_eq!(harness.sent(), [auth("u:p"), set_watches(40, &["/w"]), set("/new")]);
    assert_eq!(harness.state(), SessionState::Connected);
}

/// How the session ends after `fail`, and with which error.
fn ends(fail: impl FnOnce(&mut Harness)) -> String {
    let mut harness = harness();
    harness.connect();
    let mut call = harness.call(get("/a"));
    fail(&mut harness);
    assert_eq!(
        (harness.state(), harness.session.wanted_link()),
        (SessionState::AuthFailed, WantedLink::Over)
    );
    assert!(harness.frames().is_empty(), "nothing follows");
    let error = call.error();
    assert!(matches!(error, Error::AuthFailed(_)) && !error.may_have_applied(), "{error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
    error.to_string()
}

#[test]
fn a_refusal_in_any_form_ends_the_session() {
    let refused = |code: ErrorCode| {
        move |harness: &mut Harness| {
            let (xid, _) = challenged(harness);
            let header = ReplyHeader::error(Xid(xid), Zxid(0), code);
            harness.frame(|out| Reply::Sasl(None).encode_frame(header, out));
        }
    };
    let error = ends(refused(ErrorCode::AuthFailed));
    assert_eq!(
        error,
        "getData /a: authentication failed; the server refused the user of SASL or the password"
    );
    assert!(ends(refused(ErrorCode::SessionClosedRequireSaslAuth)).contains("requires SASL"));
    assert!(ends(refused(ErrorCode::Unimplemented)).contains("refused SASL"));
    for null in [1, 2] {
        let error = ends(|harness| {
            let xid = if null == 1 { token(harness).0 } else { challenged(harness).0 };
            answer(harness, xid, None);
        });
        assert!(error.contains("has no users of SASL, or refused"), "{error}");
    }
}

#[test]
fn a_server_that_does_not_prove_to_know_the_password_is_refused() {
    for wrong in ["", "rspauth=", "rspauth=00000000000000000000000000000000", "garbage"] {
        let error = ends(|harness| {
            let (xid, _) = challenged(harness);
            answer(harness, xid, Some(wrong));
        });
        assert!(error.contains("did not prove that it knows the password"), "{error}");
    }
}

#[test]
fn a_challenge_of_another_kind_is_refused() {
    for wrong in ["", "rspauth=00", "realm=\"x\"", &challenge(NONCE).replace("md5-sess", "other")] {
        let error = ends(|harness| {
            let (xid, _) = token(harness);
            answer(harness, xid, Some(wrong));
        });
        assert!(error.contains("the challenge of the server for SASL"), "{error}");
    }
}

#[test]
fn the_user_may_be_refused_on_a_later_connection() {
    let mut harness = harness();
    harness.connect();
    authenticated(&mut harness);
    assert_eq!(harness.state(), SessionState::Connected);
    harness.cut();
    harness.connect();
    let (xid, _) = challenged(&mut harness);
    harness.refuse_at(xid, 0, ErrorCode::AuthFailed);
    assert_eq!(harness.state(), SessionState::AuthFailed);
}

#[test]
fn a_server_that_stays_silent_in_the_exchange_is_left_in_time() {
    for silent_at in [1, 2] {
        let mut harness = harness();
        harness.connect();
        if silent_at == 2 {
            challenged(&mut harness);
        }
        harness.frames();
        let began = harness.now;
        while harness.session.wanted_link() == WantedLink::Up {
            harness.now = harness.session.next_timeout().expect("a deadline");
            harness.session.handle_timeout(harness.now);
            assert!(harness.frames().is_empty(), "not even a ping");
        }
        assert!(harness.now - began <= TIMEOUT / 2, "{:?}", harness.now - began);
        harness.connect();
        authenticated(&mut harness);
        assert_eq!(harness.state(), SessionState::Connected);
    }
}

#[test]
fn an_answer_out_of_order_is_no_answer() {
    for xid in [-4, -2, 0, 2] {
        let mut harness = harness();
        harness.connect();
        token(&mut harness);
        answer(&mut harness, xid, Some(&challenge(NONCE)));
        assert_eq!(harness.session.wanted_link(), WantedLink::Down, "{xid}");
    }
}

#[test]
fn a_session_that_is_lost_in_the_exchange_is_asked_for_again() {
    let mut harness = harness();
    harness.connect();
    let (xid, _) = challenged(&mut harness);
    harness.refuse_at(xid, 0, ErrorCode::SessionExpired);
    assert_eq!(harness.session.wanted_link(), WantedLink::Down);
    assert_eq!(harness.state(), SessionState::Connecting);
}

#[test]
fn a_close_in_the_exchange_waits_for_its_end() {
    let mut harness = harness();
    harness.connect();
    let mut closed = harness.close();
    authenticated(&mut harness);
    assert_eq!(harness.sent(), [Request::CloseSession]);
    harness.reply(harness.last_xid(), 1, Reply::Empty);
    assert!(closed.outcome().expect("an outcome").is_ok());
    assert_eq!(harness.state(), SessionState::Closed);
}

#[test]
fn the_same_seed_sends_the_same_tokens_and_each_connection_another() {
    let response = |harness: &mut Harness| {
        harness.connect();
        let (xid, _) = token(harness);
        answer(harness, xid, Some(&challenge(NONCE)));
        token(harness).1
    };
    let [mut one, mut same] = [harness(), harness()];
    let first = response(&mut one);
    assert_eq!(first, response(&mut same));
    one.cut();
    assert_ne!(first, response(&mut one));
}

#[test]
fn a_ping_that_is_refused_for_want_of_an_identity_ends_the_connection() {
    let mut harness = Harness::up();
    harness.pass(THIRD);
    let contact = harness.shared.last_contact();
    harness.refuse_at(Xid::PING.0, 0, ErrorCode::SessionClosedRequireSaslAuth);
    assert_eq!(harness.state(), SessionState::Disconnected);
    assert_eq!(harness.shared.last_contact(), contact, "it kept nothing alive");
}

#[test]
fn the_password_is_not_shown() {
    let shown = format!("{:?}", crate::Client::options().sasl_digest_md5("bob", "secret"));
    assert!(shown.contains("bob") && !shown.contains("secret"), "{shown}");
}
