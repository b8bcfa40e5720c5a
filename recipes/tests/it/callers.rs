//! Difficult callers: they panic, call from a runtime that is shut down, close the client, and request the impossible.

use std::time::Duration;
use zoolet_fixture::FixtureExt as _;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use zoolet_client::{Client, Clock};
use zoolet_fixture::fault::{create, op};
use zoolet_proto::OpCode;
use zoolet_recipes::{HoldState, Lock, LockError, LostReason};
use zoolet_server::Server;

use crate::common::{DIR, TIMEOUT, World, at_once, queue, settle, world};

#[tokio::test(start_paused = true)]
async fn a_caller_whose_queued_callback_panics_leaves_the_queue() {
    let world = world().await;
    let (observer, ahead) = world.lock().await;
    let (_zk, lock) = world.lock().await;
    let held = ahead.acquire().await.unwrap();
    let acquiring =
        tokio::spawn(async move { lock.acquire().on_queued(|_| panic!("the caller's own")).await });
    assert!(acquiring.await.unwrap_err().is_panic());
    settle(|| async { queue(&observer).await.len() == 1 }).await;
    held.release().await.unwrap();
    assert!(queue(&observer).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_caller_whose_warning_callback_panics_still_gets_its_lock() {
    let world = world().await;
    let zk = world.client().await;
    zk.create("/locks", "").await.unwrap();
    zk.create(DIR, "").await.unwrap();
    world.server.fixture().set_counter(DIR, (1 << 30) + 5).await.unwrap();
    let lock = Lock::builder(&zk, DIR).on_warning(|_| panic!("the caller's own")).build();
    lock.acquire().await.unwrap().release().await.unwrap();
    assert!(queue(&zk).await.is_empty());
}

/// A runtime with a thread of its own.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_lock_outlives_the_runtime_that_it_was_acquired_in() {
    let main = runtime();
    let world = main.block_on(world());
    let (zk, lock) = main.block_on(world.lock());
    let guard = runtime().block_on(async { lock.acquire().await.unwrap() });
    assert_eq!(guard.state(), HoldState::Held);
    main.block_on(async {
        assert_eq!(queue(&zk).await.len(), 1);
        guard.release().await.unwrap();
        assert!(queue(&zk).await.is_empty());
    });
}

#[test]
fn a_lock_is_lost_with_the_runtime_of_its_session() {
    let (main, other) = (runtime(), runtime());
    let world = main.block_on(world());
    let guard = other.block_on(async { world.lock().await.1.acquire().await.unwrap() });
    drop(other);
    assert_eq!(guard.state(), HoldState::Lost(LostReason::SessionClosed));
    assert_eq!(main.block_on(at_once(guard.lost())), Some(LostReason::SessionClosed));
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_lost_before_the_session_is_closed_under_it() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let (_other, next) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let late = Duration::from_secs(60);
    world.server.fixture().faults().on(op(OpCode::CloseSession)).delay_reply(late).unwrap();
    let closing = zk.close();
    let _next = next.acquire().await.unwrap();
    assert_eq!(guard.state(), HoldState::Lost(LostReason::SessionClosed));
    assert_eq!(at_once(guard.lost()).await, Some(LostReason::SessionClosed));
    drop(closing);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_no_server_accepts_is_not_retried_forever() {
    let server = Server::builder().tick_time(Duration::from_millis(500)).max_frame(100_000);
    let world = World { server: server.start().await.unwrap(), clock: Clock::tokio() };
    let (zk, lock) = world.lock().await;
    let outcome = lock.acquire().data(vec![0; 200_000]).await;
    assert!(matches!(&outcome, Err(LockError::Client(error)) if error.is_retryable()), "{outcome:?}");
    lock.acquire().await.unwrap().release().await.unwrap();
    assert!(queue(&zk).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_contender_whose_replies_come_too_late_is_in_the_queue_once() {
    let world = world().await;
    let observer = world.client().await;
    observer.create("/locks", "").await.unwrap();
    observer.create(DIR, "").await.unwrap();
    let hasty = Client::options().session_timeout(TIMEOUT).request_timeout(Duration::from_millis(100));
    let hasty = hasty.connect(world.server.in_process()).await.unwrap();
    let late = create().session(hasty.session_id());
    world.server.fixture().faults().on(late).delay_reply(Duration::from_millis(150)).unwrap();
    let begin = Instant::now();
    let guard = Lock::new(&hasty, DIR).acquire().await.unwrap();
    assert_eq!(queue(&observer).await.len(), 1);
    assert!(begin.elapsed() < Duration::from_millis(200), "{:?}", begin.elapsed());
    guard.release().await.unwrap();
    assert!(queue(&observer).await.is_empty());
}
