//! Random scripts: each step is eight bytes, so that a property test or a fuzzer can remove single steps to find the shortest
//! script that fails.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_proto::{Acl, Incoming, Perms, Request, SessionId, Xid};
use zoolet_server_core::{ConnId, Core, CoreConfig, Tree, TreeLoader};
use zoolet_test_support::*;

use super::{Machine, Received, World};

pub type Step = [u8; 8];

/// Few names, so that steps interact; some are not valid paths.
const PATHS: &[&str] = &[
    "/a",
    "/b",
    "/a/a",
    "/a/b",
    "/a/b/c",
    "/a/b/c/d",
    "/b/e",
    "/c",
    "/c/x",
    "/",
    "",
    "/a/",
    "/a\u{1}",
    "x",
    "/zookeeper/quota/a",
    "/zookeeper/quota/a/zookeeper_limits",
    "/zookeeper/quota/a/zookeeper_stats",
    "/zookeeper/quota/a/b",
    "/zookeeper/quota/a/b/zookeeper_limits",
    "/zookeeper/quota/a/b/zookeeper_stats",
    "/zookeeper/config",
    "/s/0000000001",
];

const DATA: &[&str] =
    &["", "x", "longer", "count=3,bytes=9=;byteHardLimit=20;countHardLimit=4", "count=1,bytes=5", "\u{0}"];

/// A world in which random scripts may do everything, with the state to check the outcome.
pub struct Script<M = Core> {
    pub world: World<M>,
    /// Every connection so far, with the xids of its unanswered requests.
    conns: Vec<(ConnId, Vec<Xid>)>,
    sessions: Vec<SessionId>,
}

impl Script {
    pub fn new() -> Self {
        Self::of(World::with(allow_everything))
    }
}

pub fn allow_everything(config: &mut CoreConfig) {
    config.extended_types = true;
    config.enforce_quota = true;
    config.container_max_never_used = Some(90_000);
    config.max_watches_per_connection = Some(12);
}

impl<M: Machine> Script<M> {
    pub fn of(world: World<M>) -> Self {
        Self { world, conns: Vec::new(), sessions: Vec::new() }
    }

    /// Executes one step.
    pub fn step(&mut self, step: Step) {
        let [kind, who, ..] = step;
        match kind % 16 {
            0 if self.conns.len() < 40 => {
                let conn = self.world.connect();
                self.note(conn);
            }
            1 if !self.sessions.is_empty() => self.resume(usize::from(who)),
            2 => {
                if let Some(conn) = self.conn(who) {
                    self.world.cut(conn);
                }
            }
            3 => self.world.advance(i64::from(u16::from_be_bytes([step[2], step[3]]))),
            _ => {
                if let Some(conn) = self.conn(who) {
                    self.ask(conn, request(step));
                }
            }
        }
        self.hear();
    }

    fn conn(&self, who: u8) -> Option<ConnId> {
        // Mostly one of the newest: the others are likely to be closed.
        let from = self.conns.len().saturating_sub(6);
        let live = &self.conns[from..];
        live.get(usize::from(who) % live.len().max(1)).map(|(conn, _)| *conn)
    }

    fn note(&mut self, conn: ConnId) {
        self.sessions.push(self.world.session(conn));
        self.conns.push((conn, Vec::new()));
    }

    fn resume(&mut self, which: usize) {
        let session = self.sessions[which % self.sessions.len()];
        let conn = self.world.socket();
        let password = Some(super::password_of(session));
        let request = zoolet_proto::records::ConnectRequest { session, password, ..super::new_session() };
        self.world.hello(conn, request);
        match &self.world.received(conn)[..] {
            [Received::Welcome(_)] => self.note(conn),
            [Received::Welcome(refusal), Received::Closed] => assert!(refusal.is_refusal()),
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, conn: ConnId, request: Request) {
        let live = self.world.core.session_of(conn).is_some();
        let xid = self.world.send(conn, request);
        if live {
            let asked = self.conns.iter_mut().find(|(known, _)| *known == conn);
            asked.expect("a known connection").1.push(xid);
        }
    }

    /// Checks what was received: each reply is to the oldest unanswered request, and nothing follows a close.
    fn hear(&mut self) {
        for (conn, asked) in &mut self.conns {
            let mut closed = false;
            for received in self.world.received(*conn) {
                assert!(!closed, "{received:?} after the close of {conn}");
                match received {
                    Received::Answer(answer) => assert_eq!(answer.xid, asked.remove(0), "to {conn}"),
                    Received::Closed => closed = true,
                    Received::Event(_) | Received::Welcome(_) => {}
                }
            }
            assert!(closed || asked.is_empty(), "{conn} got no answer");
            if closed {
                asked.clear();
            }
        }
    }

    /// Sends the bytes of a frame on a connection of its own, which an invalid one may close.
    pub fn frame(&mut self, bytes: &[u8]) {
        if Incoming::parse(bytes).is_none() {
            return;
        }
        let conn = match self.conns.iter().rev().find(|(conn, _)| self.world.core.session_of(*conn).is_some())
        {
            Some((conn, _)) => *conn,
            None => {
                let conn = self.world.connect();
                self.note(conn);
                conn
            }
        };
        self.world.send_frame(conn, bytes);
        for (conn, _) in &self.conns {
            self.world.received(*conn);
        }
    }

    /// Asserts that the transactions so far, applied to an empty tree, give the present tree.
    pub fn assert_replays(&self) {
        let mut tree = Tree::default();
        for txn in &self.world.txns {
            tree.apply(txn, &mut |_, _| {});
        }
        assert_eq!(dump(&tree), dump(self.world.core.core().tree()));
    }

    /// Asserts what holds after every step.
    pub fn assert_sound(&self) {
        let tree = self.world.core.core().tree();
        assert_counted(tree);
        let mut below = vec!["/".to_owned()];
        while let Some(path) = below.pop() {
            let node = tree.get(&path).expect("a znode");
            let stat = node.stat();
            assert!(stat.czxid <= stat.mzxid && stat.czxid <= stat.pzxid, "{path}: {stat:?}");
            assert!(stat.mzxid <= tree.last_zxid() && stat.pzxid <= tree.last_zxid(), "{path}: {stat:?}");
            if let Some(session) = node.owner().as_session() {
                assert_eq!(node.children().len(), 0, "{path} is an ephemeral with children");
                let sessions = self.world.core.core().sessions();
                assert!(sessions.get(session).is_some(), "{path} outlived its session");
            }
            below.extend(node.children().map(ToString::to_string));
        }

        let zxids = self.world.txns.iter().map(|txn| txn.zxid.0);
        assert!(zxids.eq(1..=tree.last_zxid().0), "zxids are not dense");

        for watches in (0..self.world.core.replicas()).map(|at| self.world.core.replica(at).watches()) {
            let mut by_conn: BTreeMap<ConnId, BTreeSet<&str>> = BTreeMap::new();
            for watch in watches.iter() {
                by_conn.entry(watch.conn).or_default().insert(watch.path);
            }
            assert_eq!(by_conn.values().map(BTreeSet::len).sum::<usize>(), watches.len());
            for (conn, paths) in by_conn {
                assert!(self.world.core.session_of(conn).is_some(), "{conn} is gone but watches {paths:?}");
                assert!(paths.len() <= 12, "{conn} watches more than it may: {paths:?}");
            }
        }
        for session in self.world.core.core().sessions().iter() {
            assert!(session.deadline.0 > self.world.now(), "{session:?} should have expired");
            if let Some(conn) = session.conn {
                assert_eq!(self.world.core.session_of(conn), Some(session.id));
            }
        }
    }
}

/// Checks all counts and indexes that a tree keeps.
pub fn assert_counted(tree: &Tree) {
    let (mut seen, mut bytes, mut owned) = (0, 0, 0);
    let mut below = vec!["/".to_owned()];
    while let Some(path) = below.pop() {
        let node = tree.get(&path).unwrap_or_else(|| panic!("{path} is a child but no znode"));
        let stat = node.stat();
        seen += 1;
        bytes += path.len() + node.data().map_or(0, |data| data.len());
        assert_eq!(stat.num_children as usize, node.children().len());
        assert_eq!(stat.data_length as usize, node.data().map_or(0, |data| data.len()));
        if let Some(session) = node.owner().as_session() {
            owned += 1;
            assert!(tree.ephemerals(session).any(|owned| **owned == *path), "{path} is not in the index");
        }
        for child in node.children() {
            assert_eq!(zoolet_proto::path::parent(child), path);
            below.push(child.to_string());
        }
    }
    assert_eq!((seen, bytes, owned), (tree.len(), tree.data_size(), tree.ephemerals_count()));
    assert_subtrees_are_counted(tree, "/");
}

/// Checks the counts of a subtree, and returns its number of znodes and bytes of data.
fn assert_subtrees_are_counted(tree: &Tree, path: &str) -> (usize, usize) {
    let node = tree.get(path).expect("a znode");
    let mut counted = (1, node.data().map_or(0, |data| data.len()));
    for child in node.children() {
        let (znodes, bytes) = assert_subtrees_are_counted(tree, child);
        counted = (counted.0 + znodes, counted.1 + bytes);
    }
    assert_eq!((1 + node.descendants(), node.subtree_bytes()), counted, "{path}");
    counted
}

/// All visible state of a tree, one line per znode.
pub fn dump(tree: &Tree) -> Vec<String> {
    let mut lines = vec![format!("{:?} {} {:?}", tree.last_zxid(), tree.data_size(), tree.owners())];
    let mut below = vec!["/".to_owned()];
    while let Some(path) = below.pop() {
        let node = tree.get(&path).expect("a znode");
        lines.push(format!("{path} {:?} {:?} {:?} {:?}", node.data(), node.acl(), node.owner(), node.stat()));
        below.extend(node.children().map(ToString::to_string));
    }
    for session in tree.owners() {
        lines.push(format!("{session}: {:?}", tree.ephemerals(session).collect::<Vec<_>>()));
    }
    lines
}

/// A copy of a tree, made by way of a snapshot: with its digest, and with its quotas counted anew.
pub fn reloaded(tree: &mut Tree) -> Tree {
    let mut loader = TreeLoader::new(true);
    let header = tree.begin_snapshot();
    while tree.next_slice(100, usize::MAX, &mut |record| loader.insert(record).expect("a znode")) {}
    tree.end_snapshot();
    loader.finish(header.zxid).expect("a tree")
}

/// The request of a step.
pub fn request([_, _, op, path, number, data, other, seed]: Step) -> Request {
    let path = PATHS[usize::from(path) % PATHS.len()];
    let elsewhere = PATHS[usize::from(other) % PATHS.len()];
    let data = DATA[usize::from(data) % DATA.len()];
    let version = i32::from(number % 5) - 1;
    let watched = |request: Request| if other % 2 == 0 { request.watch() } else { request };
    match op % 32 {
        0..=3 => create(path).flags(i32::from(number % 5)).acl(acl(other)).data(data),
        4 => create2(path).flags(i32::from(number % 8) - 1).data(data),
        5 => container(path).flags(i32::from(number % 5)),
        6 => create_ttl(path, i32::from(number % 8), i64::from(other) * 500),
        7 | 8 => delete(path).version(version),
        9 | 10 => set_data(path, data).version(version),
        11 => set_acl(path, acl(other)).version(version),
        12 => delete_container(path),
        13 => watched(exists(path)),
        14 => watched(get_data(path)),
        15 => watched(get_children(path)),
        16 => watched(get_children2(path)),
        17 => get_acl(path),
        18 => get_all_children_number(path),
        19 => get_ephemerals(Some(path)),
        20 => add_watch(path, i32::from(number % 3)),
        21 => check_watches(path, i32::from(number % 7)),
        22 => remove_watches(path, i32::from(number % 7)),
        23 => set_watches(i64::from(seed), &[path], &[elsewhere], &[path, elsewhere]),
        24 => set_persistent_watches(i64::from(seed), &[path], &[elsewhere]),
        25 => auth(if seed % 8 == 0 { "world" } else { "digest" }, "bob:pw"),
        26 => sync(path),
        27 => multi_read(
            (0..number % 4).map(|n| if n % 2 == 0 { get_data(path) } else { get_children(elsewhere) }),
        ),
        28 if seed % 4 == 0 => Request::CloseSession,
        28 => Request::WhoAmI,
        _ => multi(parts([op, path.len() as u8, number, other, seed])),
    }
}

/// The operations of a multi, from a generator that the bytes seed.
fn parts(seed: [u8; 5]) -> Vec<Request> {
    let mut state = seed.iter().fold(0x9e37_79b9_7f4a_7c15u64, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut draw = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    (0..draw(6))
        .map(|_| {
            // Only names that are likely to work: a multi that fails ends early.
            let path = PATHS[draw(9)];
            let version = draw(3) as i32 - 1;
            match draw(8) {
                0..=2 => create(path).flags(draw(5) as i32).data(DATA[draw(3)]),
                3 => create2(path).flags(draw(4) as i32),
                4 => delete(path).version(version),
                5 => set_data(path, DATA[draw(3)]).version(version),
                6 => check(path, version),
                _ => container(path),
            }
        })
        .collect()
}

fn acl(choice: u8) -> Vec<Acl> {
    match choice % 16 {
        0 => vec![],
        1 => anyone(Perms::READ | Perms::ADMIN),
        2 => only(Perms::ALL, "auth", ""),
        3 => only(Perms::ALL, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="),
        4 => anyone(Perms(31 & !1)),
        5 => only(Perms::ALL, "ip", "127.0.0.0/8"),
        6 => [Acl::open(), Acl::open(), Acl::read_only()].concat(),
        _ => Acl::open(),
    }
}
