//! Trees that are built from the znodes of a snapshot.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use zoolet_proto::{Acl, Zxid};
use zoolet_server_core::{Core, LoadError, Millis, Owner, Tree, TreeLoader, ZnodeRecord};

use crate::common::random::{self, Script, Step, dump};
use crate::common::{START, World, config};

fn znode(path: &str) -> ZnodeRecord {
    ZnodeRecord {
        path: path.into(),
        data: Some(Bytes::from_static(b"x")),
        acl: Acl::open().into(),
        czxid: Zxid(0),
        mzxid: Zxid(0),
        pzxid: Zxid(0),
        ctime: 0,
        mtime: 0,
        version: 0,
        creates: 0,
        aversion: 0,
        owner: Owner::PERSISTENT,
    }
}

fn load(records: impl IntoIterator<Item = ZnodeRecord>) -> Result<Tree, LoadError> {
    let mut loader = TreeLoader::new(true);
    records.into_iter().try_for_each(|record| loader.insert(record))?;
    loader.finish(Zxid(9))
}

fn refused(paths: &[&str]) -> LoadError {
    load(paths.iter().map(|path| znode(path))).expect_err("it is no tree")
}

fn text(tree: &Tree, path: &str) -> Option<String> {
    let data = tree.get(path)?.data()?.to_vec();
    Some(String::from_utf8(data).expect("text"))
}

#[test]
fn znodes_that_make_no_tree_are_refused() {
    let path = |path: &str| -> Arc<str> { path.into() };
    assert_eq!(refused(&[]), LoadError::NoRoot);
    assert_eq!(refused(&["/a"]), LoadError::NoParent(path("/a")));
    assert_eq!(refused(&["/", "/a/b", "/a"]), LoadError::NoParent(path("/a/b")));
    assert_eq!(refused(&["/", "/a", "/a"]), LoadError::Duplicate(path("/a")));
    assert_eq!(refused(&["/", "/"]), LoadError::Duplicate(path("/")));
    for invalid in ["", "a", "/a/", "//", "//a"] {
        assert_eq!(refused(&["/", "/a", invalid]), LoadError::InvalidPath(path(invalid)));
    }
    assert_eq!(refused(&["/", "/a//b"]), LoadError::NoParent(path("/a//b")));
}

#[test]
fn missing_system_znodes_are_added_as_an_empty_tree_has_them() {
    let root = ZnodeRecord { data: Some(Bytes::new()), ..znode("/") };
    let tree = load([root]).expect("a tree");
    let mut empty = Tree::starting_at(Zxid(9));
    assert_eq!(dump(&tree), dump(&empty));
    assert_eq!(tree.digest(), Some(1_371_985_504));
    assert_eq!(dump(&random::reloaded(&mut empty)), dump(&tree));
}

#[test]
fn every_field_of_a_znode_is_kept() {
    let record = ZnodeRecord {
        data: None,
        acl: Acl::read_only().into(),
        czxid: Zxid(2),
        mzxid: Zxid(4),
        pzxid: Zxid(8),
        ctime: 3,
        mtime: 5,
        version: 6,
        creates: 0xffff_fff0,
        aversion: 7,
        owner: Owner::CONTAINER,
        ..znode("/a")
    };
    let mut tree = load([znode("/"), record.clone()]).expect("a tree");
    let mut loaded = None;
    tree.begin_snapshot();
    tree.next_slice(100, usize::MAX, &mut |record| {
        if *record.path == *"/a" {
            loaded = Some(record);
        }
    });
    assert_eq!(loaded, Some(record));
}

#[test]
fn a_container_of_any_age_is_found_when_it_is_too_old() {
    for mtime in [i64::MIN, i64::MAX] {
        let record = ZnodeRecord { owner: Owner::CONTAINER, mtime, ..znode("/a") };
        let tree = load([znode("/"), record]).expect("a tree");
        let config = config(|config| config.container_max_never_used = Some(1));
        let mut world = World::around(Core::restore(config, tree, Vec::new(), None, Millis(START)));
        world.advance(60_000);
        assert_eq!(world.core.tree().get("/a").is_some(), mtime == i64::MAX);
    }
}

#[test]
fn many_children_in_no_order_are_listed_in_order() {
    let name = |n: u32| match n % 5 {
        0 => format!("/a/n{n:010}"),
        1 => format!("/a/é{n}"),
        2 => format!("/a/{n}"),
        3 => format!("/a/n{n}"),
        _ => format!("/a/a-long-prefix-{n}"),
    };
    let children = (0..2_000u32).map(|n| name(n * 7_919 % 2_000));
    let records = ["/", "/a", "/b"].map(str::to_owned).into_iter().chain(children);
    // Children of two parents take turns.
    let records = records.flat_map(|path| match path.strip_prefix("/a/") {
        Some(name) => vec![path.clone(), format!("/b/{name}")],
        None => vec![path],
    });
    let tree = load(records.map(|path| znode(&path))).expect("a tree");
    for parent in ["/a", "/b"] {
        let listed: Vec<_> = tree.get(parent).expect("a znode").children().cloned().collect();
        assert!(listed.is_sorted() && listed.len() == 2_000);
    }
    random::assert_counted(&tree);
    assert_eq!(tree.get("/a").expect("a znode").stat().num_children, 2_000);
    let again = load(["/", "/a", "/a/n"].into_iter().chain(vec!["/a/n"; 100]).map(znode));
    assert_eq!(again.err(), Some(LoadError::Duplicate("/a/n".into())));
}

#[test]
fn the_newest_change_that_a_fuzzy_snapshot_shows_is_known() {
    let mut loader = TreeLoader::new(false);
    for record in [
        znode("/"),
        ZnodeRecord { czxid: Zxid(3), ..znode("/c") },
        ZnodeRecord { mzxid: Zxid(4), ..znode("/m") },
        ZnodeRecord { pzxid: Zxid(5), ..znode("/p") },
        znode("/a"),
    ] {
        loader.insert(record).expect("a znode");
    }
    assert_eq!(loader.newest(), Zxid(5));
    assert_eq!(loader.finish(Zxid(2)).expect("a tree").last_zxid(), Zxid(2));
}

#[test]
fn statistics_of_quotas_are_counted_anew() {
    let limits = "/zookeeper/quota/a/zookeeper_limits";
    let stats = "/zookeeper/quota/a/zookeeper_stats";
    let other = "/zookeeper/quota/a/b/zookeeper_stats";
    let paths = ["/", "/a", "/a/b", "/zookeeper", "/zookeeper/quota", "/zookeeper/quota/a", limits, stats];
    let more = ["/zookeeper/quota/a/b", other];
    let tree = load(paths.iter().chain(&more).map(|path| znode(path))).expect("a tree");
    assert_eq!(text(&tree, stats).as_deref(), Some("count=2,bytes=2"));
    assert_eq!(text(&tree, other).as_deref(), Some("x"), "without limits");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_that_is_loaded_again_is_the_same(steps in vec(any::<Step>(), 0..150)) {
        let mut script = Script::new();
        for step in steps {
            script.step(step);
        }
        let mut tree = Tree::default();
        script.world.txns.iter().for_each(|txn| tree.apply(txn, &mut |_, _| {}));
        let mut again = random::reloaded(&mut tree);
        // The first one counts quotas anew.
        prop_assert_eq!(dump(&random::reloaded(&mut again)), dump(&again));
        let without_quotas = |tree: &Tree| {
            let mut lines = dump(tree);
            lines.retain(|line| !line.contains("zookeeper_stats") && !line.starts_with("Zxid("));
            lines
        };
        prop_assert_eq!(without_quotas(&again), without_quotas(&tree));
        prop_assert_eq!(again.last_zxid(), tree.last_zxid());
        random::assert_counted(&again);
    }
}
