//! Turns, disks and processes that fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use zoolet_simdisk::{DiskFault, DiskOp};
use zoolet_storage::Durability;

use super::*;

/// Nobody may rely on the state that it has left, and nobody waits for ever for a snapshot of it.
#[tokio::test]
async fn after_a_turn_that_panicked_nobody_waits_for_a_snapshot_and_none_is_written() {
    for in_the_middle in [true, false] {
        let Scene { disk, storage, queue, work, engine } = Scene::new();
        let settings = settings();
        let panic = {
            let (engine, stop) = (Arc::clone(&engine), settings.stop.clone());
            move || {
                engine.lock().expect("no panic").in_turn = true;
                stop.cancel();
            }
        };
        let source = Arc::new(CountedSource::new(engine));
        if in_the_middle {
            source.act_in_the_middle(panic);
        } else {
            panic();
        }
        let log = Log::new(storage, (Arc::clone(&queue), work), Arc::clone(&source) as _, settings);
        log.start(&CancellationToken::new()).expect("a task");
        let (asked, mut answer) = oneshot::channel();
        queue.send(Work::Snapshot(asked));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let answered = answer.try_recv();
        assert!(matches!(answered, Err(oneshot::error::TryRecvError::Closed)), "{answered:?}");
        assert_eq!(source.begun.load(Relaxed), usize::from(in_the_middle));
        assert!(disk.read("/data/version-2/snapshot.1").is_err(), "in the middle: {in_the_middle}");
    }
}

/// The turn of a simulated crash ends the disk first, and only then opens the next directory. On several threads the log may write
/// in between.
#[test]
fn a_log_that_fails_while_a_crash_is_simulated_does_not_stop_the_server() {
    let Scene { disk, storage, queue, work, engine } = Scene::new();
    let source = Arc::new(CountedSource::new(engine));
    let settings = settings();
    let stop = settings.stop.clone();
    let mut log = Log::new(storage, (Arc::clone(&queue), work), Arc::clone(&source) as _, settings);
    let next = disk.kill();
    let reopens = Arc::clone(&queue);
    source.act_at_the_end_of_the_turn(move || reopens.reopen(open(&next).0, Zxid(1)));
    log.handle(&mut vec![Work::Txns([txn(2)].into_iter().collect(), 0, None)]);
    assert!(!stop.is_cancelled() && !queue.metrics().has_failed);
    assert_eq!(queue.generation(), 1);
}

/// It does not come to the next directory.
#[test]
fn a_log_that_panics_while_a_crash_is_simulated_fails_the_server() {
    let Scene { disk, storage, queue, work, engine } = Scene::new();
    let settings = settings();
    let stop = settings.stop.clone();
    let log = Log::new(storage, (Arc::clone(&queue), work), engine, settings);
    queue.reopen(open(&disk.kill()).0, Zxid(1));
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _log = log;
        panic!("as if there were a bug");
    }));
    assert!(panicked.is_err() && stop.is_cancelled() && queue.metrics().has_failed);
}

/// Nothing on disk is in doubt, as after a failed sync.
#[tokio::test]
async fn a_log_that_cannot_be_opened_to_sync_it_costs_the_snapshot_and_not_the_server() {
    let Scene { disk, storage, queue, engine, .. } = Scene::new();
    drop(storage);
    let mut options = StorageOptions::new("/data");
    options.durability = Durability::Os;
    options.snapshot_after_txns = 3;
    let (storage, _) = zoolet_storage::open(Arc::new(disk.clone()), options).expect("a directory");
    let (queue, work) = CommitQueue::new(queue.durable());
    let log = Log::new(storage, (Arc::clone(&queue), work), engine, settings());
    log.start(&CancellationToken::new()).expect("a task");
    queue.submit([txn(2)].into_iter(), None);
    assert!(queue.all_durable().await);
    let fault = disk.place(DiskOp::Open.on("log.*"), DiskFault::Fail).expect("a fault");
    for (zxid, errors) in [(3, 1), (4, 2)] {
        queue.submit([txn(zxid)].into_iter(), None);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(queue.all_durable().await, "{zxid}");
        assert_eq!(queue.metrics().snapshot_errors, errors, "one attempt for each batch");
    }
    disk.remove_fault(fault);
    disk.place(DiskOp::Sync.on("log.*"), DiskFault::Fail).expect("a fault");
    queue.submit([txn(5)].into_iter(), None);
    queue.failed().await;
}
