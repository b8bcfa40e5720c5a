//! get, set and create, with separate znodes for each connection.

use std::io;
use std::time::{Duration, Instant};

use zoolet_proto::CreateMode;

use super::{Sample, Span, Target, ensure};
use crate::exchange::{CreateDelete, Exchange, Repeat, create, delete, get, set};
use crate::load::{self, Lane};
use crate::wire::Wire;

/// The operation of the loop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Get,
    Set,
    Create,
    CreateDelete,
}

/// The limit of creates: otherwise a fast server would be measured with a larger tree.
const MAX_CREATES: u64 = 200_000;
/// Deletes in flight during the clean-up of created znodes.
const CLEANING_DEPTH: usize = 64;
/// A timeout that no server needs.
const CLEANING_TIME: Duration = Duration::from_secs(60);

/// Runs the loop and measures it.
pub(super) async fn run(
    target: &Target,
    op: Op,
    connections: usize,
    depth: usize,
    time: Duration,
) -> io::Result<Sample> {
    let mut wires = Wire::open_many(&target.door, connections).await?;
    ensure(&mut wires[0], "/bench").await?;
    for (lane, wire) in wires.iter_mut().enumerate() {
        ensure(wire, &home(lane)).await?;
    }
    let end = Instant::now() + time;
    match op {
        Op::Get => repeat(target, wires, depth, end, |lane| Repeat::same(&get(home(lane), false))).await,
        Op::Set => repeat(target, wires, depth, end, |lane| Repeat::same(&set(home(lane)))).await,
        Op::CreateDelete => repeat(target, wires, depth, end, |lane| CreateDelete::new(&prefix(lane))).await,
        Op::Create => create_and_clean(target, wires, depth, end).await,
    }
}

/// The znode of a connection.
fn home(lane: usize) -> String {
    format!("/bench/lane-{lane:02}")
}

/// The path prefix of the znodes that a connection creates. They share one parent.
fn prefix(lane: usize) -> String {
    format!("/bench/c-{lane:02}-")
}

async fn repeat<E: Exchange>(
    target: &Target,
    wires: Vec<Wire>,
    depth: usize,
    end: Instant,
    exchange: impl Fn(usize) -> E,
) -> io::Result<Sample> {
    let lanes = wires.into_iter().enumerate().map(|(lane, wire)| Lane::new(wire, exchange(lane))).collect();
    let span = Span::begin(target)?;
    let (lanes, latencies) = load::run(lanes, depth, end).await?;
    let sample = span.end(latencies.count(), latencies)?;
    Wire::close_many(lanes.into_iter().map(|lane| lane.wire).collect()).await?;
    Ok(sample)
}

/// Like `repeat`, but deletes the created znodes, so that every run starts with the same tree.
async fn create_and_clean(
    target: &Target,
    wires: Vec<Wire>,
    depth: usize,
    end: Instant,
) -> io::Result<Sample> {
    let create_one = |path| create(path, CreateMode::Persistent);
    let quota = MAX_CREATES / wires.len() as u64;
    let creating = |(lane, wire)| Lane::new(wire, Repeat::counting(&prefix(lane), create_one)).at_most(quota);
    let lanes = wires.into_iter().enumerate().map(creating).collect();
    let span = Span::begin(target)?;
    let (lanes, latencies) = load::run(lanes, depth, end).await?;
    let sample = span.end(latencies.count(), latencies)?;

    let deleting = |(lane, done): (usize, Lane<Repeat>)| {
        Lane::new(done.wire, Repeat::counting(&prefix(lane), delete)).at_most(done.begun)
    };
    let lanes = lanes.into_iter().enumerate().map(deleting).collect();
    let (lanes, _) = load::run(lanes, CLEANING_DEPTH, Instant::now() + CLEANING_TIME).await?;
    Wire::close_many(lanes.into_iter().map(|lane| lane.wire).collect()).await?;
    Ok(sample)
}
