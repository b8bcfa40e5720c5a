//! The same clients at a durable server that crashes: its process is killed, its machine loses power or stops at some step of
//! the disk, and the disk fails. What was acknowledged is there when the server is back, or the checker finds what is missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use zoolet::Client;
use zoolet::server::StorageOptions;
use zoolet::testing::{DiskFault, DiskOp, History, SimulatedDisk};
use zoolet_test_support::Dice;

use crate::random::host::{Host, Tally};
use crate::random::rough::Way;
use crate::random::{Manner, all_end, clients, each_seed, faults, judge, read_back, run, settings};

/// How many schedules run by default.
const SCHEDULES: u64 = 100;

#[test]
#[allow(clippy::print_stdout, reason = "how much it has shown")]
fn what_clients_see_of_a_durable_server_keeps_every_rule_whenever_it_crashes() {
    let (mut schedules, mut total) = (0, Tally::default());
    each_seed(SCHEDULES, |seed| {
        let (_, tally) = run(schedule(seed))?;
        schedules += 1;
        total.starts += tally.starts;
        total.snapshots += tally.snapshots;
        total.crashes += tally.crashes;
        total.losses += tally.losses;
        Ok(())
    });
    println!("{schedules} schedules: {total:?}");
    let Tally { starts, snapshots, crashes, losses } = total;
    let enough = starts > 120 && snapshots > 50 && crashes > 120 && losses > 30;
    // A few schedules may have few.
    assert!(schedules < SCHEDULES || enough, "{total:?}");
}

#[test]
fn a_schedule_with_crashes_repeats_from_its_seed() {
    for seed in 1..4 {
        let [one, other] = [(); 2].map(|()| run(schedule(seed)).expect("a good schedule"));
        assert_eq!(one.1, other.1, "seed {seed}");
        assert_eq!(one.0.to_string(), other.0.to_string(), "seed {seed}");
    }
}

/// Settings of a directory: small files, so that crashes meet all that is done to them.
pub fn storage(dice: &mut Dice) -> StorageOptions {
    let mut options = StorageOptions::new("/data");
    options.pre_alloc = dice.of(&[0, 4 << 10, 64 << 10]);
    options.log_size_limit = dice.of(&[None, None, Some(4 << 10)]);
    options.snapshot_after_txns = dice.of(&[3, 10, 40]);
    options.retain = dice.of(&[Some(1), Some(3), None]);
    options
}

async fn schedule(seed: u64) -> Result<(History, Tally), String> {
    let mut dice = Dice::new(seed);
    let settings = settings().container_check_interval(Duration::from_secs(2)).storage(storage(&mut dice));
    let traffic = Arc::new(Traffic::default());
    let counting = Arc::clone(&traffic);
    let host = Host::new(settings, SimulatedDisk::new(seed), Arc::new(move || counting.count()));
    host.start().await.map_err(|error| error.to_string())?;
    let history = History::new();
    let here = host.clone();
    let way = |dice| {
        let here = here.clone();
        Way::new(move || here.connect(), dice, Manner::Wild)
    };
    let clients = clients(&history, &mut dice, Manner::Wild, way);
    let running = tokio::spawn(host.clone().keep_running(dice.fork()));
    let here = host.clone();
    let usual = tokio::spawn(faults::run(move || here.fixture(), dice.fork()));
    let crashing = tokio::spawn(crash(host.clone(), traffic, dice.fork()));
    all_end(clients).await?;
    for task in [usual, crashing] {
        task.abort();
        _ = task.await;
    }
    let running_at_last = last_server(&host).await;
    running.abort();
    _ = running.await;
    running_at_last?;

    let here = host.clone();
    let zk = Client::connect(history.tap(move || here.connect())).await.map_err(|error| error.to_string())?;
    let seen = read_back(zk).await;
    judge(Some(&host.transactions()), &history.entries(), &seen)?;
    Ok((history, host.tally()))
}

/// Waits for a server that runs, and cuts its power for the last time.
async fn last_server(host: &Host) -> Result<(), String> {
    let disk = host.disk();
    disk.clear_faults();
    disk.crash_at(u64::MAX);
    for _ in 0..10 {
        if let Some(running) = host.running() {
            running.fixture.accept_connections();
            if host.crash_and_go_on(&running, false).await {
                return Ok(());
            }
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    Err("no server is running at the end".to_owned())
}

/// Counts how often clients read and write, so that a crash can come while they do.
#[derive(Default)]
struct Traffic {
    left: AtomicUsize,
    reached: Notify,
}

impl Traffic {
    fn count(&self) {
        let left = self.left.load(Relaxed);
        if left > 0 {
            self.left.store(left - 1, Relaxed);
            if left == 1 {
                self.reached.notify_one();
            }
        }
    }

    /// Waits until clients have read or written so often, or for two seconds.
    async fn pass(&self, often: usize) {
        self.left.store(often, Relaxed);
        _ = tokio::time::timeout(Duration::from_secs(2), self.reached.notified()).await;
    }
}

/// Causes crashes and faults of the disk at random until it is aborted.
async fn crash(host: Host, traffic: Arc<Traffic>, mut dice: Dice) {
    loop {
        tokio::time::sleep(Duration::from_millis(dice.below(500) as u64)).await;
        if dice.chance(90) {
            traffic.pass(1 + dice.below(60)).await;
        }
        let Some(running) = host.running() else { continue };
        let disk = host.disk();
        match dice.below(10) {
            0..=3 => {
                let kill = dice.chance(40);
                if !host.crash_and_go_on(&running, kill).await {
                    // It cannot go on, so another one takes its place.
                    running.server.failed().await;
                }
            }
            4 | 5 => disk.crash_at(disk.steps() + 1 + dice.below(40) as u64),
            6 | 7 => place_fault(&disk, &mut dice),
            8 => {
                let server = running.server;
                tokio::spawn(async move { _ = server.snapshot().await });
            }
            _ => disk.clear_faults(),
        }
    }
}

/// A fault that no log survives, or one that it must survive.
fn place_fault(disk: &SimulatedDisk, dice: &mut Dice) {
    let (op, fault) = dice.of(&[
        (DiskOp::Sync, DiskFault::Fail),
        (DiskOp::Sync, DiskFault::Full),
        (DiskOp::SyncDir, DiskFault::Fail),
        (DiskOp::Write, DiskFault::Fail),
        (DiskOp::Write, DiskFault::Full),
        (DiskOp::Write, DiskFault::Short { bytes: 20 }),
        (DiskOp::Write, DiskFault::Short { bytes: 150 }),
        (DiskOp::Create, DiskFault::Full),
        (DiskOp::Rename, DiskFault::Fail),
        (DiskOp::Remove, DiskFault::Fail),
        (DiskOp::Reserve, DiskFault::Full),
        (DiskOp::SetLen, DiskFault::Fail),
        (DiskOp::Read, DiskFault::Fail),
        (DiskOp::Read, DiskFault::Short { bytes: 7 }),
        (DiskOp::Open, DiskFault::Fail),
        (DiskOp::List, DiskFault::Fail),
    ]);
    let names = dice.of(&["*", "*", "log.*", "*.tmp"]);
    let nth = 1 + dice.below(8) as u64;
    disk.place(op.on(names).nth(nth), fault).expect("a fault that there can be");
}
