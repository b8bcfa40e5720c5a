//! Compares the CPU time per operation of our client and of the crate zookeeper-client, on one server. See
//! `benches/README.md`.
//!
//! Each measurement runs in a new process of this program, so that one client does not affect the figures of the other.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod client;
#[path = "../../server/cpu.rs"]
#[allow(dead_code, reason = "shared with the system bench, which uses more of it")]
mod cpu;

use std::env;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand, ValueEnum};
use tokio::task::JoinSet;

use crate::client::{Client, Kind, Op, Outcome};
use crate::cpu::CpuTime;

/// Compares the CPU time per operation of two clients.
#[derive(Debug, Parser)]
struct Args {
    /// The server's binary.
    #[arg(long, default_value = "target/dist/zoolet")]
    zoolet: PathBuf,
    /// The address of a running server to use instead.
    #[arg(long)]
    server: Option<String>,
    /// Rounds; the median is reported.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Milliseconds per measurement.
    #[arg(long, default_value_t = 800)]
    time: u64,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
#[command(hide = true)]
enum Role {
    /// Run one measurement; prints the CPU time per operation and operations per second.
    Measure { kind: Kind, op: Op, depth: usize, addr: String, millis: u64 },
}

/// The goal for the ratio of CPU times, by depth.
const GOALS: [(usize, f64); 2] = [(1, 1.0), (16, 0.7)];

fn main() -> Outcome<()> {
    let args = Args::parse();
    match &args.role {
        Some(Role::Measure { kind, op, depth, addr, millis }) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(measure(*kind, *op, *depth, addr, Duration::from_millis(*millis)))
        }
        None => compare(&args),
    }
}

/// Runs tasks that share a client, each with one operation in flight.
async fn measure(kind: Kind, op: Op, depth: usize, addr: &str, time: Duration) -> Outcome<()> {
    const LEAD_IN: Duration = Duration::from_millis(100);
    let client = Client::connect(kind, addr).await?;
    client.prepare().await?;
    load(&client, op, depth, LEAD_IN).await?;
    let pid = std::process::id();
    let (began, before) = (Instant::now(), CpuTime::of(pid)?);
    let ops = load(&client, op, depth, time).await?;
    let (elapsed, cpu) = (began.elapsed(), CpuTime::of(pid)?.since(&before).time);
    println!("{} {}", cpu.as_secs_f64() * 1e6 / ops as f64, ops as f64 / elapsed.as_secs_f64());
    Ok(())
}

async fn load(client: &Client, op: Op, depth: usize, time: Duration) -> Outcome<u64> {
    let end = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for _ in 0..depth {
        let client = client.clone();
        tasks.spawn(async move {
            let mut ops = 0;
            while Instant::now() < end {
                client.run(op).await?;
                ops += 1;
            }
            Outcome::Ok(ops)
        });
    }
    let mut all = 0;
    while let Some(ops) = tasks.join_next().await {
        all += ops??;
    }
    Ok(all)
}

fn compare(args: &Args) -> Outcome<()> {
    let (_server, addr) = match &args.server {
        Some(addr) => (None, addr.clone()),
        None => {
            let (server, addr) = start(&args.zoolet)?;
            (Some(server), addr)
        }
    };
    println!(
        "{:<12} {:>14} {:>16} {:>12} {:>12}  CPU ratio",
        "", "zoolet us/op", "zk-client us/op", "ops/s", "ops/s"
    );
    for op in [Op::Get, Op::Set] {
        for (depth, goal) in GOALS {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..args.rounds {
                ours.push(child(Kind::Zoolet, op, depth, &addr, args.time)?);
                theirs.push(child(Kind::ZookeeperClient, op, depth, &addr, args.time)?);
            }
            let ratio = median(ours.iter().zip(&theirs).map(|(ours, theirs)| ours.0 / theirs.0));
            let (cpu, rate) = (median(ours.iter().map(|r| r.0)), median(ours.iter().map(|r| r.1)));
            let (their_cpu, their_rate) =
                (median(theirs.iter().map(|r| r.0)), median(theirs.iter().map(|r| r.1)));
            let name = format!("{op:?} depth {depth}").to_lowercase();
            let verdict = if ratio <= goal { "met" } else { "MISSED" };
            println!(
                "{name:<12} {cpu:>14.2} {their_cpu:>16.2} {rate:>12.0} {their_rate:>12.0}  {ratio:.2} (<= {goal}) {verdict}"
            );
        }
    }
    Ok(())
}

/// Runs one measurement in a new process.
fn child(kind: Kind, op: Op, depth: usize, addr: &str, millis: u64) -> Outcome<(f64, f64)> {
    let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
        value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    };
    let output = Command::new(env::current_exe()?)
        .arg("measure")
        .args([name(&|| kind.to_possible_value()), name(&|| op.to_possible_value())])
        .args([depth.to_string(), addr.to_owned(), millis.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(cpu)), Some(Ok(rate))) => Ok((cpu, rate)),
        _ => Err(format!("measuring {kind:?} failed").into()),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A server, stopped on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(binary: &PathBuf) -> Outcome<(Server, String)> {
    let addr = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let child = Command::new(binary)
        .args(["serve", "--bind", &addr])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| {
            format!(
                "{}: {error}; `cargo build --profile dist -p zoolet-cli --features full` builds it",
                binary.display()
            )
        })?;
    let server = Server(child);
    for _ in 0..100 {
        // The port is open when it is ready.
        if std::net::TcpStream::connect(&addr).is_ok() {
            return Ok((server, addr));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("the server did not start".into())
}
