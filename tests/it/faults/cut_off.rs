//! Programs that a partition of the network cuts off.

use zoolet::recipes::Election;
use zoolet::recipes::HoldState;
use zoolet::testing::TestServer;
use zoolet::{Client, Lock};
use zoolet_test_support::{limit, secs};

async fn start() -> (TestServer, Client, Client) {
    limit();
    let zk = TestServer::start().await;
    let (one, other) = (zk.client().await, zk.client().await);
    (zk, one, other)
}

#[tokio::test]
async fn a_leader_that_is_cut_off_for_a_minute_is_followed_by_another_and_learns_it_before() {
    let (zk, one, other) = start().await;
    let leads = Election::new(&one, "/leader").campaign("one").await.expect("nobody else leads");
    let candidate = tokio::spawn(async move { Election::new(&other, "/leader").campaign("other").await });
    zk.wait_until_idle().await.expect("a candidate that queues");
    zk.partition([one.session_id()]).await.expect("a client");
    zk.pass_time_until(leads.lost()).await.expect("it learns by itself that it no longer leads");
    assert!(!candidate.is_finished(), "and before another one does");
    zk.advance(secs(60)).await.expect("time that passes");
    let _leads = candidate.await.expect("a task").expect("it leads");
    assert!(zk.sessions().iter().all(|session| session.id != one.session_id()));
    zk.heal().await.expect("a partition");
    let ended = zk.pass_time_until(one.exists("/leader").send()).await.expect("an answer");
    assert!(ended.is_err(), "{ended:?}");
}

#[tokio::test]
async fn a_client_that_is_cut_off_for_less_than_its_timeout_goes_on_and_knows_what_it_does_not_know() {
    let (zk, one, other) = start().await;
    one.create("/mine", "").ephemeral().await.expect("an ephemeral");
    zk.partition([one.session_id()]).await.expect("a client");
    let write = one.set_data("/mine", "late").send();
    let unknown = zk.pass_time_until(write).await.expect("it does not wait for ever");
    assert!(matches!(&unknown, Err(error) if error.may_have_applied()), "{unknown:?}");
    let (data, _) = other.get_data("/mine").await.expect("others are not affected");
    assert_eq!(data, "");
    zk.heal().await.expect("a partition");
    zk.pass_time_until(one.sync("/").send()).await.expect("time").expect("the same session");
    assert_eq!(zk.get("/mine").expect("the session lives").text(), "late", "delivered late, as TCP does");
}

/// The first test of docs/testing.md.
#[tokio::test]
async fn the_job_goes_on_elsewhere_if_its_machine_is_cut_off() {
    let zk = TestServer::builder().znode("/jobs", "").start().await.unwrap();
    let (a, b) = (zk.client().await, zk.client().await);
    let held = Lock::new(&a, "/jobs/nightly").acquire().await.unwrap();
    zk.partition([a.session_id()]).await.unwrap();
    let next = Lock::new(&b, "/jobs/nightly").acquire();
    let next = zk.pass_time_until(next).await.unwrap().unwrap();
    assert!(held.state() != HoldState::Held && next.state() == HoldState::Held);
}
