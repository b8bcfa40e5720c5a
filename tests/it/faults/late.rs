//! What comes late, or little by little.

use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use zoolet::Error;
use zoolet::testing::FixtureExt as _;
use zoolet::testing::fixture::fault::op;
use zoolet_test_support::*;

use crate::faults::naive::*;

#[tokio::test(start_paused = true)]
async fn delay_request_a_client_that_takes_a_timeout_for_a_failure_writes_twice() {
    let zk = Zk::start().await;
    zk.create("/naive", "").await;
    zk.create("/ours", "").await;
    let faults = zk.fixture().faults();

    faults.on(op(OpCode::Create).nth(1)).delay_request(secs(3)).unwrap();
    let mut naive = Naive::open(&zk).await;
    naive.insist_within(secs(2), create("/naive/n-").sequential()).await;
    tokio::time::sleep(secs(5)).await;
    assert_eq!(zk.fixture().children("/naive").len(), 2);

    faults.on(op(OpCode::Create2).nth(1)).delay_request(secs(3)).unwrap();
    let client = ours(&zk).await;
    let error = client.create("/ours/n-", "").sequential().timeout(secs(2)).await.expect_err("late");
    assert!(matches!(error, Error::Timeout(_)) && error.may_have_applied(), "{error}");
    // A later request is executed after it, and so shows its outcome.
    let (names, _) = client.get_children("/ours").await.expect("names");
    assert_eq!(names, ["n-0000000000"]);

    assert_eq!(fired(&zk), ["fault 1: delay the request by 3s", "fault 2: delay the request by 3s"]);
}

#[tokio::test(start_paused = true)]
async fn delay_reply_a_client_that_returns_with_a_new_session_blocks_itself() {
    let zk = Zk::start().await;
    let faults = zk.fixture().faults();
    // Longer than our client waits for a word on a connection.
    faults.on(op(OpCode::Create).path("/naive-leader").nth(1)).delay_reply(secs(8)).unwrap();
    let mut naive = Naive::open(&zk).await;
    let answer = naive.insist_within(secs(2), create("/naive-leader").ephemeral()).await;
    let believes_another_leads = answer[12..16] == ErrorCode::NodeExists.code().to_be_bytes();
    assert!(believes_another_leads, "and no client does until its first session expires");

    faults.on(op(OpCode::Create2).path("/leader").nth(1)).delay_reply(secs(8)).unwrap();
    let client = ours(&zk).await;
    let error = client.create("/leader", "").ephemeral().await.expect_err("a connection given up");
    assert!(error.may_have_applied(), "{error}");
    let stat = client.exists("/leader").await.expect("an answer").expect("a leader");
    assert_eq!(stat.ephemeral_owner, client.session_id(), "the session is the same, so it knows its own");

    assert_eq!(fired(&zk), ["fault 1: delay the reply by 8s", "fault 2: delay the reply by 8s"]);
}

#[tokio::test(start_paused = true)]
async fn drip_a_client_that_takes_one_read_for_one_frame_reads_the_first_bytes_of_a_value() {
    let zk = Zk::start().await;
    zk.create("/a", "transfer 1000000 to Ann").await;
    let faults = zk.fixture().faults();

    faults.on(op(OpCode::GetData).nth(1)).drip(4 + 16 + 4 + 10, secs(1)).unwrap();
    let mut naive = Naive::open(&zk).await;
    naive.send(get_data("/a")).await;
    let mut buffer = [0; 4096];
    let (mut receiver, _sender) = naive.wire.into_halves();
    let got = receiver.read(&mut buffer).await.expect("a reply");
    assert_eq!(String::from_utf8_lossy(&buffer[24..got]), "transfer 1");

    faults.on(op(OpCode::GetData).nth(1)).drip(1, millis(100)).unwrap();
    let client = ours(&zk).await;
    // 115 bytes take longer than any silence would be borne.
    let (data, _) = client.get_data("/a").await.expect("a reply");
    assert_eq!(data, "transfer 1000000 to Ann");
    assert_eq!(client.get_data("/a").await.expect("another").0, data);
    let asked = zk.fixture().counters().requests[&OpCode::GetData];
    assert_eq!(asked, 1 + 2, "and nothing was asked twice");

    assert_eq!(fired(&zk), ["fault 1: drip 34 bytes every 1s", "fault 2: drip 1 bytes every 100ms"]);
}

#[tokio::test(start_paused = true)]
async fn pause_a_client_that_does_not_wait_writes_twice_to_a_paused_server() {
    let zk = Zk::start().await;
    zk.create("/naive", "").await;
    zk.create("/ours", "").await;
    let fixture = zk.fixture();

    let mut naive = Naive::open(&zk).await;
    fixture.pause().await.unwrap();
    let impatient = timeout(secs(2), naive.call(create("/naive/n-").sequential())).await;
    assert!(impatient.is_err());
    fixture.resume().await.unwrap();
    naive.connect_anew().await;
    naive.insist(create("/naive/n-").sequential()).await;
    assert_eq!(fixture.children("/naive").len(), 2);

    let client = ours(&zk).await;
    fixture.pause().await.unwrap();
    let creating = client.create("/ours/n-", "").sequential().send();
    tokio::time::sleep(secs(5)).await;
    fixture.resume().await.unwrap();
    soon(creating).await.expect("it was worth waiting for");
    assert_eq!(fixture.children("/ours").len(), 1);

    let (pause, resume) = ("the server is paused", "the server goes on");
    assert_eq!(fired(&zk), [pause, resume, pause, resume]);
}
