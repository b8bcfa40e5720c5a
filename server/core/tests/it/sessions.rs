//! How sessions begin, move, expire and end, and what their passwords are worth.

use bytes::Bytes;
use zoolet_proto::records::{ConnectRequest, ConnectResponse, SaslToken};
use zoolet_proto::{ErrorCode, Request, SessionId, Zxid};
use zoolet_server_core::{EXPIRED_AT_ONCE, StateMachine};

use crate::common::*;

#[test]
fn the_timeout_is_clamped_between_two_and_twenty_ticks() {
    for (asked, granted) in
        [(1, 4_000), (-5, 4_000), (i32::MIN, 4_000), (10_000, 10_000), (1_000_000_000, 40_000)]
    {
        let mut world = World::new();
        let a = world.socket();
        world.hello(a, ConnectRequest { timeout: asked, ..new_session() });
        assert_eq!(world.take_welcome(a).timeout, granted, "asked for {asked}");
    }
}

#[test]
fn the_bounds_of_the_timeout_can_be_set() {
    let mut world = World::with(|config| {
        config.min_session_timeout = Some(500);
        config.max_session_timeout = Some(700);
    });
    for (asked, granted) in [(1, 500), (600, 600), (800, 700)] {
        let a = world.socket();
        world.hello(a, ConnectRequest { timeout: asked, ..new_session() });
        assert_eq!(world.take_welcome(a).timeout, granted);
    }
}

#[test]
fn a_welcome_says_what_was_negotiated_and_mirrors_the_read_only_byte() {
    for (sent, answered) in [(None, None), (Some(false), Some(false)), (Some(true), Some(false))] {
        let mut world = World::new();
        let a = world.socket();
        world.hello(a, ConnectRequest { read_only: sent, protocol_version: 7, ..new_session() });
        let session = world.session(a);
        let expected = ConnectResponse {
            protocol_version: 0,
            timeout: TIMEOUT,
            session,
            password: password_of(session),
            read_only: answered,
        };
        assert_eq!(world.take_welcome(a), expected);

        let b = world.socket();
        world.hello(b, ConnectRequest { session: SessionId(7), read_only: sent, ..new_session() });
        let received = world.received(b);
        let refusal = ConnectResponse::refusal(sent.map(|_| false));
        assert_eq!(received, [Received::Welcome(refusal), Received::Closed]);
    }
}

#[test]
fn session_ids_carry_the_server_id_and_rise_by_one() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    assert_eq!(world.session(a).0 >> 56, 1);
    assert_eq!(world.session(b).0, world.session(a).0 + 1);
}

#[test]
fn a_client_that_has_seen_more_than_the_server_is_cut_off_and_its_session_left_alone() {
    let mut world = World::new();
    let a = world.connect();
    let session = world.session(a);
    let password = Some(password_of(session));
    let ahead = Zxid(world.zxid() + 1);
    let b = world.socket();
    world.hello(b, ConnectRequest { last_zxid_seen: ahead, session, password, ..new_session() });
    assert_eq!(world.heard(b), ["closed"]);
    world.ok(a, exists("/"));

    for seen in [Zxid(world.zxid()), Zxid(-1), Zxid(i64::MIN)] {
        let c = world.socket();
        world.hello(c, ConnectRequest { last_zxid_seen: seen, ..new_session() });
        assert!(!world.take_welcome(c).is_refusal(), "{seen}");
    }
}

#[test]
fn a_session_moves_to_the_newest_connection_and_the_old_one_is_closed_without_a_word() {
    let mut world = World::new();
    let a = world.connect();
    let session = world.session(a);
    world.ok(a, ephemeral("/e"));
    let b = world.resume(session);
    assert_eq!(world.heard(a), ["closed"]);
    world.send(a, create("/too-late"));
    assert_eq!(world.heard(a), [] as [String; 0]);
    assert_eq!(world.ok(b, get_ephemerals(None)).names(), ["/e"]);
    assert_eq!(world.refusal(b, exists("/too-late")), ErrorCode::NoNode);
    world.cut(a);
    assert_eq!(world.session(b), session, "the old connection's end does not detach the new one");
    world.ok(b, exists("/e"));
}

#[test]
fn the_timeout_is_negotiated_again_when_a_session_moves() {
    let mut world = World::new();
    let a = world.connect();
    let session = world.session(a);
    let b = world.socket();
    let password = Some(password_of(session));
    world.hello(b, ConnectRequest { session, password, timeout: 20_000, ..new_session() });
    assert_eq!(world.take_welcome(b).timeout, 20_000);
    world.advance(19_000);
    world.ok(b, exists("/"));
}

#[test]
fn a_wrong_password_cuts_the_rightful_connection_but_not_the_session() {
    for password in [None, Some(Bytes::from_static(&[0; 16])), Some(Bytes::from_static(&[0; 5]))] {
        let mut world = World::new();
        let a = world.connect();
        let session = world.session(a);
        world.ok(a, ephemeral("/e"));
        let before = world.zxid();
        let thief = world.socket();
        world.hello(thief, ConnectRequest { session, password, ..new_session() });
        assert_eq!(world.heard(thief), ["refused", "closed"]);
        assert_eq!(world.heard(a), ["closed"]);
        let a = world.resume(session);
        world.ok(a, exists("/e"));
        assert_eq!(world.zxid(), before);
    }
}

#[test]
fn sessions_that_are_unknown_closed_or_expired_are_refused() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    let (closed, expired) = (world.session(a), world.session(b));
    world.ok(a, Request::CloseSession);
    world.expire(expired);
    for session in [closed, expired, SessionId(1), SessionId(-1)] {
        let c = world.socket();
        let password = Some(password_of(session));
        world.hello(c, ConnectRequest { session, password, ..new_session() });
        assert_eq!(world.heard(c), ["refused", "closed"]);
    }
}

#[test]
fn close_session_deletes_its_ephemerals_under_its_own_zxid_and_ends_the_connection() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    world.ok(a, ephemeral("/e1"));
    world.ok(a, ephemeral("/e2"));
    world.ok(b, ephemeral("/other"));
    world.znodes(a, &["/stays"]);
    let closed = world.ok(a, Request::CloseSession);
    assert_eq!(closed.zxid, world.zxid());
    assert_eq!(world.heard(a), ["closed"]);
    assert_eq!(world.stat(b, "/").pzxid.0, closed.zxid);
    assert_eq!(world.ok(b, get_children("/")).names(), ["other", "stays", "zookeeper"]);
    world.send(a, create("/late"));
    assert_eq!(world.refusal(b, exists("/late")), ErrorCode::NoNode);
}

#[test]
fn a_session_outlives_its_connection_until_it_expires() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    let session = world.session(a);
    world.ok(a, ephemeral("/e"));
    world.cut(a);
    world.advance(8_000);
    world.ok(b, exists("/e"));
    let a = world.resume(session);
    world.cut(a);
    for _ in 0..3 {
        world.advance(4_000);
        world.send(b, Request::Ping);
    }
    assert_eq!(world.refusal(b, exists("/e")), ErrorCode::NoNode);
}

#[test]
fn a_silent_session_expires_at_the_first_tick_after_its_timeout_never_earlier() {
    for late in [0, 1, 700, TICK - 1] {
        let mut world = World::new();
        world.advance(late);
        let a = world.connect();
        let session = world.session(a);
        world.advance(i64::from(TIMEOUT) - 1);
        assert!(world.core.sessions().get(session).is_some(), "{late}");
        let deadline = world.core.sessions().get(session).expect("a session").deadline.0;
        assert_eq!(deadline, (START + late + i64::from(TIMEOUT)) / TICK * TICK + TICK);
        world.advance(deadline - world.now() - 1);
        assert!(world.core.sessions().get(session).is_some(), "{late}");
        world.advance(1);
        assert!(world.core.sessions().get(session).is_none(), "{late}");
        assert_eq!(world.heard(a), ["closed"], "no message says so");
    }
}

#[test]
fn an_expiry_takes_a_zxid_deletes_ephemerals_and_notifies_the_others() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    world.ok(a, ephemeral("/e"));
    world.ok(b, exists("/e").watch());
    let before = world.zxid();
    while world.core.sessions().len() == 2 {
        world.advance(1_000);
        world.send(b, Request::Ping);
    }
    assert_eq!(world.zxid(), before + 1);
    let events: Vec<_> = world.events(b);
    assert_eq!(events, ["deleted /e"]);
}

#[test]
fn every_request_but_auth_and_sasl_keeps_a_session_alive() {
    let keeps = |request: fn() -> Request| {
        let mut world = World::new();
        let a = world.connect();
        let session = world.session(a);
        for _ in 0..5 {
            world.advance(4_000);
            world.send(a, request());
        }
        world.core.sessions().get(session).is_some()
    };
    assert!(keeps(|| Request::Ping));
    assert!(keeps(|| get_data("/none")));
    assert!(keeps(|| set_data("/none", "x")));
    assert!(keeps(|| sync("/")));
    assert!(keeps(|| set_watches(0, &[], &[], &[])));
    assert!(keeps(|| Request::WhoAmI));
    assert!(!keeps(|| auth("digest", "u:p")));
    assert!(!keeps(|| Request::Sasl(SaslToken(Some(Bytes::new())))));
}

#[test]
fn a_request_that_waited_for_its_turn_still_counts() {
    let mut world = World::new();
    let a = world.connect();
    let session = world.session(a);
    let deadline = world.core.sessions().get(session).expect("a session").deadline;
    // The driver takes the inputs of a turn first and looks at the timers then, at one and the same time.
    let ping = zoolet_proto::Incoming { xid: zoolet_proto::Xid::PING, op: 11, body: Ok(Request::Ping) };
    world.core.handle(deadline, a, zoolet_server_core::Input::Request(ping));
    world.core.handle_timeout(deadline);
    assert!(world.core.sessions().get(session).is_some());
}

#[test]
fn sessions_of_one_deadline_expire_together() {
    let mut world = World::new();
    let a = world.connect();
    world.advance(900);
    let b = world.connect();
    world.advance(12_000 - 900);
    assert!(world.core.sessions().is_empty());
    assert_eq!((world.heard(a), world.heard(b)), (vec!["closed".into()], vec!["closed".into()]));
}

#[test]
fn many_sessions_of_one_deadline_expire_in_several_calls() {
    let mut world = World::new();
    let sessions = 2 * EXPIRED_AT_ONCE + 2;
    let conns: Vec<_> = (0..sessions).map(|_| world.connect()).collect();
    world.ok(conns[0], create("/a"));
    for n in 0..EXPIRED_AT_ONCE {
        world.ok(conns[0], ephemeral(&format!("/a/{n}")));
    }
    // The first takes a call for itself, as it has many ephemerals.
    assert_eq!(world.advance_in_parts(20_000), 4);
    assert_eq!(world.core.sessions().len(), 0);
    assert!(conns.into_iter().all(|conn| world.heard(conn).ends_with(&["closed".to_owned()])));
}

#[test]
fn a_connection_without_a_session_is_closed_after_ten_to_twenty_seconds() {
    let mut world = World::new();
    world.advance(1);
    let a = world.socket();
    world.advance(9_999);
    assert_eq!(world.heard(a), [] as [String; 0]);
    world.advance(10_001);
    assert_eq!(world.heard(a), ["closed"]);
    let b = world.connect();
    for _ in 0..10 {
        world.advance(4_000);
        world.ok(b, exists("/"));
    }
}

#[test]
fn nothing_is_said_to_a_connection_that_asks_before_its_handshake_or_shakes_twice() {
    let mut world = World::new();
    let a = world.socket();
    world.send(a, exists("/"));
    assert_eq!(world.heard(a), ["closed"]);
    let b = world.connect();
    let session = world.session(b);
    world.hello(b, new_session());
    assert_eq!(world.heard(b), ["closed"]);
    world.resume(session);
}

#[test]
fn inputs_of_connections_that_are_gone_do_nothing() {
    let mut world = World::new();
    let a = world.connect();
    world.cut(a);
    world.cut(a);
    world.send(a, create("/a"));
    world.hello(a, new_session());
    assert_eq!(world.heard(a), [] as [String; 0]);
    assert_eq!(world.zxid(), 1);
}

#[test]
fn a_client_that_creates_a_session_on_its_session_is_welcomed_again() {
    let mut world = World::new();
    let a = world.connect();
    let session = world.session(a);
    let before = world.zxid();
    world.send(a, Request::CreateSession(10_000));
    assert_eq!(world.take_welcome(a).session, session);
    assert_eq!(world.zxid(), before + 1);
    world.ok(a, exists("/"));
}

#[test]
fn sessions_can_be_bounded() {
    let mut world = World::with(|config| config.max_sessions = Some(2));
    let a = world.connect();
    world.connect();
    let c = world.socket();
    world.hello(c, new_session());
    assert_eq!(world.heard(c), ["closed"]);
    world.ok(a, Request::CloseSession);
    world.connect();
}

#[test]
fn expiring_a_session_that_does_not_live_says_so() {
    let mut world = World::new();
    assert!(!world.core.expire(zoolet_server_core::Millis(START), SessionId(7)));
    assert_eq!(world.zxid(), 0);
}
