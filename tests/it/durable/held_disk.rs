//! A disk whose syncs wait for the test.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use zoolet::server::extension::{Disk, with_disk};
use zoolet::server::{ServerBuilder, StorageOptions};
use zoolet::testing::SimulatedDisk;
use zoolet_storage::disk::{DirLock, DiskEntry, DiskFile};
use zoolet_test_support::Zk;

/// Settings of a directory in which no spare file is made, as so little is written: its syncs would count as well.
pub fn options() -> StorageOptions {
    let mut options = StorageOptions::new("/data");
    options.pre_alloc = 1 << 20;
    options
}

/// A server on such a disk, with [`options`] unless they are changed.
pub async fn start_with(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> (Zk, HeldDisk) {
    let disk = HeldDisk::new();
    let on_disk = Arc::new(disk.clone());
    let zk = Zk::with(|settings| with_disk(change(settings.storage(options())), on_disk)).await;
    (zk, disk)
}

/// A simulated disk on which the test decides when a sync of a file returns. As its calls block, the server uses a thread.
#[derive(Debug, Clone)]
pub struct HeldDisk {
    disk: SimulatedDisk,
    syncs: Arc<Syncs>,
}

#[derive(Debug, Default)]
struct Syncs {
    state: Mutex<Holding>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Holding {
    holds: bool,
    waiting: usize,
    syncs: usize,
    locks: usize,
    panics: bool,
    begun: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct HeldFile {
    file: Box<dyn DiskFile>,
    syncs: Arc<Syncs>,
}

impl HeldDisk {
    pub fn new() -> Self {
        Self { disk: SimulatedDisk::new(0), syncs: Arc::default() }
    }

    /// Holds up every sync from now on.
    pub fn hold(&self) {
        self.syncs.state.lock().unwrap().holds = true;
    }

    /// Lets them go.
    pub fn release(&self) {
        self.syncs.state.lock().unwrap().holds = false;
        self.syncs.changed.notify_all();
    }

    /// Waits until a sync waits: it is of another thread.
    pub async fn until_held(&self) {
        while self.syncs.state.lock().unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// How many syncs of files there were.
    pub fn syncs(&self) -> usize {
        self.syncs.state.lock().unwrap().syncs
    }

    /// How often somebody has tried to lock a directory.
    pub fn locks(&self) -> usize {
        self.syncs.state.lock().unwrap().locks
    }

    /// Panics in the next sync, as if there were a bug.
    pub fn panic(&self) {
        self.syncs.state.lock().unwrap().panics = true;
    }

    /// What it was given without a sync: from where, and how many bytes.
    pub fn begun(&self) -> Vec<(u64, u64)> {
        self.syncs.state.lock().unwrap().begun.clone()
    }

    fn held(&self, file: io::Result<Box<dyn DiskFile>>) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(HeldFile { file: file?, syncs: Arc::clone(&self.syncs) }))
    }
}

impl DiskFile for HeldFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn reserve(&mut self, len: u64) -> io::Result<()> {
        self.file.reserve(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.syncs.state.lock().unwrap();
        state.syncs += 1;
        if state.panics {
            drop(state);
            panic!("as if there were a bug");
        }
        state.waiting += 1;
        while state.holds {
            state = self.syncs.changed.wait(state).unwrap();
        }
        state.waiting -= 1;
        drop(state);
        self.file.sync()
    }

    fn begin_write(&mut self, offset: u64, len: u64) {
        self.syncs.state.lock().unwrap().begun.push((offset, len));
        self.file.begin_write(offset, len);
    }
}

impl Disk for HeldDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DiskEntry>> {
        self.disk.list(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.held(self.disk.open(path))
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.held(self.disk.open_to_write(path))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.held(self.disk.create(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<DirLock>> {
        self.syncs.state.lock().unwrap().locks += 1;
        self.disk.lock(dir)
    }
}
