//! Server and client in one process, without a socket, as in a test or a program that embeds the server. Everything runs on
//! one thread, as in a `#[tokio::test]`.

use std::collections::VecDeque;
use std::error::Error;
use std::io;
use std::process;
use std::time::{Duration, Instant};

use zoolet::{Client, Server};

use crate::args::Args;
use crate::cpu::CpuTime;
use crate::exchange::data;
use crate::finding::{Bound, Finding};
use crate::load::Latencies;

/// The figures, each with a description.
pub(crate) const ALL: [(&str, &str); 3] = [
    (GET, "getData one after another, in process"),
    (PIPELINED, "getData with many in flight, in process"),
    (START, "from Server::builder to a connected client, in process"),
];
const GET: &str = "in-process-get";
const PIPELINED: &str = "in-process-pipelined";
const START: &str = "in-process-start";

const PATH: &str = "/bench";
/// Requests in flight in the pipelined case.
const DEPTH: usize = 256;
/// Number of server starts.
const STARTS: usize = 2000;

/// Runs the selected measurements.
pub(crate) async fn run(args: &Args) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let measured = async {
        if args.wants(GET) {
            findings.push(median(args, sequential).await?);
        }
        if args.wants(PIPELINED) {
            findings.push(median(args, pipelined).await?);
        }
        if args.wants(START) {
            findings.push(median(args, start).await?);
        }
        Ok::<_, Box<dyn Error>>(())
    };
    measured.await.map_err(|error| io::Error::other(format!("in process: {error}")))?;
    Ok(findings)
}

/// The median round of a measurement.
async fn median(
    args: &Args,
    measure: impl AsyncFn(Duration) -> Result<Finding, Box<dyn Error>>,
) -> Result<Finding, Box<dyn Error>> {
    let mut rounds = Vec::new();
    for _ in 0..args.rounds() {
        rounds.push(measure(args.time()).await?);
    }
    rounds.sort_by(|a, b| a.value.total_cmp(&b.value));
    Ok(rounds.swap_remove(rounds.len() / 2))
}

/// A server with one znode, and a client of it.
async fn pair() -> Result<(Server, Client), Box<dyn Error>> {
    let server = Server::builder().start().await?;
    let client = Client::connect(server.in_process()).await?;
    client.create(PATH, data().unwrap_or_default()).await?;
    Ok((server, client))
}

async fn sequential(time: Duration) -> Result<Finding, Box<dyn Error>> {
    let (server, client) = pair().await?;
    let mut latencies = Latencies::new();
    let end = Instant::now() + time;
    let mut now = Instant::now();
    while now < end {
        let began = now;
        client.get_data(PATH).await?;
        now = Instant::now();
        latencies.record(now - began);
    }
    server.shutdown().await;
    let p99 = latencies.micros(0.99);
    Ok(Finding {
        name: GET,
        about: format!("p50 of getData one after another (p99 {p99:.1} us)"),
        value: latencies.micros(0.5),
        unit: "us",
        goal: Some(Bound::AtMost(3.0)),
    })
}

async fn pipelined(time: Duration) -> Result<Finding, Box<dyn Error>> {
    let (server, client) = pair().await?;
    let mut waiting = VecDeque::with_capacity(DEPTH);
    let mut done = 0_u64;
    let cpu = CpuTime::of(process::id())?;
    let began = Instant::now();
    let end = began + time;
    loop {
        // One clock reading per batch, not per request.
        let more = Instant::now() < end;
        while more && waiting.len() < DEPTH {
            waiting.push_back(client.get_data(PATH).send());
        }
        for _ in 0..(DEPTH / 2).min(waiting.len()) {
            if let Some(reply) = waiting.pop_front() {
                reply.await?;
                done += 1;
            }
        }
        if waiting.is_empty() {
            break;
        }
    }
    let elapsed = began.elapsed();
    let cpu = CpuTime::of(process::id())?.since(&cpu).time;
    server.shutdown().await;
    // The rate by CPU time is that of a whole core; the rate by the clock depends on other load.
    let rate = done as f64 / elapsed.as_secs_f64();
    Ok(Finding {
        name: PIPELINED,
        about: format!("getData with up to {DEPTH} in flight, by CPU time ({rate:.0} by the clock)"),
        value: done as f64 / cpu.as_secs_f64(),
        unit: "ops/s",
        goal: Some(Bound::AtLeast(1e6)),
    })
}

async fn start(time: Duration) -> Result<Finding, Box<dyn Error>> {
    let mut latencies = Latencies::new();
    let end = Instant::now() + time;
    for _ in 0..STARTS {
        let began = Instant::now();
        let server = Server::builder().start().await?;
        let client = Client::connect(server.in_process()).await?;
        latencies.record(began.elapsed());
        client.close().await?;
        server.shutdown().await;
        if Instant::now() > end {
            break;
        }
    }
    let (count, p99) = (latencies.count(), latencies.micros(0.99));
    Ok(Finding {
        name: START,
        about: format!("p50 from Server::builder to a connected client, {count} times (p99 {p99:.0} us)"),
        value: latencies.micros(0.5),
        unit: "us",
        goal: Some(Bound::AtMost(150.0)),
    })
}
