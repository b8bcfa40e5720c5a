//! Time passes on a paused tokio clock as on a manual one, for the tasks of a program that sleeps with tokio too.

use std::time::Duration;

use zoolet::testing::{FixtureError, TestServer, TestServerBuilder, handshake};
use zoolet::{Client, Clock, HoldState, Lock, LockError};
use zoolet_test_support::{limit, millis, secs};

/// What tokio's timers are rounded up to.
const ROUNDED: Duration = millis(1);

fn test_server() -> TestServerBuilder {
    limit();
    TestServer::builder().clock(Clock::tokio())
}

/// A program under test: it knows of no other clock than tokio's.
async fn submit_jobs(client: Client) {
    loop {
        tokio::time::sleep(millis(500)).await;
        client.create("/jobs/job-", "").sequential().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_sleeps_with_tokio_sees_the_time_pass() {
    let zk = test_server().znode("/jobs", "").start().await.unwrap();
    tokio::spawn(submit_jobs(zk.client().await));
    let began = zk.clock().now();
    zk.advance(secs(10) + millis(1)).await.unwrap();
    let passed = zk.clock().now() - began;
    assert!(passed >= secs(10) && passed <= secs(10) + ROUNDED * 2, "{passed:?}");
    // Each sleep is rounded up, and begins after the reply.
    let jobs = zk.children("/jobs").len();
    assert!((19..=20).contains(&jobs), "{jobs}");
}

#[tokio::test(start_paused = true)]
async fn sessions_and_locks_and_tokio_s_timers_take_their_time_in_one_order() {
    let zk = test_server().start().await.unwrap();
    let (a, b) = (zk.client().await, zk.client().await);
    a.create("/leader", "").ephemeral().await.unwrap();
    let guard = Lock::new(&b, "/lock").acquire().await.unwrap();
    zk.freeze(a.session_id()).await.unwrap();
    zk.faults().on(handshake().session(a.session_id())).freeze().unwrap();
    let began = zk.clock().now();
    let early =
        zk.pass_time_until(Lock::new(&zk.client().await, "/lock").acquire().timeout(secs(5))).await.unwrap();
    assert!(matches!(early, Err(LockError::Timeout { .. })), "{early:?}");
    assert!(zk.get("/leader").is_some(), "its session lives for 10 s");
    zk.pass_time_until(zk.wait_for("/leader", |znode| znode.is_none())).await.unwrap().unwrap();
    let passed = zk.clock().now() - began;
    assert!(passed > secs(9) && passed < secs(14), "{passed:?}");
    assert_eq!(guard.state(), HoldState::Held, "its client goes on with its pings");
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_pings_on_a_paused_clock_expires_no_session() {
    let zk = test_server().start().await.unwrap();
    let client = zk.client().await;
    zk.advance(secs(3600)).await.unwrap();
    assert!(client.state().is_connected());
    assert_eq!(zk.counters().connections, 1);
}

#[tokio::test(start_paused = true)]
async fn what_never_happens_on_a_paused_clock_is_reported_after_a_day() {
    let zk = test_server().start().await.unwrap();
    let began = zk.clock().now();
    let error = zk.pass_time_until(std::future::pending::<()>()).await.unwrap_err();
    assert!(matches!(error, FixtureError::NeverHappens { .. }), "{error}");
    assert!(zk.clock().now() - began >= secs(24 * 3600));
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_tell_its_next_timer() {
    let zk = test_server().start().await.unwrap();
    let error = zk.advance_to_next_timeout().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "tokio's paused clock does not tell its next timer: use `advance` or `pass_time_until`"
    );
}
