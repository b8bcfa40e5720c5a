//! The time from the start of a process until it opens a session, for a directory with a million znodes.

use std::io;
use std::time::Duration;

use super::Filled;
use crate::args::Args;
use crate::exchange::get;
use crate::finding::{Bound, Finding};
use crate::peer::{Kind, Starter};
use crate::report::median;
use crate::wire::Wire;

pub(super) const OPEN: &str = "durable-open";

/// Both servers open copies of the same directory, which are in the page cache, in turn.
pub(super) async fn run(args: &Args, starter: &Starter, filled: &Filled) -> io::Result<Finding> {
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..args.rounds() {
        eprint!("\ropening, round {} of {}", round + 1, args.rounds());
        let our = open(starter, Kind::Zoolet, filled).await?.as_secs_f64();
        ours.push(our);
        if args.peers.contains(&Kind::Apache) {
            let their = open(starter, Kind::Apache, filled).await?.as_secs_f64();
            theirs.push(their);
            ratios.push(our / their);
        }
    }
    eprintln!();
    let ours = median(ours).unwrap_or_default();
    let (value, goal, beside) = match (median(ratios), median(theirs)) {
        (Some(ratio), Some(theirs)) => (ratio, Some(Bound::AtMost(0.333)), format!("Apache {theirs:.2} s")),
        _ => (f64::NAN, None, "Apache not measured".to_owned()),
    };
    let about = format!("opening {} znodes: {ours:.2} s, {beside}", filled.znodes);
    Ok(Finding { name: OPEN, about, value, unit: "x", goal })
}

async fn open(starter: &Starter, kind: Kind, filled: &Filled) -> io::Result<Duration> {
    let server = starter.start_in(kind, filled.copy()?, &[]).await?;
    // It has the znodes.
    let mut wire = Wire::open(&server.target.door).await?;
    wire.call(&get("/lane-00-0000000000", false)).await?;
    let took = server.started_in;
    server.kill()?;
    Ok(took)
}
