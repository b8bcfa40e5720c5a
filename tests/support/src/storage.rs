//! Where the servers of tests keep their state.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use zoolet_server::extension::{replicas, with_disk};
use zoolet_server::{Clock, ServerBuilder, StorageOptions};
use zoolet_simdisk::SimulatedDisk;

/// Where the servers of tests keep their state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestStorage {
    Memory,
    /// A data directory on a simulated disk: the log is a task.
    Simulated,
    /// A data directory on a disk of this machine: the log is a thread.
    Disk,
}

impl TestStorage {
    /// As `ZOOLET_TEST_STORAGE` says: `memory`, the default, `simulated` or `disk`.
    pub fn from_environment() -> Self {
        match std::env::var("ZOOLET_TEST_STORAGE").as_deref() {
            Err(_) | Ok("memory") => Self::Memory,
            Ok("simulated") => Self::Simulated,
            Ok("disk") => Self::Disk,
            Ok(other) => panic!("ZOOLET_TEST_STORAGE={other}: must be memory, simulated or disk"),
        }
    }
}

/// Settings with the storage that `ZOOLET_TEST_STORAGE` names. They stay as they are if they name one, or need memory. Files are
/// small, so that a test meets snapshots and purges. In a runtime whose time is paused the disk is always simulated.
pub fn stored(settings: ServerBuilder) -> ServerBuilder {
    let storage = TestStorage::from_environment();
    if storage == TestStorage::Memory || settings.storage_options().is_some() || replicas(&settings) > 1 {
        return settings;
    }
    match storage {
        // Paused time moves while the thread of the log is at work.
        TestStorage::Disk if !Clock::tokio().is_paused() => settings.storage(small_files(directory())),
        _ => with_disk(settings.storage(small_files("/data".into())), Arc::new(SimulatedDisk::new(0))),
    }
}

/// Settings of a directory with small files and frequent snapshots.
pub fn small_files(dir: PathBuf) -> StorageOptions {
    let mut options = StorageOptions::new(dir);
    options.pre_alloc = 64 << 10;
    options.snapshot_after_txns = 50;
    options
}

thread_local! {
    static DIRECTORIES: RefCell<Directories> = const { RefCell::new(Directories(Vec::new())) };
}

/// The directories of a test, which are removed when its thread ends.
struct Directories(Vec<PathBuf>);

impl Drop for Directories {
    fn drop(&mut self) {
        for dir in &self.0 {
            drop(fs::remove_dir_all(dir));
        }
    }
}

/// A new directory for the test that this thread runs.
fn directory() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("zoolet-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
    let dir = std::env::temp_dir().join(name);
    DIRECTORIES.with_borrow_mut(|directories| directories.0.push(dir.clone()));
    dir
}
