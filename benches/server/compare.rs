//! Runs the same work on several servers, in alternation.

use std::io;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::home::Place;
use crate::peer::{Kind, Peer, Starter};
use crate::report::{Figures, Lines, Row};
use crate::workload::{Sample, Workload};

/// Starts the servers, warms them up, and runs every workload on each.
pub(crate) async fn run(
    args: &Args,
    starter: &Starter,
    place: Place,
    workloads: &[&'static Workload],
    lines: &mut Lines,
) -> io::Result<Vec<Row>> {
    let peers = start(args, starter, place).await;
    if peers.is_empty() {
        return Ok(Vec::new());
    }
    for peer in &peers {
        warm_up(peer, workloads, args.warm_up(peer.kind)).await?;
    }
    let empty =
        |workload| Row { workload, peers: peers.iter().map(|peer| (peer.kind, Vec::new())).collect() };
    let mut rows: Vec<Row> = workloads.iter().copied().map(empty).collect();
    for round in 0..args.rounds() {
        for row in &mut rows {
            eprint!("\rround {} of {}: {:<20}", round + 1, args.rounds(), row.workload.name);
            for (figures, at) in one_round(row.workload, &peers, round, args.time()).await? {
                row.peers[at].1.push(figures);
                lines.add(row.workload.name, peers[at].kind, round, figures)?;
            }
        }
    }
    eprintln!("\r{:<40}", "");
    Ok(rows)
}

/// One run on each server, in alternating slices. Each round begins with another server, so that other load on the machine
/// affects all alike.
async fn one_round(
    workload: &Workload,
    peers: &[Peer],
    round: usize,
    time: Duration,
) -> io::Result<Vec<(Figures, usize)>> {
    let mut samples: Vec<_> = peers.iter().map(|_| Sample::empty()).collect();
    for _ in 0..workload.slices() {
        for turn in 0..peers.len() {
            let at = (turn + round) % peers.len();
            if let Some(sample) = run_one(workload, &peers[at], time / workload.slices()).await? {
                samples[at].add(&sample);
            }
        }
    }
    let measured = samples.iter().enumerate().filter(|(_, sample)| sample.ops > 0);
    Ok(measured.map(|(at, sample)| (Figures::of(sample), at)).collect())
}

/// Starts the servers that are available, and prints why others are not.
async fn start(args: &Args, starter: &Starter, place: Place) -> Vec<Peer> {
    let mut peers = Vec::new();
    let is_there = |kind: &&Kind| match kind {
        Kind::InProcess | Kind::Measured => place == Place::Memory,
        Kind::EchoThread => place == Place::Disk,
        Kind::Echo => place != Place::MemoryByTls,
        Kind::Zoolet | Kind::Apache => true,
    };
    for kind in args.peers.iter().filter(is_there) {
        match starter.start(*kind, place).await {
            Ok(peer) => {
                println!("{kind:<12} {}", peer.about);
                peers.push(peer);
            }
            Err(error) => println!("{kind:<12} skipped: {error}"),
        }
    }
    peers
}

/// Warms up a server: compilation and allocation.
async fn warm_up(peer: &Peer, workloads: &[&Workload], time: Duration) -> io::Result<()> {
    const TURN: Duration = Duration::from_millis(400);
    eprint!("\rwarming up {:<20}", peer.kind);
    let end = Instant::now() + time;
    for workload in workloads.iter().cycle().take(10_000) {
        if Instant::now() >= end {
            break;
        }
        run_one(workload, peer, TURN).await?;
    }
    Ok(())
}

/// One run; `None` if the server does not support the workload.
async fn run_one(workload: &Workload, peer: &Peer, time: Duration) -> io::Result<Option<Sample>> {
    if !workload.suits(peer.kind) {
        return Ok(None);
    }
    match workload.run(&peer.target, time).await {
        Ok(sample) => Ok(Some(sample)),
        Err(error) => {
            Err(io::Error::new(error.kind(), format!("{} on {}: {error}", workload.name, peer.kind)))
        }
    }
}
