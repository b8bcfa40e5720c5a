//! The process or the machine ends, and the server goes on with what the disk has.

use std::time::Duration;

use zoolet::testing::{DiskFault, DiskOp, SimulatedDisk, TestServer};

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
        client.create(&format!("/{round}"), "").await.expect("a create");
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

#[tokio::test]
async fn a_failed_sync_stops_the_server_and_acknowledges_nothing() {
    let zk = durable().await;
    let client = zk.client().await;
    client.create("/a", "").await.expect("a create");
    zk.faults().disk(DiskOp::Sync.on("log.*").nth(1), DiskFault::Fail).expect("a fault");
    let write = client.set_data("/a", "lost").send();
    let failure = zk.server().failed().await;
    assert!(failure.to_string().contains("sync"), "{failure}");
    assert!(zk.pass_time_until(write).await.expect("an end").is_err(), "never acknowledged");
}
