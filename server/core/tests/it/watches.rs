//! The events of each change, their order, and the watches that they use up.

use zoolet_proto::{ErrorCode, Perms, Request};
use zoolet_server_core::ConnId;

use crate::common::*;

/// A world with a client that watches and one that changes.
fn world() -> (World, ConnId, ConnId) {
    let mut world = World::new();
    let (watcher, writer) = (world.connect(), world.connect());
    (world, watcher, writer)
}

/// The events that each change sends to the watcher of `watches`, one line per change.
fn hears(before: &[Request], watches: &[Request], changes: &[Request]) -> Vec<String> {
    let (mut world, watcher, writer) = world();
    for request in before {
        world.ok(writer, request.clone());
    }
    for watch in watches {
        world.ask(watcher, watch.clone());
    }
    let mut lines = Vec::new();
    for change in changes {
        world.ok(writer, change.clone());
        lines.push(world.events(watcher).join(", "));
    }
    lines
}

#[test]
fn an_exists_watch_reports_the_creation_once() {
    assert_eq!(
        hears(&[], &[exists("/a").watch()], &[create("/a"), delete("/a"), create("/a")]),
        ["created /a", "", ""]
    );
}

#[test]
fn a_data_watch_reports_a_set_or_a_deletion_and_not_children_or_acls() {
    let watch = [get_data("/a").watch()];
    let before = [create("/a")];
    assert_eq!(hears(&before, &watch, &[set_data("/a", "x"), set_data("/a", "y")]), ["data /a", ""]);
    assert_eq!(hears(&before, &watch, &[delete("/a")]), ["deleted /a"]);
    assert_eq!(
        hears(&before, &watch, &[create("/a/b"), set_acl("/a", anyone(Perms::ALL)), set_data("/a", "x")]),
        ["", "", "data /a"]
    );
}

#[test]
fn a_child_watch_reports_children_and_the_deletion_and_not_data() {
    for list in [get_children("/a").watch(), get_children2("/a").watch()] {
        let before = [create("/a"), create("/a/b")];
        let watch = [list];
        assert_eq!(
            hears(&before, &watch, &[set_data("/a", "x"), set_data("/a/b", "x"), create("/a/c")]),
            ["", "", "children /a"]
        );
        assert_eq!(hears(&before, &watch, &[delete("/a/b"), delete("/a")]), ["children /a", ""]);
        assert_eq!(hears(&before[..1], &watch, &[delete("/a")]), ["deleted /a"]);
    }
}

#[test]
fn the_same_watch_twice_is_one_and_exists_and_get_data_leave_the_same() {
    assert_eq!(
        hears(
            &[create("/a")],
            &[get_data("/a").watch(), exists("/a").watch(), get_data("/a").watch()],
            &[set_data("/a", "x"), set_data("/a", "y")]
        ),
        ["data /a", ""]
    );
}

#[test]
fn a_deletion_is_reported_once_to_data_and_child_watches_and_then_to_those_of_the_parent() {
    assert_eq!(
        hears(
            &[create("/p"), create("/p/a")],
            &[
                get_data("/p/a").watch(),
                exists("/p/a").watch(),
                get_children("/p/a").watch(),
                get_children("/p").watch()
            ],
            &[delete("/p/a"), create("/p/a")]
        ),
        ["deleted /p/a, children /p", ""]
    );
}

#[test]
fn a_deletion_reported_to_a_data_watch_uses_up_the_child_watch_too() {
    assert_eq!(
        hears(
            &[create("/a")],
            &[get_data("/a").watch(), get_children("/a").watch()],
            &[delete("/a"), create("/a"), create("/a/b"), delete("/a/b"), delete("/a")]
        ),
        ["deleted /a", "", "", "", ""]
    );
}

#[test]
fn a_create_leaves_the_data_watch_of_the_parent_armed() {
    assert_eq!(
        hears(
            &[create("/a")],
            &[get_data("/a").watch(), get_children("/a").watch()],
            &[create("/a/b"), set_data("/a", "x")]
        ),
        ["children /a", "data /a"]
    );
}

#[test]
fn the_parent_of_a_top_level_znode_is_the_root() {
    assert_eq!(hears(&[], &[get_children("/").watch()], &[create("/a")]), ["children /"]);
}

#[test]
fn a_persistent_watch_stays_and_reports_data_and_children() {
    let p = "/p";
    assert_eq!(
        hears(
            &[],
            &[add_watch(p, PERSISTENT)],
            &[
                create(p),
                set_data(p, "x"),
                create("/p/c"),
                set_data("/p/c", "x"),
                delete("/p/c"),
                delete(p),
                create(p)
            ]
        ),
        ["created /p", "data /p", "children /p", "", "children /p", "deleted /p", "created /p"]
    );
}

#[test]
fn a_recursive_watch_reports_every_descendant_by_its_own_path() {
    assert_eq!(
        hears(
            &[],
            &[add_watch("/r", RECURSIVE)],
            &[
                create("/r"),
                create("/r/x"),
                create("/r/x/y"),
                set_data("/r/x/y", "x"),
                delete("/r/x/y"),
                delete("/r/x"),
                set_data("/r", "x"),
                delete("/r"),
                create("/rx"),
            ]
        ),
        [
            "created /r",
            "created /r/x",
            "created /r/x/y",
            "data /r/x/y",
            "deleted /r/x/y",
            "deleted /r/x",
            "data /r",
            "deleted /r",
            ""
        ]
    );
}

#[test]
fn a_recursive_watch_on_the_root_reports_everything() {
    assert_eq!(
        hears(&[], &[add_watch("/", RECURSIVE)], &[create("/a"), create("/a/b"), set_data("/", "x")]),
        ["created /a", "created /a/b", "data /"]
    );
}

#[test]
fn several_modes_on_one_path_report_each_change_once() {
    assert_eq!(
        hears(
            &[create("/p")],
            &[add_watch("/p", PERSISTENT), get_data("/p").watch(), get_children("/p").watch()],
            &[set_data("/p", "x"), create("/p/c"), set_data("/p", "y"), create("/p/d")]
        ),
        ["data /p", "children /p", "data /p", "children /p"]
    );
    assert_eq!(
        hears(
            &[create("/r")],
            &[add_watch("/r", RECURSIVE), add_watch("/r", PERSISTENT)],
            &[create("/r/z"), set_data("/r/z", "x"), set_data("/r", "x")]
        ),
        ["created /r/z, children /r", "data /r/z", "data /r"]
    );
    assert_eq!(
        hears(
            &[create("/r"), create("/r/x")],
            &[add_watch("/r", RECURSIVE), get_children("/r").watch(), get_children("/r/x").watch()],
            &[delete("/r/x")]
        ),
        ["deleted /r/x, children /r"]
    );
}

#[test]
fn recursive_watches_on_several_levels_report_once() {
    assert_eq!(
        hears(
            &[create("/r")],
            &[add_watch("/", RECURSIVE), add_watch("/r", RECURSIVE), add_watch("/r/x", RECURSIVE)],
            &[create("/r/x")]
        ),
        ["created /r/x"]
    );
}

#[test]
fn a_failed_read_leaves_no_watch_unless_it_is_an_exists_on_nothing() {
    let watches = [get_data("/a").watch(), get_children("/a").watch(), get_children2("/a").watch()];
    assert_eq!(hears(&[], &watches, &[create("/a"), create("/a/b"), set_data("/a", "x")]), ["", "", ""]);
    let locked = create("/z").acl(anyone(Perms::WRITE | Perms::ADMIN));
    let watches = [get_data("/z").watch(), get_children("/z").watch(), exists("/z").watch()];
    let unlock = set_acl("/z", anyone(Perms::ALL));
    assert_eq!(hears(&[locked], &watches, &[unlock, set_data("/z", "x"), create("/z/a")]), ["", "", ""]);
}

#[test]
fn a_multi_read_leaves_no_watch() {
    let watches = [multi_read([get_data("/a").watch(), get_children("/a").watch()])];
    assert_eq!(hears(&[create("/a")], &watches, &[set_data("/a", "x"), create("/a/b")]), ["", ""]);
}

#[test]
fn watches_on_invalid_paths_report_nothing() {
    let watches =
        [exists("").watch(), get_data("").watch(), get_children("").watch(), add_watch("/a/", RECURSIVE)];
    assert_eq!(hears(&[], &watches, &[create("/a"), set_data("/", "x"), create("/a/b")]), ["", "", ""]);
}

#[test]
fn the_own_event_comes_before_the_reply_and_the_watch_reply_before_its_event() {
    let (mut world, a, _) = world();
    world.send(a, exists("/a").watch());
    world.send(a, create("/a"));
    world.send(a, get_data("/a").watch());
    world.send(a, get_children("/a").watch());
    world.send(a, set_data("/a", "x"));
    world.send(a, create("/a/b"));
    world.send(a, get_data("/a"));
    assert_eq!(
        world.heard(a),
        [
            "NoNode",
            "created /a",
            "reply",
            "reply",
            "reply",
            "data /a",
            "reply",
            "children /a",
            "reply",
            "reply"
        ]
    );
}

#[test]
fn an_event_comes_before_every_reply_that_shows_the_change() {
    let (mut world, watcher, writer) = world();
    world.znodes(writer, &["/a"]);
    world.ok(watcher, get_data("/a").watch());
    world.send(writer, set_data("/a", "new"));
    world.send(watcher, get_data("/a"));
    let received = world.received(watcher);
    assert_eq!(received[0].to_string(), "data /a");
    assert!(matches!(&received[1], Received::Answer(answer) if answer.data().as_deref() == Some(b"new")));
}

#[test]
fn an_event_carries_the_zxid_of_its_change() {
    let (mut world, watcher, writer) = world();
    world.ask(watcher, exists("/a").watch());
    let zxid = world.ok(writer, create("/a")).zxid;
    assert_eq!(world.received(watcher), [Received::Event(Event { zxid, text: "created /a".into() })]);
}

#[test]
fn a_multi_reports_its_parts_in_order_under_one_zxid_before_its_reply() {
    let (mut world, a, _) = world();
    world.znodes(a, &["/p"]);
    world.ok(a, get_children("/p").watch());
    world.ok(a, add_watch("/p/c", RECURSIVE));
    world.ok(a, get_data("/p").watch());
    world.send(
        a,
        multi([
            create("/p/c"),
            set_data("/p", "x"),
            set_data("/p", "y"),
            set_data("/p/c", "1"),
            set_data("/p/c", "2"),
            delete("/p/c"),
        ]),
    );
    let received = world.received(a);
    let heard: Vec<_> = received.iter().map(ToString::to_string).collect();
    assert_eq!(
        heard,
        ["created /p/c", "children /p", "data /p", "data /p/c", "data /p/c", "deleted /p/c", "reply"]
    );
    let zxid = world.zxid();
    assert!(
        received.iter().all(|received| !matches!(received, Received::Event(event) if event.zxid != zxid))
    );
}

#[test]
fn a_failed_multi_triggers_no_watch() {
    let (mut world, a, _) = world();
    world.ask(a, exists("/a").watch());
    world.send(a, multi([create("/a"), delete("/none")]));
    assert_eq!(world.heard(a), ["reply"]);
    world.send(a, create("/a"));
    assert_eq!(world.heard(a), ["created /a", "reply"], "the watch was not used up");
}

#[test]
fn a_client_that_may_not_read_a_znode_gets_no_event_but_its_watch_is_used_up() {
    let (mut world, watcher, writer) = world();
    world.znodes(writer, &["/a"]);
    for kind in [get_data("/a").watch(), get_children("/a").watch()] {
        world.ok(watcher, kind);
    }
    world.ok(watcher, add_watch("/a", PERSISTENT));
    world.ok(writer, set_acl("/a", anyone(Perms(31 & !1))));
    world.ok(writer, set_data("/a", "x"));
    world.ok(writer, create("/a/b"));
    assert_eq!(world.events(watcher), [] as [String; 0]);
    world.ok(writer, set_acl("/a", anyone(Perms::ALL)));
    assert_eq!(world.refusal(watcher, check_watches("/a", 2)), ErrorCode::NoWatcher);
    assert_eq!(world.refusal(watcher, check_watches("/a", 1)), ErrorCode::NoWatcher);
    world.ok(writer, set_data("/a", "y"));
    assert_eq!(world.events(watcher), ["data /a"], "the persistent one is still there");
}

#[test]
fn children_changed_is_filtered_by_the_acl_of_the_parent_and_deleted_by_that_of_the_deleted() {
    let (mut world, watcher, writer) = world();
    world.znodes(writer, &["/p"]);
    world.ok(writer, create("/p/secret").acl(anyone(Perms(31 & !1))));
    world.ok(watcher, get_children("/p").watch());
    world.ok(watcher, add_watch("/p/secret", PERSISTENT));
    world.ok(writer, delete("/p/secret"));
    assert_eq!(world.events(watcher), ["children /p"]);
}

#[test]
fn the_filter_uses_the_identities_of_the_moment() {
    let (mut world, watcher, writer) = world();
    world.ok(writer, auth("digest", "bob:pw"));
    world.ask(watcher, exists("/a").watch());
    world.ok(watcher, add_watch("/b", PERSISTENT));
    world.ok(watcher, auth("digest", "bob:pw"));
    world.ok(writer, create("/a").acl(only(Perms::ALL, "auth", "")));
    assert_eq!(world.events(watcher), ["created /a"]);
}

#[test]
fn the_end_of_a_session_reports_each_ephemeral_then_its_parent_and_notifies_the_closing_client_before_its_reply()
 {
    let (mut world, watcher, closing) = world();
    world.znodes(watcher, &["/p"]);
    world.ok(closing, ephemeral("/p/e"));
    for conn in [watcher, closing] {
        world.ok(conn, exists("/p/e").watch());
        world.ok(conn, get_children("/p").watch());
    }
    world.send(closing, Request::CloseSession);
    assert_eq!(world.heard(watcher), ["deleted /p/e", "children /p"]);
    assert_eq!(world.heard(closing), ["deleted /p/e", "children /p", "reply", "closed"]);
}

#[test]
fn a_watch_belongs_to_its_connection() {
    let (mut world, watcher, writer) = world();
    let session = world.session(watcher);
    world.ask(watcher, exists("/a").watch());
    world.ok(watcher, add_watch("/a", PERSISTENT));
    world.ok(watcher, add_watch("/", RECURSIVE));
    world.cut(watcher);
    assert!(world.core.watches().is_empty());
    let again = world.resume(session);
    world.ok(writer, create("/a"));
    assert_eq!(world.events(again), [] as [String; 0]);
    assert_eq!(world.received(watcher), []);
}

#[test]
fn watches_can_be_bounded() {
    let mut world = World::with(|config| config.max_watches_per_connection = Some(2));
    let a = world.connect();
    world.ok(a, add_watch("/a", PERSISTENT));
    world.ask(a, exists("/b").watch());
    assert_eq!(world.refusal(a, exists("/c").watch()), ErrorCode::ThrottledOp);
    assert_eq!(world.refusal(a, add_watch("/c", RECURSIVE)), ErrorCode::ThrottledOp);
    assert_eq!(world.refusal(a, set_watches(0, &[], &["/c"], &[])), ErrorCode::ThrottledOp);
    world.ok(a, exists("/"));
    world.ok(a, remove_watches("/a", 4));
    world.ok(a, add_watch("/c", RECURSIVE));
}

#[test]
fn watches_that_were_let_in_are_let_in_again() {
    let mut world = World::with(|config| config.max_watches_per_connection = Some(2));
    let a = world.connect();
    let session = world.session(a);
    for path in ["/", "/zookeeper"] {
        world.ok(a, exists(path).watch());
        world.ok(a, get_children(path).watch());
    }
    assert_eq!(world.refusal(a, exists("/c").watch()), ErrorCode::ThrottledOp);
    world.cut(a);
    let again = world.resume(session);
    let both = ["/", "/zookeeper"];
    world.ok(again, set_watches(i64::MAX, &both, &[], &[]));
    world.ok(again, set_watches(i64::MAX, &[], &[], &both));
    assert_eq!(world.refusal(again, exists("/c").watch()), ErrorCode::ThrottledOp);
}
