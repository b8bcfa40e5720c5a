//! Injected errors.

use zoolet::testing::FixtureExt as _;
use zoolet::testing::fixture::fault::op;
use zoolet_test_support::*;

use crate::faults::naive::*;

#[tokio::test(start_paused = true)]
async fn fail_a_client_that_takes_any_reply_for_success_believes_in_a_refused_write() {
    let zk = Zk::start().await;
    zk.create("/a", "old").await;
    let faults = zk.fixture().faults();

    faults.on(op(OpCode::SetData).nth(1)).fail(ErrorCode::ThrottledOp).unwrap();
    let mut naive = Naive::open(&zk).await;
    let believes_it_done = naive.call(set_data("/a", "naive")).await.is_some();
    assert!(believes_it_done);
    assert_eq!(zk.fixture().get("/a").unwrap().text(), "old");

    faults.on(op(OpCode::SetData).nth(1)).fail(ErrorCode::ThrottledOp).unwrap();
    let client = ours(&zk).await;
    let error = client.set_data("/a", "ours").await.expect_err("a refusal");
    assert_eq!(error.code(), Some(ErrorCode::ThrottledOp));
    assert!(error.is_retryable() && !error.may_have_applied());
    client.set_data("/a", "ours").await.expect("a server that has recovered");
    assert_eq!(zk.fixture().get("/a").unwrap().text(), "ours");

    assert_eq!(fired(&zk).len(), 2);
    assert!(fired(&zk).iter().all(|fault| fault.contains("fail: ")), "{:?}", fired(&zk));
}
