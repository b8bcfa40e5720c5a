//! A snapshot that is under way when its server ends.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Waker};

use zoolet::testing::{SimulatedDisk, TestServer};

/// Several slices of a snapshot.
const ZNODES: usize = 1_600;

async fn with_many_znodes(disk: &SimulatedDisk) -> TestServer {
    let zk = TestServer::builder().disk(disk).start().await.expect("a server");
    let client = zk.client().await;
    let creates: Vec<_> = (0..ZNODES).map(|n| client.create(format!("/{n}"), "").send()).collect();
    for create in creates {
        create.await.expect("a create");
    }
    zk
}

/// How many znodes the next server finds.
async fn found_on(disk: &SimulatedDisk) -> usize {
    let zk = TestServer::builder().disk(disk).start().await.expect("another server");
    zk.children("/").len() - 1
}

/// The complete snapshots, but for the first one, of an empty tree.
fn snapshots(disk: &SimulatedDisk) -> usize {
    let tree = disk.tree();
    tree.lines().filter(|line| line.contains("snapshot.") && !line.contains("snapshot.0")).count()
}

/// Otherwise the part of a tree that was copied by then would be the newest snapshot: the rest would be lost, and nobody told.
#[tokio::test]
async fn a_snapshot_that_is_under_way_when_the_server_is_dropped_takes_no_znodes_with_it() {
    let mut complete = Vec::new();
    for yields in 0..16 {
        let disk = SimulatedDisk::new(1);
        let zk = with_many_znodes(&disk).await;
        {
            let mut snapshot = pin!(zk.server().snapshot());
            assert!(snapshot.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
        }
        drop(zk);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        complete.push(snapshots(&disk));
        assert_eq!(found_on(&disk.kill()).await, ZNODES, "dropped after {yields} yields");
    }
    assert!(
        complete.starts_with(&[0]) && complete.ends_with(&[1]),
        "{complete:?}: nothing between begin and end"
    );
}

/// The state machine is another one after a crash, and so is the disk: a snapshot that began before has no part in them.
#[tokio::test]
async fn a_snapshot_after_a_crash_is_whole_though_another_one_was_under_way_before() {
    for yields in 0.. {
        let zk = with_many_znodes(&SimulatedDisk::new(1)).await;
        let crash = async {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            zk.kill().await.expect("a server that starts again");
        };
        let (interrupted, ()) = tokio::join!(zk.server().snapshot(), crash);
        if interrupted.is_ok() {
            assert!(yields > 1, "nothing was under way");
            break;
        }
        let next = zk.pass_time_until(zk.server().snapshot()).await.expect("the log still writes snapshots");
        next.expect("a snapshot of what was recovered");
        let disk = zk.disk().expect("a simulated disk");
        assert_eq!(snapshots(&disk), 1, "{}", disk.tree());
        zk.set("/last", "").await.expect("a write");
        drop(zk);
        assert_eq!(found_on(&disk.kill()).await, ZNODES + 1, "a crash after {yields} yields");
    }
}
