//! A server that goes on from a snapshot and a log: lenient replay, and what becomes of sessions.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use zoolet_proto::{Acl, SessionId, Xid, Zxid};
use zoolet_server_core::{
    Core, Millis, Owner, SessionTable, StateMachine, Tree, TreeLoader, Txn, TxnOp, ZnodeRecord,
};

use crate::common::random::{self, Script, Step, assert_counted, dump, reloaded};
use crate::common::*;

const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);

fn txn(zxid: i64, op: TxnOp) -> Txn {
    Txn { session: SESSION, xid: Xid(1), zxid: Zxid(zxid), time: Millis(zxid * 10), op, digest: None }
}

fn created(path: &str, parent_creates: i64) -> TxnOp {
    created_by(path, parent_creates, Owner::PERSISTENT)
}

fn created_by(path: &str, parent_creates: i64, owner: Owner) -> TxnOp {
    TxnOp::Create { path: path.into(), data: None, acl: Acl::open().into(), owner, parent_creates }
}

fn deleted(path: &str) -> TxnOp {
    TxnOp::Delete { path: path.into() }
}

/// The empty tree with these transactions, from zxid 1 on.
fn tree(ops: impl IntoIterator<Item = TxnOp>) -> Tree {
    let mut tree = Tree::default().keeping_digest();
    for (op, zxid) in ops.into_iter().zip(1..) {
        tree.replay(&txn(zxid, op));
    }
    tree
}

/// The counters of the children of a znode that are stored: creates and pzxid.
fn counters(tree: &Tree, path: &str) -> (i32, i64) {
    let stat = tree.get(path).expect("a znode").stat();
    ((stat.cversion + stat.num_children) / 2, stat.pzxid.0)
}

#[test]
fn a_create_below_a_missing_parent_does_nothing_but_takes_its_zxid() {
    let tree = tree([created("/a/b", 1)]);
    assert_eq!((tree.len(), tree.last_zxid()), (4, Zxid(1)));
    assert_eq!(tree.digest(), Some(1_371_985_504));
}

#[test]
fn a_create_of_an_existing_znode_sets_its_acl_and_raises_the_counters_of_its_parent() {
    let mut tree = tree([created("/a", 1), created("/a/b", 1)]);
    let before = tree.get("/a").expect("a znode").stat();
    let op = |parent_creates| TxnOp::Create {
        path: "/a".into(),
        data: Some("new".into()),
        acl: Acl::read_only().into(),
        owner: Owner::CONTAINER,
        parent_creates,
    };
    tree.replay(&txn(7, op(5)));
    let node = tree.get("/a").expect("a znode");
    assert_eq!((node.acl(), node.data(), node.stat()), (&Acl::read_only()[..], None, before));
    assert_eq!(node.owner(), Owner::PERSISTENT);
    assert_eq!(counters(&tree, "/"), (5, 7));
    tree.replay(&txn(8, op(5)));
    assert_eq!(counters(&tree, "/"), (5, 7), "not larger");
    assert_counted(&tree);
    assert_eq!(tree.digest(), reloaded(&mut tree).digest());
}

#[test]
fn a_create_changes_the_counters_of_its_parent_only_if_they_are_larger() {
    let mut tree = tree([created("/a", 9)]);
    assert_eq!(counters(&tree, "/"), (9, 1));
    tree.replay(&txn(2, created("/b", 4)));
    assert!(tree.get("/b").is_some());
    assert_eq!(counters(&tree, "/"), (9, 1));
    tree.replay(&txn(3, created("/c", -1)));
    assert_eq!(counters(&tree, "/"), (10, 3), "an old server does not write the counter");
}

#[test]
fn a_delete_of_a_missing_znode_raises_the_pzxid_of_its_parent() {
    let mut tree = tree([created("/a", 1), deleted("/a/none"), deleted("/none/at/all")]);
    assert_eq!(counters(&tree, "/a"), (0, 2));
    tree.replay(&txn(1, deleted("/a/none")));
    assert_eq!((counters(&tree, "/a"), tree.last_zxid()), ((0, 2), Zxid(3)));
    tree.replay(&txn(9, deleted("/")));
    assert!(tree.get("/").is_some());
    assert_eq!(tree.digest(), reloaded(&mut tree).digest());
}

#[test]
fn paths_that_no_znode_can_have_are_ignored() {
    let tree = tree([created("a", 1), created("", 1), created("/", 1), created("//", 1), created("//a", 1)]);
    assert_eq!((tree.len(), tree.digest()), (4, Some(1_371_985_504)));
    let tree = self::tree([created("/a", 1), created("/a/", 1), deleted(""), deleted("a"), deleted("/a/")]);
    assert_eq!(tree.len(), 5);
    assert_counted(&tree);
}

#[test]
fn a_deleted_znode_takes_what_is_below_it_along() {
    let owner = Owner::session(SESSION);
    let mut tree =
        tree([created("/a", 1), created("/a/b", 1), created_by("/a/b/e", 1, owner), created("/ab", 2)]);
    tree.replay(&txn(9, deleted("/a")));
    assert_eq!((tree.len(), tree.ephemerals_count()), (5, 0));
    assert_eq!(counters(&tree, "/"), (2, 9));
    assert_counted(&tree);
    assert_eq!(tree.digest(), reloaded(&mut tree).digest());
}

#[test]
fn changes_of_missing_znodes_are_ignored() {
    let path: Arc<str> = "/none".into();
    let mut tree = tree([created("/a", 1)]);
    let before = dump(&tree);
    let set = TxnOp::SetData { path: Arc::clone(&path), data: None, version: 1 };
    let acl = TxnOp::SetAcl { path: Arc::clone(&path), acl: Acl::open().into(), aversion: 1 };
    let check = TxnOp::Check { path };
    tree.replay(&txn(1, TxnOp::Multi(vec![set, acl, check])));
    assert_eq!(dump(&tree), before);
}

#[test]
fn the_end_of_a_session_deletes_what_it_lists_and_then_all_that_the_session_owns() {
    let (owner, other) = (Owner::session(SESSION), Owner::session(SessionId(5)));
    let mut tree = tree([
        created_by("/listed", 1, owner),
        created_by("/other", 2, other),
        created_by("/unlisted", 3, owner),
        created_by("/stays", 4, other),
    ]);
    let ephemerals = vec!["/listed".into(), "/other".into(), "/gone".into()];
    tree.replay(&txn(9, TxnOp::CloseSession { ephemerals }));
    let children: Vec<_> = tree.get("/").expect("the root").children().map(|path| &**path).collect();
    assert_eq!(children, ["/stays", "/zookeeper"]);
    assert_eq!(counters(&tree, "/"), (4, 9));
}

#[test]
fn members_of_a_multi_are_replayed_in_order_with_one_zxid() {
    let ops = vec![created("/a", 1), deleted("/a"), created("/a", 2), created("/a/b", -1)];
    let tree = tree([TxnOp::Multi(ops)]);
    assert_eq!((counters(&tree, "/"), counters(&tree, "/a")), ((2, 1), (1, 1)));
    assert_eq!(tree.len(), 6);
}

/// A core that goes on from what another one has left.
fn restored(old: &mut World, highest: Option<SessionId>, now: i64) -> World {
    let (_, sessions) = old.core.begin_snapshot();
    old.core.end_snapshot();
    let mut tree = Tree::default();
    old.txns.iter().for_each(|txn| tree.replay(txn));
    let mut world = World::around(Core::restore(config(|_| {}), tree, sessions, highest, Millis(now)));
    world.control(|_| {});
    world
}

#[test]
fn sessions_are_resumed_with_their_ephemerals_and_their_whole_timeout() {
    let mut old = World::new();
    let a = old.connect();
    let session = old.session(a);
    old.ok(a, ephemeral("/e"));
    let mut new = restored(&mut old, None, START);
    assert!(new.txns.is_empty());
    let view = new.core.sessions().get(session).expect("the session");
    assert_eq!((view.timeout, view.conn), (TIMEOUT, None));
    assert!(view.deadline.0 > START + i64::from(TIMEOUT));
    let a = new.resume(session);
    assert_eq!(new.ok(a, get_ephemerals(None)).names(), ["/e"]);
    assert_eq!(new.ok(a, create("/next")).zxid, old.zxid() + 1);
    new.cut(a);
    new.advance(i64::from(TIMEOUT) + 2 * TICK);
    assert_eq!(new.paths_below("/"), ["/next", "/zookeeper"]);
}

#[test]
fn ephemerals_of_unknown_sessions_are_deleted_by_a_transaction() {
    let mut old = World::new();
    let (a, b) = (old.connect(), old.connect());
    let (lost, known) = (old.session(a), old.session(b));
    old.znodes(a, &["/p"]);
    old.ok(a, ephemeral("/p/lost"));
    old.ok(b, ephemeral("/p/known"));
    let mut tree = Tree::default();
    old.txns.iter().for_each(|txn| tree.replay(txn));
    let sessions = vec![(known, TIMEOUT)];
    let mut core = Core::restore(config(|config| config.logged = true), tree, sessions, None, Millis(START));
    let txns = core.take_effects().txns;
    let [Txn { session, zxid, op: TxnOp::CloseSession { ephemerals }, .. }] = &txns[..] else {
        panic!("{txns:?}")
    };
    assert_eq!((*session, zxid.0), (lost, old.zxid() + 1));
    assert_eq!(ephemerals.iter().map(|path| &**path).collect::<Vec<_>>(), ["/p/lost"]);
    let mut world = World::around(core);
    assert_eq!(world.paths_below("/p"), ["/p/known"]);
    let known = world.resume(known);
    assert_eq!(
        world.ok(known, exists("/p/known")).zxid,
        zxid.0,
        "nothing is durable yet but what was loaded"
    );
}

#[test]
fn sessions_of_the_program_that_has_ended_end_at_the_start_and_those_of_the_network_stay() {
    let mut old = World::with(|config| config.logged = true);
    let (here, there) = (old.connect_in_process(), old.connect());
    let (ended, stays) = (old.session(here), old.session(there));
    old.ok(here, ephemeral("/here"));
    old.ok(there, ephemeral("/there"));
    let mut new = restored(&mut old, None, START);
    assert!(new.txns.is_empty(), "whether the program has ended is not known yet");
    new.control(|core| core.end_in_process_sessions(Millis(START)));
    let [Txn { session, op: TxnOp::CloseSession { ephemerals }, .. }] = &new.txns[..] else {
        panic!("{:?}", new.txns)
    };
    assert_eq!((*session, &*ephemerals[0], ephemerals.len()), (ended, "/here", 1));
    assert_eq!(new.paths_below("/"), ["/there", "/zookeeper"]);
    new.resume(stays);
    assert_eq!(new.core.sessions().get(ended), None);
}

#[test]
fn without_a_log_a_session_in_process_is_like_any_other() {
    let mut world = World::new();
    let conn = world.connect_in_process();
    assert!(!SessionTable::is_in_process(world.session(conn)));
}

#[test]
fn containers_and_ttl_znodes_belong_to_no_session() {
    let mut old = World::with(|config| config.extended_types = true);
    let a = old.connect();
    old.ok(a, container("/c"));
    old.ok(a, create_ttl("/t", 5, 1000));
    let new = restored(&mut old, None, START);
    assert!(new.txns.is_empty());
    assert_eq!(new.paths_below("/"), ["/c", "/t", "/zookeeper"]);
}

#[test]
fn new_sessions_get_new_ids_though_nothing_is_left_of_closed_ones_and_no_time_has_passed() {
    let (mut txns, mut given): (Vec<Txn>, Vec<SessionId>) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let mut tree = Tree::default();
        txns.iter().for_each(|txn| tree.replay(txn));
        let mut world = World::around(Core::restore(config(|_| {}), tree, Vec::new(), None, Millis(START)));
        for _ in 0..3 {
            let a = world.connect();
            let id = world.session(a);
            assert!(!given.contains(&id), "{id} again after {given:?}");
            given.push(id);
            world.ok(a, close_session());
        }
        txns.append(&mut world.txns);
    }
}

#[test]
fn new_sessions_get_ids_above_every_one_before_though_the_clock_was_set_back() {
    let mut old = World::new();
    let a = old.connect();
    let highest = old.session(a);
    old.ok(a, zoolet_proto::Request::CloseSession);
    let opened = |new: &mut World| {
        let conn = new.connect();
        new.session(conn)
    };
    assert!(opened(&mut restored(&mut old, Some(highest), START - 1_000)) > highest);
    let later = opened(&mut restored(&mut old, Some(highest), START + 1_000));
    assert!(later.0 > highest.0 + (900 << 16), "{later}");
    // Server 3 of an ensemble counts in the same bits after its own number.
    let of_server_3 = SessionId((highest.0 & 0xff_ffff_ffff_ffff) | 3 << 56);
    let next = opened(&mut restored(&mut old, Some(of_server_3), START - 1_000));
    assert_eq!(next, SessionId(highest.0 + 1));
    let greatest = SessionId(0x01ff_ffff_ffff_ffff);
    assert_eq!(opened(&mut restored(&mut old, Some(greatest), START)), SessionId(0x0200_0000_0000_0000));
    let mut present = World::new();
    let a = present.connect();
    let session = present.session(a);
    assert!(opened(&mut restored(&mut present, None, START - 1_000)) > session);
}

/// A snapshot as a real server writes it: each znode as it is when the walk reaches it, with the children that its parent had
/// then.
struct FuzzySnapshot {
    loader: TreeLoader,
    from: Zxid,
    /// What to visit, the next last.
    pending: Vec<String>,
}

impl FuzzySnapshot {
    fn begin(tree: &Tree) -> Self {
        Self { loader: TreeLoader::new(true), from: tree.last_zxid(), pending: vec!["/".to_owned()] }
    }

    /// Visits one znode. Returns false at the end.
    fn step(&mut self, tree: &mut Tree) -> bool {
        let Some(path) = self.pending.pop() else { return false };
        let Some(node) = tree.get(&path) else { return true };
        self.pending.extend(node.children().map(ToString::to_string));
        self.loader.insert(record_of(tree, &path)).expect("a znode");
        true
    }
}

/// A znode as it is now.
fn record_of(tree: &mut Tree, path: &str) -> ZnodeRecord {
    let mut found = None;
    tree.begin_snapshot();
    while tree.next_slice(100, usize::MAX, &mut |record| {
        if *record.path == *path {
            found = Some(record);
        }
    }) {}
    tree.end_snapshot();
    found.expect("a znode")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_log_that_is_replayed_over_a_fuzzy_snapshot_gives_the_same_tree(
        before in vec(any::<Step>(), 0..60),
        between in vec(vec(any::<Step>(), 0..6), 0..30),
        after in vec(any::<Step>(), 0..20),
    ) {
        let mut script = Script::new();
        before.into_iter().for_each(|step| script.step(step));
        // A tree that follows the script: the snapshot of the test walks over it.
        let mut live = Tree::default();
        let mut applied = 0;
        let mut follow = |live: &mut Tree, script: &Script| {
            script.world.txns[applied..].iter().for_each(|txn| live.apply(txn, &mut |_, _| {}));
            applied = script.world.txns.len();
        };
        follow(&mut live, &script);
        let mut snapshot = FuzzySnapshot::begin(&live);
        for steps in between {
            steps.into_iter().for_each(|step| script.step(step));
            follow(&mut live, &script);
            snapshot.step(&mut live);
        }
        while snapshot.step(&mut live) {}
        after.into_iter().for_each(|step| script.step(step));
        follow(&mut live, &script);
        let FuzzySnapshot { loader, from, .. } = snapshot;
        let mut tree = loader.finish(from).expect("a tree");
        let txns = script.world.txns.iter().filter(|txn| txn.zxid > from);
        txns.for_each(|txn| tree.replay(txn));
        assert_counted(&tree);
        // Quotas are counted anew by a load.
        let (mut expected, mut tree) = (random::reloaded(&mut live), random::reloaded(&mut tree));
        prop_assert_eq!(dump(&tree), dump(&expected));
        prop_assert_eq!(reloaded(&mut tree).digest(), reloaded(&mut expected).digest());
    }

    #[test]
    fn replay_over_the_tree_that_a_log_was_written_for_is_exact(steps in vec(any::<Step>(), 0..150)) {
        let mut script = Script::of(World::with(|config| {
            random::allow_everything(config);
            config.logged = true;
        }));
        steps.into_iter().for_each(|step| script.step(step));
        let mut tree = Tree::default().keeping_digest();
        for txn in &script.world.txns {
            tree.replay(txn);
            prop_assert!(txn.digest.is_none_or(|digest| Some(digest) == tree.digest()), "{:?}", txn);
        }
        prop_assert_eq!(dump(&tree), dump(script.world.core.tree()));
        assert_counted(&tree);
    }
}
