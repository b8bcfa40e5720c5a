//! The work that is measured, by name.

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
use crate::wire::{Door, Head, Wire};

/// A kind of work and its size.
pub(crate) struct Workload {
    /// As reports and the command line name it.
    pub(crate) name: &'static str,
    /// What one operation is.
    pub(crate) about: &'static str,
    work: Work,
}

enum Work {
    ClosedLoop { op: Op, connections: usize, depth: usize },
    WatchHandOff { setter: Setter, watchers: usize, depth: usize },
    FanOut { watchers: usize },
    Session { at_once: usize },
    LockHandOff { contenders: usize },
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

/// Everything there is, in the order it is run and reported.
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
    hand_off("watch-1x1", "setData, its event to another session, and that one's getData with watch", 1, 1),
    hand_off("watch-16x1", "the same, 16 such pairs of sessions", 16, 1),
    hand_off("watch-16x16", "the same, 16 pairs with 16 znodes each", 16, 16),
    Workload {
        name: "watch-own-16x1",
        about: "the same, by 16 sessions that each set what they watch",
        work: Work::WatchHandOff { setter: Setter::Itself, watchers: 16, depth: 1 },
    },
    Workload {
        name: "fanout-1000",
        about: "1,000 sessions told of one setData and setting their watch again, per session",
        work: Work::FanOut { watchers: 1000 },
    },
    Workload {
        name: "session",
        about: "connection, session, closeSession; 8 at a time",
        work: Work::Session { at_once: 8 },
    },
    Workload {
        name: "lock",
        about: "a lock of ephemeral sequential znodes passed on among 8 sessions",
        work: Work::LockHandOff { contenders: 8 },
    },
];

/// A server under load.
pub(crate) struct Target {
    /// How to connect to it.
    pub(crate) door: Door,
    /// Its process.
    pub(crate) pid: u32,
}

/// What a run of a workload gave, or several together.
pub(crate) struct Sample {
    /// CPU time of the server's process.
    pub(crate) cpu: Used,
    /// Time from the first request to the last reply.
    pub(crate) elapsed: Duration,
    /// What was done.
    pub(crate) ops: u64,
    /// How long each took, or in a fan-out how long until the last session had been told.
    pub(crate) latencies: Latencies,
}

impl Sample {
    /// Nothing measured yet.
    pub(crate) fn empty() -> Self {
        Self { cpu: Used::default(), elapsed: Duration::ZERO, ops: 0, latencies: Latencies::new() }
    }

    /// Takes another run in.
    pub(crate) fn add(&mut self, other: &Self) {
        self.cpu.add(other.cpu);
        self.elapsed += other.elapsed;
        self.ops += other.ops;
        self.latencies.add(&other.latencies);
    }
}

impl Workload {
    /// In how many slices a run is cut, so that the servers can take turns in it.
    ///
    /// Where it is cheap, often: what a wake-up costs changes from one second to the next with what else the machine
    /// does. Creates run in one go, since holding what was created is part of their price; so does what takes long
    /// to set up.
    pub(crate) fn slices(&self) -> u32 {
        match self.work {
            Work::ClosedLoop { op: Op::Create, .. } | Work::FanOut { .. } => 1,
            _ => 4,
        }
    }

    /// Whether an echo can stand in for the server: not where a client acts on what is in a reply.
    pub(crate) fn suits_echo(&self) -> bool {
        match self.work {
            Work::ClosedLoop { op, .. } => op != Op::CreateDelete,
            Work::WatchHandOff { .. } | Work::FanOut { .. } | Work::Session { .. } => true,
            Work::LockHandOff { .. } => false,
        }
    }

    /// Runs it for about this long. Sessions and znodes are made before and taken away after what is measured.
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
        }
    }
}

/// A span of time over which the server's CPU is counted.
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
        Ok(Sample { cpu, elapsed, ops, latencies })
    }
}

/// Creates a znode unless it is there.
async fn ensure(wire: &mut Wire, path: &str) -> io::Result<()> {
    wire.send(&create(path, CreateMode::Persistent));
    wire.flush().await?;
    let head = Head::of(&wire.frame().await?)?;
    match head.error() {
        None | Some(ErrorCode::NodeExists) => Ok(()),
        Some(code) => Err(io::Error::other(format!("create {path}: {code}"))),
    }
}
