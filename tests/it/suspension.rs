//! Machines that are suspended while others are not.

use std::time::Duration;

use zoolet::SessionState;
use zoolet::client::Clock;
use zoolet::testing::handshake;
use zoolet::{HoldState, Lock, LockError, LostReason};
use zoolet_test_support::{at_once, secs};

use crate::common::test_server;

const HOUR: Duration = secs(3600);

#[tokio::test]
async fn a_holder_that_was_suspended_cannot_write_under_the_lock_and_knows_it() {
    let zk = test_server().start().await.unwrap();
    let clock = Clock::manual();
    let (a, b) = (zk.connect(zk.options().clock(clock.clone())).await.expect("a session"), zk.client().await);
    let guard = Lock::new(&a, "/lock").acquire().await.expect("the lock");
    let copy = guard.reenter();

    // For an hour the machine of `a` sleeps: it receives nothing, and its timers stand still.
    zk.freeze(a.session_id()).await.unwrap();
    zk.faults().on(handshake().session(a.session_id())).freeze().unwrap();
    clock.suspend(HOUR).unwrap();
    zk.advance(HOUR).await.unwrap();
    let next = Lock::new(&b, "/lock").acquire().await.expect("the lock");
    assert!(next.token() > guard.token());

    // A write that is sent before anybody looks at the lock, and one after that.
    let mut late = Box::pin(copy.fenced().create("/late", "").commit());
    assert!(at_once(&mut late).await.is_none());
    assert_eq!(guard.state(), HoldState::Lost(LostReason::LeaseElapsed));
    let refused = guard.fenced().create("/late", "").commit().await.expect_err("a lost lock");
    assert!(matches!(refused, LockError::NotHeld { .. }), "{refused}");
    zk.faults().clear();
    zk.unfreeze_all().await.unwrap();
    loop {
        if let Some(outcome) = at_once(&mut late).await {
            outcome.expect_err("a write of a holder that has lost the lock");
            break;
        }
        tokio::task::yield_now().await;
        clock.advance(Duration::from_millis(1)).unwrap();
    }
    assert!(zk.get("/late").is_none());
    assert_eq!(next.state(), HoldState::Held);
}

#[tokio::test]
async fn after_a_suspension_of_the_server_sessions_go_on_and_znodes_have_the_time_of_the_wall_clock() {
    let zk = test_server().start().await.unwrap();
    // On a machine of its own, so that nothing keeps the session alive.
    let a = zk.connect(zk.options().session_timeout(secs(4)).clock(Clock::manual())).await.unwrap();
    a.create("/member", "").ephemeral().await.unwrap();
    let before = zk.get("/member").unwrap();
    zk.clock().suspend(HOUR).unwrap();
    zk.advance(secs(3)).await.unwrap();
    assert!(zk.get("/member").is_some(), "the rest of its timeout is left");
    zk.set("/new", "").await.unwrap();
    let new = zk.get("/new").unwrap();
    assert_eq!(new.stat.ctime - before.stat.ctime, 3_603_000);
    assert_eq!(new.stat.mtime, zk.clock().wall_millis());
    zk.advance(secs(60)).await.unwrap();
    assert!(zk.get("/member").is_none());
    assert_eq!(a.ended().await, SessionState::Expired);
}
