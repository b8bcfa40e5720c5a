//! What each kind of create makes: modes, sequential names, data.

use zoolet_proto::{ErrorCode, OpCode, Request, SessionId};

use crate::common::*;

#[test]
fn flags_choose_the_kind_of_znode() {
    let mut world = World::new();
    let a = world.connect();
    let owner = world.session(a);
    for (flags, name, expected) in [
        (0, "/p", SessionId(0)),
        (1, "/e", owner),
        (2, "/ps-0000000002", SessionId(0)),
        (3, "/es-0000000003", owner),
        (4, "/c", SessionId(0)),
    ] {
        let asked = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let created = world.ok(a, create2(asked).flags(flags));
        assert_eq!((created.path(), created.stat().ephemeral_owner), (name, expected), "flags {flags}");
    }
}

#[test]
fn a_create_answers_with_the_path_and_a_create2_with_the_stat_as_well() {
    let mut world = World::new();
    let a = world.connect();
    assert_eq!(world.ok(a, create("/a")).reply, zoolet_proto::Reply::Created("/a".into()));
    let stat = world.ok(a, create2("/b")).stat();
    assert_eq!(stat, world.stat(a, "/b"));
    let stat = world.ok(a, container("/c")).stat();
    assert_eq!(stat, world.stat(a, "/c"));
}

#[test]
fn null_data_stays_null_and_empty_data_empty() {
    let mut world = World::new();
    let a = world.connect();
    world.ok(a, create("/empty"));
    world.ask_raw(a, OpCode::Create.code(), Body::new().text("/null").null().open_acl().int(0));
    let (empty, null) = (world.ok(a, get_data("/empty")), world.ok(a, get_data("/null")));
    assert_eq!(empty.data().as_deref(), Some(&b""[..]));
    assert_eq!(null.data(), None);
    assert_eq!((empty.stat().data_length, null.stat().data_length), (0, 0));
    world.ask_raw(a, OpCode::SetData.code(), Body::new().text("/empty").null().int(-1));
    assert_eq!(world.ok(a, get_data("/empty")).data(), None);
}

#[test]
fn a_sequential_name_has_the_number_of_creates_below_the_parent_so_far() {
    let mut world = World::new();
    let a = world.connect();
    world.znodes(a, &["/p", "/p/a", "/p/b"]);
    world.ok(a, delete("/p/a"));
    assert_eq!(world.ok(a, sequential("/p/s-")).path(), "/p/s-0000000002");
    assert_eq!(world.refusal(a, create("/p/b")), ErrorCode::NodeExists);
    assert_eq!(
        world.ok(a, create("/p/x-").flags(3)).path(),
        "/p/x-0000000003",
        "a failed create does not count"
    );
    assert_eq!(world.ok(a, sequential("/p/")).path(), "/p/0000000004", "only the number");
    assert_eq!(world.ok(a, container("/p/c-").flags(2)).path(), "/p/c-0000000005");
    assert_eq!(world.ok(a, container("/p/c-").flags(3)).path(), "/p/c-0000000006");
}

#[test]
fn the_counter_of_the_root_begins_at_zero() {
    let mut world = World::new();
    let a = world.connect();
    assert_eq!(world.ok(a, sequential("/")).path(), "/0000000000");
    assert_eq!(world.ok(a, sequential("/")).path(), "/0000000001");
}

#[test]
fn a_name_taken_by_hand_is_met_until_another_create_moves_the_counter() {
    let mut world = World::new();
    let a = world.connect();
    world.znodes(a, &["/p", "/p/s-0000000001"]);
    assert_eq!(world.refusal(a, sequential("/p/s-")), ErrorCode::NodeExists);
    assert_eq!(world.refusal(a, sequential("/p/s-")), ErrorCode::NodeExists);
    world.ok(a, create("/p/other"));
    assert_eq!(world.ok(a, sequential("/p/s-")).path(), "/p/s-0000000002");
}

#[test]
fn a_failed_multi_does_not_move_the_counter_and_a_good_one_moves_it_part_by_part() {
    let mut world = World::new();
    let a = world.connect();
    world.znodes(a, &["/p"]);
    world.ok(a, multi([sequential("/p/s-"), delete("/none")])).codes();
    let done = world.ok(a, multi([sequential("/p/s-"), sequential("/p/s-")]));
    let names: Vec<_> = done.results().iter().map(|result| format!("{result:?}")).collect();
    assert_eq!(names, [r#"Create("/p/s-0000000000")"#, r#"Create("/p/s-0000000001")"#]);
}

#[test]
fn flags_of_a_ttl_need_the_ttl_opcode_and_the_setting() {
    for (extended, code) in [(false, ErrorCode::Unimplemented), (true, ErrorCode::BadArguments)] {
        let mut world = World::with(|config| config.extended_types = extended);
        let a = world.connect();
        for flags in [5, 6] {
            assert_eq!(world.refusal(a, create("/a").flags(flags)), code);
            assert_eq!(world.refusal(a, create2("/a").flags(flags)), code);
            assert_eq!(world.refusal(a, container("/a").flags(flags)), code);
        }
    }
}

#[test]
fn a_ttl_is_between_a_millisecond_and_five_bytes_of_them() {
    let mut world = World::with(|config| config.extended_types = true);
    let a = world.connect();
    for (ttl, legal) in
        [(i64::MIN, false), (-1, false), (0, false), (1, true), (0xff_ffff_ffff, true), (1 << 40, false)]
    {
        let answer = world.ask(a, create_ttl(&format!("/t{ttl}"), 5, ttl));
        assert_eq!(answer.error, (!legal).then_some(ErrorCode::BadArguments), "{ttl}");
    }
    let answer = world.ok(a, create_ttl("/s-", 6, 1000));
    assert_eq!((answer.path(), answer.stat().ephemeral_owner), ("/s-0000000002", SessionId(0)));
    for flags in 0..=4 {
        for ttl in [-1, 0, 5] {
            assert_eq!(world.refusal(a, create_ttl("/t", flags, ttl)), ErrorCode::BadArguments);
        }
    }
}

#[test]
fn ttls_are_not_implemented_unless_set() {
    let mut world = World::new();
    let a = world.connect();
    assert_eq!(world.refusal(a, create_ttl("/t", 5, 1000)), ErrorCode::Unimplemented);
    assert_eq!(world.refusal(a, create_ttl("/t", 6, -1)), ErrorCode::Unimplemented);
    assert_eq!(world.heard(a), [] as [String; 0]);
}

#[test]
fn get_ephemerals_lists_those_of_the_session_by_plain_prefix() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    world.znodes(a, &["/o", "/o/p"]);
    world.ok(a, container("/o/c"));
    for path in ["/o/eph1", "/o/eph2", "/other"] {
        world.ok(a, ephemeral(path));
    }
    world.ok(b, ephemeral("/o/foreign"));
    let mut list = |prefix| world.ok(a, get_ephemerals(prefix)).names();
    for all in [None, Some(""), Some("  "), Some("/"), Some("\t/ ")] {
        assert_eq!(list(all), ["/o/eph1", "/o/eph2", "/other"], "{all:?}");
    }
    for blank_to_some in ["\u{a0}", "\u{2003}"] {
        assert_eq!(list(Some(blank_to_some)), [] as [&str; 0], "{blank_to_some:?}");
    }
    assert_eq!(list(Some("/o")), ["/o/eph1", "/o/eph2", "/other"]);
    assert_eq!(list(Some("/o/")), ["/o/eph1", "/o/eph2"]);
    assert_eq!(list(Some("/o/e")), ["/o/eph1", "/o/eph2"]);
    assert_eq!(list(Some("/o/eph1/")), [] as [&str; 0]);
    assert_eq!(list(Some("/none")), [] as [&str; 0]);
}

#[test]
fn any_session_may_delete_the_ephemeral_of_another() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    world.ok(a, ephemeral("/e"));
    world.ok(b, delete("/e"));
    assert_eq!(world.ok(a, get_ephemerals(None)).names(), [] as [&str; 0]);
    world.ok(a, Request::CloseSession);
    assert_eq!(world.refusal(b, exists("/e")), ErrorCode::NoNode);
}

#[test]
fn an_empty_database_has_four_znodes() {
    let mut world = World::new();
    let a = world.connect();
    assert_eq!(world.core.tree().len(), 4);
    assert_eq!(world.ok(a, get_all_children_number("/")).count(), 3);
    assert_eq!(world.ok(a, get_all_children_number("/zookeeper")).count(), 2);
    assert_eq!(world.ok(a, get_children("/zookeeper")).names(), ["config", "quota"]);
    for path in ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"] {
        assert_eq!(world.ok(a, get_data(path)).data().as_deref(), Some(&b""[..]), "{path}");
    }
    world.ok(a, create("/zookeeper/mine"));
    world.ok(a, delete("/zookeeper/mine"));
}
