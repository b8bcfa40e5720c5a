//! What gets lost: connections, requests, replies, and the rest of a reply.

use tokio::io::AsyncReadExt;
use zoolet::testing::FixtureExt as _;
use zoolet::testing::fixture::fault::{connection, op};
use zoolet::{Error, Lock};
use zoolet_test_support::*;

use crate::faults::naive::*;

#[tokio::test]
async fn refuse_a_client_that_gives_up_at_the_first_reset_takes_a_working_server_for_dead() {
    let zk = Zk::start_tcp().await;
    let faults = zk.fixture().faults();

    faults.on(connection().nth(1)).refuse().unwrap();
    let mut naive = zk.raw_tcp().await;
    let said_hello = naive.try_send_bytes(&Hello::new().bytes()).await;
    let believes_it_dead = said_hello.is_err() || naive.payload_or_end().await.is_none();
    assert!(believes_it_dead);
    zk.serves_others().await;

    faults.on(connection().nth(1)).refuse().unwrap();
    let client = ours_by_tcp(&zk).await;
    client.create("/a", "").await.expect("a server that answers");

    assert_eq!(fired(&zk), ["fault 1: refuse", "fault 2: refuse"]);
}

#[tokio::test(start_paused = true)]
async fn drop_request_a_client_that_takes_sent_for_done_believes_in_a_lost_write() {
    let zk = Zk::start().await;
    zk.create("/a", "old").await;
    let faults = zk.fixture().faults();

    faults.on(op(OpCode::SetData).nth(1)).drop_request().unwrap();
    let mut naive = Naive::open(&zk).await;
    let believes_it_done = naive.send(set_data("/a", "naive")).await.is_some();
    naive.wire.expect_closed().await;
    assert!(believes_it_done);
    assert_eq!(zk.fixture().get("/a").unwrap().text(), "old");

    faults.on(op(OpCode::SetData).nth(1)).drop_request().unwrap();
    let client = ours(&zk).await;
    let error = client.set_data("/a", "ours").version(0).await.expect_err("a lost connection");
    assert!(matches!(error, Error::ConnectionLoss(_)) && error.may_have_applied(), "{error}");
    // It reports that it does not know, so its user looks. The version makes it safe to send once more.
    client.set_data("/a", "ours").version(0).await.expect("the write has not happened");
    assert_eq!(zk.fixture().get("/a").unwrap().text(), "ours");

    assert_eq!(fired(&zk), ["fault 1: drop the request", "fault 2: drop the request"]);
}

#[tokio::test(start_paused = true)]
async fn lose_reply_a_client_that_retries_creates_two_znodes_and_our_lock_one() {
    let zk = Zk::start().await;
    zk.create("/naive", "").await;
    zk.create("/locks", "").await;
    let faults = zk.fixture().faults();

    faults.on(op(OpCode::Create).path("/naive/**").nth(1)).lose_reply().unwrap();
    let mut naive = Naive::open(&zk).await;
    naive.insist(create("/naive/n-").sequential()).await;
    assert_eq!(zk.fixture().children("/naive"), ["n-0000000000", "n-0000000001"]);

    faults.on(op(OpCode::Create2).path("/locks/**").nth(1)).lose_reply().unwrap();
    let client = ours(&zk).await;
    let guard = Lock::new(&client, "/locks").acquire().await.expect("the lock");
    let contenders = zk.fixture().children("/locks");
    assert_eq!(contenders.len(), 1, "{contenders:?}");
    assert!(guard.node().ends_with("-0000000000"), "the first of the two: {}", guard.node());

    assert_eq!(fired(&zk), ["fault 1: lose the reply", "fault 2: lose the reply"]);
}

#[tokio::test(start_paused = true)]
async fn withhold_reply_a_client_that_counts_replies_takes_one_for_another() {
    let zk = Zk::start().await;
    zk.create("/a", "a").await;
    zk.create("/b", "b").await;
    let faults = zk.fixture().faults();

    faults.on(op(OpCode::GetData).path("/a").nth(1)).withhold_reply().unwrap();
    let mut naive = Naive::open(&zk).await;
    naive.send(get_data("/a")).await;
    let believes_of_a = data_in(&naive.call(get_data("/b")).await.expect("a reply"));
    assert_eq!(believes_of_a, "b");

    faults.on(op(OpCode::GetData).path("/a").nth(1)).withhold_reply().unwrap();
    let client = ours(&zk).await;
    let (a, b) = (client.get_data("/a").send(), client.get_data("/b").send());
    // The reply to /b shows that one is missing: that connection is given up, and reads are sent again.
    assert_eq!(soon(b).await.expect("the reply to /b").0, "b");
    assert_eq!(soon(a).await.expect("the reply to /a").0, "a");

    assert_eq!(fired(&zk), ["fault 1: withhold the reply", "fault 2: withhold the reply"]);
}

#[tokio::test(start_paused = true)]
async fn cut_reply_a_client_that_uses_a_partial_frame_reads_half_a_value() {
    let zk = Zk::start().await;
    zk.create("/a", "transfer 1000000 to Ann").await;
    let faults = zk.fixture().faults();
    let cut = || faults.on(op(OpCode::GetData).nth(1)).cut_reply(4 + 16 + 4 + 12).unwrap();

    cut();
    let mut naive = Naive::open(&zk).await;
    naive.send(get_data("/a")).await;
    let frame = naive.wire.rest().await;
    let believes = String::from_utf8_lossy(&frame[4 + 16 + 4..]).into_owned();
    assert_eq!(believes, "transfer 100");

    cut();
    let client = ours(&zk).await;
    let (data, _) = client.get_data("/a").await.expect("a read is asked again");
    assert_eq!(data, "transfer 1000000 to Ann");

    assert_eq!(
        fired(&zk),
        ["fault 1: cut the reply after 36 bytes", "fault 2: cut the reply after 36 bytes"]
    );
}

#[tokio::test]
async fn reset_a_client_that_restarts_a_batch_executes_the_first_half_twice() {
    let zk = Zk::start_tcp().await;
    zk.create("/jobs", "").await;
    zk.create("/locks", "").await;
    let faults = zk.fixture().faults();

    // The unread reply to the create is lost with the connection.
    faults.on(op(OpCode::SetData).nth(1)).reset().unwrap();
    let mut naive = Naive::open_tcp(&zk).await;
    let batch = [create("/jobs/job-").sequential(), set_data("/jobs", "1")];
    loop {
        let mut bytes = bytes::BytesMut::new();
        batch.iter().for_each(|ask| _ = naive.wire.encode(ask.clone(), &mut bytes));
        naive.wire.try_send_bytes(&bytes).await.expect("a connection");
        let replies = [naive.wire.payload_or_end().await, naive.wire.payload_or_end().await];
        if replies.iter().all(Option::is_some) {
            break;
        }
        naive.connect_anew().await;
    }
    assert_eq!(zk.fixture().children("/jobs"), ["job-0000000000", "job-0000000001"]);

    // A lock sends its create and a listing at once, and knows its own among what is listed later.
    faults.on(op(OpCode::GetChildren2).path("/locks").nth(1)).reset().unwrap();
    let client = ours_by_tcp(&zk).await;
    let guard = Lock::new(&client, "/locks").acquire().await.expect("the lock");
    assert_eq!(zk.fixture().children("/locks").len(), 1);
    assert!(guard.node().ends_with("-0000000000"));

    assert_eq!(fired(&zk), ["fault 1: reset the connection", "fault 2: reset the connection"]);
}

#[tokio::test]
async fn reset_is_an_error_by_tcp_and_not_the_end_that_some_only_know() {
    let zk = Zk::start_tcp().await;
    zk.fixture().faults().on(op(OpCode::GetData)).reset().unwrap();
    let mut wire = zk.tcp_wire().await;
    wire.send(get_data("/")).await;
    let (mut receiver, _sender) = wire.into_halves();
    let error = receiver.read_u8().await.expect_err("a reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}
