//! Which requests take a zxid, and what the header of each reply says.

use zoolet_proto::{Acl, ErrorCode, OpCode, Perms, Request, SessionId, Xid, records::Reconfig};

use crate::common::*;

/// Sends a request and returns how many zxids it takes; the reply header must have the last of them.
fn taken_by(world: &mut World, conn: zoolet_server_core::ConnId, request: Request) -> i64 {
    let before = world.zxid();
    let answer = world.ask(conn, request);
    assert_eq!(answer.zxid, world.zxid(), "the header of {answer:?}");
    world.zxid() - before
}

#[test]
fn the_first_session_is_zxid_one() {
    let mut world = World::new();
    assert_eq!(world.zxid(), 0);
    let a = world.connect();
    assert_eq!(world.zxid(), 1);
    assert_eq!(world.ok(a, exists("/")).zxid, 1);
}

#[test]
fn every_write_takes_one_whether_it_succeeds_or_not() {
    let mut world = World::with(|config| config.extended_types = true);
    let a = world.connect();
    world.znodes(a, &["/n", "/n/child"]);
    for (what, request, error) in [
        ("create", create("/a"), None),
        ("create", create("/a"), Some(ErrorCode::NodeExists)),
        ("create2", create2("/b"), None),
        ("create2", create2("/b"), Some(ErrorCode::NodeExists)),
        ("container", container("/c"), None),
        ("container", container("/c"), Some(ErrorCode::NodeExists)),
        ("ttl", create_ttl("/t", 5, 1000), None),
        ("ttl", create_ttl("/t", 5, 0), Some(ErrorCode::BadArguments)),
        ("set", set_data("/a", "x"), None),
        ("set", set_data("/a", "x").version(9), Some(ErrorCode::BadVersion)),
        ("set", set_data("relative", "x"), Some(ErrorCode::BadArguments)),
        ("set_acl", set_acl("/a", Acl::open()), None),
        ("set_acl", set_acl("/a", vec![]), Some(ErrorCode::InvalidAcl)),
        ("delete", delete("/b"), None),
        ("delete", delete("/b"), Some(ErrorCode::NoNode)),
        ("delete", delete("/n"), Some(ErrorCode::NotEmpty)),
        ("delete_container", delete_container("/c"), None),
        ("delete_container", delete_container("/c"), Some(ErrorCode::NoNode)),
        ("unknown flags", create("/f").flags(7), Some(ErrorCode::BadArguments)),
    ] {
        let before = world.zxid();
        let answer = world.ask(a, request);
        assert_eq!((answer.error, answer.zxid), (error, before + 1), "{what}");
        assert_eq!(world.zxid(), before + 1, "{what}");
    }
}

#[test]
fn a_multi_takes_one_for_all_its_parts_also_when_it_has_none_or_fails() {
    let mut world = World::new();
    let a = world.connect();
    for parts in [
        vec![],
        vec![create("/a"), create("/b"), set_data("/a", "x"), check("/b", 0)],
        vec![create("/c"), delete("/none")],
    ] {
        assert_eq!(taken_by(&mut world, a, multi(parts)), 1);
    }
}

#[test]
fn reads_and_watch_requests_take_none_and_show_the_last_one() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    world.znodes(a, &["/a"]);
    for request in [
        exists("/a").watch(),
        exists("/none").watch(),
        get_data("/a"),
        get_data("/none"),
        get_acl("/a"),
        get_children("/"),
        get_children2("/"),
        get_all_children_number("/"),
        get_ephemerals(None),
        sync("/"),
        multi_read([get_data("/a"), get_children("/none")]),
        add_watch("/a", PERSISTENT),
        add_watch("/a", 7),
        check_watches("/a", 4),
        check_watches("/none", 1),
        remove_watches("/a", 3),
        set_watches(0, &[], &[], &[]),
        set_persistent_watches(0, &["/a"], &[]),
        Request::WhoAmI,
    ] {
        world.ok(b, set_data("/a", "by another session"));
        assert_eq!(taken_by(&mut world, a, request), 0);
    }
}

#[test]
fn a_session_takes_one_to_begin_and_one_to_end_but_none_to_move() {
    let mut world = World::new();
    let a = world.connect();
    let session = world.session(a);
    let before = world.zxid();
    let a = world.resume(session);
    assert_eq!(world.zxid(), before, "a session that moves");
    let stranger = world.socket();
    world.hello(stranger, zoolet_proto::records::ConnectRequest { session: SessionId(77), ..new_session() });
    assert_eq!(world.heard(stranger), ["refused", "closed"]);
    assert_eq!(world.zxid(), before, "a session refused");

    assert_eq!(world.ok(a, Request::CloseSession).zxid, before + 1);
    let b = world.connect();
    world.expire(world.session(b));
    assert_eq!(world.zxid(), before + 3, "one session opened and expired");
}

#[test]
fn a_write_that_does_not_decode_takes_none_but_a_multi_does() {
    let mut world = World::new();
    let a = world.connect();
    for (op, takes) in [
        (OpCode::Create, 0),
        (OpCode::Create2, 0),
        (OpCode::CreateContainer, 0),
        (OpCode::CreateTtl, 0),
        (OpCode::Delete, 0),
        (OpCode::SetData, 0),
        (OpCode::SetAcl, 0),
        (OpCode::Reconfig, 0),
        (OpCode::Multi, 1),
        (OpCode::DeleteContainer, 0),
        (OpCode::MultiRead, 0),
        (OpCode::GetData, 0),
        (OpCode::SetWatches, 0),
    ] {
        let before = world.zxid();
        let answer = world.ask_raw(a, op.code(), Body::new().int(1_000_000));
        assert_eq!(answer.error, Some(ErrorCode::MarshallingError), "{op:?}");
        assert_eq!((answer.zxid, world.zxid()), (before + takes, before + takes), "{op:?}");
    }
}

#[test]
fn a_null_path_takes_one_where_a_write_gets_as_far_as_its_checks() {
    let mut world = World::new();
    let a = world.connect();
    let create = || Body::new().null().bytes(b"").open_acl().int(0);
    for (op, body, error, takes) in [
        (OpCode::Create, create(), ErrorCode::MarshallingError, 1),
        (OpCode::Create2, create(), ErrorCode::MarshallingError, 1),
        (OpCode::Delete, Body::new().null().int(-1), ErrorCode::MarshallingError, 1),
        (OpCode::DeleteContainer, Body::new().null(), ErrorCode::MarshallingError, 0),
        (OpCode::CreateSession, Body::new(), ErrorCode::MarshallingError, 1),
        (OpCode::SetData, Body::new().null().bytes(b"").int(-1), ErrorCode::BadArguments, 1),
        (OpCode::SetAcl, Body::new().null().open_acl().int(-1), ErrorCode::BadArguments, 1),
        (OpCode::GetData, Body::new().null().byte(0), ErrorCode::MarshallingError, 0),
        (OpCode::Exists, Body::new().null().byte(0), ErrorCode::MarshallingError, 0),
        (OpCode::GetChildren, Body::new().null().byte(0), ErrorCode::MarshallingError, 0),
        (OpCode::GetAcl, Body::new().null(), ErrorCode::MarshallingError, 0),
    ] {
        let before = world.zxid();
        let answer = world.ask_raw(a, op.code(), body);
        assert_eq!((answer.error, answer.zxid), (Some(error), before + takes), "{op:?}");
    }
}

#[test]
fn a_null_is_found_before_bytes_that_do_not_decode() {
    let mut world = World::new();
    let a = world.connect();
    for (op, error) in
        [(OpCode::SetAcl, ErrorCode::BadArguments), (OpCode::Create, ErrorCode::MarshallingError)]
    {
        let before = world.zxid();
        let answer = world.ask_raw(a, op.code(), Body::new().null().int(1_000_000));
        assert_eq!((answer.error, answer.zxid), (Some(error), before + 1), "{op:?}");
    }
}

#[test]
fn a_multi_with_a_null_acl_takes_none_though_it_is_refused() {
    let mut world = World::new();
    let a = world.connect();
    let before = world.zxid();
    let body = Body::new().part(1).text("/a").bytes(b"").null().int(0).end();
    let answer = world.ask_raw(a, OpCode::Multi.code(), body);
    assert_eq!((answer.error, answer.zxid), (Some(ErrorCode::MarshallingError), before));

    let bad_flags = || Body::new().part(1).text("/b").bytes(b"");
    for parts in [bad_flags().null().int(9), bad_flags().open_acl().int(9).append(&bad_flags().null().int(0))]
    {
        let answer = world.ask_raw(a, OpCode::Multi.code(), parts.end());
        assert_eq!(answer.error, Some(ErrorCode::MarshallingError));
        assert_eq!(answer.zxid, world.txns.len() as i64, "flags are looked at first, and take one");
    }
    assert_eq!(world.zxid(), before + 2);
}

#[test]
fn reconfig_is_refused_for_one() {
    let reconfig =
        || Request::Reconfig(Reconfig { joining: None, leaving: None, new_members: None, config: -1 });
    for (enabled, code) in [(false, ErrorCode::ReconfigDisabled), (true, ErrorCode::Unimplemented)] {
        let mut world = World::with(|config| config.reconfig_enabled = enabled);
        let a = world.connect();
        let answer = world.ask(a, reconfig());
        assert_eq!((answer.error, answer.zxid), (Some(code), 2));
        assert_eq!(world.ok(a, exists("/")).zxid, 2);
    }
}

#[test]
fn auth_is_answered_with_zxid_zero_and_an_unknown_opcode_with_minus_one() {
    let mut world = World::new();
    let a = world.connect();
    assert_eq!(world.ok(a, auth("digest", "u:p")).zxid, 0);
    assert_eq!(world.ok(a, Request::Sasl(zoolet_proto::records::SaslToken(Some(b"x"[..].into())))).zxid, 0);
    let answer = world.ask_raw(a, 99, Body::new());
    assert_eq!((answer.error, answer.zxid), (Some(ErrorCode::Unimplemented), -1));
    assert_eq!(world.heard(a), ["closed"]);
    assert_eq!(world.zxid(), 1);
}

#[test]
fn xids_are_echoed_whatever_they_are_except_that_a_ping_is_always_minus_two() {
    let mut world = World::new();
    let a = world.connect();
    for xid in [1, 0, -77, -1, -2, -4, -8, i32::MAX, i32::MIN] {
        world.send_as(a, Xid(xid), exists("/"));
        world.send_as(a, Xid(xid), auth("ip", ""));
        world.send_as(a, Xid(xid), set_watches(0, &[], &[], &[]));
        world.send_as(a, Xid(xid), Request::Ping);
        let xids: Vec<i32> = world
            .received(a)
            .into_iter()
            .map(|received| match received {
                Received::Answer(answer) => answer.xid.0,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(xids, [xid, xid, xid, -2]);
    }
}

#[test]
fn transactions_are_dense_and_leave_in_order() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    world.znodes(a, &["/a"]);
    world.ask(b, create("/a"));
    world.ask(b, multi([create("/b"), create("/a")]));
    world.ask(a, set_acl("/a", anyone(Perms::READ)));
    world.ask(a, Request::CloseSession);
    world.expire(world.session(b));
    let zxids: Vec<i64> = world.txns.iter().map(|txn| txn.zxid.0).collect();
    assert_eq!(zxids, (1..=8).collect::<Vec<_>>());
}
