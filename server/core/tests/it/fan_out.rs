//! What a turn of many events for many connections takes: lists of connections are shared.

use zoolet_proto::{Acl, Incoming, NameList, Perms, Reply, Request, Xid};
use zoolet_server_core::{ConnId, Effects, Input, Message, Millis, Output, SharedEvent, StateMachine};

use crate::common::*;

const WATCHERS: usize = 50;
const RECURSIVE: i32 = 1;

/// A world in which so many clients have a recursive watch on `/`, and a client that writes.
fn world(znodes: &[&str]) -> (World, Vec<ConnId>, ConnId) {
    let mut world = World::new();
    let writer = world.connect();
    world.znodes(writer, znodes);
    let watchers: Vec<_> = (0..WATCHERS).map(|_| world.connect()).collect();
    for watcher in &watchers {
        world.ok(*watcher, add_watch("/", RECURSIVE));
    }
    (world, watchers, writer)
}

/// The effects of one request.
fn effects(world: &mut World, conn: ConnId, request: Request) -> Effects {
    let incoming = Incoming { xid: Xid(1), op: request.op().code(), body: Ok(request) };
    world.core.handle(Millis(START), conn, Input::Request(incoming));
    world.core.take_effects()
}

fn events(effects: &Effects) -> Vec<&SharedEvent> {
    let mut events = Vec::new();
    for output in &effects.outbound {
        if let Output::Event(event) = output {
            events.push(event);
        }
    }
    events
}

fn lists<'e>(events: &[&'e SharedEvent]) -> Vec<&'e [ConnId]> {
    let mut lists: Vec<_> = events.iter().map(|event| &event.to[..]).collect();
    lists.dedup_by_key(|list| list.as_ptr());
    lists
}

#[test]
fn a_multi_under_many_watches_has_one_output_a_change_and_one_list_of_connections() {
    let (mut world, watchers, writer) = world(&["/a", "/b"]);
    world.ok(watchers[0], add_watch("/a", RECURSIVE));
    let sets = (0..1_000).map(|n| set_data(if n % 2 == 0 { "/a" } else { "/b" }, "x"));
    let effects = effects(&mut world, writer, multi(sets));
    let events = events(&effects);
    assert_eq!((events.len(), effects.outbound.len()), (1_000, 1_001));
    let lists = lists(&events);
    assert_eq!((lists.len(), lists[0].to_vec()), (1, watchers));
}

#[test]
fn a_closed_znode_costs_one_check_of_its_readers_for_all_changes_of_a_multi() {
    let (mut world, watchers, writer) = world(&["/a"]);
    for watcher in &watchers[..WATCHERS / 2] {
        world.ok(*watcher, auth("digest", "reader:pw"));
    }
    world.ok(writer, auth("digest", "reader:pw"));
    world.ok(writer, set_acl("/a", vec![Acl::digest(Perms::ALL, "reader", "pw")]));
    let effects = effects(&mut world, writer, multi((0..1_000).map(|_| set_data("/a", "x"))));
    let events = events(&effects);
    assert_eq!(events.len(), 1_000);
    let lists = lists(&events);
    assert_eq!((lists.len(), lists[0]), (1, &watchers[..WATCHERS / 2]));
}

#[test]
fn of_two_clients_that_watch_alone_only_the_reader_of_a_long_acl_is_notified() {
    let mut world = World::new();
    let [writer, stranger, reader] = [(); 3].map(|()| world.connect());
    world.znodes(writer, &["/a", "/a/b"]);
    for conn in [writer, reader] {
        world.ok(conn, auth("digest", "reader:pw"));
    }
    // So long that its result is kept for the changes of a multi.
    let others = (0..20).map(|n| Acl::digest(Perms::ALL, &format!("user{n}"), "pw"));
    let acl = others.chain([Acl::digest(Perms::ALL, "reader", "pw")]).collect();
    world.ok(writer, set_acl("/a/b", acl));
    world.ok(stranger, add_watch("/", RECURSIVE));
    world.ok(reader, add_watch("/a", RECURSIVE));
    let effects = effects(&mut world, writer, multi((0..3).map(|_| set_data("/a/b", "x"))));
    let notified: Vec<_> = events(&effects).iter().map(|event| event.to.to_vec()).collect();
    assert_eq!(notified, vec![vec![reader]; 3]);
}

#[test]
fn of_many_watchers_those_to_whom_a_long_acl_grants_it_are_notified() {
    let (mut world, watchers, writer) = world(&["/a"]);
    let mut acl: Vec<_> = (0..20).map(|n| Acl::new(Perms::READ, "ip", format!("10.0.0.{n}"))).collect();
    acl.extend([Acl::digest(Perms::ALL, "reader", "pw"), Acl::digest(Perms::WRITE, "writer", "pw")]);
    for watcher in &watchers[..3] {
        world.ok(*watcher, auth("digest", "reader:pw"));
    }
    for conn in [writer, watchers[3]] {
        world.ok(conn, auth("digest", "writer:pw"));
    }
    world.ok(writer, set_acl("/a", acl));
    let effects = effects(&mut world, writer, set_data("/a", "x"));
    let notified: Vec<_> = events(&effects).iter().map(|event| event.to.to_vec()).collect();
    assert_eq!(notified, [&watchers[..3]]);
}

#[test]
fn a_one_shot_watch_beside_many_persistent_ones_is_a_list_of_its_own() {
    let (mut world, watchers, writer) = world(&["/a"]);
    let other = world.connect();
    world.ok(other, get_data("/a").watch());
    let effects = effects(&mut world, writer, set_data("/a", "x"));
    let notified: Vec<_> = events(&effects).iter().map(|event| event.to.to_vec()).collect();
    assert_eq!(notified, [watchers, vec![other]]);
}

#[test]
fn a_deletion_notifies_each_of_many_watchers_once() {
    let mut world = World::new();
    let writer = world.connect();
    world.znodes(writer, &["/a"]);
    let watchers: Vec<_> = (0..WATCHERS).map(|_| world.connect()).collect();
    for watcher in &watchers {
        world.ok(*watcher, get_data("/a").watch());
        world.ok(*watcher, get_children("/a").watch());
    }
    world.ok(writer, delete("/a"));
    for watcher in watchers {
        assert_eq!(world.events(watcher), ["deleted /a"]);
    }
}

/// The names in the reply to a getChildren.
fn listed(effects: &Effects) -> &NameList {
    match &effects.outbound[..] {
        [Output::To(_, Message::Reply(_, Reply::Children(names)))] => names,
        other => panic!("no list but {other:?}"),
    }
}

/// Where a list is in memory.
fn address(names: &NameList) -> *const u8 {
    names.encoded().as_ptr()
}

#[test]
fn replies_with_a_long_list_share_it_until_a_child_comes_or_goes_or_the_last_is_sent() {
    let mut world = World::new();
    let a = world.connect();
    world.znodes(a, &["/a"]);
    (100..200).for_each(|n| world.znodes(a, &[&format!("/a/{n}")]));
    let first = effects(&mut world, a, get_children("/a"));
    let second = effects(&mut world, a, get_children("/a"));
    assert_eq!(address(listed(&first)), address(listed(&second)));
    effects(&mut world, a, set_data("/a", "x"));
    assert_eq!(address(listed(&first)), address(listed(&effects(&mut world, a, get_children("/a")))));

    effects(&mut world, a, create("/a/0"));
    let third = effects(&mut world, a, get_children("/a"));
    assert_eq!((listed(&first).len(), listed(&third).len()), (100, 101));
    effects(&mut world, a, delete("/a/100"));
    let fourth = effects(&mut world, a, get_children("/a"));
    let names: Vec<_> = listed(&fourth).iter().collect();
    assert_eq!(
        (names.len(), &*names[0], &*names[1], names.last().map(|name| &**name)),
        (100, "0", "101", Some("199"))
    );

    let weak = listed(&fourth).downgrade();
    drop(fourth);
    assert!(weak.upgrade().is_none(), "the tree does not keep it");
    assert_eq!(listed(&effects(&mut world, a, get_children("/a"))).len(), 100);
}
