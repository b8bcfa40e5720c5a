//! Data directories between this server and Apache ZooKeeper 3.9 and 3.8: what one writes, the others load, and show the same.
//!
//! `tests/apache/run storage` fetches both and runs this. `ZOOLET_SEED` seeds what clients do; when they do it and when a server
//! is killed depends on the machine. `ZOOLET_STORAGE_TIMES` is how many times as many directories are written as usual.

#![allow(clippy::print_stdout, reason = "reports what was compared")]

mod bytes;
mod damage;
mod damaged;
mod load;
mod old;
mod operations;
mod ours;
pub mod server;
mod state;
mod theirs;

use std::collections::BTreeMap;
use std::path::Path;

use server::{Process, Refused, Settings, Version};
use state::State;
use theirs::{History, Kind, copy};
use zoolet_storage::disk::RealDisk;
use zoolet_storage::{RecoveryReport, StorageOptions, read};
use zoolet_test_support::Dice;

/// What a real server shows of a copy of a directory.
async fn shown(
    process: &mut Process,
    dir: &Path,
    settings: &Settings,
) -> Result<(State, Vec<String>), Refused> {
    let copied = tempfile::tempdir().expect("a directory");
    copy(dir, copied.path());
    shown_in_place(process, copied.path(), settings).await
}

/// What a real server shows of a directory, and what it logs while it starts. It changes the directory.
async fn shown_in_place(
    process: &mut Process,
    dir: &Path,
    settings: &Settings,
) -> Result<(State, Vec<String>), Refused> {
    let started = process.start(dir, settings)?;
    let stored = process.stored();
    let state = State::of_server(started.address, stored).await;
    process.stop();
    match state {
        Ok(state) => Ok((state, started.log)),
        Err(reason) => Err(Refused { reason, log: started.log }),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Apache ZooKeeper: tests/apache/run storage"]
async fn a_directory_of_a_real_server_is_loaded_as_that_server_loads_it() {
    let mut dice = begin();
    let mut processes = Version::ALL.map(Process::new);
    let mut tally = Tally::default();
    for number in 0..times(8) {
        let history = match number {
            0 => History::of_ensemble(&mut dice).await,
            _ => History::write(Kind::number(number), &mut dice).await,
        };
        tally.requests += history.requests;
        for image in &history.images {
            let ours = read(&RealDisk, &StorageOptions::new(&image.path));
            let ours = ours.unwrap_or_else(|refused| panic!("{}: {refused}", image.keep()));
            let state = State::of_recovered(&ours);
            tally.count(&state, &ours.report);
            // The one that has written it comes first. 3.8 refuses what a kill may leave, a log without a whole header, and has
            // lost access control lists that are in the log, or has others in their place.
            processes.sort_by_key(|process| process.version != image.version);
            let mut different = Vec::new();
            for process in &mut processes {
                match shown(process, &image.path, &image.settings).await {
                    Ok((theirs, _)) => different.push((process.version, state.differences(&theirs))),
                    Err(_) => tally.refused_by_apache += 1,
                }
                if different.last().is_some_and(|(_, differences)| differences.is_empty()) {
                    tally.equal += 1;
                    break;
                }
            }
            let is_equal = different.iter().any(|(_, differences)| differences.is_empty());
            let is_unknown = different.is_empty();
            assert!(is_equal || is_unknown, "{}: {different:#?}\n{:#?}", image.keep(), ours.report);
        }
    }
    println!("{tally:#?}");
}

/// What was compared.
#[derive(Debug, Default)]
struct Tally {
    directories: usize,
    equal: usize,
    requests: usize,
    znodes: usize,
    sessions: usize,
    refused_by_apache: usize,
    /// How many directories had something of each kind to warn of.
    warnings: BTreeMap<String, usize>,
}

impl Tally {
    fn count(&mut self, state: &State, report: &RecoveryReport) {
        self.directories += 1;
        self.znodes += state.znodes.len();
        self.sessions += state.sessions.len();
        for warning in &report.warnings {
            let warning = format!("{warning:?}");
            let kind = warning.split([' ', '(']).next().unwrap_or_default();
            *self.warnings.entry(kind.to_owned()).or_default() += 1;
        }
        if report.cut.is_some() {
            *self.warnings.entry("cut".to_owned()).or_default() += 1;
        }
    }
}

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run storage"]
async fn real_servers_load_our_directories_without_a_warning_and_show_what_we_do() {
    let mut dice = begin();
    let mut processes = Version::ALL.map(Process::new);
    let mut tally = Tally::default();
    for number in 0..times(60) {
        let (kind, dir) = (ours::Kind::random(&mut dice), tempfile::tempdir().expect("a directory"));
        let end = ours::write(&kind, dir.path(), &mut dice);
        let recovered = read(&RealDisk, &StorageOptions::new(dir.path())).expect("a directory of ours");
        let ours = State::of_recovered(&recovered);
        let differences = ours.clone().without_statistics().differences(&end);
        assert!(differences.is_empty(), "number {number}, {kind:?}: {differences:#?}");
        tally.count(&ours, &recovered.report);
        for process in &mut processes {
            let name = format!("number {number} in {}, {kind:?}", process.version);
            let theirs = shown(process, dir.path(), &Settings::new()).await;
            let (theirs, mut log) = theirs.unwrap_or_else(|refused| panic!("{name}: {refused}"));
            if !kind.digests {
                // Of the sections of a snapshot that it then does not have: "likely due to reading an older snapshot".
                log.retain(|line| !line.contains("DataTree - Got EOF"));
            }
            assert!(log.is_empty(), "{name}: {log:#?}");
            let differences = ours.differences(&theirs);
            assert!(differences.is_empty(), "{name}: {differences:#?}");
            tally.equal += 1;
            for (_, log) in bytes::files(dir.path(), "log") {
                let count = bytes::entries(&std::fs::read(&log).expect("a log")).len();
                let lines = process.toolkit(&log).unwrap_or_else(|refused| panic!("{name}: {refused}"));
                assert_eq!(lines.last(), Some(&format!("EOF reached after {count} txns.")), "{name}");
            }
        }
    }
    println!("{tally:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Apache ZooKeeper: tests/apache/run storage"]
async fn a_damaged_directory_is_refused_or_loses_no_more_than_a_write_under_way() {
    println!("{}", damaged::table(&mut begin()).await);
}

/// The seed, printed.
fn begin() -> Dice {
    let seed = std::env::var("ZOOLET_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random);
    println!("ZOOLET_SEED={seed}");
    Dice::new(seed)
}

/// How many of what there are usually `count`.
fn times(count: usize) -> usize {
    let times = std::env::var("ZOOLET_STORAGE_TIMES").map_or(1, |times| times.parse().expect("a number"));
    count * times
}
