//! Who commits: the thread of the log or, in a runtime that is for the server alone, a connection that is the only one.

use zoolet::testing::FixtureExt as _;
use zoolet_proto::Zxid;
use zoolet_test_support::*;

use super::held_disk::{HeldDisk, start_with};

async fn start(dedicated: bool) -> (Zk, HeldDisk) {
    start_with(|settings| settings.promise_dedicated_runtime(dedicated)).await
}

#[tokio::test]
async fn the_only_connection_commits_in_its_own_task() {
    let (zk, disk) = start(true).await;
    let mut wire = zk.wire().await;
    // The thread of the log may not have begun to wait.
    while !disk.was_synced_here() {
        wire.ask(set_data("/", "alone")).await;
    }
    for path in ["/a", "/b"] {
        wire.ask(create(path)).await;
        assert!(disk.was_synced_here());
    }
    let other = zk.wire().await;
    wire.ask(create("/c")).await;
    assert!(!disk.was_synced_here(), "the other one may want to read meanwhile");
    other.close_session().await;
    while !disk.was_synced_here() {
        wire.ask(set_data("/a", "alone again")).await;
    }
}

#[tokio::test]
async fn nobody_holds_up_a_runtime_that_others_use() {
    let (zk, disk) = start(false).await;
    let mut wire = zk.wire().await;
    wire.ask(create("/a")).await;
    assert!(!disk.was_synced_here());
}

#[tokio::test]
async fn requests_that_come_at_once_are_executed_beside_the_sync() {
    let (zk, disk) = start(true).await;
    let mut wire = zk.wire().await;
    wire.pipeline((0..10).map(|n| create(&format!("/{n}")))).await;
    assert!(!disk.was_synced_here());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_arrives_during_such_a_commit_is_committed_after_it() {
    let (zk, disk) = start(true).await;
    let fixture = zk.fixture();
    let mut wire = zk.wire().await;
    disk.hold();
    wire.send(create("/a")).await;
    disk.until_held().await;
    let mut other = zk.raw();
    other.send_bytes(&Hello::new().bytes()).await;
    // The first session, its znode, and the second session.
    while fixture.last_zxid() < Zxid(3) {
        tokio::task::yield_now().await;
    }
    disk.release();
    wire.expect(reply(1).path("/a")).await;
    assert!(!other.expect_welcome().await.is_refusal());
    assert_eq!(other.ask(get_data("/a")).await.error, None);
}

#[tokio::test]
async fn a_log_that_panics_stops_the_server_whoever_commits() {
    for dedicated in [false, true] {
        let (zk, disk) = start(dedicated).await;
        let mut wire = zk.wire().await;
        wire.ask(create("/a")).await;
        disk.panic();
        wire.send(create("/b")).await;
        assert!(zk.failed().await.to_string().contains("panicked"));
        wire.expect_end().await;
        zk.shutdown().await;
    }
}
