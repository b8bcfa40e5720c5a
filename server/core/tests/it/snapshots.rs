//! Snapshots taken in slices while writes go on.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use zoolet_proto::{Acl, Perms};
use zoolet_server_core::{Tree, ZnodeRecord};

use crate::common::random::{Script, Step};
use crate::common::*;

/// A znode as a record has it.
fn record(tree: &Tree, path: &str) -> String {
    let node = tree.get(path).expect("a znode");
    let stat = node.stat();
    let creates = (stat.cversion + stat.num_children) / 2;
    format!(
        "{path} {:?} {:?} {:?} {} {} {} {} {} {} {creates} {}",
        node.data(),
        node.acl(),
        node.owner(),
        stat.czxid,
        stat.mzxid,
        stat.pzxid,
        stat.ctime,
        stat.mtime,
        stat.version,
        stat.aversion
    )
}

fn text(record: &ZnodeRecord) -> String {
    let ZnodeRecord { path, data, acl, czxid, mzxid, pzxid, ctime, mtime, version, creates, aversion, owner } =
        record;
    format!(
        "{path} {:?} {acl:?} {owner:?} {czxid} {mzxid} {pzxid} {ctime} {mtime} {version} {creates} {aversion}",
        data.as_ref()
    )
}

/// All znodes of a tree, depth first.
fn copy(tree: &Tree) -> Vec<String> {
    let mut all = Vec::new();
    let mut below = vec!["/".to_owned()];
    while let Some(path) = below.pop() {
        all.push(record(tree, &path));
        let children = tree.get(&path).expect("a znode").children();
        below.extend(children.map(ToString::to_string).collect::<Vec<_>>().into_iter().rev());
    }
    all
}

/// The paths of one slice.
fn slice(world: &mut World, max: usize, bytes: usize) -> Vec<String> {
    let mut paths = Vec::new();
    world.core.next_slice(max, bytes, &mut |record| paths.push(record.path.to_string()));
    paths
}

#[test]
fn the_order_is_depth_first_by_components() {
    let mut world = World::new();
    let a = world.connect();
    world.znodes(a, &["/a", "/a-b", "/a/c", "/a/b", "/a/b/x", "/a/b!", "/b"]);
    world.core.begin_snapshot();
    // Those that are saved are in this order as well.
    world.ok(a, delete("/a/b!"));
    world.ok(a, delete("/b"));
    world.ok(a, set_data("/a/b/x", "later"));
    let paths = slice(&mut world, 100, usize::MAX);
    let system = ["/zookeeper", "/zookeeper/config", "/zookeeper/quota"];
    assert_eq!(paths[..8], ["/", "/a", "/a/b", "/a/b/x", "/a/b!", "/a/c", "/a-b", "/b"]);
    assert_eq!(paths[8..], system);
}

#[test]
fn a_slice_ends_after_so_many_steps_or_bytes() {
    let mut world = World::new();
    let a = world.connect();
    for n in 0..100 {
        world.ok(a, create(&format!("/n{n:02}")).data("0123456789"));
    }
    world.core.begin_snapshot();
    assert!(slice(&mut world, 7, usize::MAX).len() <= 7);
    assert_eq!(slice(&mut world, usize::MAX, 42), ["/n06", "/n07", "/n08"], "14 bytes each");
    assert_eq!(slice(&mut world, usize::MAX, 0).len(), 1, "no slice is for nothing");
    // What was created later takes steps as well.
    for n in 0..100 {
        world.ok(a, create(&format!("/n10-{n}")));
    }
    assert_eq!(slice(&mut world, 50, usize::MAX), ["/n10"]);
    assert_eq!(slice(&mut world, 60, usize::MAX).first().map(String::as_str), Some("/n11"));
}

#[test]
fn statistics_of_quotas_are_those_of_the_beginning() {
    let mut world = World::new();
    let a = world.connect();
    let quota = "/zookeeper/quota/a";
    world.znodes(a, &["/a", quota]);
    world.ok(a, create(&format!("{quota}/zookeeper_limits")).data("count=5,bytes=5"));
    world.ok(a, create(&format!("{quota}/zookeeper_stats")));
    world.core.begin_snapshot();
    world.ok(a, set_data("/a", "longer"));
    world.ok(a, create("/a/b"));
    let mut data = None;
    world.core.next_slice(100, usize::MAX, &mut |record| {
        if record.path.ends_with("/zookeeper_stats") {
            data = record.data;
        }
    });
    assert_eq!(data.as_deref(), Some(&b"count=1,bytes=0"[..]));
    assert_eq!(world.ok(a, get_data(&format!("{quota}/zookeeper_stats"))).text(), "count=2,bytes=6");
}

#[test]
fn access_control_lists_come_in_the_order_in_which_they_came_into_use() {
    let mut world = World::new();
    let a = world.connect();
    let list = |n: u32| only(Perms::ALL, "digest", &format!("user{n}:x"));
    for n in 0..50 {
        world.ok(a, create(&format!("/n{n}")).acl(list(n)));
    }
    world.ok(a, delete("/n3"));
    world.ok(a, create("/n3").acl(list(3)));
    let header = world.core.begin_snapshot().0;
    let expected = [Acl::read_only()].into_iter().chain((0..50).filter(|n| *n != 3).chain([3]).map(list));
    assert_eq!(header.acls.iter().map(|acl| acl.to_vec()).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn a_snapshot_that_is_begun_again_is_a_new_one() {
    let mut world = World::new();
    let a = world.connect();
    world.znodes(a, &["/a", "/b"]);
    world.core.begin_snapshot();
    slice(&mut world, 2, usize::MAX);
    world.ok(a, delete("/b"));
    let header = world.core.begin_snapshot().0;
    assert_eq!(header.zxid.0, world.zxid());
    assert_eq!(slice(&mut world, 100, usize::MAX)[..2], ["/", "/a"]);
    world.core.end_snapshot();
    assert!(slice(&mut world, 100, usize::MAX).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_is_the_state_at_its_beginning_whatever_is_written_between_its_slices(
        before in vec(any::<Step>(), 0..120),
        between in vec((vec(any::<Step>(), 0..8), 1..5usize), 0..60),
    ) {
        let mut script = Script::new();
        before.into_iter().for_each(|step| script.step(step));
        let expected = copy(script.world.core.tree());
        let sessions: BTreeMap<_, _> =
            script.world.core.sessions().iter().map(|session| (session.id, session.timeout)).collect();
        let (header, listed) = script.world.core.begin_snapshot();
        prop_assert_eq!(header.zxid, script.world.core.tree().last_zxid());
        prop_assert_eq!(listed, sessions.into_iter().collect::<Vec<_>>());
        let mut records = Vec::new();
        let mut more = true;
        for (steps, max) in between {
            steps.into_iter().for_each(|step| script.step(step));
            more = script.world.core.next_slice(max, usize::MAX, &mut |record| records.push(record));
        }
        while more {
            more = script.world.core.next_slice(3, 20, &mut |record| records.push(record));
        }
        prop_assert!(!script.world.core.next_slice(3, 20, &mut |_| panic!("it has ended")));
        script.world.core.end_snapshot();
        prop_assert_eq!(records.iter().map(text).collect::<Vec<_>>(), expected);
        // Every list is in the header, and as the same allocation; the header has no other one.
        let mut unused: Vec<_> = header.acls.iter().collect();
        for record in records.iter().filter(|record| !record.acl.is_open()) {
            prop_assert!(header.acls.iter().any(|acl| acl.address() == record.acl.address()), "{:?}", record);
            unused.retain(|acl| acl.address() != record.acl.address());
        }
        prop_assert!(unused.is_empty(), "{:?}", unused);
        script.assert_sound();
    }
}
