//! The fair lock on an embedded server.

use std::future::{Future, IntoFuture, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{SessionState, WatcherType};
use zoolet_recipes::{
    FencingToken, ForeignPolicy, HoldState, Lock, LockError, LostReason, ParentMode, Released,
};

use crate::common::{DIR, queue, settle, world};

#[tokio::test(start_paused = true)]
async fn one_contender_holds_the_lock_and_its_release_leaves_nothing() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().data("me").await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(guard.session_id(), zk.session_id());
    let contenders = lock.contenders().await.unwrap();
    assert_eq!(contenders.len(), 1);
    assert_eq!((&contenders[0].data[..], contenders[0].session), (&b"me"[..], zk.session_id()));
    assert_eq!(guard.token().get(), contenders[0].czxid.0.unsigned_abs());
    assert_eq!(guard.node(), format!("{DIR}/{}", contenders[0].name));
    assert_eq!(guard.release().await.unwrap(), Released::Deleted);
    assert_eq!(queue(&zk).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn contenders_get_the_lock_one_at_a_time_in_order_and_tokens_rise() {
    let world = world().await;
    let (done, mut results) = mpsc::unbounded_channel::<(usize, FencingToken)>();
    let holders = Arc::new(AtomicUsize::new(0));
    let (watcher, first) = world.lock().await;
    let guard = first.acquire().await.unwrap();
    for number in 0..8 {
        let (client, lock) = world.lock().await;
        let (done, holders) = (done.clone(), Arc::clone(&holders));
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            assert_eq!(holders.fetch_add(1, SeqCst), 0, "two holders");
            tokio::time::sleep(Duration::from_millis(10)).await;
            holders.fetch_sub(1, SeqCst);
            done.send((number, guard.token())).unwrap();
            guard.release().await.unwrap();
            drop(client);
        });
        settle(|| async { queue(&watcher).await.len() == number + 2 }).await;
    }
    let mut last = guard.token();
    guard.release().await.unwrap();
    for number in 0..8 {
        let (who, token) = results.recv().await.unwrap();
        assert_eq!(who, number);
        assert!(token > last, "tokens must rise");
        last = token;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_lets_the_next_one_in() {
    let world = world().await;
    let (_a, one) = world.lock().await;
    let (_b, two) = world.lock().await;
    drop(one.acquire().await.unwrap());
    let _next = two.acquire().timeout(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_times_out_leaves_the_queue() {
    let world = world().await;
    let (zk, one) = world.lock().await;
    let (_b, two) = world.lock().await;
    let held = one.acquire().await.unwrap();
    let refused = two.acquire().timeout(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(refused, LockError::Timeout { .. }), "{refused}");
    settle(|| async { queue(&zk).await.len() == 1 }).await;
    assert_eq!(held.state(), HoldState::Held);
}

#[tokio::test(start_paused = true)]
async fn trying_does_not_queue() {
    let world = world().await;
    let (zk, one) = world.lock().await;
    let (_b, two) = world.lock().await;
    let held = one.try_acquire().await.unwrap().expect("it is free");
    let before = zk.exists(DIR).await.unwrap().unwrap().cversion;
    assert!(two.try_acquire().await.unwrap().is_none());
    assert_eq!(
        zk.exists(DIR).await.unwrap().unwrap().cversion,
        before,
        "a try on a held lock creates nothing"
    );
    held.release().await.unwrap();
    assert!(two.try_acquire().await.unwrap().is_some());
}

/// Polls an acquisition up to `polls` times, a step of every other task between, and drops it and its output. Returns
/// whether it returned the lock.
async fn drop_after(polls: usize, lock: &Lock) -> bool {
    let mut acquire = Box::pin(lock.acquire().into_future());
    for _ in 0..polls {
        tokio::task::yield_now().await;
        if let Poll::Ready(won) = poll_fn(|cx| Poll::Ready(acquire.as_mut().poll(cx))).await {
            return won.is_ok();
        }
    }
    false
}

#[tokio::test(start_paused = true)]
async fn a_future_dropped_after_any_number_of_polls_leaves_no_znode() {
    let world = world().await;
    let (observer, _) = world.lock().await;
    let mut polls = 0;
    loop {
        let (client, lock) = world.lock().await;
        let won = drop_after(polls, &lock).await;
        settle(|| async { queue(&observer).await.is_empty() }).await;
        assert_eq!(client.get_ephemerals("/").await.unwrap(), Vec::<String>::new(), "{polls} polls");
        if won {
            break;
        }
        polls += 1;
    }
    assert!(polls > 1, "acquired after {polls} polls");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_dropped_after_any_number_of_polls_leaves_no_znode_and_no_watch() {
    let world = world().await;
    let (observer, holder) = world.lock().await;
    let guard = holder.acquire().await.unwrap();
    for polls in 0..40 {
        let (client, lock) = world.lock().await;
        assert!(!drop_after(polls, &lock).await);
        settle(|| async { queue(&observer).await.len() == 1 }).await;
        let watched = || client.check_watches(guard.node(), WatcherType::Any);
        settle(|| async { !watched().await.unwrap() }).await;
        assert_eq!(client.get_ephemerals("/").await.unwrap(), Vec::<String>::new(), "{polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_is_the_end_of_the_lock() {
    let world = world().await;
    let (a, one) = world.lock().await;
    let (_b, two) = world.lock().await;
    let guard = one.acquire().await.unwrap();
    let lost = guard.lost();
    a.close().await.unwrap();
    assert_eq!(lost.await, LostReason::SessionClosed);
    assert_eq!(guard.state(), HoldState::Lost(LostReason::SessionClosed));
    let _next = two.acquire().timeout(Duration::from_secs(1)).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_session_ends_is_told() {
    let world = world().await;
    let (_a, one) = world.lock().await;
    let (b, two) = world.lock().await;
    let _held = one.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { two.acquire().await });
    settle(|| async { queue(&b).await.len() == 2 }).await;
    b.close().await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::SessionOver { reason: LostReason::SessionClosed, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn without_a_server_a_lock_is_suspect_and_then_lost_before_the_session_can_have_expired() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let begin = tokio::time::Instant::now();
    let contact = zk.last_contact();
    world.server.shutdown().await;
    let mut states = zk.states();
    while states.next().await != Some(SessionState::Disconnected) {}
    assert!(matches!(guard.state(), HoldState::Suspect { .. }), "{:?}", guard.state());
    assert_eq!(guard.lost().await, LostReason::LeaseElapsed);
    let passed = tokio::time::Instant::now() - contact;
    assert!(passed <= zk.session_timeout(), "{passed:?} since the last contact");
    assert!(begin.elapsed() >= Duration::from_secs(3), "{:?} is early", begin.elapsed());
    // The state is known without a server.
    let refused = guard.verify().await.unwrap_err();
    assert!(matches!(refused, LockError::NotHeld { reason: LostReason::LeaseElapsed, .. }), "{refused}");
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
}

#[tokio::test(start_paused = true)]
async fn a_release_without_a_server_ends_when_the_lock_is_lost() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let contact = zk.last_contact();
    world.server.shutdown().await;
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
    assert!(contact.elapsed() <= zk.session_timeout(), "{:?}", contact.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_fenced_write_is_executed_only_while_the_lock_is_held() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    zk.create("/ledger", "v1").await.unwrap();
    let guard = lock.acquire().confirmed().await.unwrap();
    guard.verify().await.unwrap();
    guard.fenced().set_data("/ledger", "v2").commit().await.unwrap();
    zk.delete(guard.node()).await.unwrap();
    let refused = guard.fenced().set_data("/ledger", "v3").commit().await.unwrap_err();
    assert!(matches!(refused, LockError::NotHeld { .. }), "{refused}");
    assert_eq!(zk.get_data("/ledger").await.unwrap().0, "v2");
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_watches_its_znode_notices_its_eviction() {
    let world = world().await;
    let (zk, _) = world.lock().await;
    let lock = Lock::builder(&zk, DIR).watch_own_node(true).build();
    let guard = lock.acquire().await.unwrap();
    zk.delete(guard.node()).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::NodeDeleted);
    let dropped = guard.run(std::future::pending::<()>()).await;
    assert_eq!(dropped, Err(LostReason::NodeDeleted));
}

#[tokio::test(start_paused = true)]
async fn an_evicted_waiter_gets_an_error_and_never_takes_its_absence_for_its_turn() {
    let world = world().await;
    let (zk, one) = world.lock().await;
    let (_b, two) = world.lock().await;
    let held = one.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { two.acquire().await });
    settle(|| async { queue(&zk).await.len() == 2 }).await;
    let waiter = one.contenders().await.unwrap().pop().unwrap();
    zk.delete(format!("{DIR}/{}", waiter.name)).await.unwrap();
    held.release().await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::NodeDeleted { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_write_to_the_predecessor_wakes_nobody_for_good() {
    let world = world().await;
    let (zk, one) = world.lock().await;
    let (_b, two) = world.lock().await;
    let held = one.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { two.acquire().await.map(|guard| guard.token()) });
    settle(|| async { queue(&zk).await.len() == 2 }).await;
    zk.set_data(held.node(), "__REVOKE__").await.unwrap();
    settle(|| async { zk.exists(held.node()).await.unwrap().unwrap().version == 1 }).await;
    assert!(!waiting.is_finished());
    let before = held.token();
    held.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap() > before);
}

#[tokio::test(start_paused = true)]
async fn contenders_of_other_clients_are_handled_by_the_policy() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    zk.create("/locks", "").await.unwrap();
    zk.create(DIR, "").await.unwrap();
    zk.create(format!("{DIR}/readme"), "").await.unwrap();
    let guard =
        lock.acquire().timeout(Duration::from_secs(1)).await.expect("a child without a number is ignored");
    guard.release().await.unwrap();

    zk.create(format!("{DIR}/node_"), "").ephemeral().sequential().await.unwrap();
    let refused = lock.acquire().timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(refused, LockError::Timeout { .. }), "{refused}");
    let ignoring = Lock::builder(&zk, DIR).foreign(ForeignPolicy::Ignore).build();
    ignoring.acquire().timeout(Duration::from_secs(1)).await.unwrap().release().await.unwrap();
    let strict = Lock::builder(&zk, DIR).foreign(ForeignPolicy::Reject).build();
    let refused = strict.acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::Foreign { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn past_the_end_of_a_32_bit_counter_the_order_of_creation_decides() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let (_b, two) = world.lock().await;
    // At the end of the counter a later contender has the same number, or a smaller one.
    let guard = lock.acquire().await.unwrap();
    let later = format!("{DIR}/_c_00000000-0000-4000-8000-000000000000-lock--000000005");
    zk.create(&later, "").ephemeral().await.unwrap();
    assert_eq!(lock.contenders().await.unwrap()[0].czxid.0.unsigned_abs(), guard.token().get());
    guard.release().await.unwrap();
    let refused = two.acquire().timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(refused, LockError::Timeout { .. }), "the negative one came first: {refused}");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_and_a_missing_directory_are_different_errors() {
    let world = world().await;
    let (zk, one) = world.lock().await;
    let strict = Lock::builder(&zk, DIR).parent(ParentMode::MustExist).build();
    let refused = strict.acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::NoParent { .. }), "{refused}");
    let _held = one.acquire().await.unwrap();
    let short = Lock::builder(&zk, DIR).max_queue(0).build();
    let refused = short.acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::QueueFull { len: 1, .. }), "{refused}");
    assert_eq!(queue(&zk).await.len(), 1);
}
