//! The start of a server with a long log and no snapshot, beside reading the same files.

use std::io;
use std::time::{Duration, Instant};

use super::FILLING;
use crate::args::Args;
use crate::disk;
use crate::exchange::{Repeat, set};
use crate::finding::Finding;
use crate::growth::{LANES, fill, prefix};
use crate::home::Home;
use crate::load::{self, Lane};
use crate::peer::{Kind, Peer, Starter};
use crate::wire::Wire;

pub(super) const REPLAY: &str = "durable-replay";
pub(super) const LIMIT: &str = "durable-replay-limit";

/// A tenth of them creates; the rest are setData of any of these znodes.
const TXNS: u64 = 10_000_000;
const FEWER_TXNS: u64 = 500_000;
const DEPTH: usize = 64;
const TIME: Duration = Duration::from_secs(600);

pub(super) async fn run(args: &Args, starter: &Starter) -> io::Result<Vec<Finding>> {
    let txns = if args.quick { FEWER_TXNS } else { TXNS };
    eprintln!("writing a log of {txns} transactions");
    let server = starter.start_in(Kind::Zoolet, Home::on_disk()?, FILLING).await?;
    let written = write(&server, txns).await.map_err(|error| server.explain(error))?;
    // A clean stop would write a snapshot.
    let home = server.kill()?;

    disk::evict(&home.files())?;
    let began = Instant::now();
    let bytes = disk::read_all(&home.files())?;
    let read = began.elapsed().as_secs_f64();

    disk::evict(&home.files())?;
    let server = starter.start_in(Kind::Zoolet, home, FILLING).await?;
    let took = server.started_in.as_secs_f64();
    server.kill()?;

    let gib = bytes as f64 / f64::from(1 << 30);
    Ok(vec![
        Finding {
            name: REPLAY,
            about: format!(
                "{written} transactions, {gib:.2} GiB on disk, in {took:.2} s from the start of the process"
            ),
            value: written as f64 / took,
            unit: "txns/s",
            goal: None,
        },
        Finding {
            name: LIMIT,
            about: format!(
                "that time beside reading the files: {read:.2} s, {:.0} MiB/s",
                gib * 1024.0 / read
            ),
            value: took / read,
            unit: "x",
            goal: None,
        },
    ])
}

/// Creates and sets znodes; returns how many transactions that were.
async fn write(server: &Peer, txns: u64) -> io::Result<u64> {
    let znodes = txns / 10;
    let created = fill(server, znodes).await?;
    let wires = Wire::open_many(&server.target.door, LANES as usize).await?;
    let setting = |(lane, wire)| {
        let sets = Repeat::scattered(&prefix(lane), 0, znodes / LANES, set);
        Lane::new(wire, sets).at_most((txns - created) / LANES)
    };
    let lanes = wires.into_iter().enumerate().map(setting).collect();
    let (_, latencies) = load::run(lanes, DEPTH, Instant::now() + TIME).await?;
    Ok(created + latencies.count())
}
