//! The lock of our client or of the crate zookeeper-client, on one thread, controlled by `benches/locks/run`.
//!
//! Commands are lines: the reply to `open HOST:PORT DIRECTORY CONTENDERS RELEASE` is `ready`, and the reply to
//! `go MILLISECONDS` a line of JSON. The process exits at the end of the input.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod contend;
#[path = "../../../server/cpu.rs"]
#[allow(dead_code, reason = "shared with the system bench, which uses more of it")]
mod cpu;
mod locker;

use std::io::{self, BufRead, Write};
use std::time::Duration;

use clap::Parser;
use tokio::task::LocalSet;

use crate::contend::contend;
use crate::locker::{Kind, Locker, Outcome, Release};

/// The warm-up before a measurement.
const LEAD_IN: Duration = Duration::from_millis(150);

#[derive(Debug, Parser)]
struct Args {
    /// The lock's implementation.
    kind: Kind,
}

fn main() -> Outcome {
    let Args { kind } = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut lockers = Vec::new();
    let mut release = Release::Awaited;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<_> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["open", addr, dir, contenders, way] => {
                release = way.parse()?;
                let contenders: usize = contenders.parse()?;
                LocalSet::new().block_on(&runtime, async {
                    for _ in 0..contenders {
                        lockers.push(Locker::open(kind, addr, dir).await?);
                    }
                    contend(&lockers, release, LEAD_IN).await
                })?;
                "ready".to_owned()
            }
            ["go", millis] => LocalSet::new().block_on(&runtime, async {
                let found = contend(&lockers, release, Duration::from_millis(millis.parse()?)).await?;
                for locker in lockers.drain(..) {
                    locker.close().await?;
                }
                Outcome::Ok(found.to_json())
            })?,
            _ => return Err(format!("not an order: {line}").into()),
        };
        println!("{answer}");
        io::stdout().flush()?;
    }
    Ok(())
}
