//! Power loss at every step of the disk, while a server writes, commits, rolls its log, takes snapshots, purges and restarts.
//!
//! A script of random turns runs once, on a disk that keeps what it was before each of its steps. From each of these the
//! power is lost in several ways and the directory is opened again, to go on for a few turns and crash again, in the middle of
//! recovery or after it; or the disk fails, or is full. Recovery must always succeed, with every committed transaction and with nothing half.
//!
//! `ZOOLET_POWER_LOSS_POINTS` sets how many crash points each test tries, `ZOOLET_POWER_LOSS_SEED` the seed of its first script. What
//! fails prints script, step and seed.

mod life;
mod server;
mod truth;

use std::io::ErrorKind;
use std::path::Path;

use zoolet_simdisk::{DiskFault, DiskOp, SimulatedDisk};
use zoolet_storage::disk::Disk;
use zoolet_storage::{Compression, Durability, StorageError, StorageOptions};
use zoolet_test_support::Dice;

use life::{Known, Life};

const DIR: &str = "/data/version-2";

#[test]
fn every_committed_transaction_survives_a_power_loss_at_any_step() {
    let mut options = StorageOptions::new("/data");
    options.pre_alloc = 32 << 10;
    options.retain = Some(2);
    explore(&options, 8_000);
}

#[test]
fn log_and_snapshots_may_be_on_different_disks() {
    let mut options = StorageOptions::new("/data");
    options.log_dir = Some("/log".into());
    options.pre_alloc = 0;
    options.compression = Compression::Gzip;
    options.retain = Some(1);
    explore(&options, 4_000);
}

#[test]
fn small_log_files_without_digests_survive_as_well() {
    let mut options = StorageOptions::new("/data");
    options.pre_alloc = 4 << 10;
    options.log_size_limit = Some(8 << 10);
    options.digests = false;
    options.retain = None;
    explore(&options, 4_000);
}

#[test]
fn what_the_system_has_survives_the_end_of_the_process_and_a_power_loss_leaves_a_prefix() {
    let mut options = StorageOptions::new("/data");
    options.pre_alloc = 16 << 10;
    options.durability = Durability::Os;
    explore(&options, 4_000);
}

#[test]
fn the_room_that_is_reserved_by_default_costs_nothing_here() {
    explore(&StorageOptions::new("/data"), 60);
}

#[test]
fn a_batch_of_several_writes_is_lost_from_any_of_them_on() {
    let mut options = StorageOptions::new("/data");
    options.pre_alloc = 1 << 20;
    let disk = SimulatedDisk::new(0);
    disk.keep_history();
    let known = Known::nothing(&options);
    let life = Life::run(&disk, &options, &known, 0, |server| {
        server.turns(3)?;
        server.write_more_than_is_kept()?;
        server.commit()
    });
    let from = life.history.len().saturating_sub(8);
    for (step, disk) in &life.history[from..] {
        for seed in 0..6 {
            let crash = Crash { script: 0, step: *step, seed, disk };
            crash.check(&options, life.known_at(*step, &known));
        }
    }
}

#[test]
fn a_flipped_bit_is_refused_or_does_not_matter() {
    let mut options = StorageOptions::new("/data");
    options.pre_alloc = 8 << 10;
    options.retain = None;
    let mut refused = 0;
    for script in 0..4 {
        let (known, life) = run(&options, script).pop().expect("the last life");
        let mut known = life.known_at_end(&known);
        known.lose_batch(life.committed_before());
        let mut dice = Dice::new(script);
        let step = life.disk.steps();
        // The whole log is needed with the oldest snapshot alone.
        for file in life.disk.list(Path::new(DIR)).expect("the directory") {
            let name = file.name.to_str().expect("a name");
            if name.starts_with("snapshot.") && name != "snapshot.0" {
                life.disk.remove(&Path::new(DIR).join(name)).expect("the disk is fine");
            }
        }
        for seed in 0..300 {
            let disk = life.disk.fork();
            let file = flip(&disk, &mut dice);
            let _crash = Crash { script, step, seed, disk: &disk };
            match known.open(&disk, &options) {
                Ok(_) => {}
                Err(StorageError::Damaged(_)) => refused += 1,
                Err(error) => panic!("a flipped bit in {file}: {error}"),
            }
        }
    }
    // Most of the others are after the end of a file.
    assert!(refused > 300, "{refused} of 1200 are refused");
}

/// Flips a bit of some file.
fn flip(disk: &SimulatedDisk, dice: &mut Dice) -> String {
    let dir = Path::new(DIR);
    let files = disk.list(dir).expect("the directory");
    let file = &files[dice.below(files.len())];
    let path = dir.join(&file.name);
    disk.flip(&path, dice.below(file.len as usize) as u64, dice.below(8) as u8).expect("a byte of it");
    path.display().to_string()
}

/// Runs scripts until so many crash points are tried.
fn explore(options: &StorageOptions, points: usize) {
    let from_env = |name| std::env::var(name).ok().map(|value| value.parse().expect("a number"));
    let points = from_env("ZOOLET_POWER_LOSS_POINTS").map_or(points, |points| points as usize);
    let first = from_env("ZOOLET_POWER_LOSS_SEED").unwrap_or(0);
    let mut tried = 0;
    for script in first.. {
        for (known, life) in run(options, script) {
            for (step, disk) in &life.history {
                for seed in 0..2 {
                    if tried >= points {
                        return;
                    }
                    let crash = Crash { script, step: *step, seed, disk };
                    tried += crash.check(options, life.known_at(*step, &known));
                }
            }
        }
    }
}

/// Runs a script: several lives of a server, each with what was known before it.
fn run(options: &StorageOptions, script: u64) -> Vec<(Known, Life)> {
    let mut disk = SimulatedDisk::new(script);
    let mut lives = Vec::new();
    let mut known = Known::nothing(options);
    for seed in 0..4 {
        disk.keep_history();
        let life = Life::run(&disk, options, &known, 1_000 * script + seed, |server| server.turns(25));
        assert!(life.error.is_none(), "script {script}: {:?}", life.error);
        disk = life.disk.clone();
        let next = life.known_at_end(&known);
        lives.push((std::mem::replace(&mut known, next), life));
    }
    lives
}

/// A crash of a script before a step.
struct Crash<'a> {
    script: u64,
    step: u64,
    seed: u64,
    disk: &'a SimulatedDisk,
}

impl Crash<'_> {
    /// Crashes, goes on, and crashes again. Returns how many crashes that were.
    fn check(&self, options: &StorageOptions, mut known: Known) -> usize {
        let mut dice = Dice::new(self.script * 1_000_003 + self.step * 101 + self.seed);
        let mut disk = end(&self.disk.fork(), &mut known, options, &mut dice);
        let lives = dice.below(4);
        for _ in 0..lives {
            disk.keep_history();
            let fired = disk.fired().len();
            match dice.below(10) {
                0..=2 => disk.crash_at(disk.steps() + 1 + dice.below(40) as u64),
                3..=5 => place_fault(&disk, &mut dice),
                6 => disk.set_free_space(Some(dice.below(64 << 10) as u64)),
                _ => {}
            }
            let (seed, turns) = (dice.below(1 << 30) as u64, 1 + dice.below(3));
            let life = Life::run(&disk, options, &known, seed, |server| server.turns(turns));
            let has_failed = disk.has_crashed() || disk.fired().len() > fired || is_full(&life);
            assert!(life.error.is_none() || has_failed, "{:?}", life.error);
            let point = dice.below(life.history.len() + 1);
            disk = match life.history.get(point) {
                // After an error the state that it left is the interesting one.
                Some((step, disk)) if life.error.is_none() => {
                    known = life.known_at(*step, &known);
                    disk.clone()
                }
                _ => {
                    known = life.known_at_end(&known);
                    life.disk.clone()
                }
            };
            disk.clear_faults();
            disk.set_free_space(None);
            disk = end(&disk, &mut known, options, &mut dice);
        }
        let read = known.read(&disk, options).expect("recovery after a crash");
        let (_, _, opened) = known.restart(&disk, options).expect("recovery after a crash");
        assert!(read.is_none_or(|read| read == opened), "reading and opening differ");
        known.check_is_clean(&disk, options);
        1 + lives
    }
}

impl Drop for Crash<'_> {
    #[allow(clippy::print_stderr, reason = "it is the message of a failing test")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { script, step, seed, disk } = self;
            eprintln!("script {script}, crash {seed} before step {step}; the disk:\n{}", disk.tree());
        }
    }
}

/// Lets an operation fail once, or reads return less than asked for.
fn place_fault(disk: &SimulatedDisk, dice: &mut Dice) {
    let op = dice.of(&[
        DiskOp::Read,
        DiskOp::Open,
        DiskOp::List,
        DiskOp::Create,
        DiskOp::Rename,
        DiskOp::Remove,
        DiskOp::SyncDir,
        DiskOp::SetLen,
        DiskOp::Reserve,
        DiskOp::Write,
        DiskOp::Write,
        DiskOp::Sync,
        DiskOp::Sync,
        DiskOp::Sync,
    ]);
    let once = op.any().nth(1 + dice.below(8) as u64);
    let (matcher, fault) = match op {
        DiskOp::Read if dice.chance(80) => (op.any(), DiskFault::Short { bytes: 100 + dice.below(5_000) }),
        DiskOp::Write if dice.chance(50) => (once, DiskFault::Short { bytes: dice.below(5_000) }),
        _ if op.is_step() && dice.chance(30) => (once, DiskFault::Full),
        _ => (once, DiskFault::Fail),
    };
    disk.place(matcher, fault).expect("a fault that fits");
}

fn is_full(life: &Life) -> bool {
    matches!(&life.error, Some(StorageError::Io { source, .. }) if source.kind() == ErrorKind::StorageFull)
}

/// Ends the machine or only the process.
fn end(disk: &SimulatedDisk, known: &mut Known, options: &StorageOptions, dice: &mut Dice) -> SimulatedDisk {
    if dice.chance(30) {
        return disk.kill();
    }
    if options.durability == Durability::Os {
        known.lose_power();
    }
    disk.power_loss(dice.below(1 << 30) as u64)
}
