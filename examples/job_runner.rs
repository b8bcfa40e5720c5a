//! A job runner with a coordinator of its own, which is killed at random and loses no job: `cargo run --example job_runner`
//!
//! The program starts itself again as the runner: a process with an embedded ZooKeeper server that keeps its state in a directory. The
//! first process submits jobs to it by TCP, and meanwhile kills it (SIGKILL on Unix) and starts it again and again.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::env;
use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::sleep;
use zoolet::recipes::{TicketDecision, TicketTxn, Tickets, WorkError};
use zoolet::{Client, ErrorCode, Server};

const JOBS: u64 = 100;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [dir, address] => run_jobs(Path::new(dir), address).await,
        _ => submit_jobs().await,
    }
}

/// The runner: takes the oldest job, does it, and replaces it with its result.
async fn run_jobs(dir: &Path, address: &str) -> Result<(), Box<dyn Error>> {
    // Everything that an earlier process has acknowledged is there again.
    let server = Server::builder().data_dir(dir).bind(address).start().await?;
    let zk = Client::connect(server.in_process()).await?;
    create_queue(&zk).await?;
    loop {
        let (mut jobs, _, changed) = zk.get_children("/jobs").watch().await?;
        jobs.sort();
        let Some(job) = jobs.first() else {
            changed.changed().await?;
            continue;
        };
        let (number, _) = zk.get_data(format!("/jobs/{job}")).await?;
        let number: u64 = std::str::from_utf8(&number)?.parse()?;
        sleep(Duration::from_millis(number % 10)).await; // Hard work. A job that is interrupted here is done again.
        let result = (number * number).to_string();
        // One transaction: there is never both a job and its result, and never neither.
        zk.multi().delete(format!("/jobs/{job}")).create(format!("/results/{job}"), result).commit().await?;
    }
}

/// The customer: submits jobs while the runner comes and goes, and checks the results.
async fn submit_jobs() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let kills = Arc::new(AtomicU32::new(0));
    let saboteur = tokio::spawn(kill_and_restart(dir.path().to_owned(), address, Arc::clone(&kills)));

    // One session, although the server is another process each time.
    let zk = Client::connect(address.to_string()).await?;
    let session = zk.session_id();
    create_queue(&zk).await?;
    let tickets = Tickets::new(&zk, "/tickets");
    for number in 1..=JOBS {
        sleep(Duration::from_millis(5)).await;
        // If the runner is killed, nobody knows whether the job is in its queue. With a ticket that does not matter: the job is
        // submitted until it succeeds, and is there once.
        let ticket = tickets.generate();
        let submit = |txn| submit(txn, zk.clone(), number);
        while let Err(error) = tickets.run(&ticket, number.to_string(), submit).await {
            println!("job {number} is submitted again: {error}");
        }
    }
    println!("{JOBS} jobs submitted, the runner was killed {} times", kills.load(Ordering::Relaxed));

    let results = loop {
        match results(&zk).await {
            Ok(results) if results.len() as u64 >= JOBS => break results,
            Ok(_) => sleep(Duration::from_millis(20)).await,
            Err(error) if error.is_retryable() => {}
            Err(error) => return Err(error.into()),
        }
    };
    saboteur.abort();
    let expected: Vec<String> = (1..=JOBS).map(|number| (number * number).to_string()).collect();
    assert_eq!(results, expected, "the results are there once, in the order of submission");
    assert_eq!(zk.session_id(), session, "the session has survived");
    println!("{} results, the runner was killed {} times", results.len(), kills.load(Ordering::Relaxed));
    Ok(())
}

async fn submit(txn: TicketTxn, zk: Client, number: u64) -> Result<TicketDecision, WorkError> {
    let job = zk.create("/jobs/job-", number.to_string()).sequential();
    Ok(txn.add(job).done("submitted"))
}

/// The results, in the order of the jobs.
async fn results(zk: &Client) -> Result<Vec<String>, zoolet::Error> {
    let mut names = zk.get_children("/results").await?.0;
    names.sort();
    let mut results = Vec::new();
    for name in names {
        let (data, _) = zk.get_data(format!("/results/{name}")).await?;
        results.push(String::from_utf8_lossy(&data).into_owned());
    }
    Ok(results)
}

/// Creates what the queue consists of, if it is not there.
async fn create_queue(zk: &Client) -> Result<(), zoolet::Error> {
    for path in ["/jobs", "/results"] {
        loop {
            match zk.create(path, "").await {
                Ok(_) => break,
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => break,
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Starts the runner and kills it some time after it accepts connections, for ever.
async fn kill_and_restart(dir: PathBuf, address: SocketAddr, kills: Arc<AtomicU32>) -> std::io::Result<()> {
    loop {
        let mut runner = Command::new(env::current_exe()?);
        let mut runner = runner.arg(&dir).arg(address.to_string()).kill_on_drop(true).spawn()?;
        while TcpStream::connect(address).await.is_err() && runner.try_wait()?.is_none() {
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_millis(rand::random_range(100..800))).await;
        drop(runner.kill().await);
        kills.fetch_add(1, Ordering::Relaxed);
    }
}
