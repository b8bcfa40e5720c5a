//! The workloads, by name.

mod beside;
mod closed_loop;
mod lock;
mod session;
mod watch;

use std::io;
use std::time::{Duration, Instant};

use zoolet_proto::{CreateMode, ErrorCode};

use closed_loop::Op;
use watch::Setter;

use crate::cpu::{CpuTime, Used};
use crate::exchange::create;
use crate::load::Latencies;
use crate::peer::Kind;
use crate::wire::{Door, Head, Wire};

/// A kind of work and its size.
pub(crate) struct Workload {
    /// Its name in reports and on the command line.
    pub(crate) name: &'static str,
    /// A description of one operation.
    pub(crate) about: &'static str,
    work: Work,
}

enum Work {
    ClosedLoop { op: Op, connections: usize, depth: usize },
    WatchHandOff { setter: Setter, watchers: usize, depth: usize },
    FanOut { watchers: usize },
    Session { at_once: usize },
    LockHandOff { contenders: usize },
    ReaderBesideWriter { depth: usize },
}

const fn closed_loop(
    name: &'static str,
    about: &'static str,
    op: Op,
    connections: usize,
    depth: usize,
) -> Workload {
    Workload { name, about, work: Work::ClosedLoop { op, connections, depth } }
}

const fn hand_off(name: &'static str, about: &'static str, watchers: usize, depth: usize) -> Workload {
    Workload { name, about, work: Work::WatchHandOff { setter: Setter::Another, watchers, depth } }
}

/// All workloads, in the order of runs and reports.
pub(crate) static ALL: &[Workload] = &[
    closed_loop("get-1x1", "getData of 100 bytes, 1 connection, depth 1", Op::Get, 1, 1),
    closed_loop("set-1x1", "setData of 100 bytes, 1 connection, depth 1", Op::Set, 1, 1),
    closed_loop("create-1x1", "create with 100 bytes, 1 connection, depth 1", Op::Create, 1, 1),
    closed_loop("get-16x1", "getData, 16 connections, depth 1", Op::Get, 16, 1),
    closed_loop("set-16x1", "setData, 16 connections, depth 1", Op::Set, 16, 1),
    closed_loop("create-16x1", "create, 16 connections, depth 1", Op::Create, 16, 1),
    closed_loop("get-16x16", "getData, 16 connections, depth 16", Op::Get, 16, 16),
    closed_loop("set-16x16", "setData, 16 connections, depth 16", Op::Set, 16, 16),
    closed_loop("create-16x16", "create, 16 connections, depth 16", Op::Create, 16, 16),
    closed_loop("create-16x4", "create, 16 connections, depth 4", Op::Create, 16, 4),
    closed_loop(
        "ephemeral-16x4",
        "create and delete of an ephemeral sequential, 16 connections, depth 4",
        Op::CreateDelete,
        16,
        4,
    ),
    hand_off(
        "watch-1x1",
        "setData, its event to another session, and getData with watch by that session",
        1,
        1,
    ),
    hand_off("watch-16x1", "the same, 16 such pairs of sessions", 16, 1),
    hand_off("watch-16x16", "the same, 16 pairs with 16 znodes each", 16, 16),
    Workload {
        name: "watch-own-16x1",
        about: "the same, by 16 sessions that each watch znodes that they set themselves",
        work: Work::WatchHandOff { setter: Setter::Itself, watchers: 16, depth: 1 },
    },
    Workload {
        name: "fanout-1000",
        about: "1,000 sessions that get the event of one setData and set their watch again, per session",
        work: Work::FanOut { watchers: 1000 },
    },
    Workload {
        name: "session",
        about: "connection, session, closeSession; 8 at a time",
        work: Work::Session { at_once: 8 },
    },
    Workload {
        name: "lock",
        about: "hand-off of a lock of ephemeral sequential znodes among 8 sessions",
        work: Work::LockHandOff { contenders: 8 },
    },
];

/// The workloads on servers that write to disk.
pub(crate) static DURABLE: &[Workload] = &[
    closed_loop("durable-set-1x1", "setData of 100 bytes, synced, 1 connection, depth 1", Op::Set, 1, 1),
    closed_loop("durable-set-16x16", "setData, synced, 16 connections, depth 16", Op::Set, 16, 16),
    closed_loop("durable-create-16x16", "create, synced, 16 connections, depth 16", Op::Create, 16, 16),
    Workload {
        name: "durable-reader",
        about: "getData by one session while another has 256 synced setData of another znode in flight",
        work: Work::ReaderBesideWriter { depth: 256 },
    },
    Workload {
        name: "durable-reader-16",
        about: "the same beside 16 setData in flight",
        work: Work::ReaderBesideWriter { depth: 16 },
    },
];

/// The workloads of clients that connect by TLS.
pub(crate) static BY_TLS: &[Workload] = &[
    closed_loop("tls-get-1x1", "getData of 100 bytes by TLS, 1 connection, depth 1", Op::Get, 1, 1),
    closed_loop("tls-set-1x1", "setData of 100 bytes by TLS, 1 connection, depth 1", Op::Set, 1, 1),
    closed_loop("tls-get-16x16", "getData by TLS, 16 connections, depth 16", Op::Get, 16, 16),
    closed_loop("tls-set-16x16", "setData by TLS, 16 connections, depth 16", Op::Set, 16, 16),
    Workload {
        name: "tls-handshake",
        about: "connection, full handshake, session, closeSession; 8 at a time",
        work: Work::Session { at_once: 8 },
    },
];

/// A server under load.
pub(crate) struct Target {
    /// How to connect to it.
    pub(crate) door: Door,
    /// Its process.
    pub(crate) pid: u32,
}

/// The measurements of one or more runs of a workload.
pub(crate) struct Sample {
    /// CPU time of the server's process.
    pub(crate) cpu: Used,
    /// The time from the first request to the last reply.
    pub(crate) elapsed: Duration,
    /// The number of operations.
    pub(crate) ops: u64,
    /// The latency of each operation; in a fan-out, until the last session has its event.
    pub(crate) latencies: Latencies,
    /// Operations that another session did meanwhile, and how long that was.
    pub(crate) beside: (u64, Duration),
}

impl Sample {
    /// An empty measurement.
    pub(crate) fn empty() -> Self {
        Self {
            cpu: Used::default(),
            elapsed: Duration::ZERO,
            ops: 0,
            latencies: Latencies::new(),
            beside: (0, Duration::ZERO),
        }
    }

    /// Adds another run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.cpu.add(other.cpu);
        self.elapsed += other.elapsed;
        self.ops += other.ops;
        self.latencies.add(&other.latencies);
        self.beside = (self.beside.0 + other.beside.0, self.beside.1 + other.beside.1);
    }
}

impl Workload {
    /// The number of slices of a run, between which servers alternate.
    ///
    /// Many if that is cheap, as the cost of a wake-up changes every second with other load. Creates run in one piece, as
    /// holding the created znodes is part of their cost; so do workloads with a long setup.
    pub(crate) fn slices(&self) -> u32 {
        match self.work {
            Work::ClosedLoop { op: Op::Create, .. } | Work::FanOut { .. } => 1,
            _ => 4,
        }
    }

    /// Whether a server of this kind supports it. A bare one does not if a client depends on the content of replies.
    pub(crate) fn suits(&self, kind: Kind) -> bool {
        if !matches!(kind, Kind::Echo | Kind::EchoThread) {
            return true;
        }
        match self.work {
            Work::ClosedLoop { op, .. } => op != Op::CreateDelete,
            Work::WatchHandOff { .. } | Work::FanOut { .. } | Work::Session { .. } => true,
            Work::LockHandOff { .. } => false,
            // The reader would wait for the syncs of an only thread.
            Work::ReaderBesideWriter { .. } => kind == Kind::EchoThread,
        }
    }

    /// Runs it for about this time. Sessions and znodes are created before and removed after the measurement.
    pub(crate) async fn run(&self, target: &Target, time: Duration) -> io::Result<Sample> {
        match self.work {
            Work::ClosedLoop { op, connections, depth } => {
                closed_loop::run(target, op, connections, depth, time).await
            }
            Work::WatchHandOff { setter, watchers, depth } => {
                watch::hand_off(target, setter, watchers, depth, time).await
            }
            Work::FanOut { watchers } => watch::fan_out(target, watchers, time).await,
            Work::Session { at_once } => session::run(target, at_once, time).await,
            Work::LockHandOff { contenders } => lock::run(target, contenders, time).await,
            Work::ReaderBesideWriter { depth } => beside::run(target, depth, time).await,
        }
    }
}

/// An interval over which the server's CPU time is measured.
struct Span {
    pid: u32,
    began: Instant,
    cpu: CpuTime,
}

impl Span {
    fn begin(target: &Target) -> io::Result<Self> {
        Ok(Self { pid: target.pid, cpu: CpuTime::of(target.pid)?, began: Instant::now() })
    }

    fn end(self, ops: u64, latencies: Latencies) -> io::Result<Sample> {
        let elapsed = self.began.elapsed();
        let cpu = CpuTime::of(self.pid)?.since(&self.cpu);
        Ok(Sample { cpu, elapsed, ops, latencies, beside: (0, Duration::ZERO) })
    }
}

/// Creates a znode unless it exists.
async fn ensure(wire: &mut Wire, path: &str) -> io::Result<()> {
    wire.send(&create(path, CreateMode::Persistent));
    wire.flush().await?;
    let head = Head::of(&wire.frame().await?)?;
    match head.error() {
        None | Some(ErrorCode::NodeExists) => Ok(()),
        Some(code) => Err(io::Error::other(format!("create {path}: {code}"))),
    }
}
