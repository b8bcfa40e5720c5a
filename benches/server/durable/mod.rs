//! Large data directories: how long it takes to open one, to write a snapshot, and to replay a log.
//!
//! These figures take minutes and gigabytes, so they run only if `--only` names them.

mod open;
mod replay;
mod snapshot;
mod standstill;

use std::io;

use crate::args::Args;
use crate::disk;
use crate::finding::Finding;
use crate::growth::fill;
use crate::home::{Home, Settings};
use crate::peer::{Kind, Starter};

/// The figures, each with a description.
pub(crate) const ALL: [(&str, &str); 8] = [
    (SYNC, "a write of 200 bytes and fdatasync, by the bench itself"),
    (open::OPEN, "until a server with a million znodes answers, as a part of Apache's time"),
    (snapshot::SNAPSHOT, "a snapshot of a million znodes beside a writer"),
    (snapshot::STALL, "the longest wait of that writer, without syncs"),
    (snapshot::STALL_SYNCED, "the longest wait of that writer, with syncs"),
    (snapshot::MEMORY, "memory of a znode that was loaded, as one of a million"),
    (replay::REPLAY, "transactions per second at the start, of a log with ten million"),
    (replay::LIMIT, "the time for that, as a multiple of the time for reading the files"),
];
const SYNC: &str = "durable-fdatasync";

const ZNODES: u64 = 1_000_000;
/// With `--quick`.
const FEWER_ZNODES: u64 = 100_000;
/// No snapshots while a directory is filled, and no syncs, which would take hours.
const FILLING: Settings<'static> =
    &[("snapCount", "1000000000"), ("snapSizeLimitInKb", "-1"), ("forceSync", "no")];

/// Runs the selected measurements.
pub(crate) async fn run(args: &Args, starter: &Starter) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    if args.names(SYNC) {
        findings.push(sync(args)?);
    }
    let snapshots = [snapshot::SNAPSHOT, snapshot::STALL, snapshot::STALL_SYNCED, snapshot::MEMORY];
    let (opens, saves) = (args.names(open::OPEN), snapshots.iter().any(|name| args.names(name)));
    if opens || saves {
        let znodes = if args.quick { FEWER_ZNODES } else { ZNODES };
        eprintln!("filling a directory with {znodes} znodes");
        let filled = Filled { home: fill_and_stop(starter, znodes).await?, znodes };
        if opens {
            findings.push(open::run(args, starter, &filled).await?);
        }
        if saves {
            findings.extend(snapshot::run(starter, &filled).await?);
        }
    }
    if args.names(replay::REPLAY) || args.names(replay::LIMIT) {
        findings.extend(replay::run(args, starter).await?);
    }
    findings.retain(|finding| args.names(finding.name));
    Ok(findings)
}

fn sync(args: &Args) -> io::Result<Finding> {
    let home = Home::on_disk()?;
    let latencies = disk::syncs(home.path(), args.time())?;
    let (count, p99) = (latencies.count(), latencies.micros(0.99));
    Ok(Finding {
        name: SYNC,
        about: format!("p50 of a write of 200 bytes and fdatasync, {count} times (p99 {p99:.0} us)"),
        value: latencies.micros(0.5),
        unit: "us",
        goal: None,
    })
}

/// The directory of a server that was stopped with so many znodes: a snapshot of all of them is the last thing in it.
struct Filled {
    home: Home,
    znodes: u64,
}

impl Filled {
    /// A new folder with a copy of the data.
    fn copy(&self) -> io::Result<Home> {
        let copy = Home::on_disk()?;
        disk::copy(&self.home.files(), &copy.files())?;
        Ok(copy)
    }
}

async fn fill_and_stop(starter: &Starter, znodes: u64) -> io::Result<Home> {
    let server = starter.start_in(Kind::Zoolet, Home::on_disk()?, FILLING).await?;
    let count = fill(&server, znodes).await.map_err(|error| server.explain(error))?;
    if count < znodes {
        return Err(io::Error::other(format!("only {count} znodes in the time allowed")));
    }
    server.stop().await
}
