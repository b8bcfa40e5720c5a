//! The mirror beside a model of a server, under random schedules of writes, requests, replies and lost connections: every
//! snapshot is compared with the tree as it was after the transaction that it names.
//!
//! `ZOOLET_SCHEDULES` sets how many schedules run, `ZOOLET_SEED` the seed of the first; each has the next seed.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use zoolet_client::internal::records::{Exists, GetChildren, GetData, SetWatches};
use zoolet_client::internal::{FeedRequest, NameList};
use zoolet_client::{EventType, WatchEvent, path as znode_path};
use zoolet_test_support::Dice;

use super::super::entry::Entry;
use super::super::publish::{Board, CacheChanges};
use super::*;

/// Enough for 100,000 snapshots.
const SCHEDULES: u64 = 3_000;

const ROOT: &str = "/r";
/// Few names, so that znodes are created again and again.
const NAMES: [&str; 3] = ["a", "b", "a!"];

#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelNode {
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
    data: u32,
}

type ModelTree = BTreeMap<String, ModelNode>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Release {
    /// Events name their transaction.
    Since39,
    /// They do not.
    Since36,
    /// No recursive watch.
    Before36,
}

/// What the server has queued for the connection, in order.
enum Sent {
    Reply(u64, i64, Answer),
    Event(WatchEvent),
    /// The client's queue was full here.
    Gap,
}

enum Answer {
    Data(u32, Stat),
    Stat(Stat),
    Children(NameList, Stat),
    Absent,
    Armed,
}

/// A server, and one connection to it.
struct Model {
    release: Release,
    dice: Dice,
    tree: ModelTree,
    /// After each transaction; the index is the zxid.
    history: Vec<ModelTree>,
    requests: VecDeque<(u64, FeedRequest)>,
    sent: VecDeque<Sent>,
    watches_tree: bool,
    data_watches: HashSet<String>,
    child_watches: HashSet<String>,
}

fn parent(path: &str) -> &str {
    znode_path::parent(path)
}

impl Model {
    fn new(release: Release, dice: Dice) -> Self {
        Self {
            release,
            dice,
            tree: ModelTree::new(),
            history: vec![ModelTree::new()],
            requests: VecDeque::new(),
            sent: VecDeque::new(),
            watches_tree: false,
            data_watches: HashSet::new(),
            child_watches: HashSet::new(),
        }
    }

    fn zxid(&self) -> i64 {
        self.history.len() as i64 - 1
    }

    fn disconnect(&mut self) {
        self.requests.clear();
        self.sent.clear();
        self.watches_tree = false;
        self.data_watches.clear();
        self.child_watches.clear();
    }

    /// One transaction of a few operations.
    fn write(&mut self) {
        let zxid = self.history.len() as i64;
        let mut events = Vec::new();
        for _ in 0..1 + self.dice.below(4) {
            match self.dice.below(10) {
                // A whole directory is created again, with as many changes as before.
                0 => {
                    let path = self.some_path();
                    let had = self.below_inclusive(&path);
                    self.delete_tree(&path, zxid, &mut events);
                    if self.dice.chance(70) {
                        for path in had {
                            let path = if self.dice.chance(20) { self.some_path() } else { path };
                            self.create(&path, zxid, &mut events);
                        }
                    }
                }
                1..=3 => {
                    let path = self.some_path();
                    self.delete_tree(&path, zxid, &mut events);
                }
                4..=6 => {
                    let path = self.some_path();
                    self.set(&path, zxid, &mut events);
                }
                _ => {
                    let path = self.some_path();
                    self.create(&path, zxid, &mut events);
                }
            }
        }
        self.history.push(self.tree.clone());
        for (kind, path) in events {
            self.fire(kind, path, zxid);
        }
    }

    fn some_path(&mut self) -> String {
        let mut path = ROOT.to_owned();
        for _ in 0..self.dice.below(4) {
            path.push('/');
            path.push_str(self.dice.of(&NAMES));
        }
        path
    }

    fn below_inclusive(&self, path: &str) -> Vec<String> {
        let is_below = |other: &&String| **other == path || other.starts_with(&format!("{path}/"));
        self.tree.keys().filter(is_below).cloned().collect()
    }

    fn create(&mut self, path: &str, zxid: i64, events: &mut Vec<(EventType, String)>) {
        let has_parent = path == ROOT || self.tree.contains_key(parent(path));
        if self.tree.contains_key(path) || !has_parent {
            return;
        }
        let data = self.dice.below(3) as u32;
        self.tree.insert(path.to_owned(), ModelNode { czxid: zxid, mzxid: zxid, pzxid: zxid, data });
        self.child_changed(path, zxid);
        events.push((EventType::NodeCreated, path.to_owned()));
        events.push((EventType::NodeChildrenChanged, parent(path).to_owned()));
    }

    fn set(&mut self, path: &str, zxid: i64, events: &mut Vec<(EventType, String)>) {
        let data = self.dice.below(3) as u32;
        if let Some(node) = self.tree.get_mut(path) {
            (node.mzxid, node.data) = (zxid, data);
            events.push((EventType::NodeDataChanged, path.to_owned()));
        }
    }

    fn delete_tree(&mut self, path: &str, zxid: i64, events: &mut Vec<(EventType, String)>) {
        for path in self.below_inclusive(path).into_iter().rev() {
            self.tree.remove(&path);
            self.child_changed(&path, zxid);
            events.push((EventType::NodeDeleted, path.clone()));
            events.push((EventType::NodeChildrenChanged, parent(&path).to_owned()));
        }
    }

    fn child_changed(&mut self, path: &str, zxid: i64) {
        if let Some(node) = self.tree.get_mut(parent(path)) {
            node.pzxid = zxid;
        }
    }

    fn fire(&mut self, kind: EventType, path: String, zxid: i64) {
        let reported = match kind {
            EventType::NodeChildrenChanged => self.child_watches.remove(&path),
            EventType::NodeDeleted => {
                let (data, child) = (self.data_watches.remove(&path), self.child_watches.remove(&path));
                data || child || self.watches_tree
            }
            _ => self.data_watches.remove(&path) || self.watches_tree,
        };
        if reported {
            let zxid = (self.release == Release::Since39).then_some(Zxid(zxid));
            self.sent.push_back(Sent::Event(event(kind, path, zxid)));
        }
    }

    /// Executes the next request.
    fn execute(&mut self) {
        let Some((tag, request)) = self.requests.pop_front() else { return };
        let answer = match request {
            FeedRequest::WatchTree(_) => {
                self.watches_tree = true;
                Answer::Armed
            }
            FeedRequest::SetWatches(SetWatches { relative_zxid: since, data, child: children, .. }) => {
                for path in data {
                    match self.tree.get(&path) {
                        None => self.catch_up(EventType::NodeDeleted, path),
                        Some(node) if node.mzxid > since.0 => self.catch_up(EventType::NodeDataChanged, path),
                        Some(_) => drop(self.data_watches.insert(path)),
                    }
                }
                for path in children {
                    match self.tree.get(&path) {
                        None => self.catch_up(EventType::NodeDeleted, path),
                        Some(node) if node.pzxid > since.0 => {
                            self.catch_up(EventType::NodeChildrenChanged, path);
                        }
                        Some(_) => drop(self.child_watches.insert(path)),
                    }
                }
                Answer::Armed
            }
            FeedRequest::GetData(GetData { path, watch }) => match self.stat(&path) {
                None => Answer::Absent,
                Some((stat, data)) => {
                    if watch {
                        self.data_watches.insert(path);
                    }
                    Answer::Data(data, stat)
                }
            },
            FeedRequest::Exists(Exists { path, watch }) => {
                if watch {
                    self.data_watches.insert(path.clone());
                }
                self.stat(&path).map_or(Answer::Absent, |(stat, _)| Answer::Stat(stat))
            }
            FeedRequest::GetChildren(GetChildren { path, watch }) => match self.stat(&path) {
                None => Answer::Absent,
                Some((stat, _)) => {
                    let names: Vec<_> = self.children(&path).collect();
                    let names = names.iter().map(String::as_str).collect();
                    if watch {
                        self.child_watches.insert(path);
                    }
                    Answer::Children(names, stat)
                }
            },
            other => panic!("the mirror never sends {other:?}"),
        };
        self.sent.push_back(Sent::Reply(tag, self.zxid(), answer));
    }

    fn catch_up(&mut self, kind: EventType, path: String) {
        self.sent.push_back(Sent::Event(event(kind, path, None)));
    }

    fn children<'m>(&'m self, path: &'m str) -> impl Iterator<Item = String> + 'm {
        let children = self.tree.keys().filter(move |other| **other != path && parent(other) == path);
        children.map(|path| path.rsplit('/').next().expect("a name").to_owned())
    }

    fn stat(&self, path: &str) -> Option<(Stat, u32)> {
        let node = self.tree.get(path)?;
        let stat = Stat {
            czxid: Zxid(node.czxid),
            mzxid: Zxid(node.mzxid),
            pzxid: Zxid(node.pzxid),
            num_children: self.children(path).count() as i32,
            // As in the fault of others that compare versions: always equal.
            ..Stat::default()
        };
        Some((stat, node.data))
    }
}

fn event(kind: EventType, path: String, zxid: Option<Zxid>) -> WatchEvent {
    WatchEvent::new(kind, path, zxid)
}

type ReaderState = BTreeMap<String, (Zxid, u32)>;

/// A mirror with its connection, its readers, and what each of them has made of the changes.
struct Play {
    model: Model,
    mirror: Mirror<u32>,
    board: Arc<Board<u32>>,
    readers: Vec<(CacheChanges<u32>, ReaderState)>,
    connected: bool,
    in_flight: BTreeMap<u64, Option<Read>>,
    arming: VecDeque<FeedRequest>,
    next_tag: u64,
    window: usize,
    dice: Dice,
    snapshots: u64,
    scope: Scope,
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let release = dice.of(&[Release::Since39, Release::Since39, Release::Since36, Release::Before36]);
        let filter: Option<super::super::scope::PathFilter> = match dice.below(4) {
            0 => Some(Arc::new(|path: &str| !path.ends_with("/b"))),
            _ => None,
        };
        let max_depth = dice.of(&[usize::MAX, usize::MAX, 3, 1, 0]);
        let scope = Scope { root: ROOT.into(), max_depth, filter, skip_system: false };
        let decode: Decoder<u32> =
            Arc::new(|_, data| Ok(u32::from_be_bytes(data.try_into().expect("four bytes"))));
        let config = MirrorConfig {
            scope: scope.clone(),
            decode,
            reads_data: true,
            max_nodes: 1_000,
            max_bytes: 10_000,
        };
        let board = Arc::new(Board::new());
        Self {
            model: Model::new(release, dice.fork()),
            mirror: Mirror::new(config),
            readers: vec![(CacheChanges::from_nothing(&board), BTreeMap::new())],
            board,
            connected: false,
            in_flight: BTreeMap::new(),
            arming: VecDeque::new(),
            next_tag: 0,
            window: dice.of(&[1, 2, 4, 100]),
            dice,
            snapshots: 0,
            scope,
        }
    }

    fn request(&mut self, read: Option<Read>, request: FeedRequest) {
        self.next_tag += 1;
        self.in_flight.insert(self.next_tag, read);
        self.model.requests.push_back((self.next_tag, request));
    }

    fn begin(&mut self) {
        let style = match self.model.release {
            Release::Before36 => WatchStyle::OneShot,
            _ => WatchStyle::Tree,
        };
        self.in_flight.clear();
        self.mirror.begin(style);
        self.arming = match (style, self.mirror.known()) {
            (WatchStyle::Tree, _) => [FeedRequest::WatchTree(ROOT.into())].into(),
            (_, None) => VecDeque::new(),
            (_, Some((relative_zxid, nodes))) => {
                let one = |path: &Arc<str>| {
                    let path = vec![path.to_string()];
                    let (data, exist) = (path.clone(), vec![]);
                    FeedRequest::SetWatches(SetWatches { relative_zxid, data, exist, child: path })
                };
                nodes.keys().map(one).collect()
            }
        };
        self.arm();
    }

    fn arm(&mut self) {
        match self.arming.pop_front() {
            Some(request) => self.request(None, request),
            None => self.mirror.armed(),
        }
    }

    fn mark_stale(&mut self) {
        if let Some((snapshot, changes)) = self.mirror.stale(Instant::now()) {
            self.board.publish(snapshot, changes);
        }
    }

    fn cut(&mut self) {
        self.connected = false;
        self.model.disconnect();
        self.mark_stale();
    }

    fn connect(&mut self) {
        self.connected = true;
        self.begin();
    }

    fn receive(&mut self) {
        match self.model.sent.pop_front() {
            None => {}
            Some(Sent::Gap) => {
                self.mark_stale();
                self.begin();
            }
            Some(Sent::Event(event)) => self.mirror.event(&event),
            Some(Sent::Reply(tag, zxid, answer)) => match (self.in_flight.remove(&tag), answer) {
                // Of a comparison before.
                (None, _) => {}
                (Some(None), _) => {
                    self.mirror.reached(Some(Zxid(zxid)));
                    self.arm();
                }
                (Some(Some(read)), answer) => {
                    let data;
                    let reply = match &answer {
                        Answer::Data(value, stat) => {
                            data = value.to_be_bytes();
                            ReadReply::Data(&data, *stat)
                        }
                        Answer::Stat(stat) => ReadReply::Stat(*stat),
                        Answer::Children(names, stat) => ReadReply::Children(names, *stat),
                        Answer::Absent => ReadReply::Absent,
                        Answer::Armed => panic!("a read is never armed"),
                    };
                    self.mirror.reply(&read, Some(Zxid(zxid)), reply).expect("it is small");
                }
            },
        }
        self.send();
        self.publish();
    }

    fn send(&mut self) {
        while self.connected && self.in_flight.len() < self.window {
            let Some(read) = self.mirror.next_read() else { break };
            let request = self.mirror.request_of(&read);
            self.request(Some(read), request);
        }
    }

    fn publish(&mut self) {
        let Some((snapshot, changes)) = self.mirror.snapshot() else { return };
        let model = &self.model.history[snapshot.as_of.0 as usize];
        let expected: Vec<_> = model
            .iter()
            .filter(|(path, _)| self.scope.contains(path))
            .map(|(path, node)| (path.as_str(), node.czxid, node.mzxid, node.data))
            .collect();
        let got: Vec<_> = snapshot
            .iter()
            .map(|entry| {
                let stat = entry.stat();
                (entry.path(), stat.czxid.0, stat.mzxid.0, *entry.value().expect("decoded"))
            })
            .collect();
        let release = self.model.release;
        assert_eq!(
            got, expected,
            "as of {:?} with {release:?} and {:?}",
            snapshot.as_of, self.scope.max_depth
        );
        assert_eq!(snapshot.data_len(), 4 * expected.len());
        self.snapshots += 1;
        self.board.publish(snapshot, changes);
    }

    /// Reads some changes, or all, and compares what they lead to.
    fn read(&mut self, reader: usize, most: usize) {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let (changes, state) = &mut self.readers[reader];
        for _ in 0..most {
            let next = std::pin::pin!(changes.next()).poll(&mut cx);
            let std::task::Poll::Ready(Some(change)) = next else {
                if let Some(latest) = self.board.latest() {
                    let latest: BTreeMap<_, _> = latest.iter().map(|entry| summary(entry)).collect();
                    assert_eq!(*state, latest, "the changes lead to another state");
                }
                return;
            };
            match &change {
                CacheChange::Created(new) => {
                    let (path, value) = summary(new);
                    let above = parent(&path).to_owned();
                    assert!(path == ROOT || state.contains_key(&above), "{path} comes before its parent");
                    assert_eq!(state.insert(path, value), None, "{change:?} twice");
                }
                CacheChange::Changed { old, new } => {
                    let (path, value) = summary(new);
                    assert_eq!(state.insert(path, value), Some(summary(old).1), "{change:?} of another");
                }
                CacheChange::Deleted(old) => {
                    let (path, value) = summary(old);
                    assert_eq!(state.remove(&path), Some(value), "{change:?} of another");
                    let below = format!("{path}/");
                    assert!(
                        !state.keys().any(|other| other.starts_with(&below)),
                        "{path} goes before a child"
                    );
                }
                _ => {}
            }
        }
    }

    fn step(&mut self) {
        match self.dice.below(100) {
            0..=19 => self.model.write(),
            20..=54 => self.model.execute(),
            55..=89 if self.connected => self.receive(),
            90..=91 if self.connected => self.cut(),
            92..=93 if !self.connected => self.connect(),
            // Events that were not read are lost; replies are not.
            94 if self.connected && self.model.watches_tree => {
                let mut full: VecDeque<Sent> = VecDeque::new();
                for sent in self.model.sent.drain(..) {
                    match (sent, full.back()) {
                        (Sent::Event(_), Some(Sent::Gap)) => {}
                        (Sent::Event(_), _) => full.push_back(Sent::Gap),
                        (sent, _) => full.push_back(sent),
                    }
                }
                self.model.sent = full;
            }
            95 if self.readers.len() < 6 => {
                let reader = match self.board.latest() {
                    Some(latest) if self.dice.chance(50) => {
                        let state = latest.iter().map(|entry| summary(entry)).collect();
                        (CacheChanges::since(&self.board, latest), state)
                    }
                    _ => (CacheChanges::from_nothing(&self.board), BTreeMap::new()),
                };
                self.readers.push(reader);
            }
            _ => {
                let (reader, most) = (self.dice.below(self.readers.len()), self.dice.of(&[1, 3, 10_000]));
                self.read(reader, most);
            }
        }
        self.send();
    }

    /// Without further faults it comes to the present state.
    fn settle(&mut self) {
        if !self.connected {
            self.connect();
        }
        loop {
            self.send();
            self.model.execute();
            self.receive();
            if self.model.requests.is_empty() && self.model.sent.is_empty() {
                break;
            }
        }
        let latest = self.board.latest().expect("a snapshot");
        assert_eq!(latest.stale_since(), None);
        let expected = self.model.tree.keys().filter(|path| self.scope.contains(path)).count();
        assert_eq!(latest.len(), expected, "it has come to rest");
        (0..self.readers.len()).for_each(|reader| self.read(reader, usize::MAX));
    }
}

fn summary(entry: &Entry<u32>) -> (String, (Zxid, u32)) {
    // A znode that was created again is another one, with an equal value or not.
    let stat = entry.stat();
    (entry.path().to_owned(), (stat.czxid.max(stat.mzxid), *entry.value().expect("decoded")))
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Returns the number of snapshots.
fn run(seed: u64) -> u64 {
    let mut play = Play::new(seed);
    for _ in 0..2_000 {
        play.step();
    }
    play.settle();
    play.snapshots
}

#[test]
fn every_snapshot_of_a_random_schedule_is_the_tree_of_its_zxid() {
    zoolet_test_support::limit();
    let given = number("ZOOLET_SEED");
    let first = given.unwrap_or(1);
    let count = number("ZOOLET_SCHEDULES").unwrap_or(if given.is_some() { 1 } else { SCHEDULES });
    let mut snapshots = 0;
    for seed in first..first + count {
        snapshots += match std::panic::catch_unwind(|| run(seed)) {
            Ok(snapshots) => snapshots,
            Err(_) => {
                panic!("once more: ZOOLET_SEED={seed} cargo test -p zoolet-recipes --lib random_schedule")
            }
        };
    }
    assert!(given.is_some() || snapshots >= 30 * count, "hardly anything happened: {snapshots}");
}
