//! Several endpoints on one tree: what each shows while it follows or lags, and how sessions move between them.

use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{ErrorCode, Perms, Request, SessionId, Xid, Zxid};
use zoolet_server_core::{ConnId, Ensemble, Millis};

use crate::common::*;

const NOTHING: [String; 0] = [];

/// Two endpoints with a connection each, and a znode `/a` with the data `old`. The second endpoint lags.
fn lagging() -> (World<Ensemble>, ConnId, ConnId) {
    let mut world = World::ensemble(2);
    let (a, b) = (world.connect_at(0), world.connect_at(1));
    world.ok(a, create("/a").data("old"));
    world.control(|ensemble| ensemble.lag(1));
    (world, a, b)
}

fn visible(world: &World<Ensemble>, at: usize) -> i64 {
    world.core.endpoint(at).tree().last_zxid().0
}

fn resume_request(session: SessionId, seen: i64) -> ConnectRequest {
    let password = Some(password_of(session));
    ConnectRequest { session, password, last_zxid_seen: Zxid(seen), ..new_session() }
}

#[test]
fn what_one_endpoint_has_answered_every_other_shows_at_once() {
    let mut world = World::ensemble(3);
    let conns = [world.connect_at(0), world.connect_at(1), world.connect_at(2)];
    world.ok(conns[2], create("/a").data("x"));
    for conn in conns {
        assert_eq!(world.ok(conn, get_data("/a")).data().as_deref(), Some(&b"x"[..]));
    }
}

#[test]
fn zxids_are_one_order_over_all_endpoints() {
    let mut world = World::ensemble(3);
    let conns = [world.connect_at(0), world.connect_at(1), world.connect_at(2)];
    for expected in 4..13 {
        let answer = world.ask(conns[expected % 3], create("/a"));
        assert_eq!(answer.zxid, expected as i64);
    }
    assert!(world.txns.iter().map(|txn| txn.zxid.0).eq(1..=12));
}

#[test]
fn a_lagging_endpoint_answers_with_what_it_has_and_sync_mends_that() {
    let (mut world, a, b) = lagging();
    let before = world.zxid();
    world.ok(a, set_data("/a", "new"));
    let stale = world.ok(b, get_data("/a"));
    assert_eq!((stale.data().as_deref(), stale.zxid), (Some(&b"old"[..]), before));

    let synced = world.send(b, sync("/"));
    let read = world.send(b, get_data("/a"));
    assert_eq!(world.heard(b), NOTHING);
    world.control(|ensemble| ensemble.catch_up(1));
    let told = world.told(b);
    let [Told::Answer(first), Told::Answer(second)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((first.xid, second.xid), (synced, read));
    assert_eq!((second.data().as_deref(), second.zxid), (Some(&b"new"[..]), before + 1));
}

#[test]
fn sync_waits_for_what_the_leader_had_when_it_was_asked_and_for_no_more() {
    let (mut world, a, b) = lagging();
    let first = world.ok(a, set_data("/a", "1")).zxid;
    world.send(b, sync("/a"));
    world.ok(a, set_data("/a", "2"));
    assert_eq!(world.control(|ensemble| ensemble.apply_next(1, 1)), 1);
    let told = world.told(b);
    assert!(matches!(&told[..], [Told::Answer(answer)] if answer.zxid == first), "{told:?}");
}

#[test]
fn a_write_at_a_lagging_endpoint_is_carried_out_and_its_answer_waits() {
    let (mut world, a, b) = lagging();
    world.send(b, create("/b"));
    assert_eq!(world.heard(b), NOTHING);
    world.ok(a, exists("/b"));
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.heard(b), ["reply"]);
}

#[test]
fn a_read_waits_for_the_writes_before_it_on_its_connection_and_for_nobody_elses() {
    let (mut world, a, b) = lagging();
    let elsewhere = world.connect_at(0);
    let session = world.session(elsewhere);
    let other = world.resume_at(1, session);
    let own = world.send(b, set_data("/a", "own"));
    let read = world.send(b, get_data("/a"));
    world.ok(a, set_data("/a", "later"));
    assert_eq!(world.heard(b), NOTHING);
    assert_eq!(world.ok(other, get_data("/a")).data().as_deref(), Some(&b"old"[..]));

    // The session of `other` is the first thing it has missed.
    assert_eq!(world.control(|ensemble| ensemble.apply_next(1, 2)), 2);
    let told = world.told(b);
    let [Told::Answer(write), Told::Answer(shown)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((write.xid, shown.xid), (own, read));
    assert_eq!(
        shown.data().as_deref(),
        Some(&b"own"[..]),
        "the read is answered before the next write is visible"
    );
}

#[test]
fn answers_leave_in_the_order_of_requests_however_little_is_applied_at_a_time() {
    let (mut world, a, b) = lagging();
    let mut asked = Vec::new();
    for round in 0..5 {
        asked.push(world.send(b, set_data("/a", "x")));
        asked.push(world.send(b, get_data("/a")));
        world.ok(a, set_data("/a", "y"));
        asked.push(world.send(b, auth("digest", "u:p")));
        asked.push(world.send(b, if round % 2 == 0 { sync("/") } else { delete("/none") }));
    }
    let mut answered = Vec::new();
    while world.control(|ensemble| ensemble.apply_next(1, 1)) == 1 {
        answered.extend(world.told(b).into_iter().map(|told| match told {
            Told::Answer(answer) => answer.xid,
            other => panic!("{other:?}"),
        }));
    }
    assert_eq!(answered, asked);
}

#[test]
fn a_watch_at_a_lagging_endpoint_fires_when_that_catches_up_and_before_the_reply_that_shows_the_change() {
    let (mut world, a, b) = lagging();
    world.ok(a, set_data("/a", "new"));
    assert_eq!(world.ok(b, get_data("/a").watch()).data().as_deref(), Some(&b"old"[..]));
    world.send(b, sync("/"));
    world.send(b, get_data("/a"));
    assert_eq!(world.heard(b), NOTHING);
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.heard(b), ["data /a", "reply", "reply"]);
    assert_eq!(world.heard(a), NOTHING, "the watch is that connection's alone");
}

#[test]
fn set_watches_at_a_lagging_endpoint_tells_what_was_missed_as_far_as_that_has_come() {
    let (mut world, a, b) = lagging();
    world.ok(a, set_data("/a", "new"));
    world.ok(b, set_watches(visible(&world, 1), &["/a"], &[], &[]));
    assert_eq!(world.events(b), NOTHING);
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.events(b), ["data /a"]);
}

#[test]
fn the_ephemerals_of_an_expired_session_vanish_at_a_lagging_endpoint_when_that_catches_up() {
    let mut world = World::ensemble(2);
    let (a, b) = (world.connect_at(0), world.connect_at(1));
    let session = world.session(a);
    world.ok(a, ephemeral("/e"));
    world.ok(b, exists("/e").watch());
    world.control(|ensemble| ensemble.lag(1));
    world.expire(session);
    assert_eq!(world.heard(a), ["closed"]);
    world.ok(b, exists("/e"));
    assert_eq!(world.events(b), NOTHING);
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.events(b), ["deleted /e"]);
    assert_eq!(world.refusal(b, exists("/e")), ErrorCode::NoNode);
}

#[test]
fn a_lagging_endpoint_closes_the_connection_of_an_expired_session_when_it_hears_of_that() {
    let (mut world, a, b) = lagging();
    let session = world.session(b);
    world.expire(session);
    assert_eq!(world.heard(b), NOTHING);
    world.ok(b, get_data("/a"));
    world.send(b, create("/too-late"));
    world.send(b, get_data("/a"));
    assert_eq!(world.heard(b), NOTHING);
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.heard(b), ["closed"]);
    assert_eq!(world.refusal(a, exists("/too-late")), ErrorCode::NoNode);
}

#[test]
fn a_new_session_at_a_lagging_endpoint_waits_for_its_welcome_with_what_was_asked_behind_it() {
    let (mut world, _, _) = lagging();
    let c = world.socket_at(1);
    world.hello(c, new_session());
    world.send(c, get_data("/a"));
    world.send(c, create("/c"));
    assert_eq!(world.heard(c), NOTHING);
    assert_eq!(world.core.session_of(c), None);
    assert_eq!(world.control(|ensemble| ensemble.apply_next(1, 1)), 1);
    assert_eq!(world.heard(c), ["welcome", "reply"]);
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.heard(c), ["reply"]);
}

#[test]
fn a_connection_that_waits_for_its_welcome_is_not_closed_for_having_no_session() {
    let (mut world, _, _) = lagging();
    let c = world.socket_at(1);
    world.hello(c, new_session());
    for _ in 0..6 {
        world.advance(4_000);
        world.send_as(c, Xid::PING, Request::Ping);
    }
    assert_eq!(world.heard(c), NOTHING);
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.heard(c)[..2], ["welcome", "reply"]);
}

#[test]
fn a_refusal_that_takes_no_zxid_shows_none_that_is_not_visible() {
    let (mut world, a, b) = lagging();
    let newest = world.ok(a, set_data("/a", "new")).zxid;
    world.send_frame(b, &Body::new().byte(1).frame(Xid(900), 1));
    assert_eq!(world.heard(b), NOTHING);
    world.control(|ensemble| ensemble.catch_up(1));
    let told = world.told(b);
    let [Told::Answer(answer)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((answer.error, answer.zxid), (Some(ErrorCode::MarshallingError), newest));
}

#[test]
fn who_has_seen_more_than_an_endpoint_is_closed_there_without_an_answer_and_taken_elsewhere() {
    let (mut world, a, _) = lagging();
    let session = world.session(a);
    let seen = world.ok(a, set_data("/a", "new")).zxid;
    world.cut(a);
    let refused = world.socket_at(1);
    world.hello(refused, resume_request(session, seen));
    assert_eq!(world.heard(refused), ["closed"]);

    let taken = world.socket_at(0);
    world.hello(taken, resume_request(session, seen));
    assert_eq!(world.take_welcome(taken).session, session);

    world.control(|ensemble| ensemble.catch_up(1));
    let taken_too = world.socket_at(1);
    world.hello(taken_too, resume_request(session, seen));
    assert_eq!(world.take_welcome(taken_too).session, session);
}

#[test]
fn a_session_moves_with_its_ephemerals_and_without_its_watches_and_its_old_connection_is_closed() {
    let mut world = World::ensemble(2);
    let (a, b) = (world.connect_at(0), world.connect_at(1));
    let session = world.session(a);
    world.ok(a, ephemeral("/e"));
    world.refusal(a, exists("/x").watch());
    let moved = world.resume_at(1, session);
    assert_eq!(world.heard(a), ["closed"]);
    assert!(world.core.endpoint(0).watches().is_empty());
    assert_eq!(world.core.endpoint_of(moved), Some(1));
    assert_eq!(world.ok(moved, get_ephemerals(None)).names(), ["/e"]);
    world.ok(b, create("/x"));
    assert_eq!(world.events(moved), NOTHING);
    world.send(a, create("/late"));
    assert_eq!(world.refusal(b, exists("/late")), ErrorCode::NoNode);
}

#[test]
fn a_session_can_be_resumed_at_an_endpoint_that_has_not_heard_of_it() {
    let (mut world, _, _) = lagging();
    let c = world.connect_at(0);
    let session = world.session(c);
    let c = world.resume_at(1, session);
    world.ok(c, get_data("/a"));
    world.control(|ensemble| ensemble.catch_up(1));
    world.ok(c, create("/c"));
    world.expire(session);
    assert_eq!(world.heard(c), ["closed"]);
}

#[test]
fn what_a_connection_was_owed_is_lost_when_its_session_moves_but_its_writes_are_carried_out() {
    let (mut world, _, b) = lagging();
    let session = world.session(b);
    world.send(b, ephemeral("/e"));
    let moved = world.resume_at(0, session);
    assert_eq!(world.heard(b), ["closed"]);
    assert_eq!(world.ok(moved, get_ephemerals(None)).names(), ["/e"]);
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.heard(b), NOTHING);
}

#[test]
fn a_wrong_password_cuts_the_rightful_connection_at_whichever_endpoint_it_is() {
    let mut world = World::ensemble(2);
    let a = world.connect_at(0);
    let session = world.session(a);
    let thief = world.socket_at(1);
    world.hello(thief, ConnectRequest { password: None, ..resume_request(session, 0) });
    assert_eq!(
        (world.heard(thief), world.heard(a)),
        (vec!["refused".into(), "closed".into()], vec!["closed".into()])
    );
    world.resume_at(1, session);
}

#[test]
fn an_identity_counts_for_writes_and_reads_and_events() {
    let mut world = World::ensemble(2);
    let (a, b) = (world.connect_at(0), world.connect_at(1));
    world.ok(a, auth("digest", "u:p"));
    world.ok(a, create("/secret").acl(only(Perms::ALL, "auth", "")));
    for request in [get_data("/secret"), set_data("/secret", "x")] {
        assert_eq!(world.refusal(b, request), ErrorCode::NoAuth);
    }
    world.ok(b, auth("digest", "u:p"));
    world.ok(b, set_data("/secret", "x"));
    world.ok(b, get_data("/secret").watch());
    world.ok(a, set_data("/secret", "y"));
    assert_eq!(world.events(b), ["data /secret"]);
}

#[test]
fn a_false_identity_costs_the_connection_behind_what_it_is_owed() {
    let (mut world, a, b) = lagging();
    let session = world.session(b);
    world.send(b, create("/b"));
    world.send(b, auth("world", "x"));
    world.send(b, create("/too-late"));
    assert_eq!(world.heard(b), NOTHING);
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.heard(b), ["reply", "AuthFailed", "closed"]);
    assert_eq!(world.refusal(a, exists("/too-late")), ErrorCode::NoNode);
    world.resume_at(0, session);
}

#[test]
fn an_opcode_that_is_none_costs_the_connection_behind_what_it_is_owed() {
    let (mut world, a, b) = lagging();
    world.send(b, create("/b"));
    world.send_frame(b, &Body::new().frame(Xid(900), 99));
    world.send(b, create("/too-late"));
    assert_eq!(world.heard(b), NOTHING);
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.heard(b), ["reply", "Unimplemented", "closed"]);
    assert_eq!(world.refusal(a, exists("/too-late")), ErrorCode::NoNode);
}

#[test]
fn a_session_is_closed_at_a_lagging_endpoint_in_its_turn() {
    let (mut world, a, b) = lagging();
    world.send(b, ephemeral("/e"));
    world.send(b, get_data("/e").watch());
    world.send(b, Request::CloseSession);
    world.send(b, create("/too-late"));
    assert_eq!(world.heard(b), NOTHING);
    assert_eq!(world.refusal(a, exists("/e")), ErrorCode::NoNode);
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.heard(b), ["reply", "reply", "deleted /e", "reply", "closed"]);
    assert_eq!(world.refusal(a, exists("/too-late")), ErrorCode::NoNode);
}

#[test]
fn pings_at_a_lagging_endpoint_keep_the_session_alive_and_show_what_is_visible_there() {
    let (mut world, a, b) = lagging();
    let session = world.session(b);
    let before = visible(&world, 1);
    for _ in 0..5 {
        world.advance(4_000);
        world.ok(a, set_data("/a", "x"));
        world.send_as(b, Xid::PING, Request::Ping);
        let told = world.told(b);
        assert!(matches!(&told[..], [Told::Answer(answer)] if answer.zxid == before), "{told:?}");
    }
    assert!(world.core.leader().sessions().get(session).is_some());
}

#[test]
fn a_session_expires_wherever_it_is_attached() {
    let mut world = World::ensemble(3);
    let (a, b) = (world.connect_at(1), world.connect_at(2));
    world.ok(a, ephemeral("/e"));
    world.ok(b, exists("/e").watch());
    for _ in 0..4 {
        world.advance(4_000);
        world.send_as(b, Xid::PING, Request::Ping);
    }
    assert_eq!(world.heard(a), ["closed"]);
    assert_eq!(world.events(b), ["deleted /e"]);
}

#[test]
fn a_connection_without_a_session_is_closed_in_time_at_every_endpoint() {
    let mut world = World::ensemble(2);
    world.control(|ensemble| ensemble.lag(1));
    let conns = [world.socket_at(0), world.socket_at(1)];
    world.advance(20_000);
    assert_eq!(conns.map(|conn| world.heard(conn)), [["closed"], ["closed"]]);
}

#[test]
fn who_asks_before_its_handshake_or_shakes_twice_is_closed() {
    let mut world = World::ensemble(2);
    let a = world.socket_at(1);
    world.send(a, exists("/"));
    assert_eq!(world.heard(a), ["closed"]);
    let b = world.connect_at(1);
    world.hello(b, new_session());
    assert_eq!(world.heard(b), ["closed"]);
}

#[test]
fn who_shakes_twice_is_closed_behind_what_it_is_owed() {
    for seen in [0, i64::MAX] {
        let (mut world, a, b) = lagging();
        world.send(b, create("/b"));
        world.hello(b, ConnectRequest { last_zxid_seen: Zxid(seen), ..new_session() });
        world.send(b, create("/too-late"));
        assert_eq!(world.heard(b), NOTHING);
        world.control(|ensemble| ensemble.catch_up(1));
        assert_eq!(world.heard(b), ["reply", "closed"]);
        assert_eq!(world.refusal(a, exists("/too-late")), ErrorCode::NoNode);
    }
}

#[test]
fn a_connection_can_be_cut_while_it_is_owed_answers() {
    let (mut world, a, b) = lagging();
    let session = world.session(b);
    world.send(b, create("/b"));
    world.send(b, get_data("/b").watch());
    assert!(world.control(|ensemble| ensemble.disconnect(session)));
    assert_eq!(world.heard(b), ["closed"]);
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.heard(b), NOTHING);
    assert!(world.core.endpoint(1).watches().is_empty(), "the read was never carried out");
    world.ok(a, exists("/b"));
}

#[test]
fn a_session_that_has_moved_away_is_told_so_at_its_endpoint() {
    for request in [get_data("/"), create("/moved")] {
        let mut world = World::ensemble(2);
        let a = world.connect_at(1);
        let session = world.session(a);
        assert!(world.control(|ensemble| ensemble.move_session(session)));
        assert_eq!(world.refusal(a, request), ErrorCode::SessionMoved);
        assert_eq!(world.heard(a), ["closed"]);
        let a = world.resume_at(0, session);
        assert_eq!(world.refusal(a, exists("/moved")), ErrorCode::NoNode);
        assert!(!world.control(|ensemble| ensemble.move_session(SessionId(7))));
    }
}

#[test]
fn a_session_can_be_renewed() {
    let mut world = World::ensemble(2);
    let a = world.connect_at(1);
    let session = world.session(a);
    for _ in 0..4 {
        world.advance(9_000);
        let now = Millis(world.now());
        assert!(world.control(|ensemble| ensemble.renew(now, session)));
    }
    world.ok(a, exists("/"));
}

#[test]
fn a_restart_keeps_sessions_and_what_each_endpoint_has_seen() {
    let (mut world, a, b) = lagging();
    let session = world.session(b);
    world.ok(a, set_data("/a", "new"));
    world.send(b, ephemeral("/e"));
    let now = Millis(world.now());
    world.control(|ensemble| ensemble.restart(now));
    for conn in [a, b] {
        world.send(conn, get_data("/a"));
        assert_eq!(world.heard(conn), NOTHING);
    }
    let b = world.resume_at(1, session);
    assert_eq!(world.ok(b, get_data("/a")).data().as_deref(), Some(&b"old"[..]));
    world.control(|ensemble| ensemble.catch_up(1));
    assert_eq!(world.ok(b, get_data("/a")).data().as_deref(), Some(&b"new"[..]));
    assert_eq!(world.ok(b, get_ephemerals(None)).names(), ["/e"]);
}
