//! The control operations of a core: restarting it, renewing, disconnecting and moving sessions.

use zoolet_proto::WatchKind;
use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{ErrorCode, Request, SessionId, Xid, Zxid};
use zoolet_server_core::{Core, Effects, Millis, StateMachine};

use crate::common::*;

fn restart(world: &mut World) {
    let now = Millis(world.now());
    world.core.restart(now);
}

#[test]
fn a_restart_keeps_znodes_and_sessions_and_forgets_connections_and_watches_without_a_word() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    let session = world.session(a);
    world.znodes(a, &["/a"]);
    world.ok(a, ephemeral("/e"));
    world.ok(b, get_data("/a").watch());
    let silent = world.socket();
    let before = world.zxid();

    restart(&mut world);
    assert!(world.core.watches().is_empty());
    for conn in [a, b, silent] {
        world.send(conn, exists("/"));
        assert_eq!(world.heard(conn), [] as [String; 0]);
    }
    assert_eq!(world.core.sessions().get(session).and_then(|session| session.conn), None);
    let a = world.resume(session);
    assert_eq!(world.ok(a, get_ephemerals(None)).names(), ["/e"]);
    assert_eq!(world.zxid(), before);
    assert_eq!(world.ok(a, create("/next")).zxid, before + 1);
    world.advance(30_000);
    assert_eq!(world.heard(silent), [] as [String; 0]);
}

#[test]
fn a_restart_renews_every_session_for_its_whole_timeout() {
    let mut world = World::new();
    let a = world.connect();
    let session = world.session(a);
    world.advance(9_000);
    restart(&mut world);
    world.advance(i64::from(TIMEOUT) - 1);
    assert!(world.core.sessions().get(session).is_some());
    world.advance(TICK + 1);
    assert!(world.core.sessions().get(session).is_none());
}

#[test]
fn no_session_id_comes_again_after_a_restart_whatever_the_clock_says() {
    for ahead in [0, 1, 100_000] {
        let mut world = World::new();
        let conns = [world.connect(), world.connect(), world.connect()];
        let ids = conns.map(|conn| world.session(conn));
        for id in ids {
            world.expire(id);
        }
        world.advance(ahead);
        restart(&mut world);
        let conn = world.connect();
        let id = world.session(conn);
        assert!(ids.iter().all(|old| *old < id), "{id} after {ids:?}, {ahead} ms later");
    }
}

#[test]
fn a_restart_begins_the_interval_of_the_sweeps_anew() {
    let mut world = World::new();
    let a = world.connect();
    world.ok(a, container("/c"));
    world.ok(a, create("/c/x"));
    world.ok(a, delete("/c/x"));
    world.advance(50_000);
    restart(&mut world);
    world.advance(59_999);
    assert_eq!(world.paths_below("/"), ["/c", "/zookeeper"]);
    world.advance(1);
    assert_eq!(world.paths_below("/"), ["/zookeeper"]);
}

#[test]
fn transactions_that_are_not_taken_yet_survive_a_restart_and_messages_do_not() {
    let mut world = World::new();
    let a = world.connect();
    let incoming = zoolet_proto::Incoming { xid: Xid(1), op: 1, body: Ok(create("/a")) };
    world.core.handle(Millis(START), a, zoolet_server_core::Input::Request(incoming));
    restart(&mut world);
    let effects = world.core.take_effects();
    assert_eq!(effects.txns.len(), 1);
    assert!(effects.outbound.is_empty());
}

#[test]
fn reused_effects_are_not_repeated_and_no_new_one_is_lost() {
    let mut world = World::new();
    let a = world.connect();
    let write = |core: &mut Core, path| {
        let incoming = zoolet_proto::Incoming { xid: Xid(1), op: 1, body: Ok(create(path)) };
        core.handle(Millis(START), a, zoolet_server_core::Input::Request(incoming));
    };
    let counts = |effects: &Effects| (effects.txns.len(), effects.outbound.len());
    write(&mut world.core, "/a");
    let first = world.core.take_effects();
    world.core.reuse(first);
    write(&mut world.core, "/b");
    let second = world.core.take_effects();
    assert_eq!(counts(&second), (1, 1));
    write(&mut world.core, "/c");
    world.core.reuse(second);
    assert_eq!(counts(&world.core.take_effects()), (1, 1));
}

#[test]
fn a_session_that_is_renewed_does_not_expire() {
    let mut world = World::new();
    let a = world.connect();
    let session = world.session(a);
    for _ in 0..5 {
        world.advance(9_000);
        let now = Millis(world.now());
        assert!(world.core.renew(now, session));
    }
    world.ok(a, exists("/"));
    world.advance(12_000);
    assert!(!world.core.renew(Millis(world.now()), session), "it has expired");
    assert!(!world.core.renew(Millis(world.now()), SessionId(7)));
}

#[test]
fn a_disconnected_session_stays_alive_and_can_be_resumed() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    let session = world.session(a);
    world.ok(a, ephemeral("/e"));
    assert!(world.core.disconnect(session));
    world.ok(b, exists("/e"));
    assert_eq!(world.heard(a), ["closed"]);
    assert!(!world.core.disconnect(session), "it has no connection any more");
    assert!(!world.core.disconnect(SessionId(7)));
    let a = world.resume(session);
    world.ok(a, exists("/e"));
}

#[test]
fn the_next_request_of_a_moved_session_fails_and_its_connection_is_closed() {
    let mut world = World::new();
    let b = world.connect();
    for request in [exists("/"), create("/moved"), multi([create("/moved")]), sync("/"), Request::WhoAmI] {
        let a = world.connect();
        let session = world.session(a);
        assert!(world.core.move_session(session));
        assert_eq!(world.heard(a), [] as [String; 0], "nothing is said before a request");
        let what = format!("{request:?}");
        assert_eq!(world.refusal(a, request), ErrorCode::SessionMoved, "{what}");
        assert_eq!(world.heard(a), ["closed"]);
        assert_eq!(world.refusal(b, exists("/moved")), ErrorCode::NoNode);
        let a = world.resume(session);
        world.ok(a, exists("/"));
    }
}

#[test]
fn a_write_refused_because_its_session_has_moved_takes_a_zxid_and_a_read_takes_none() {
    let mut world = World::new();
    for (request, taken) in [(set_data("/", "x"), 1), (get_data("/"), 0)] {
        let a = world.connect();
        world.core.move_session(world.session(a));
        let before = world.zxid();
        let answer = world.ask(a, request);
        assert_eq!((answer.zxid, world.zxid()), (before + taken, before + taken));
    }
}

#[test]
fn a_ping_of_a_session_that_has_moved_is_refused_under_the_number_of_pings() {
    let mut world = World::new();
    let a = world.connect();
    world.core.move_session(world.session(a));
    world.send_as(a, Xid(77), Request::Ping);
    let received = world.received(a);
    let [Received::Answer(answer), Received::Closed] = &received[..] else { panic!("{received:?}") };
    assert_eq!((answer.xid, answer.error), (Xid::PING, Some(ErrorCode::SessionMoved)));
}

#[test]
fn a_session_that_has_moved_can_be_resumed_before_it_asks_again_and_can_be_closed() {
    let mut world = World::new();
    let a = world.connect();
    let session = world.session(a);
    world.core.move_session(session);
    world.ok(a, auth("digest", "u:p"));
    let b = world.resume(session);
    assert_eq!(world.heard(a), ["closed"]);
    world.ok(b, exists("/"));

    world.core.move_session(session);
    world.ok(b, Request::CloseSession);
    assert!(world.core.sessions().get(session).is_none());
}

#[test]
fn only_a_session_with_a_connection_can_move() {
    let mut world = World::new();
    let a = world.connect();
    let session = world.session(a);
    world.cut(a);
    assert!(!world.core.move_session(session));
    assert!(!world.core.move_session(SessionId(7)));
    let b = world.socket();
    let password = Some(password_of(session));
    world.hello(b, ConnectRequest { session, password, last_zxid_seen: Zxid(1), ..new_session() });
    world.take_welcome(b);
    world.ok(b, exists("/"));
}

#[test]
fn the_watch_table_lists_every_watch() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    world.znodes(a, &["/a"]);
    world.ok(b, add_watch("/a", RECURSIVE));
    world.ok(a, get_children("/a").watch());
    world.ok(a, get_data("/a").watch());
    world.ok(a, add_watch("/", PERSISTENT));
    let seen: Vec<_> =
        world.core.watches().iter().map(|watch| (watch.path, watch.conn, watch.kind)).collect();
    let expected = [
        ("/", a, WatchKind::Persistent),
        ("/a", a, WatchKind::Data),
        ("/a", a, WatchKind::Child),
        ("/a", b, WatchKind::Recursive),
    ];
    assert_eq!(seen, expected);
}
