//! Paths, and the order in which each write and read is checked: of two errors the first one wins.

use zoolet_proto::ErrorCode::{
    self, BadArguments, BadVersion, InvalidAcl, MarshallingError, NoAuth, NoChildrenForEphemerals, NoNode,
    NodeExists, NotEmpty, Unimplemented,
};
use zoolet_proto::{Acl, OpCode, Perms};
use zoolet_server_core::ConnId;

use crate::common::*;

const NOT_PATHS: &[&str] = &[
    "",
    "a",
    "a/b",
    "//a",
    "/a//b",
    "/a/",
    "/.",
    "/..",
    "/a/./b",
    "/a/../b",
    "/a\u{1}",
    "/\u{1f}",
    "/\u{7f}",
    "/\u{9f}",
    "/\u{e000}",
    "/\u{f8ff}",
    "/\u{fff0}",
    "/\u{fffd}",
    "/😀",
    "/a\0b",
];

/// `/locked` lets no client create or delete below it, `/locked/in` may not be touched at all; `/full` has a child,
/// `/e` is an ephemeral.
fn world() -> (World, ConnId) {
    let mut world = World::new();
    let a = world.connect();
    world.znodes(a, &["/a", "/locked", "/full", "/full/child"]);
    world.ok(a, create("/locked/in").acl(anyone(Perms::NONE)));
    world.ok(a, create("/locked/full"));
    world.ok(a, create("/locked/full/child"));
    world.ok(a, ephemeral("/e"));
    world.ok(a, set_acl("/locked", anyone(Perms::READ)));
    (world, a)
}

fn assert_refusals<const N: usize>(cases: [(&str, zoolet_proto::Request, ErrorCode); N]) {
    let (mut world, a) = world();
    for (why, request, code) in cases {
        assert_eq!(world.refusal(a, request), code, "{why}");
    }
    assert_eq!(world.heard(a), [] as [String; 0], "the connection survives");
}

#[test]
fn a_create_reports_its_first_fault() {
    let bad_acl = || only(Perms::ALL, "nobody", "knows");
    assert_refusals([
        ("unknown flags before the ACL", create("/x").flags(7).acl(vec![]), BadArguments),
        ("unknown flags before the path", create("x").flags(-1), BadArguments),
        ("disabled TTL flags before a bad path", create("x").flags(5), Unimplemented),
        ("disabled TTL flags before a bad ACL", create("/x").flags(6).acl(vec![]), Unimplemented),
        ("no slash before the ACL", create("x").acl(vec![]), BadArguments),
        ("NUL before the ACL", create("/x\0").acl(vec![]), BadArguments),
        ("ACL before the parent", create("/none/x").acl(bad_acl()), InvalidAcl),
        ("ACL before authority", create("/locked/x").acl(bad_acl()), InvalidAcl),
        ("ACL before existence", create("/a").acl(vec![]), InvalidAcl),
        ("ACL before characters", create("/\u{1}").acl(vec![]), InvalidAcl),
        ("parent before characters", create("/none/\u{1}"), NoNode),
        ("authority before characters", create("/locked/\u{1}"), NoAuth),
        ("authority before existence", create("/locked/in"), NoAuth),
        ("characters before an ephemeral parent", create("/e/\u{1}"), BadArguments),
        ("an ephemeral parent", create("/e/x"), NoChildrenForEphemerals),
    ]);
}

#[test]
fn odd_names_to_create() {
    assert_refusals([
        ("no slash", create("x"), BadArguments),
        ("empty", create(""), BadArguments),
        ("the parent `x` is looked up", create("x/y"), NoNode),
        ("the parent is the root", create("//x"), BadArguments),
        ("trailing slash below a missing parent", create("/none/"), NoNode),
        ("trailing slash below a parent", create("/a/"), BadArguments),
        ("a dot in between", create("/a/./q"), NoNode),
        ("a dot at the end", create("/a/."), BadArguments),
        ("the root exists", create("/"), NodeExists),
    ]);
}

#[test]
fn a_delete_reports_its_first_fault() {
    assert_refusals([
        ("no slash", delete("x"), BadArguments),
        ("empty", delete(""), BadArguments),
        ("NUL", delete("/a\0"), BadArguments),
        ("root", delete("/"), BadArguments),
        ("system", delete("/zookeeper"), BadArguments),
        ("quota", delete("/zookeeper/quota"), BadArguments),
        ("config", delete("/zookeeper/config"), BadArguments),
        ("parent", delete("/none/x"), NoNode),
        ("authority before existence", delete("/locked/none"), NoAuth),
        ("authority before version", delete("/locked/in").version(7), NoAuth),
        ("characters are not looked at", delete("/\u{1}"), NoNode),
        ("a trailing slash is not an alias", delete("/a/"), NoNode),
        ("version before children", delete("/full").version(7), BadVersion),
        ("children", delete("/full").version(0), NotEmpty),
    ]);
}

#[test]
fn a_set_data_reports_its_first_fault() {
    assert_refusals([
        ("missing", set_data("/none", "x").version(7), NoNode),
        ("authority before version", set_data("/locked/in", "x").version(7), NoAuth),
        ("version", set_data("/a", "x").version(7), BadVersion),
        ("config", set_data("/zookeeper/config", "x"), NoAuth),
    ]);
}

#[test]
fn a_set_acl_reports_its_first_fault() {
    assert_refusals([
        ("path before the ACL", set_acl("x", vec![]), BadArguments),
        ("ACL before existence", set_acl("/none", vec![]), InvalidAcl),
        ("ACL before authority", set_acl("/locked/in", vec![]), InvalidAcl),
        ("missing", set_acl("/none", Acl::open()), NoNode),
        ("authority before version", set_acl("/locked/in", Acl::open()).version(7), NoAuth),
        ("version", set_acl("/a", Acl::open()).version(7), BadVersion),
    ]);
}

#[test]
fn set_data_and_set_acl_check_the_whole_path_first() {
    let (mut world, a) = world();
    for path in NOT_PATHS {
        assert_eq!(world.refusal(a, set_data(path, "x")), BadArguments, "setData {path:?}");
        assert_eq!(world.refusal(a, set_acl(path, vec![])), BadArguments, "setACL {path:?}");
        assert_eq!(world.ok(a, multi([check(path, 0)])).codes(), [BadArguments.code()], "check {path:?}");
    }
}

#[test]
fn the_whole_path_of_a_create_is_checked_last() {
    let (mut world, a) = world();
    for path in NOT_PATHS {
        let code = world.refusal(a, create(path));
        assert!([BadArguments, NoNode].contains(&code), "{path:?}: {code:?}");
    }
    for path in ["/...", "/ ", "/~", "/\u{a0}", "/\u{f900}", "/\u{ffef}", "/\u{d7ff}", "/a/a"] {
        assert_eq!(world.ok(a, create(path)).path(), path);
    }
}

#[test]
fn malformed_utf8_in_a_path_is_refused_as_a_bad_character() {
    let (mut world, a) = world();
    let body = Body::new().bytes(b"/\xff").bytes(b"").open_acl().int(0);
    let answer = world.ask_raw(a, OpCode::Create.code(), body);
    assert_eq!(answer.error, Some(BadArguments));
}

#[test]
fn reads_do_not_check_paths() {
    let (mut world, a) = world();
    for path in NOT_PATHS.iter().filter(|path| !path.is_empty()) {
        for request in [
            get_data(path),
            get_children(path),
            get_children2(path),
            get_acl(path),
            get_all_children_number(path),
        ] {
            assert_eq!(world.refusal(a, request), NoNode, "{path:?}");
        }
        let nul = path.contains('\0');
        assert_eq!(world.refusal(a, exists(path)), if nul { BadArguments } else { NoNode }, "{path:?}");
        world.ok(a, sync(path));
        world.ok(a, add_watch(path, PERSISTENT));
        world.ok(a, check_watches(path, 3));
        world.ok(a, get_ephemerals(Some(path)));
        world.ok(a, set_watches(i64::MAX, &[], &[path], &[]));
        world.ok(a, remove_watches(path, 3));
    }
}

#[test]
fn the_empty_path_reads_the_root() {
    let (mut world, a) = world();
    let root = world.stat(a, "/");
    assert_eq!(world.ok(a, exists("")).stat(), root);
    assert_eq!(world.ok(a, get_data("")).stat(), root);
    assert_eq!(world.ok(a, get_acl("")).acl(), Acl::open());
    let names = world.ok(a, get_children("/")).names();
    assert_eq!(world.ok(a, get_children("")).names(), names);
    let below = world.ok(a, get_all_children_number("/")).count();
    assert_eq!(
        world.ok(a, get_all_children_number("")).count(),
        below + 1,
        "the root counts as its own descendant"
    );
}

#[test]
fn reads_check_existence_then_authority() {
    let (mut world, a) = world();
    for (make, name) in [
        (exists as fn(&str) -> _, "exists"),
        (get_data, "get"),
        (get_children, "list"),
        (get_children2, "list2"),
        (get_acl, "get_acl"),
        (get_all_children_number, "count"),
    ] {
        assert_eq!(world.refusal(a, make("/locked/none")), NoNode, "{name}");
        assert_eq!(world.refusal(a, make("/locked/in")), NoAuth, "{name}");
    }
}

#[test]
fn unknown_numbers_of_enumerations_do_not_decode() {
    let (mut world, a) = world();
    for request in [
        add_watch("/a", 2),
        add_watch("/a", -1),
        check_watches("/a", 0),
        check_watches("/a", 6),
        remove_watches("/a", 0),
        remove_watches("/a", 6),
    ] {
        assert_eq!(world.refusal(a, request), MarshallingError);
    }
}

#[test]
fn a_check_reports_its_first_fault() {
    let (mut world, a) = world();
    for (why, part, code) in [
        ("missing", check("/none", 7), NoNode),
        ("authority before version", check("/locked/in", 7), NoAuth),
        ("version", check("/a", 7), BadVersion),
    ] {
        assert_eq!(world.ok(a, multi([part])).codes(), [code.code()], "{why}");
    }
    world.ok(a, multi([check("/", 0), check("/", -1)]));
}

#[test]
fn a_delete_container_from_a_client_needs_the_permission_that_a_delete_needs() {
    assert_refusals([
        ("no slash", delete_container("x"), BadArguments),
        ("system", delete_container("/zookeeper"), BadArguments),
        ("missing", delete_container("/none"), NoNode),
        ("authority, where a real server asks nobody", delete_container("/locked/in"), NoAuth),
        ("children", delete_container("/full"), NotEmpty),
        ("an ephemeral", delete_container("/e"), BadVersion),
    ]);
    let (mut world, a) = world();
    world.ok(a, delete_container("/a"));
}
