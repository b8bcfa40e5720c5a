//! What each change does to the Stat of the znode and of its parent, and to nobody else's.

use zoolet_proto::{Acl, Perms, SessionId, Stat, Zxid};
use zoolet_server_core::ConnId;

use crate::common::*;

/// A world whose time is `START + 100` and `/p` was created at `START`.
fn world() -> (World, ConnId) {
    let mut world = World::new();
    let a = world.connect();
    world.znodes(a, &["/p"]);
    world.advance(100);
    (world, a)
}

#[test]
fn the_system_znodes_look_as_in_a_fresh_database() {
    let mut world = World::new();
    let a = world.connect();
    for (path, cversion, aversion, num_children) in [
        ("/", -1, 0, 1),
        ("/zookeeper", -2, 0, 2),
        ("/zookeeper/config", 0, -1, 0),
        ("/zookeeper/quota", 0, 0, 0),
    ] {
        let expected = Stat { cversion, aversion, num_children, ..Stat::default() };
        assert_eq!(world.stat(a, path), expected, "{path}");
    }
    assert_eq!(world.ok(a, get_acl("/zookeeper/config")).acl(), Acl::read_only());
    for path in ["/", "/zookeeper", "/zookeeper/quota"] {
        assert_eq!(world.ok(a, get_acl(path)).acl(), Acl::open(), "{path}");
    }
}

#[test]
fn a_new_znode_has_one_zxid_and_one_time() {
    let (mut world, a) = world();
    let stat = world.ok(a, create2("/p/a").data("four").flags(1)).stat();
    let zxid = Zxid(world.zxid());
    let time = world.now();
    let expected = Stat {
        czxid: zxid,
        mzxid: zxid,
        pzxid: zxid,
        ctime: time,
        mtime: time,
        ephemeral_owner: world.session(a),
        data_length: 4,
        ..Stat::default()
    };
    assert_eq!(stat, expected);
    assert_eq!(world.stat(a, "/p/a"), expected);
}

#[test]
fn a_create_moves_children_and_pzxid_of_the_parent_and_nothing_else() {
    let (mut world, a) = world();
    let (before, root) = (world.stat(a, "/p"), world.stat(a, "/"));
    world.znodes(a, &["/p/a"]);
    let expected = Stat { cversion: 1, num_children: 1, pzxid: Zxid(world.zxid()), ..before };
    assert_eq!(world.stat(a, "/p"), expected);
    assert_eq!(world.stat(a, "/"), root, "nothing goes further up");
}

#[test]
fn a_delete_moves_children_and_pzxid_of_the_parent_and_nothing_else() {
    let (mut world, a) = world();
    world.znodes(a, &["/p/a", "/p/b"]);
    let before = world.stat(a, "/p");
    world.ok(a, delete("/p/a"));
    let expected = Stat { cversion: 3, num_children: 1, pzxid: Zxid(world.zxid()), ..before };
    assert_eq!(world.stat(a, "/p"), expected);
}

#[test]
fn the_cversion_of_the_root_starts_below_zero_and_counts_creates_and_deletes() {
    let (mut world, a) = world();
    world.znodes(a, &["/a", "/b"]);
    world.ok(a, delete("/a"));
    assert_eq!(world.stat(a, "/").cversion, -1 + 4);
}

#[test]
fn a_set_moves_version_mzxid_mtime_and_length_only() {
    let (mut world, a) = world();
    world.znodes(a, &["/p/a"]);
    let (before, parent) = (world.stat(a, "/p/a"), world.stat(a, "/p"));
    world.advance(5);
    let stat = world.ok(a, set_data("/p/a", "data")).stat();
    let expected =
        Stat { version: 1, mzxid: Zxid(world.zxid()), mtime: world.now(), data_length: 4, ..before };
    assert_eq!(stat, expected);
    assert_eq!(world.stat(a, "/p/a"), expected);
    assert_eq!(world.stat(a, "/p"), parent);
}

#[test]
fn a_set_acl_moves_the_aversion_only() {
    let (mut world, a) = world();
    let before = world.stat(a, "/p");
    world.advance(5);
    let stat = world.ok(a, set_acl("/p", anyone(Perms::ALL))).stat();
    assert_eq!(stat, Stat { aversion: 1, ..before });
    assert_eq!(world.ok(a, set_acl("/p", anyone(Perms::ALL)).version(1)).stat().aversion, 2);
}

#[test]
fn what_fails_moves_nothing() {
    let (mut world, a) = world();
    world.znodes(a, &["/p/a"]);
    let (before, child) = (world.stat(a, "/p"), world.stat(a, "/p/a"));
    world.ask(a, create("/p/a"));
    world.ask(a, create("/p/\u{1}"));
    world.ask(a, set_data("/p", "x").version(9));
    world.ask(a, set_acl("/p", vec![]));
    world.ask(a, delete("/p"));
    world.ask(a, multi([create("/p/b"), set_data("/p", "x"), delete("/p/a"), check("/none", 0)]));
    world.ok(a, multi([check("/p", 0)]));
    assert_eq!((world.stat(a, "/p"), world.stat(a, "/p/a")), (before, child));
}

#[test]
fn versions_are_compared_and_minus_one_is_any() {
    let (mut world, a) = world();
    assert_eq!(world.ok(a, set_data("/p", "x").version(0)).stat().version, 1);
    assert_eq!(world.ok(a, set_data("/p", "x").version(-1)).stat().version, 2);
    for version in [0, 1, 3, -2, i32::MIN, i32::MAX] {
        assert!(world.ask(a, set_data("/p", "x").version(version)).error.is_some(), "{version}");
        assert!(world.ask(a, delete("/p").version(version)).error.is_some(), "{version}");
    }
    world.ok(a, delete("/p").version(2));
}

#[test]
fn a_session_end_moves_the_parent_once_per_ephemeral_under_one_zxid() {
    let (mut world, a) = world();
    let b = world.connect();
    for path in ["/p/x", "/p/y", "/p/z"] {
        world.ok(b, ephemeral(path));
    }
    let before = world.stat(a, "/p");
    world.expire(world.session(b));
    let expected = Stat { cversion: 6, num_children: 0, pzxid: Zxid(world.zxid()), ..before };
    assert_eq!(world.stat(a, "/p"), expected);
}

#[test]
fn containers_and_ttl_znodes_look_persistent() {
    let mut world = World::with(|config| config.extended_types = true);
    let a = world.connect();
    for created in [container("/c"), create_ttl("/t", 5, 1000)] {
        assert_eq!(world.ok(a, created).stat().ephemeral_owner, SessionId(0));
    }
}

#[test]
fn the_stat_in_each_reply_is_the_same_one() {
    let (mut world, a) = world();
    world.znodes(a, &["/p/a"]);
    let stat = world.stat(a, "/p");
    for request in [get_data("/p"), get_acl("/p"), get_children2("/p")] {
        assert_eq!(world.ok(a, request).stat(), stat);
    }
}
