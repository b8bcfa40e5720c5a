//! setWatches after a reconnect, and the requests that check and remove watches.

use zoolet_proto::ErrorCode::{MarshallingError, NoWatcher};
use zoolet_proto::{Acl, OpCode, Perms, Reply};
use zoolet_server_core::ConnId;

use crate::common::*;

/// `/old` and `/old/c` were there before the returned zxid; `/old` was then set and got `/old/new`.
fn world() -> (World, ConnId, i64) {
    let mut world = World::new();
    let a = world.connect();
    world.znodes(a, &["/old", "/old/c", "/quiet"]);
    let seen = world.zxid();
    world.ok(a, set_data("/old", "x"));
    world.znodes(a, &["/old/new"]);
    (world, a, seen)
}

#[test]
fn restored_data_watches_report_what_they_missed() {
    let (mut world, a, seen) = world();
    world.send(a, set_watches(seen, &["/gone", "/old", "/quiet"], &[], &[]));
    assert_eq!(world.heard(a), ["deleted /gone", "data /old", "reply"]);
    world.ok(a, check_watches("/quiet", 2));
    for received in ["/gone", "/old"] {
        assert_eq!(world.refusal(a, check_watches(received, 3)), NoWatcher, "a reported watch is not set");
    }
    world.ok(a, set_data("/quiet", "x"));
    assert_eq!(world.events(a), ["data /quiet"]);
}

#[test]
fn restored_exists_watches_report_existing_znodes_whatever_the_zxid() {
    let (mut world, a, _) = world();
    world.send(a, set_watches(i64::MAX, &[], &["/gone", "/quiet"], &[]));
    assert_eq!(world.heard(a), ["created /quiet", "reply"]);
    world.ok(a, check_watches("/gone", 2));
    world.ok(a, create("/gone"));
    assert_eq!(world.events(a), ["created /gone"]);
}

#[test]
fn restored_child_watches_report_changed_lists_and_not_data() {
    let (mut world, a, seen) = world();
    world.ok(a, set_data("/quiet", "x"));
    world.ok(a, set_data("/old/c", "x"));
    world.send(a, set_watches(seen, &[], &[], &["/gone", "/old", "/quiet", "/old/c"]));
    assert_eq!(world.heard(a), ["deleted /gone", "children /old", "reply"]);
    world.ok(a, check_watches("/quiet", 1));
    world.ok(a, check_watches("/old/c", 1));
    world.ok(a, create("/quiet/c"));
    assert_eq!(world.events(a), ["children /quiet"]);
}

#[test]
fn the_comparison_is_strict() {
    let (mut world, a, _) = world();
    let (mzxid, pzxid) = (world.stat(a, "/old").mzxid.0, world.stat(a, "/old").pzxid.0);
    world.send(a, set_watches(mzxid, &["/old"], &[], &[]));
    world.send(a, set_watches(pzxid, &[], &[], &["/old"]));
    assert_eq!(world.heard(a), ["reply", "reply"]);
    world.send(a, set_watches(mzxid - 1, &["/old"], &[], &[]));
    world.send(a, set_watches(pzxid - 1, &[], &[], &["/old"]));
    assert_eq!(world.heard(a), ["data /old", "reply", "children /old", "reply"]);
}

#[test]
fn an_acl_that_was_set_is_no_change() {
    let (mut world, a, _) = world();
    let seen = world.zxid();
    world.ok(a, set_acl("/quiet", anyone(Perms::ALL)));
    world.send(a, set_watches(seen, &["/quiet"], &[], &["/quiet"]));
    assert_eq!(world.heard(a), ["reply"]);
}

#[test]
fn catch_up_events_come_list_by_list_with_zxid_minus_one_and_are_not_merged() {
    let (mut world, a, _) = world();
    world.send(a, set_watches(0, &["/old", "/old"], &["/old"], &["/old", "/quiet"]));
    let received = world.received(a);
    let heard: Vec<_> = received.iter().map(ToString::to_string).collect();
    assert_eq!(
        heard,
        ["data /old", "data /old", "created /old", "children /old", "children /quiet", "reply"]
    );
    let events = received.iter().filter_map(|received| match received {
        Received::Event(event) => Some(event.zxid),
        _ => None,
    });
    assert!(events.into_iter().all(|zxid| zxid == -1));
}

#[test]
fn catch_up_events_are_not_filtered_by_acls() {
    let (mut world, a, _) = world();
    world.ok(a, create("/z").acl(anyone(Perms::NONE)));
    world.send(a, set_watches(0, &["/z"], &["/z"], &["/z"]));
    assert_eq!(world.heard(a), ["data /z", "created /z", "children /z", "reply"]);
}

#[test]
fn any_relative_zxid_is_accepted() {
    let (mut world, a, _) = world();
    for zxid in [i64::MIN, -1, 0, i64::MAX] {
        world.ok(a, set_watches(zxid, &[], &[], &[]));
    }
}

#[test]
fn persistent_watches_are_armed_without_catching_up() {
    let (mut world, a, _) = world();
    world.send(a, set_persistent_watches(0, &["/old", "/gone"], &["/quiet"]));
    assert_eq!(world.heard(a), ["reply"]);
    world.ok(a, check_watches("/old", 4));
    world.ok(a, check_watches("/quiet", 5));
    world.ok(a, create("/gone"));
    world.ok(a, create("/quiet/x"));
    assert_eq!(world.events(a), ["created /gone", "created /quiet/x"]);
}

#[test]
fn a_null_list_refuses_the_whole_request() {
    // A real server refuses it too, but executes the lists before it.
    let (mut world, a, _) = world();
    let body = Body::new().long(0).int(1).text("/old").null().int(1).text("/gone");
    world.send_frame(a, &body.frame(zoolet_proto::Xid(5), OpCode::SetWatches.code()));
    assert_eq!(world.heard(a), ["MarshallingError"]);
    assert!(world.core.watches().is_empty());
}

#[test]
fn what_each_type_of_watch_removal_takes() {
    for (kind, left) in [(1, &[2, 4, 5][..]), (2, &[1, 4, 5]), (3, &[]), (4, &[1, 2, 5]), (5, &[1, 2, 4])] {
        let (mut world, a, _) = world();
        world.ok(a, get_data("/old").watch());
        world.ok(a, get_children("/old").watch());
        world.ok(a, add_watch("/old", PERSISTENT));
        world.ok(a, add_watch("/old", RECURSIVE));
        world.ok(a, remove_watches("/old", kind));
        let found: Vec<i32> = [1, 2, 4, 5]
            .into_iter()
            .filter(|kind| world.ask(a, check_watches("/old", *kind)).error.is_none())
            .collect();
        assert_eq!(found, left, "type {kind}");
        assert_eq!(world.refusal(a, remove_watches("/old", kind)), NoWatcher);
        assert_eq!(world.events(a), [] as [String; 0], "no watch fires");
    }
}

#[test]
fn each_type_finds_its_own_mode_only() {
    for (watch, types) in [
        (get_data("/old").watch(), &[2, 3][..]),
        (exists("/old").watch(), &[2, 3]),
        (get_children("/old").watch(), &[1, 3]),
        (add_watch("/old", PERSISTENT), &[3, 4]),
        (add_watch("/old", RECURSIVE), &[3, 5]),
    ] {
        for kind in 1..=5 {
            let (mut world, a, _) = world();
            world.ok(a, watch.clone());
            let found = world.ask(a, check_watches("/old", kind)).error.is_none();
            assert_eq!(found, types.contains(&kind), "{watch:?}, check {kind}");
            let removed = world.ask(a, remove_watches("/old", kind)).error.is_none();
            assert_eq!(removed, types.contains(&kind), "{watch:?}, remove {kind}");
            assert_eq!(world.core.watches().is_empty(), removed);
        }
    }
}

#[test]
fn watches_are_found_on_exactly_their_path_and_connection() {
    let (mut world, a, _) = world();
    let b = world.connect();
    world.ok(a, add_watch("/old", RECURSIVE));
    for path in ["/old/c", "/", "/old/", "old"] {
        assert_eq!(world.refusal(a, check_watches(path, 3)), NoWatcher, "{path}");
        assert_eq!(world.refusal(a, remove_watches(path, 3)), NoWatcher, "{path}");
    }
    assert_eq!(world.refusal(b, remove_watches("/old", 3)), NoWatcher);
    world.ok(a, remove_watches("/old", 3));
}

#[test]
fn a_removed_watch_does_not_fire() {
    let (mut world, a, _) = world();
    world.ok(a, add_watch("/old", RECURSIVE));
    world.ok(a, add_watch("/old", PERSISTENT));
    world.ok(a, remove_watches("/old", 4));
    world.ok(a, create("/old/x"));
    assert_eq!(world.events(a), ["created /old/x"]);
    world.ok(a, remove_watches("/old", 5));
    world.ok(a, create("/old/y"));
    assert_eq!(world.events(a), [] as [String; 0]);
}

#[test]
fn null_paths_are_watched_and_looked_for_like_any_other() {
    let (mut world, a, _) = world();
    let ask = |world: &mut World, op: OpCode, number: i32| {
        world.ask_raw(a, op.code(), Body::new().null().int(number)).error
    };
    assert_eq!(ask(&mut world, OpCode::CheckWatches, 4), Some(NoWatcher));
    assert_eq!(ask(&mut world, OpCode::AddWatch, 0), None);
    assert_eq!(ask(&mut world, OpCode::CheckWatches, 4), None);
    assert_eq!(ask(&mut world, OpCode::RemoveWatches, 4), None);
    assert_eq!(ask(&mut world, OpCode::RemoveWatches, 4), Some(NoWatcher));
    assert_eq!(ask(&mut world, OpCode::AddWatch, 9), Some(MarshallingError));
}

#[test]
fn a_null_path_is_not_the_empty_one() {
    let mut world = World::new();
    let a = world.connect();
    world.ok(a, get_children("").watch());
    let null = |number| Body::new().null().int(number);
    let any = 3;
    for op in [OpCode::CheckWatches, OpCode::RemoveWatches] {
        assert_eq!(world.ask_raw(a, op.code(), null(any)).error, Some(NoWatcher), "{op:?}");
    }
    world.ok(a, check_watches("", any));
    assert_eq!(world.ask_raw(a, OpCode::AddWatch.code(), null(0)).error, None);
    world.ok(a, check_watches("null", any));
}

/// An Apache ZooKeeper sends two surrogates of three bytes each, which is no UTF-8.
#[test]
fn text_beyond_the_basic_multilingual_plane_is_sent_as_it_came() {
    let mut world = World::new();
    let a = world.connect();
    assert_eq!(world.ok(a, sync("/😀")).reply, Reply::Synced(Some("/😀".to_owned())));
    world.send(a, set_watches(0, &["/😀"], &[], &[]));
    assert_eq!(world.heard(a), ["deleted /😀", "reply"]);
    world.ok(
        a,
        create("/n")
            .acl(vec![Acl::new(Perms::ALL, "digest", "😀:x"), Acl::new(Perms::ALL, "world", "anyone")]),
    );
    let Reply::Acl(acl, _) = world.ok(a, get_acl("/n")).reply else { panic!("an ACL") };
    assert_eq!(acl[0].id, "😀:x");
}
