//! What a larger tree costs: the CPU time of reads and writes of any znode on servers with a thousand to a million.

use std::time::{Duration, Instant};
use std::{io, mem};

use zoolet_proto::{CreateMode, Request};

use crate::args::Args;
use crate::cpu::CpuTime;
use crate::exchange::{Repeat, create, get, set};
use crate::finding::{Bound, Finding};
use crate::home::Place;
use crate::load::{self, Lane};
use crate::peer::{Kind, Peer, Starter};
use crate::report::{Lines, median};
use crate::wire::Wire;

/// The figures, each with a description.
pub(crate) const ALL: [(&str, &str); 2] = [
    (GET, "getData on a tree of a million znodes, as a multiple of one of a thousand"),
    (SET, "setData on a tree of a million znodes, as a multiple of one of a thousand"),
];
const GET: &str = "growth-get";
const SET: &str = "growth-set";

/// Connections.
pub(crate) const LANES: u64 = 16;
const DEPTH: usize = 16;
/// Znodes of each server. The figures compare the last with the first.
const SIZES: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// How often the servers alternate.
const SLICES: usize = 8;

/// Runs the selected measurements. Each size becomes a line of its own, as `benches/plot` draws the curve.
pub(crate) async fn run(args: &Args, starter: &Starter, lines: &mut Lines) -> io::Result<Vec<Finding>> {
    let wanted: Vec<_> = ALL.into_iter().filter(|(name, _)| args.wants(name)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut servers = Vec::new();
    for size in SIZES {
        let server = starter.start(Kind::Zoolet, Place::Memory).await?;
        fill(&server, size).await.map_err(|error| server.explain(error))?;
        servers.push((size, server, Vec::new()));
    }
    let time = args.time() / 2;
    let mut findings = Vec::new();
    for (name, _) in wanted {
        let request = |path| if name == GET { get(path, false) } else { set(path) };
        for slice in 0..SLICES {
            for (size, server, samples) in &mut servers {
                let sample = micros(server, *size / LANES, slice, time, request).await;
                samples.push(sample.map_err(|error| server.explain(error))?);
            }
        }
        let mut curve = Vec::new();
        for (size, _, samples) in &mut servers {
            let micros = median(mem::take(samples)).unwrap_or(f64::NAN);
            lines.add_size(name, *size, micros)?;
            curve.push(micros);
        }
        let (few, many) = (curve[0], curve[SIZES.len() - 1]);
        findings.push(Finding {
            name,
            about: format!("{many:.2} us on a tree of a million znodes, {few:.2} us on one of a thousand"),
            value: many / few,
            unit: "x",
            goal: Some(Bound::AtMost(2.0)),
        });
    }
    Ok(findings)
}

/// Creates so many znodes with 100 bytes of data, by as many connections as their paths name. Returns how many there are.
pub(crate) async fn fill(server: &Peer, znodes: u64) -> io::Result<u64> {
    let wires = Wire::open_many(&server.target.door, LANES as usize).await?;
    let filling = |(lane, wire)| {
        let request = |path| create(path, CreateMode::Persistent);
        Lane::new(wire, Repeat::counting(&prefix(lane), request)).at_most(znodes / LANES)
    };
    let lanes = wires.into_iter().enumerate().map(filling).collect();
    let (_, latencies) = load::run(lanes, DEPTH, Instant::now() + Duration::from_secs(60)).await?;
    Ok(latencies.count())
}

/// The prefix of the paths of a connection.
pub(crate) fn prefix(lane: usize) -> String {
    format!("/lane-{lane:02}-")
}

/// The CPU time of one request for any of so many znodes of each connection.
async fn micros(
    server: &Peer,
    znodes: u64,
    slice: usize,
    time: Duration,
    request: impl Fn(String) -> Request,
) -> io::Result<f64> {
    let wires = Wire::open_many(&server.target.door, LANES as usize).await?;
    let asking = |(lane, wire)| {
        // Each slice begins elsewhere.
        let first = slice as u64 * znodes / SLICES as u64;
        Lane::new(wire, Repeat::scattered(&prefix(lane), first, znodes, &request))
    };
    let lanes = wires.into_iter().enumerate().map(asking).collect();
    let before = CpuTime::of(server.target.pid)?;
    let (lanes, latencies) = load::run(lanes, DEPTH, Instant::now() + time).await?;
    let used = CpuTime::of(server.target.pid)?.since(&before);
    Wire::close_many(lanes.into_iter().map(|lane| lane.wire).collect()).await?;
    Ok(used.time.as_secs_f64() * 1e6 / latencies.count() as f64)
}
