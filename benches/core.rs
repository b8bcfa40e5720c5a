//! The state machine alone: requests in, replies out, without sockets or encoding.
#![allow(missing_docs, reason = "criterion_group! makes a public function")]

use std::hint::black_box;
use std::net::IpAddr;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use zoolet_proto::records::{AddWatch, ConnectRequest, Create, Delete, GetChildren, GetData, Op, SetData};
use zoolet_proto::{AclList, AddWatchMode, CreateMode, Incoming, Request, SessionId, Xid, Zxid};
use zoolet_server_core::{ConnId, Core, CoreConfig, Input, Millis, StateMachine};

const NOW: Millis = Millis(1_000);

/// A core with a session on each connection, numbered from 0.
struct Machine {
    core: Core,
    xid: i32,
}

impl Machine {
    fn with_sessions(count: u64) -> Self {
        let mut core = Core::new(CoreConfig::default(), NOW);
        for conn in (0..count).map(ConnId) {
            core.handle(NOW, conn, Input::Open(IpAddr::from([127, 0, 0, 1]).into()));
            let hello = ConnectRequest {
                protocol_version: 0,
                last_zxid_seen: Zxid(0),
                timeout: 10_000,
                session: SessionId(0),
                password: None,
                read_only: Some(false),
            };
            core.handle(NOW, conn, Input::Connect(hello));
        }
        core.take_effects();
        Self { core, xid: 0 }
    }

    /// One with so many znodes below `/all`.
    fn with_children(count: u64) -> Self {
        let mut machine = Self::with_sessions(1);
        machine.request(0, create("/all", CreateMode::Persistent));
        for n in 0..count {
            machine.request(0, create(&format!("/all/n{n}"), CreateMode::Persistent));
            if n % 256 == 0 {
                machine.turn();
            }
        }
        machine.turn();
        machine
    }

    /// Executes a request; [`Machine::turn`] collects the messages.
    fn request(&mut self, conn: u64, request: Request) {
        self.xid = self.xid.wrapping_add(1).max(1);
        let incoming = Incoming { xid: Xid(self.xid), op: request.op().code(), body: Ok(request) };
        self.core.handle(NOW, ConnId(conn), Input::Request(incoming));
    }

    /// Ends the turn and returns the number of messages to send.
    fn turn(&mut self) -> usize {
        black_box(self.core.take_effects()).outbound.len()
    }
}

fn data() -> Option<Bytes> {
    Some(Bytes::from_static(&[b'x'; 100]))
}

fn create(path: &str, mode: CreateMode) -> Request {
    Request::Create(Create { path: path.into(), data: data(), acl: Some(AclList::OPEN), flags: mode.code() })
}

fn get(path: &str, watch: bool) -> Request {
    Request::GetData(GetData { path: path.into(), watch })
}

fn set(path: &str) -> Request {
    Request::SetData(SetData { path: path.into(), data: data(), version: -1 })
}

fn delete(path: &str) -> Request {
    Request::Delete(Delete { path: path.into(), version: -1 })
}

fn one_at_a_time(c: &mut Criterion) {
    let mut machine = Machine::with_sessions(1);
    machine.request(0, create("/a", CreateMode::Persistent));
    machine.turn();
    let mut group = c.benchmark_group("one request a turn");
    group.bench_function("getData", |b| {
        b.iter(|| {
            machine.request(0, get("/a", false));
            machine.turn()
        });
    });
    group.bench_function("setData", |b| {
        b.iter(|| {
            machine.request(0, set("/a"));
            machine.turn()
        });
    });
    group.bench_function("create and delete", |b| {
        b.iter(|| {
            machine.request(0, create("/a/b", CreateMode::Ephemeral));
            machine.turn();
            machine.request(0, delete("/a/b"));
            machine.turn()
        });
    });
    group.finish();
}

fn many_at_a_time(c: &mut Criterion) {
    const TURN: u64 = 256;
    let mut machine = Machine::with_sessions(16);
    machine.request(0, create("/a", CreateMode::Persistent));
    machine.turn();
    let mut group = c.benchmark_group("256 requests a turn");
    group.throughput(Throughput::Elements(TURN));
    for (name, request) in [("getData", get("/a", false)), ("setData", set("/a"))] {
        group.bench_function(name, |b| {
            b.iter(|| {
                (0..TURN).for_each(|n| machine.request(n % 16, request.clone()));
                machine.turn()
            });
        });
    }
    group.finish();
}

/// The effect of a large tree.
fn large(c: &mut Criterion) {
    const CHILDREN: u64 = 100_000;
    let mut machine = Machine::with_sessions(1);
    machine.request(0, create("/all", CreateMode::Persistent));
    for n in 0..CHILDREN {
        machine.request(0, create(&format!("/all/n{n}"), CreateMode::Persistent));
    }
    machine.turn();
    let mut group = c.benchmark_group("beside 100,000 siblings");
    group.bench_function("getData", |b| {
        let mut n = 0;
        b.iter(|| {
            // A stride that visits all znodes, so that they do not stay in the caches.
            n = (n + 7_919) % CHILDREN;
            machine.request(0, get(&format!("/all/n{n}"), false));
            machine.turn()
        });
    });
    group.bench_function("create and delete", |b| {
        b.iter(|| {
            machine.request(0, create("/all/new", CreateMode::Ephemeral));
            machine.request(0, delete("/all/new"));
            machine.turn()
        });
    });
    group.finish();
}

/// The same requests on a small tree and on one that no cache holds.
fn sizes(c: &mut Criterion) {
    let mut group = c.benchmark_group("any of many znodes");
    for znodes in [1_000, 1_000_000] {
        // Only if one of the two is selected.
        let mut filled = None;
        for (name, request) in [("getData", false), ("setData", true)] {
            let mut n = 0;
            group.bench_function(format!("{name}, {znodes} znodes"), |b| {
                let machine = filled.get_or_insert_with(|| Machine::with_children(znodes));
                b.iter(|| {
                    n = (n + 611_953) % znodes;
                    let path = format!("/all/n{n}");
                    machine.request(0, if request { set(&path) } else { get(&path, false) });
                    machine.turn()
                });
            });
        }
    }
    group.finish();
}

fn watches(c: &mut Criterion) {
    const WATCHERS: u64 = 1000;
    let mut machine = Machine::with_sessions(WATCHERS);
    machine.request(0, create("/a", CreateMode::Persistent));
    machine.turn();
    let mut group = c.benchmark_group("watch");
    group.bench_function("getData with watch, setData, event", |b| {
        b.iter(|| {
            machine.request(1, get("/a", true));
            machine.request(0, set("/a"));
            machine.turn()
        });
    });
    group.throughput(Throughput::Elements(WATCHERS));
    group.bench_function("the same with 1,000 watchers", |b| {
        b.iter(|| {
            (0..WATCHERS).for_each(|conn| machine.request(conn, get("/a", true)));
            machine.request(0, set("/a"));
            machine.turn()
        });
    });
    group.finish();
}

/// One request, but a change and an event for each of its operations.
fn fan_out(c: &mut Criterion) {
    const WATCHERS: u64 = 2000;
    const SETS: usize = 40_000;
    let mut machine = Machine::with_sessions(1 + WATCHERS);
    machine.request(0, create("/a", CreateMode::Persistent));
    for conn in 1..=WATCHERS {
        let mode = AddWatchMode::PersistentRecursive.code();
        machine.request(conn, Request::AddWatch(AddWatch { path: Some("/".into()), mode }));
    }
    machine.turn();
    let set = Op::SetData(SetData { path: "/a".into(), data: None, version: -1 });
    let mut group = c.benchmark_group("fan-out");
    group.sample_size(10);
    group.bench_function("multi of 40,000 setData, 2,000 recursive watchers", |b| {
        b.iter_batched(
            || Request::Multi(vec![set.clone(); SETS]),
            |multi| {
                machine.request(0, multi);
                machine.turn()
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// The requests of a lock: a queue of eight znodes, of which the first is deleted and created again as the last.
fn lock(c: &mut Criterion) {
    const CONTENDERS: u64 = 8;
    let mut machine = Machine::with_sessions(CONTENDERS);
    machine.request(0, create("/lock", CreateMode::Persistent));
    for conn in 0..CONTENDERS {
        machine.request(conn, create("/lock/n-", CreateMode::EphemeralSequential));
    }
    machine.turn();
    let mut first = 0_u64;
    c.bench_function("lock passed on", |b| {
        b.iter(|| {
            let (conn, next) = (first % CONTENDERS, (first + 1) % CONTENDERS);
            machine.request(next, get(&format!("/lock/n-{first:010}"), true));
            machine.request(conn, delete(&format!("/lock/n-{first:010}")));
            machine.request(next, Request::GetChildren(GetChildren { path: "/lock".into(), watch: false }));
            machine.request(conn, create("/lock/n-", CreateMode::EphemeralSequential));
            first += 1;
            machine.turn()
        });
    });
}

criterion_group!(benches, one_at_a_time, many_at_a_time, large, sizes, watches, fan_out, lock);
criterion_main!(benches);
