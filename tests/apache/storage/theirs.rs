//! Data directories that real servers have written: copied under load, after a kill and after a clean stop.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tempfile::TempDir;
use tokio::time::sleep;
use zoolet_test_support::Dice;

use crate::ensemble::members::{Ensemble, MEMBERS};
use crate::storage::load::Load;
use crate::storage::operations::Limits;
use crate::storage::server::{Process, Settings, Stopped, Version};

/// The directory of one server, again and again.
pub struct History {
    pub images: Vec<Image>,
    /// How many requests were answered.
    pub requests: usize,
    _dir: TempDir,
}

/// A directory as it was at some time.
pub struct Image {
    pub path: PathBuf,
    pub version: Version,
    /// How it came about, for messages.
    pub name: String,
    /// How a server must be set up to read it.
    pub settings: Settings,
}

impl Image {
    /// Copies it to where it can be looked at after the test; returns what to say of it.
    pub fn keep(&self) -> String {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("storage-failed");
        let _ = fs::remove_dir_all(&kept);
        copy(&self.path, &kept);
        format!("{} ({})", self.name, kept.display())
    }
}

/// What varies between histories.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub version: Version,
    pub digest: bool,
    pub compression: &'static str,
    pub snap_count: usize,
    pub pre_alloc_kib: usize,
}

impl Kind {
    /// One with as few as possible in common with that of the number before.
    pub fn number(number: usize) -> Self {
        Self {
            version: Version::ALL[number % 2],
            digest: number % 5 != 4,
            compression: ["", "gz", "snappy"][number % 3],
            snap_count: [40, 300, 100_000][number / 2 % 3],
            pre_alloc_kib: [64, 0, 4][number % 3],
        }
    }

    fn limits(self) -> Limits {
        Limits { create2_in_multi: self.version != Version::V38, odd_flags: true, only_those_of_3_4: false }
    }

    fn reading(self) -> Settings {
        Settings::new().with("digest", self.digest)
    }

    fn writing(self) -> Settings {
        self.reading()
            .with("compression", self.compression)
            .with("snapCount", self.snap_count)
            .with("preAllocSize", self.pre_alloc_kib)
            .with("tickTime", 100)
            .with("containerCheck", 150)
    }
}

impl History {
    /// Lives through several starts and ends of a server.
    pub async fn write(kind: Kind, dice: &mut Dice) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        fs::create_dir(&data).expect("a directory");
        let mut history = Self { images: Vec::new(), requests: 0, _dir: dir };
        let mut process = Process::new(kind.version);
        for life in 0..3 {
            let started = match process.start(&data, &kind.writing()) {
                Ok(started) => started,
                // The log without a whole header that a kill may leave: see the image that was kept last.
                Err(refused) if kind.version == Version::V38 && refused.reason.contains("EOFException") => {
                    break;
                }
                Err(refused) => panic!("{kind:?}: {refused}"),
            };
            let address = started.address;
            let requests = 150 + dice.below(300);
            let load = Load::start(&[address], dice, kind.limits(), requests);
            for _ in 0..3 {
                sleep(Duration::from_millis(20 + dice.below(200) as u64)).await;
                let stopped = Stopped::new(process.pid());
                history.keep(kind, &data, "under load");
                drop(stopped);
            }
            if dice.chance(60) {
                process.kill();
                process = Process::new(kind.version);
                history.requests += load.finish().await;
                history.keep(kind, &data, "killed");
            } else {
                history.requests += load.finish().await;
                if life == 2 {
                    // Sessions expire, and what belongs to them and to nobody goes.
                    sleep(Duration::from_millis(700)).await;
                }
                process.stop();
                history.keep(kind, &data, "stopped");
            }
        }
        history
    }

    /// The directories of the members of an ensemble, whose leader is killed under load, and then all of it.
    pub async fn of_ensemble(dice: &mut Dice) -> Self {
        let kind = Kind { snap_count: 800, pre_alloc_kib: 512, ..Kind::number(0) };
        let mut rng = StdRng::seed_from_u64(dice.below(usize::MAX) as u64);
        let properties = ["zookeeper.extendedTypesEnabled=true", "znode.container.checkIntervalMs=300"];
        let snap_count = format!("zookeeper.snapCount={}", kind.snap_count);
        let properties = [properties[0], properties[1], &snap_count];
        let mut ensemble = Ensemble::start_with("storage", &mut rng, "", &properties).await;
        let mut history =
            Self { images: Vec::new(), requests: 0, _dir: tempfile::tempdir().expect("a directory") };
        let base = history._dir.path().join("data");
        let load = Load::start(&ensemble.addresses(), dice, kind.limits(), 3000);
        for round in 0..4 {
            sleep(Duration::from_millis(200 + dice.below(400) as u64)).await;
            let leader = ensemble.wait_until_served().await;
            // One after the other, so that nobody is out of touch for long.
            for at in 0..MEMBERS {
                let stopped = Stopped::new(ensemble.pid(at));
                history.keep_from(kind, &ensemble.data(at), &base, &format!("member {at} under load"));
                drop(stopped);
            }
            if round < 2 {
                ensemble.kill(leader);
                history.keep_from(kind, &ensemble.data(leader), &base, "a leader that was killed");
                ensemble.wait_for_leader_other_than(leader).await;
                sleep(Duration::from_millis(dice.below(300) as u64)).await;
                ensemble.restart(leader);
            }
        }
        for at in 0..MEMBERS {
            ensemble.kill(at);
            history.keep_from(kind, &ensemble.data(at), &base, &format!("member {at}, killed"));
        }
        history.requests = load.answered();
        history
    }

    /// Copies the directory of a server that does not run, or is stopped.
    fn keep(&mut self, kind: Kind, data: &Path, how: &str) {
        self.keep_from(kind, data, data, how);
    }

    /// The same, with the copy beside `base`.
    fn keep_from(&mut self, kind: Kind, data: &Path, base: &Path, how: &str) {
        let number = self.images.len();
        let path = base.with_file_name(format!("{number}"));
        copy(data, &path);
        let name = format!("number {number}, {how}, of {kind:?}");
        self.images.push(Image { path, version: kind.version, name, settings: kind.reading() });
    }
}

/// Copies a data directory.
pub fn copy(from: &Path, to: &Path) {
    let (from, to) = (from.join("version-2"), to.join("version-2"));
    fs::create_dir_all(&to).expect("a directory");
    for entry in fs::read_dir(&from).expect("a directory") {
        let name = entry.expect("an entry").file_name();
        fs::copy(from.join(&name), to.join(&name)).expect("a copy");
    }
}
