//! Endpoints of an ensemble that die or lose the leader: who is served there, and what becomes of sessions.

use bytes::Bytes;
use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{ErrorCode, Request, SessionId, Xid, Zxid};
use zoolet_server_core::{ConnId, EndpointView, Ensemble, Millis};

use crate::common::*;

/// Two endpoints with a connection at the first and a znode `/a` with the data `old`. The second endpoint is cut off.
fn partitioned() -> (World<Ensemble>, ConnId) {
    let mut world = World::ensemble(2);
    let a = world.connect_at(0);
    world.ok(a, create("/a").data("old"));
    world.control(|ensemble| ensemble.set_read_only(1, true));
    (world, a)
}

/// The connect request of a client for which a read-only server will do.
fn content() -> ConnectRequest {
    ConnectRequest { read_only: Some(true), ..new_session() }
}

fn resume_with(session: SessionId) -> ConnectRequest {
    ConnectRequest { session, password: Some(password_of(session)), ..content() }
}

/// A connection at the second endpoint, which is read-only, with a session that only that one knows.
fn reader(world: &mut World<Ensemble>) -> ConnId {
    let conn = world.socket_at(1);
    world.hello(conn, content());
    assert!(!world.take_welcome(conn).is_refusal());
    conn
}

fn view(world: &World<Ensemble>, at: usize) -> EndpointView {
    world.core.endpoints().nth(at).expect("an endpoint")
}

#[test]
fn an_endpoint_that_is_cut_off_closes_its_connections_and_their_sessions_live_on() {
    let mut world = World::ensemble(2);
    let a = world.connect_at(1);
    let session = world.session(a);
    world.ok(a, ephemeral("/e"));
    world.control(|ensemble| ensemble.set_read_only(1, true));
    assert_eq!(world.heard(a), ["closed"]);
    let a = world.resume_at(0, session);
    assert_eq!(world.ok(a, get_ephemerals(None)).names(), ["/e"]);
}

#[test]
fn only_who_is_content_with_reading_is_served_by_an_endpoint_that_is_cut_off() {
    let (mut world, _) = partitioned();
    for read_only in [None, Some(false)] {
        let conn = world.socket_at(1);
        world.hello(conn, ConnectRequest { read_only, ..new_session() });
        assert_eq!(world.heard(conn), ["closed"]);
    }
    let conn = world.socket_at(1);
    world.hello(conn, content());
    let session = world.session(conn);
    let expected = ConnectResponse {
        protocol_version: 0,
        timeout: TIMEOUT,
        session,
        password: password_of(session),
        read_only: Some(true),
    };
    assert_eq!(world.take_welcome(conn), expected);
    assert!(world.core.leader().sessions().get(session).is_none(), "nobody else knows it");
}

#[test]
fn no_two_servers_of_an_ensemble_give_out_the_same_session_id() {
    let mut world = World::ensemble(3);
    let global = world.connect_at(0);
    let mut servers = vec![world.session(global).0 >> 56];
    for at in 0..3 {
        world.control(|ensemble| ensemble.set_read_only(at, true));
        let conn = world.socket_at(at);
        world.hello(conn, content());
        servers.push(world.session(conn).0 >> 56);
    }
    assert_eq!(servers, [1, 2, 3, 4]);
}

#[test]
fn an_endpoint_that_is_not_cut_off_is_not_read_only_to_who_would_be_content_with_it() {
    let mut world = World::ensemble(2);
    let conn = world.socket_at(1);
    world.hello(conn, content());
    assert_eq!(world.take_welcome(conn).read_only, Some(false));
    world.ok(conn, create("/a"));
}

#[test]
fn a_read_only_endpoint_shows_what_it_had_when_it_was_cut_off() {
    let (mut world, a) = partitioned();
    let cut_off_at = world.zxid();
    world.ok(a, set_data("/a", "new"));
    let conn = reader(&mut world);
    let answer = world.ok(conn, get_data("/a").watch());
    assert_eq!((answer.data().as_deref(), answer.zxid), (Some(&b"old"[..]), cut_off_at));
    world.send_as(conn, Xid::PING, Request::Ping);
    assert_eq!(world.heard(conn), ["reply"], "the watch does not fire");
    assert_eq!(view(&world, 1).behind, 1);
}

#[test]
fn a_read_only_endpoint_refuses_writes_and_sync_and_nothing_takes_a_zxid() {
    let (mut world, _) = partitioned();
    let conn = reader(&mut world);
    let before = world.zxid();
    let requests = [
        create("/b"),
        ephemeral("/e"),
        delete("/a"),
        set_data("/a", "x"),
        set_acl("/a", vec![]),
        multi([create("/b")]),
        sync("/"),
        Request::CreateSession(5_000),
    ];
    for request in requests {
        let answer = world.ask(conn, request);
        assert_eq!((answer.error, answer.zxid), (Some(ErrorCode::NotReadOnly), before));
    }
    assert_eq!(world.zxid(), before);
    world.ok(conn, exists("/a"));
}

#[test]
fn a_read_only_endpoint_does_not_take_who_has_seen_more() {
    let (mut world, a) = partitioned();
    let seen = Zxid(world.ok(a, set_data("/a", "new")).zxid);
    let conn = world.socket_at(1);
    world.hello(conn, ConnectRequest { last_zxid_seen: seen, ..content() });
    assert_eq!(world.heard(conn), ["closed"]);
}

#[test]
fn a_read_only_endpoint_closes_who_brings_a_session_of_the_leaders_and_leaves_that_alone() {
    let (mut world, a) = partitioned();
    let session = world.session(a);
    let conn = world.socket_at(1);
    world.hello(conn, resume_with(session));
    assert_eq!(world.heard(conn), ["closed"]);
    world.ok(a, exists("/a"));
}

#[test]
fn a_session_of_a_read_only_endpoint_is_resumed_there_and_nowhere_else() {
    let (mut world, _) = partitioned();
    let first = reader(&mut world);
    let session = world.session(first);
    let second = world.socket_at(1);
    world.hello(second, resume_with(session));
    assert_eq!(world.take_welcome(second).session, session);
    assert_eq!(world.heard(first), ["closed"]);

    let thief = world.socket_at(1);
    let password = Some(Bytes::from_static(&[0; 16]));
    world.hello(thief, ConnectRequest { password, ..resume_with(session) });
    let refused = [Told::Welcome(ConnectResponse::refusal(Some(true))), Told::Closed];
    assert_eq!(world.told(thief), refused);
    assert_eq!(world.heard(second), ["closed"]);

    let elsewhere = world.socket_at(0);
    world.hello(elsewhere, resume_with(session));
    assert_eq!(world.heard(elsewhere), ["refused", "closed"]);
}

#[test]
fn a_session_of_a_read_only_endpoint_expires_there() {
    let (mut world, _) = partitioned();
    let (quiet, loud) = (reader(&mut world), reader(&mut world));
    for _ in 0..4 {
        world.advance(4_000);
        world.ok(loud, exists("/"));
    }
    assert_eq!(world.heard(quiet), ["closed"]);
    let session = world.session(loud);
    world.cut(loud);
    world.advance(12_000);
    let again = world.socket_at(1);
    world.hello(again, resume_with(session));
    assert_eq!(world.heard(again), ["refused", "closed"]);
}

#[test]
fn a_session_of_a_read_only_endpoint_can_be_closed() {
    let (mut world, _) = partitioned();
    let conn = reader(&mut world);
    let (session, before) = (world.session(conn), world.zxid());
    assert_eq!(world.ok(conn, Request::CloseSession).zxid, before);
    assert_eq!(world.heard(conn), ["closed"]);
    let again = world.socket_at(1);
    world.hello(again, resume_with(session));
    assert_eq!(world.heard(again), ["refused", "closed"]);
}

#[test]
fn nothing_is_said_to_who_asks_a_read_only_endpoint_before_its_handshake_or_says_nothing_at_all() {
    let (mut world, _) = partitioned();
    let (early, silent) = (world.socket_at(1), world.socket_at(1));
    world.send(early, exists("/"));
    assert_eq!(world.heard(early), ["closed"]);
    world.advance(20_000);
    assert_eq!(world.heard(silent), ["closed"]);
    let twice = reader(&mut world);
    world.hello(twice, content());
    assert_eq!(world.heard(twice), ["closed"]);
}

#[test]
fn an_endpoint_that_finds_the_leader_again_closes_its_readers_and_catches_up() {
    let (mut world, a) = partitioned();
    world.ok(a, set_data("/a", "new"));
    let conn = reader(&mut world);
    let session = world.session(conn);
    world.ok(conn, get_data("/a").watch());
    world.control(|ensemble| ensemble.set_read_only(1, false));
    assert_eq!(world.heard(conn), ["closed"]);
    let refused = world.socket_at(1);
    world.hello(refused, resume_with(session));
    assert_eq!(world.heard(refused), ["refused", "closed"]);
    let conn = world.connect_at(1);
    assert_eq!(world.ok(conn, get_data("/a")).data().as_deref(), Some(&b"new"[..]));

    world.control(|ensemble| ensemble.set_read_only(1, true));
    let later = reader(&mut world);
    assert_ne!(world.session(later), session, "ids are not given out again");
    let refused = world.socket_at(1);
    world.hello(refused, resume_with(session));
    assert_eq!(world.heard(refused), ["refused", "closed"]);
}

#[test]
fn the_sessions_of_a_read_only_endpoint_do_not_outlast_a_restart() {
    let (mut world, _) = partitioned();
    let conn = reader(&mut world);
    let (session, now) = (world.session(conn), Millis(world.now()));
    world.control(|ensemble| ensemble.restart(now));
    assert!(view(&world, 1).read_only);
    let refused = world.socket_at(1);
    world.hello(refused, resume_with(session));
    assert_eq!(world.heard(refused), ["refused", "closed"]);
}

#[test]
fn an_endpoint_that_is_cut_off_twice_notices_it_once() {
    let (mut world, a) = partitioned();
    let conn = reader(&mut world);
    world.control(|ensemble| ensemble.set_read_only(1, true));
    world.control(|ensemble| ensemble.set_read_only(0, false));
    world.ok(conn, exists("/"));
    world.ok(a, exists("/"));
}

#[test]
fn the_sessions_of_an_endpoint_that_is_cut_off_expire_at_the_leader() {
    let mut world = World::ensemble(2);
    let (a, b) = (world.connect_at(0), world.connect_at(1));
    world.ok(b, ephemeral("/e"));
    world.ok(a, exists("/e").watch());
    world.control(|ensemble| ensemble.set_read_only(1, true));
    for _ in 0..3 {
        world.advance(4_000);
        world.send_as(a, Xid::PING, Request::Ping);
    }
    assert_eq!(world.events(a), ["deleted /e"]);
    let conn = reader(&mut world);
    world.ok(conn, exists("/e"));
}

#[test]
fn a_dead_endpoint_has_no_connections_and_takes_none() {
    let mut world = World::ensemble(2);
    let (a, silent) = (world.connect_at(1), world.socket_at(1));
    world.control(|ensemble| ensemble.kill(1));
    assert_eq!((world.heard(a), world.heard(silent)), (vec!["closed".into()], vec!["closed".into()]));
    let late = world.socket_at(1);
    assert_eq!(world.heard(late), ["closed"]);
    world.hello(late, new_session());
    assert_eq!(world.heard(late), [] as [String; 0]);
}

#[test]
fn the_death_of_an_endpoint_loses_no_answered_write_and_no_session() {
    let mut world = World::ensemble(2);
    let a = world.connect_at(0);
    let session = world.session(a);
    let answered = world.ok(a, ephemeral("/e")).zxid;
    world.control(|ensemble| ensemble.kill(0));
    let a = world.resume_at(1, session);
    let shown = world.stat(a, "/e");
    assert_eq!((shown.czxid.0, shown.ephemeral_owner), (answered, session));
}

#[test]
fn a_write_that_a_dying_endpoint_has_not_answered_may_have_been_carried_out() {
    let mut world = World::ensemble(2);
    let a = world.connect_at(0);
    let session = world.session(a);
    world.control(|ensemble| ensemble.lag(0));
    world.send(a, create("/a"));
    world.control(|ensemble| ensemble.kill(0));
    assert_eq!(world.heard(a), ["closed"]);
    let a = world.resume_at(1, session);
    world.ok(a, exists("/a"));
}

#[test]
fn an_endpoint_that_is_revived_has_the_tree_it_had_and_catches_up() {
    let mut world = World::ensemble(2);
    let (a, b) = (world.connect_at(0), world.connect_at(1));
    world.ok(b, exists("/").watch());
    world.control(|ensemble| ensemble.kill(1));
    world.ok(a, create("/a"));
    assert_eq!((view(&world, 1).behind, view(&world, 1).alive), (1, false));
    world.control(|ensemble| ensemble.revive(1));
    assert_eq!((view(&world, 1).behind, view(&world, 1).zxid.0), (0, world.zxid()));
    assert!(world.core.endpoint(1).watches().is_empty());
    let b = world.connect_at(1);
    world.ok(b, exists("/a"));
}

#[test]
fn an_endpoint_that_is_revived_while_it_lags_is_as_far_behind_as_it_was() {
    let mut world = World::ensemble(2);
    let a = world.connect_at(0);
    world.control(|ensemble| ensemble.lag(1));
    let seen = world.ok(a, create("/a")).zxid;
    world.control(|ensemble| ensemble.kill(1));
    assert_eq!(world.control(|ensemble| ensemble.apply_next(1, 9)), 0, "a dead endpoint applies nothing");
    world.control(|ensemble| ensemble.revive(1));
    let expected =
        EndpointView { zxid: Zxid(seen - 1), behind: 1, lagging: true, read_only: false, alive: true };
    assert_eq!(view(&world, 1), expected);
    assert_eq!(world.control(|ensemble| ensemble.apply_next(1, 9)), 1);
    assert_eq!(view(&world, 1).behind, 0);
}

#[test]
fn an_endpoint_that_is_cut_off_catches_up_only_when_it_finds_the_leader_again() {
    let (mut world, a) = partitioned();
    world.ok(a, create("/b"));
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.control(|ensemble| ensemble.apply_next(1, 1)), 0);
    assert_eq!(view(&world, 1).behind, 1);
    world.control(|ensemble| ensemble.kill(1));
    world.control(|ensemble| ensemble.revive(1));
    assert!(view(&world, 1).read_only);
    world.control(|ensemble| ensemble.set_read_only(1, false));
    assert_eq!(view(&world, 1).behind, 0);
}
