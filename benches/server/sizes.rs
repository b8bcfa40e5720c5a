//! The memory of an idle session and of a znode, from the growth of the server process.

use std::fs;
use std::io;
use std::time::Duration;

use zoolet_proto::Request;

use crate::args::Args;
use crate::cpu::resident;
use crate::finding::{Bound, Finding};
use crate::growth::fill;
use crate::home::Place;
use crate::peer::{Kind, Peer, Starter};
use crate::wire::Wire;

/// The figures, each with a description.
pub(crate) const ALL: [(&str, &str); 2] =
    [(SESSION, "memory of an idle session over TCP"), (ZNODE, "memory of a znode with 100 bytes of data")];
const SESSION: &str = "size-session";
const ZNODE: &str = "size-znode";

/// Numbers large enough to make pre-allocation negligible.
const SESSIONS: u64 = 10_000;
const ZNODES: u64 = 1_000_000;
/// Descriptors of this process and the server that are not sessions.
const SPARE_DESCRIPTORS: u64 = 100;
/// Time for the server's work after its last reply.
const SETTLE: Duration = Duration::from_millis(500);

/// Runs the selected measurements, each on a new server.
pub(crate) async fn run(args: &Args, starter: &Starter) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (name, _) in ALL.into_iter().filter(|(name, _)| args.wants(name)) {
        let server = match starter.start(Kind::Zoolet, Place::Memory).await {
            Ok(server) => server,
            Err(error) => {
                println!("{name} skipped: {error}");
                continue;
            }
        };
        let measured = if name == SESSION { session(&server).await } else { znode(&server).await };
        findings.push(measured.map_err(|error| server.explain(error))?);
    }
    Ok(findings)
}

/// The memory of an idle session over TCP that has been used once.
async fn session(server: &Peer) -> io::Result<Finding> {
    let count = SESSIONS.min(open_files()?.saturating_sub(SPARE_DESCRIPTORS));
    let mut wires = Vec::new();
    let empty = resident(server.target.pid)?;
    for _ in 0..count {
        let mut wire = Wire::open(&server.target.door).await?;
        wire.call(&Request::Ping).await?;
        wires.push(wire);
    }
    tokio::time::sleep(SETTLE).await;
    let full = resident(server.target.pid)?;
    Ok(Finding {
        name: SESSION,
        about: format!("an idle session over TCP, as one of {count}"),
        value: full.saturating_sub(empty) as f64 / count as f64,
        unit: "bytes",
        goal: Some(Bound::AtMost(8192.0)),
    })
}

/// The memory of a znode with 100 bytes of data, including its entry in the tree.
async fn znode(server: &Peer) -> io::Result<Finding> {
    let empty = resident(server.target.pid)?;
    let count = fill(server, ZNODES).await?;
    tokio::time::sleep(SETTLE).await;
    let full = resident(server.target.pid)?;
    Ok(Finding {
        name: ZNODE,
        about: format!("a znode with 100 bytes of data and a name of 18, as one of {count}"),
        value: full.saturating_sub(empty) as f64 / count as f64,
        unit: "bytes",
        goal: Some(Bound::AtMost(400.0)),
    })
}

/// The limit of open files of this process, which the server inherits.
fn open_files() -> io::Result<u64> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    Ok(soft.and_then(|soft| soft.parse().ok()).unwrap_or(u64::MAX))
}
