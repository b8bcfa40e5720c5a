//! The system bench: servers in their own processes, one lightweight load generator, and the CPU time of each server per
//! operation. See `benches/README.md`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is its purpose")]

mod args;
mod busy;
mod certificates;
mod compare;
mod cpu;
mod disk;
mod durable;
mod echo;
mod exchange;
mod finding;
mod goal;
mod growth;
mod home;
mod in_process;
mod journal;
mod load;
mod peer;
mod report;
mod sizes;
mod wire;
mod workload;

use std::io;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Parser;

use crate::args::{Args, Role};
use crate::busy::Busy;
use crate::home::Place;
use crate::peer::Starter;
use crate::report::Lines;

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.role {
        Some(Role::Echo { runtime, port, journal, on_thread, work }) => {
            echo::run(*runtime, *port, journal.as_deref(), *on_thread, Duration::from_nanos(*work))
        }
        Some(Role::Spin) => busy::spin(),
        None if args.list => {
            list();
            Ok(())
        }
        // `cargo test` also runs benches, to check that they start.
        None if !args.bench => {
            println!("nothing measured; run `cargo bench --bench server`");
            Ok(())
        }
        None => run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn list() {
    for workload in workload::ALL.iter().chain(workload::DURABLE).chain(workload::BY_TLS) {
        println!("{:<20} {}", workload.name, workload.about);
    }
    let figures = in_process::ALL.into_iter().chain(sizes::ALL).chain(growth::ALL).chain(durable::ALL);
    for (name, about) in figures {
        println!("{name:<20} {about}");
    }
}

/// One thread generates the load: the servers need the cores.
fn run(args: &Args) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Return on an interrupt, so that servers are stopped and their folders removed.
        tokio::select! {
            done = measure(args) => done,
            _ = tokio::signal::ctrl_c() => Err(io::Error::from(io::ErrorKind::Interrupted)),
        }
    })
}

async fn measure(args: &Args) -> io::Result<()> {
    let cores = available_parallelism().map_or(1, usize::from);
    let idle = if args.busy { "never idle".into() } else { busy::when_idle() };
    println!("{cores} cores, {idle}, shared by servers and load; {} x {:?}", args.rounds(), args.time());
    let _busy = if args.busy { Some(Busy::start(cores)?) } else { None };
    let starter = Starter { zoolet: args.zoolet.clone(), flavor: args.runtime, echo_work: args.echo_work };
    let mut lines = Lines::create(&peer::target_dir()?.join("bench"))?;
    let mut out = io::stdout();

    let workloads: Vec<_> = workload::ALL.iter().filter(|workload| args.wants(workload.name)).collect();
    let durable: Vec<_> = workload::DURABLE.iter().filter(|workload| args.names(workload.name)).collect();
    if !workloads.is_empty() {
        let rows = compare::run(args, &starter, Place::Memory, &workloads, &mut lines).await?;
        if !rows.is_empty() {
            report::figures(&rows, &mut out)?;
            report::ratios(&rows, &mut out)?;
        }
    }
    if !durable.is_empty() {
        let rows = compare::run(args, &starter, Place::Disk, &durable, &mut lines).await?;
        if !rows.is_empty() {
            report::figures(&rows, &mut out)?;
            report::goals(&rows, &mut out)?;
        }
    }
    let by_tls: Vec<_> = workload::BY_TLS.iter().filter(|workload| args.names(workload.name)).collect();
    if !by_tls.is_empty() {
        let rows = compare::run(args, &starter, Place::MemoryByTls, &by_tls, &mut lines).await?;
        if !rows.is_empty() {
            report::figures(&rows, &mut out)?;
            report::ratios(&rows, &mut out)?;
        }
    }
    let mut findings = in_process::run(args).await?;
    findings.extend(sizes::run(args, &starter).await?);
    findings.extend(growth::run(args, &starter, &mut lines).await?);
    findings.extend(durable::run(args, &starter).await?);
    if !findings.is_empty() {
        finding::table(&findings, &mut out)?;
        findings.iter().try_for_each(|finding| lines.add_finding(finding))?;
    }
    if workloads.is_empty() && durable.is_empty() && by_tls.is_empty() && findings.is_empty() {
        return Err(io::Error::other("nothing measured; --list prints the names for --only"));
    }
    println!("\nJSON: {}", lines.path.display());
    Ok(())
}
