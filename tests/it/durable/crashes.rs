//! The process or the machine ends, and the server goes on with what the disk has.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zoolet::server::{Durability, Server, StorageOptions, Txn, TxnOp};
use zoolet::testing::{DiskExt as _, DiskFault, DiskOp, Fixture, FixtureError, SimulatedDisk, TestServer};
use zoolet_proto::{Acl, SessionId, Xid, Zxid};
use zoolet_server_core::{Millis, Owner};
use zoolet_storage::disk::Disk;
use zoolet_storage::open;

async fn durable() -> TestServer {
    TestServer::builder().durable().start().await.expect("a server on an empty disk")
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_power_loss() {
    let zk = durable().await;
    let client = zk.client().await;
    client.create("/a", "1").await.expect("a create");
    client.set_data("/a", "2").await.expect("a write");
    client.create("/a/b-", "").ephemeral().sequential().await.expect("an ephemeral");
    let before = zk.tree().to_string();
    zk.power_loss().await.expect("a server that starts again");
    assert_eq!(zk.tree().to_string(), before);
    let (data, stat) = client.get_data("/a").await.expect("the same session");
    assert_eq!((&data[..], stat.version), (&b"2"[..], 1));
    assert_eq!(zk.children("/a").len(), 1, "the session lives, and its ephemeral with it");
}

#[tokio::test]
async fn a_session_that_nobody_resumes_expires_after_a_restart_as_before_it() {
    let zk = durable().await;
    let client = zk.client().await;
    client.create("/mine", "").ephemeral().await.expect("an ephemeral");
    zk.refuse_connections();
    zk.kill().await.expect("a server that starts again");
    assert!(zk.get("/mine").is_some());
    zk.advance(Duration::from_secs(3600)).await.expect("time that passes");
    assert!(zk.get("/mine").is_none());
}

#[tokio::test]
async fn zxids_go_on_after_a_restart() {
    let zk = durable().await;
    let client = zk.client().await;
    let mut last = zk.last_zxid();
    for round in 0..5 {
        client.create(format!("/{round}"), "").await.expect("a create");
        let now = zk.last_zxid();
        assert!(now > last, "{now} after {last}");
        last = now;
        if round % 2 == 0 {
            zk.kill().await.expect("a server that starts again");
        } else {
            zk.power_loss().await.expect("a server that starts again");
        }
        assert!(zk.last_zxid() >= last);
    }
}

/// `yields` decides whether the write is durable before.
#[tokio::test]
async fn a_direct_write_beside_a_power_loss_fails_if_it_is_lost() {
    let (mut lost, mut kept) = (0, 0);
    for yields in 0..6 {
        let zk = durable().await;
        zk.set("/before", "").await.expect("a write");
        let crash = async {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            zk.power_loss().await.expect("a server that starts again");
        };
        let fixture: &Fixture = &zk;
        let both = async { tokio::join!(biased; fixture.set("/a", ""), crash).0 };
        let written = zk.pass_time_until(both).await.expect("an end");
        assert_eq!(written.is_ok(), zk.get("/a").is_some(), "{yields} yields: {written:?}");
        match written {
            Ok(()) => kept += 1,
            Err(error) => {
                assert_eq!(error, FixtureError::Lost);
                lost += 1;
            }
        }
    }
    assert!(lost > 0 && kept > 0, "{lost} lost, {kept} kept");
}

/// Otherwise a user's test of power losses would test nothing, and the checker would judge by a history that has not happened.
#[tokio::test]
async fn a_power_loss_takes_writes_that_were_not_synced_and_the_record_of_them() {
    let mut options = StorageOptions::new("/data");
    options.durability = Durability::Os;
    let (mut losses, mut kept) = (0, 0);
    for seed in 0..20 {
        let settings = Server::builder().storage(options.clone());
        let zk = TestServer::builder().server(settings).durable().seed(seed).start().await.expect("a server");
        for n in 0..20 {
            zk.set("/a", format!("{n}")).await.expect("a write");
        }
        let before = zk.last_zxid();
        zk.power_loss().await.expect("a server that starts again");
        let now = zk.last_zxid();
        losses += usize::from(now < before);
        kept += usize::from(now > Zxid(0));
        let recorded = zk.transactions().last().map(|txn| txn.zxid);
        assert_eq!(recorded.unwrap_or(Zxid(0)), now, "seed {seed}");
        assert!(zk.report().contains("loses power"), "{}", zk.report());
        zk.set("/a", "goes on").await.expect("a write");
        assert_eq!(zk.transactions().last().map(|txn| txn.zxid), Some(zk.last_zxid()));
    }
    assert!(losses > 5 && kept > 5, "{losses} lose something, {kept} keep something");
}

#[tokio::test]
async fn a_kill_takes_nothing_that_was_written() {
    let mut options = StorageOptions::new("/data");
    options.durability = Durability::Os;
    let settings = Server::builder().storage(options);
    let zk = TestServer::builder().server(settings).durable().start().await.expect("a server");
    zk.set("/a", "").await.expect("a write");
    let (before, recorded) = (zk.last_zxid(), zk.transactions().len());
    zk.kill().await.expect("a server that starts again");
    assert_eq!((zk.last_zxid(), zk.transactions().len()), (before, recorded));
}

#[tokio::test]
async fn a_server_that_is_killed_again_and_again_leaves_a_bounded_number_of_files() {
    let mut disk = SimulatedDisk::new(1);
    for round in 0..50 {
        let zk = TestServer::builder().disk(&disk).start().await.expect("a server");
        zk.set("/round", round.to_string()).await.expect("a write");
        zk.set("/round", "as the snapshot begins").await.expect("a write");
        disk = disk.kill();
        let files = disk.list(Path::new("/data/version-2")).expect("the directory");
        // Three snapshots, each with the log since the one before, and the file that is made ready.
        assert!(files.len() <= 20, "after {round} kills: {files:?}");
    }
}

#[tokio::test]
async fn a_server_goes_on_where_one_before_it_was_shut_down() {
    let disk = SimulatedDisk::new(1);
    let zk = TestServer::builder().disk(&disk).start().await.expect("a server");
    zk.set("/kept", "yes").await.expect("a write");
    let last = zk.last_zxid();
    drop(zk);
    tokio::task::yield_now().await;
    let zk = TestServer::builder().disk(&disk.kill()).start().await.expect("another server");
    assert_eq!(zk.get("/kept").expect("the znode").text(), "yes");
    assert_eq!(zk.last_zxid(), last);
}

#[test]
fn a_disk_is_free_again_when_the_runtime_of_its_server_is_dropped() {
    let disk = SimulatedDisk::new(1);
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let settings = Server::builder().data_dir("/data").simulated_disk(&disk);
        let server = runtime.block_on(settings.start()).expect("a server on a disk that nobody uses");
        runtime.block_on(async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        });
        // Its log, a task that waits by now, is asked to end and does not run any more.
        drop(server);
        drop(runtime);
    }
}

#[tokio::test]
async fn a_log_that_is_synced_only_for_a_snapshot_stops_the_server_as_well_if_that_fails() {
    let mut options = StorageOptions::new("/data");
    options.durability = Durability::Os;
    let settings = Server::builder().storage(options);
    let zk =
        TestServer::builder().server(settings).disk(&SimulatedDisk::new(1)).start().await.expect("a server");
    zk.set("/a", "").await.expect("a write");
    zk.faults().disk(DiskOp::Sync.on("log.*").nth(1), DiskFault::Fail).expect("a fault");
    assert!(zk.server().snapshot().await.is_err());
    let failure = zk.server().failed().await;
    assert!(failure.to_string().contains("sync"), "{failure}");
}

#[tokio::test]
async fn a_failed_sync_stops_the_server_and_acknowledges_nothing() {
    let zk = TestServer::builder().durable().start().await.expect("a server");
    let client = zk.client().await;
    client.create("/a", "").await.expect("a create");
    zk.faults().disk(DiskOp::Sync.on("log.*").nth(1), DiskFault::Fail).expect("a fault");
    let write = client.set_data("/a", "lost").send();
    let failure = zk.server().failed().await;
    assert!(failure.to_string().contains("sync"), "{failure}");
    assert!(zk.pass_time_until(write).await.expect("an end").is_err(), "never acknowledged");
}

#[tokio::test]
async fn ephemerals_of_unknown_sessions_are_deleted_by_logged_transactions() {
    let disk = SimulatedDisk::new(1);
    let owner = Owner::session(SessionId(77));
    let op = TxnOp::Create {
        path: "/orphan".into(),
        data: None,
        acl: Acl::open().into(),
        owner,
        parent_creates: 1,
    };
    let (session, xid, zxid, time) = (SessionId(77), Xid(1), Zxid(1), Millis(0));
    let (mut storage, _) =
        open(Arc::new(disk.clone()), StorageOptions::new("/data")).expect("an empty directory");
    storage.append(&Txn { session, xid, zxid, time, op, digest: None }).expect("an entry");
    storage.commit().expect("a sync");
    let disk = disk.kill();
    let zk = TestServer::builder().disk(&disk).start().await.expect("a server");
    assert!(zk.get("/orphan").is_none());
    assert_eq!(zk.last_zxid(), Zxid(2));
    zk.wait_until_idle().await.expect("quiet");
    zk.power_loss().await.expect("a server that starts again");
    assert_eq!(zk.last_zxid(), Zxid(2), "it was logged, and not done again");
}

#[tokio::test]
async fn a_server_that_cannot_open_its_directory_after_a_crash_stops() {
    let zk = durable().await;
    zk.set("/a", "1").await.expect("a write");
    let disk = zk.disk().expect("a simulated disk");
    disk.flip("/data/version-2/snapshot.0", 40, 1).expect("a file");
    let refused = zk.kill().await.expect_err("the snapshot is damaged");
    assert!(refused.to_string().contains("snapshot.0"), "{refused}");
    assert!(zk.server().failed().await.to_string().contains("snapshot.0"));
    assert!(zk.connect(zk.options()).await.is_err(), "it has stopped");
}

#[tokio::test]
async fn faults_of_the_disk_are_removed_with_all_others() {
    let zk = durable().await;
    zk.faults().disk(DiskOp::Write.any(), DiskFault::Fail).expect("a fault");
    zk.faults().clear();
    zk.set("/a", "1").await.expect("a write");
    assert!(zk.disk().expect("a simulated disk").fired().is_empty());
}
