//! The log and its snapshots without tasks: a test does the work of the log, or leaves it undone.

mod failures;

use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use zoolet_clock::Clock;
use zoolet_proto::{SessionId, Xid, Zxid};
use zoolet_server_core::{CoreConfig, Millis, SnapshotHeader, Txn, TxnOp, ZnodeRecord};
use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::disk::Disk;
use zoolet_storage::{SnapshotSpool, Storage, StorageOptions};

use crate::bus::Bus;
use crate::durable::log::{Log, LogSettings};
use crate::durable::queue::{Amount, Close, CommitQueue, RestoredState, Work};
use crate::durable::snapshot::{Outcome, Pace, SnapshotJob, SnapshotSource, SnapshotStart};
use crate::durable::start::restore;
use crate::engine::Engine;
use crate::net::registry::Registry;
use crate::net::stats::ServerStats;

/// A directory with one transaction, and a queue that nobody serves.
struct Scene {
    disk: SimulatedDisk,
    storage: Storage,
    queue: Arc<CommitQueue>,
    work: mpsc::UnboundedReceiver<Work>,
    engine: Arc<Mutex<Engine>>,
}

fn open(disk: &SimulatedDisk) -> (Storage, zoolet_storage::Recovered) {
    zoolet_storage::open(Arc::new(disk.clone()), StorageOptions::new("/data")).expect("a directory")
}

fn txn(zxid: i64) -> Txn {
    let op = TxnOp::CreateSession { timeout: 10_000 };
    Txn { session: SessionId(zxid), xid: Xid(0), zxid: Zxid(zxid), time: Millis(0), op, digest: None }
}

fn settings() -> LogSettings {
    LogSettings {
        slow_sync: Duration::from_secs(1),
        retain: None,
        clock: Clock::manual(),
        stop: CancellationToken::new(),
        span: tracing::Span::none(),
    }
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
        let (queue, work) = CommitQueue::new(last);
        Self { disk, storage, queue, work, engine }
    }

    fn job(&self) -> SnapshotJob {
        SnapshotJob {
            source: Arc::clone(&self.engine) as _,
            queue: Arc::clone(&self.queue),
            dir: self.storage.snapshots(),
            retain: None,
            generation: 0,
            restores: 0,
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
    let mut scene = Scene::new();
    let job = scene.job();
    let mut writing = pin!(job.write(Pace::Yield));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..20 {
        assert!(writing.as_mut().poll(&mut cx).is_pending());
        assert_eq!(scene.names("snapshot."), ["snapshot.0"]);
    }
    let Ok(Work::Roll(done)) = scene.work.try_recv() else { panic!("a new log file is asked for") };
    done.send(()).expect("the snapshot waits");
    let outcome = loop {
        if let Poll::Ready(outcome) = writing.as_mut().poll(&mut cx) {
            break outcome;
        }
    };
    assert!(matches!(outcome, Outcome::Written(Zxid(1))), "{outcome:?}");
    assert_eq!(scene.names("snapshot."), ["snapshot.0", "snapshot.1"]);
}

/// Without the log after it a damaged snapshot could not be replaced.
#[test]
fn a_snapshot_is_given_up_if_the_log_ends_before_it_has_everything_up_to_it() {
    for pace in [Pace::Yield, Pace::Rest] {
        let on_thread = matches!(pace, Pace::Rest);
        let mut scene = Scene::new();
        let job = scene.job();
        let outcome = std::thread::scope(|scope| {
            let writing = scope.spawn(|| pollster::block_on(job.write(pace)));
            let roll = scene.work.blocking_recv();
            assert!(matches!(roll, Some(Work::Roll(_))));
            drop(roll);
            writing.join().expect("an end")
        });
        assert!(matches!(outcome, Outcome::GivenUp), "on a thread: {on_thread}, {outcome:?}");
        assert_eq!(scene.names("snapshot."), ["snapshot.0"], "on a thread: {on_thread}");
        assert!(scene.names(".zoolet-snapshot").is_empty(), "nothing is left over");
    }
}

/// The new tree has no znodes of it left to copy: it would look complete, and have lost the rest.
#[test]
fn a_snapshot_of_a_tree_that_is_replaced_meanwhile_is_given_up() {
    let mut scene = Scene::new();
    let job = scene.job();
    let mut writing = pin!(job.write(Pace::Yield));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(writing.as_mut().poll(&mut cx).is_pending());
    let Ok(Work::Roll(done)) = scene.work.try_recv() else { panic!("a new log file is asked for") };
    done.send(()).expect("the snapshot waits");
    scene.queue.restore(restored(scene.disk.clone(), 9));
    let outcome = loop {
        if let Poll::Ready(outcome) = writing.as_mut().poll(&mut cx) {
            break outcome;
        }
    };
    assert!(matches!(outcome, Outcome::GivenUp), "{outcome:?}");
    assert_eq!(scene.names("snapshot."), ["snapshot.0"]);
}

#[test]
fn a_log_file_ends_with_the_transaction_of_the_snapshot() {
    let Scene { disk, storage, queue, mut work, engine } = Scene::new();
    let (roll, mut rolled) = oneshot::channel();
    queue.submit([2, 3].into_iter().map(txn), None);
    queue.send(Work::Roll(roll));
    queue.submit([4, 5].into_iter().map(txn), None);
    let mut batch: Vec<_> = std::iter::from_fn(|| work.try_recv().ok()).collect();
    let mut log = Log::new(storage, (Arc::clone(&queue), work), engine, settings());
    log.handle(&mut batch);
    rolled.try_recv().expect("everything up to it is in the log");
    assert_eq!(queue.durable(), Zxid(5));
    let first = |name: &str| disk.read(format!("/data/version-2/{name}")).is_ok();
    let begun: Vec<_> = (1..=6).filter(|zxid| first(&format!("log.{zxid}"))).collect();
    assert_eq!(begun, [1, 2, 4], "the last file begins with the first transaction after the snapshot");
}

/// Counts the snapshots that are begun, and those that are not ended. Does something in the middle of the first one.
struct CountedSource {
    source: Arc<Mutex<Engine>>,
    begun: AtomicUsize,
    open: AtomicUsize,
    most: AtomicUsize,
    in_the_middle: Act,
    at_the_end_of_the_turn: Act,
}

type Act = Mutex<Option<Box<dyn FnOnce() + Send>>>;

impl CountedSource {
    fn new(source: Arc<Mutex<Engine>>) -> Self {
        Self {
            source,
            begun: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            in_the_middle: Mutex::new(None),
            at_the_end_of_the_turn: Mutex::new(None),
        }
    }

    fn act_in_the_middle(&self, act: impl FnOnce() + Send + 'static) {
        *self.in_the_middle.lock().expect("no panic") = Some(Box::new(act));
    }

    /// Whoever looks at the state in the middle of a turn waits for its end.
    fn act_at_the_end_of_the_turn(&self, act: impl FnOnce() + Send + 'static) {
        *self.at_the_end_of_the_turn.lock().expect("no panic") = Some(Box::new(act));
    }
}

impl SnapshotSource for CountedSource {
    fn begin(&self, begun: Box<dyn FnOnce() + '_>) -> Option<SnapshotStart> {
        self.begun.fetch_add(1, Relaxed);
        self.most.fetch_max(self.open.fetch_add(1, Relaxed) + 1, Relaxed);
        self.source.begin(begun)
    }

    fn slice(&self, take: &mut dyn FnMut(ZnodeRecord)) -> Option<bool> {
        if let Some(act) = self.in_the_middle.lock().expect("no panic").take() {
            act();
            return Some(true);
        }
        self.source.slice(take)
    }

    fn end(&self) {
        self.open.fetch_sub(1, Relaxed);
        self.source.end();
    }

    fn last_zxid(&self) -> Zxid {
        if let Some(act) = self.at_the_end_of_the_turn.lock().expect("no panic").take() {
            act();
        }
        self.source.last_zxid()
    }
}

/// A state to go on from, with nothing in it.
fn restored(disk: SimulatedDisk, zxid: i64) -> RestoredState {
    let spool = SnapshotSpool::create(Arc::new(disk), &PathBuf::from("/data/version-2")).expect("a file");
    let header = SnapshotHeader::new(Zxid(zxid), None, Vec::new());
    let permit = Arc::new(tokio::sync::Mutex::new(())).try_lock_owned().expect("a permit");
    RestoredState { spool, header, sessions: Vec::new(), _permit: permit }
}

#[test]
fn what_waits_for_the_disk_is_counted_and_not_the_zxids_that_a_restore_skips() {
    let Scene { disk, queue, .. } = Scene::new();
    queue.submit([txn(2), txn(3)].into_iter(), None);
    queue.restore(restored(disk, 1_000));
    assert_eq!(queue.metrics().queued, 2);
    let amount = Amount { txns: 2, ..Amount::default() };
    queue.advance(0, Zxid(3), amount, |_| ());
    assert_eq!(queue.metrics().queued, 0);
}

/// Two at a time would take their slices from the same walk over the tree.
#[tokio::test]
async fn a_snapshot_of_a_directory_that_was_reopened_ends_before_the_next_one_begins() {
    let Scene { disk, storage, queue, work, engine } = Scene::new();
    let (first, second) = (oneshot::channel(), oneshot::channel());
    let reopen = {
        let queue = Arc::clone(&queue);
        move || {
            queue.reopen(open(&disk.kill()).0, Zxid(1));
            queue.send(Work::Snapshot(second.0));
        }
    };
    let source = Arc::new(CountedSource::new(engine));
    source.act_in_the_middle(reopen);
    let log = Log::new(storage, (Arc::clone(&queue), work), Arc::clone(&source) as _, settings());
    let ended = CancellationToken::new();
    log.start(&ended).expect("a task");
    queue.send(Work::Snapshot(first.0));
    assert!(first.1.await.is_err());
    assert_eq!(second.1.await.expect("an answer").expect("a snapshot"), Zxid(1));
    assert_eq!((source.open.load(Relaxed), source.most.load(Relaxed)), (0, 1));
    queue.send(Work::Close(Close::Drop));
    ended.cancelled().await;
}

#[test]
fn what_a_log_reports_that_was_reopened_meanwhile_is_void() {
    let Scene { disk, storage, queue, .. } = Scene::new();
    drop(storage);
    queue.submit([txn(2), txn(3)].into_iter(), None);
    let (storage, _) = open(&disk);
    queue.reopen(storage, Zxid(1));
    queue.advance(0, Zxid(3), Amount::default(), |_| ());
    assert_eq!(queue.durable(), Zxid(1), "the new log does not have it");
    queue.advance(queue.generation(), Zxid(2), Amount::default(), |_| ());
    assert_eq!(queue.durable(), Zxid(2));
}

#[derive(Default)]
struct CountedWakes(AtomicUsize);

impl Wake for CountedWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Until the log is synced nobody makes room in it; after a crash, or without a log, nobody will.
#[test]
fn whoever_waits_for_a_log_goes_on_when_it_is_reopened_or_ends() {
    for reopens in [true, false] {
        let Scene { disk, storage, queue, work, engine } = Scene::new();
        let log = Log::new(storage, (Arc::clone(&queue), work), engine, settings());
        let data = Some(vec![0; 33 << 20].into());
        let op = TxnOp::SetData { path: "/a".into(), data, version: 1 };
        queue.submit([Txn { op, ..txn(2) }].into_iter(), None);
        assert!(queue.is_full());
        let mut room = pin!(queue.has_room());
        let mut durable = pin!(queue.all_durable());
        let wakes = Arc::new(CountedWakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        assert!(room.as_mut().poll(&mut cx).is_pending() && durable.as_mut().poll(&mut cx).is_pending());
        if reopens {
            queue.reopen(open(&disk.kill()).0, Zxid(1));
        } else {
            drop(log);
        }
        assert_eq!(wakes.0.load(Relaxed), 2);
        assert_eq!(durable.as_mut().poll(&mut cx), Poll::Ready(false), "it is lost");
        assert!(room.as_mut().poll(&mut cx).is_ready());
    }
}
