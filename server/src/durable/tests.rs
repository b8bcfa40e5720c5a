//! The log and its snapshots without tasks: a test does the work of the log, or leaves it undone.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zoolet_clock::Clock;
use zoolet_proto::{SessionId, Xid, Zxid};
use zoolet_server_core::{CoreConfig, Millis, Txn, TxnOp};
use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::disk::Disk;
use zoolet_storage::{Storage, StorageOptions};

use crate::bus::Bus;
use crate::durable::log::{Log, LogSettings};
use crate::durable::queue::{CommitQueue, Work};
use crate::durable::snapshot::Job;
use crate::durable::start::restore;
use crate::engine::Engine;
use crate::net::registry::Registry;
use crate::net::stats::ServerStats;

/// A directory with one transaction, and a queue that nobody serves.
struct Scene {
    disk: SimulatedDisk,
    storage: Storage,
    queue: Arc<CommitQueue>,
    engine: Arc<Mutex<Engine>>,
}

fn open(disk: &SimulatedDisk) -> (Storage, zoolet_storage::Recovered) {
    zoolet_storage::open(Arc::new(disk.clone()), StorageOptions::new("/data")).expect("a directory")
}

fn txn(zxid: i64) -> Txn {
    let op = TxnOp::CreateSession { timeout: 10_000 };
    Txn { session: SessionId(zxid), xid: Xid(0), zxid: Zxid(zxid), time: Millis(0), op, digest: None }
}

impl Scene {
    fn new() -> Self {
        let disk = SimulatedDisk::new(1);
        let (mut storage, _) = open(&disk);
        storage.append(&txn(1)).expect("an entry");
        storage.commit().expect("a sync");
        drop(storage);
        let (storage, recovered) = open(&disk);
        let last = recovered.tree.last_zxid();
        let core = restore(CoreConfig::default(), recovered, Millis(0));
        let (registry, stats) = (Arc::new(Registry::default()), Arc::new(ServerStats::new(Millis(0))));
        let bus = Bus::new(Box::new(core), registry, stats, Clock::manual(), None);
        let engine = Arc::new(Mutex::new(Engine::new(bus)));
        Self { disk, storage, queue: Arc::new(CommitQueue::new(last)), engine }
    }

    fn job(&self) -> Job {
        Job {
            engine: Arc::clone(&self.engine),
            queue: Arc::clone(&self.queue),
            dir: self.storage.snapshots(),
            retain: None,
            opened: 0,
            is_cancelled: Arc::default(),
        }
    }

    /// The names in the directory that begin like this.
    fn names(&self, prefix: &str) -> Vec<String> {
        let entries = self.disk.list(&PathBuf::from("/data/version-2")).expect("a directory");
        let names = entries.into_iter().map(|entry| entry.name.to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
        names.sort();
        names
    }
}

#[test]
fn a_snapshot_waits_until_the_log_has_everything_up_to_it() {
    let scene = Scene::new();
    let job = scene.job();
    let mut writing = pin!(job.write_in_task());
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..20 {
        assert!(writing.as_mut().poll(&mut cx).is_pending());
        assert_eq!(scene.names("snapshot."), ["snapshot.0"]);
    }
    let mut work = Work::default();
    scene.queue.take_work(&mut work);
    let roll = work.roll.expect("a new log file is asked for");
    assert_eq!(roll.after, Zxid(1));
    roll.done.send(()).expect("the snapshot waits");
    let outcome = loop {
        if let Poll::Ready(outcome) = writing.as_mut().poll(&mut cx) {
            break outcome;
        }
    };
    assert_eq!(outcome.expect("a disk that works"), Some(Zxid(1)));
    assert_eq!(scene.names("snapshot."), ["snapshot.0", "snapshot.1"]);
}

/// Without the log after it a damaged snapshot could not be replaced.
#[test]
fn a_snapshot_is_given_up_if_the_log_ends_before_it_has_everything_up_to_it() {
    for on_thread in [false, true] {
        let scene = Scene::new();
        let job = scene.job();
        let queue = Arc::clone(&scene.queue);
        let outcome = std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                if on_thread {
                    return job.write();
                }
                let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
                runtime.block_on(job.write_in_task())
            });
            let mut work = Work::default();
            while work.roll.is_none() {
                std::thread::yield_now();
                queue.take_work(&mut work);
            }
            drop(work);
            writing.join().expect("an end")
        });
        assert_eq!(outcome.expect("a disk that works"), None, "on a thread: {on_thread}");
        assert_eq!(scene.names("snapshot."), ["snapshot.0"], "on a thread: {on_thread}");
        assert!(scene.names(".zoolet-snapshot").is_empty(), "nothing is left over");
    }
}

#[test]
fn a_log_file_ends_with_the_transaction_of_the_snapshot() {
    let Scene { disk, storage, queue, engine } = Scene::new();
    let settings = LogSettings {
        slow_sync: Duration::from_secs(1),
        retain: None,
        clock: Clock::manual(),
        stop: CancellationToken::new(),
        span: tracing::Span::none(),
    };
    let mut log = Log::new(storage, Arc::clone(&queue), engine, settings);
    queue.submit([txn(2), txn(3), txn(4)].into_iter());
    let mut rolled = queue.roll(Zxid(3));
    queue.submit([txn(5)].into_iter());
    assert!(rolled.try_recv().is_err());
    log.handle();
    rolled.try_recv().expect("everything up to it is in the log");
    assert_eq!(queue.durable(), Zxid(5));
    let first = |name: &str| disk.read(format!("/data/version-2/{name}")).is_ok();
    let begun: Vec<_> = (1..=6).filter(|zxid| first(&format!("log.{zxid}"))).collect();
    assert_eq!(begun, [1, 2, 4], "the last file begins with the first transaction after the snapshot");
}

#[test]
fn what_a_log_reports_that_was_reopened_meanwhile_is_void() {
    let Scene { disk, storage, queue, .. } = Scene::new();
    drop(storage);
    queue.submit([txn(2), txn(3)].into_iter());
    let mut work = Work::default();
    queue.take_work(&mut work);
    let (storage, _) = open(&disk);
    queue.reopen(storage, Zxid(1));
    queue.advance(&work, Zxid(3));
    assert_eq!(queue.durable(), Zxid(1), "the new log does not have it");
    assert!(!queue.fail(work.opened, zoolet_storage::StorageError::Failed("late".to_owned())));
    queue.end_snapshot(work.opened, None);
    let mut work = Work::default();
    queue.take_work(&mut work);
    assert!(work.reopened.is_some() && work.snapshot.is_none());
    queue.advance(&work, Zxid(2));
    assert_eq!(queue.durable(), Zxid(2));
}

/// Until the log is synced nobody makes room in it; after a crash nobody will.
#[test]
fn whoever_waits_for_a_log_goes_on_when_it_is_reopened() {
    let Scene { disk, storage, queue, .. } = Scene::new();
    drop(storage);
    let data = Some(vec![0; 33 << 20].into());
    let op = TxnOp::SetData { path: "/a".into(), data, version: 1 };
    queue.submit([Txn { op, ..txn(2) }].into_iter());
    assert!(queue.is_full());
    let mut room = pin!(queue.has_room());
    let mut durable = pin!(queue.all_durable());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(room.as_mut().poll(&mut cx).is_pending() && durable.as_mut().poll(&mut cx).is_pending());
    let (storage, _) = open(&disk);
    queue.reopen(storage, Zxid(1));
    assert_eq!(durable.as_mut().poll(&mut cx), Poll::Ready(false), "it is lost");
    assert!(room.as_mut().poll(&mut cx).is_ready());
}
