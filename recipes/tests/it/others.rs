//! Known bugs of locks on ZooKeeper in other libraries. Each test shows that this crate does not have the bug. Issue numbers are
//! those of the projects named.

use std::time::Duration;
use zoolet_fixture::FixtureExt as _;

use tokio::time::Instant;
use zoolet_client::{WatcherType, path};
use zoolet_recipes::{Lock, LockError, LostReason, ParentMode, Released, RwLock};

use crate::common::{DIR, queue, settle, world};

/// The recipes shipped with ZooKeeper name contenders by their session, so that the second mistakes the znode of the first for
/// its own; etcd's mutex lets the second one of a session in.
#[tokio::test(start_paused = true)]
async fn two_locks_of_one_session_exclude_each_other() {
    let world = world().await;
    let (zk, one) = world.lock().await;
    let two = Lock::new(&zk, DIR);
    let guard = one.acquire().await.unwrap();
    let refused = two.acquire().timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(refused, LockError::Timeout { .. }), "{refused}");
    guard.release().await.unwrap();
    two.acquire().await.unwrap().release().await.unwrap();
}

/// A late unlock deleted another client's lock where names are reused (zk-ruby #34).
#[tokio::test(start_paused = true)]
async fn a_recreated_directory_reuses_no_name() {
    let world = world().await;
    let ((a, one), (_b, two)) = (world.lock().await, world.lock().await);
    let old = one.acquire().await.unwrap();
    a.delete(old.node()).await.unwrap();
    a.delete(DIR).await.unwrap();
    let new = two.acquire().await.unwrap();
    assert!(new.node().ends_with("0000000000"), "it counts from 0 again: {}", new.node());
    assert!(new.token() > old.token(), "tokens do not");
    assert_eq!(old.release().await.unwrap(), Released::AlreadyGone);
    new.verify().await.unwrap();
}

/// kazoo waits for the whole timeout again after every event.
#[tokio::test(start_paused = true)]
async fn a_timeout_is_counted_once_however_often_the_waiter_is_woken() {
    let world = world().await;
    let (zk, holder) = world.lock().await;
    let mut ahead = Vec::new();
    for _ in 0..5 {
        ahead.push(tokio::spawn({
            let holder = holder.clone();
            async move { holder.acquire().await.unwrap() }
        }));
    }
    settle(|| async { queue(&zk).await.len() == 5 }).await;
    let (_b, lock) = world.lock().await;
    let begin = Instant::now();
    let waiting = tokio::spawn(async move { lock.acquire().timeout(Duration::from_secs(1)).await });
    settle(|| async { queue(&zk).await.len() == 6 }).await;
    // The contender right in front leaves, four times.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let contenders = holder.contenders().await.unwrap();
        zk.delete(&contenders[contenders.len() - 2].path).await.unwrap();
    }
    let refused = waiting.await.unwrap().unwrap_err();
    assert!(matches!(refused, LockError::Timeout { .. }), "{refused}");
    assert_eq!(begin.elapsed(), Duration::from_secs(1));
    drop(ahead);
}

/// Waiters of Curator and kazoo leave their watch on the server when they give up. Of two that watch one znode, the one
/// that gives up must not remove the other's watch (ZOOKEEPER-4466 and similar).
#[tokio::test(start_paused = true)]
async fn a_reader_that_gives_up_leaves_the_watch_of_another_reader_alone() {
    let world = world().await;
    let (a, b) = (world.client().await, world.client().await);
    let writing = RwLock::new(&a, DIR).write().await.unwrap();
    let readers = RwLock::new(&b, DIR);
    let stays = tokio::spawn({
        let readers = readers.clone();
        async move { readers.read().await.unwrap() }
    });
    settle(|| async { queue(&a).await.len() == 2 }).await;
    let refused = readers.read().timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(refused, LockError::Timeout { .. }), "{refused}");
    settle(|| async { queue(&a).await.len() == 2 }).await;
    assert!(b.check_watches(writing.node(), WatcherType::Data).await.unwrap());
    writing.release().await.unwrap();
    let reading = stays.await.unwrap();
    reading.release().await.unwrap();
    assert_eq!(b.get_ephemerals("/").await.unwrap(), Vec::<String>::new());
}

/// Go takes the lock if its own znode was deleted (a third client held it at the same time); Java's recipe hangs.
#[tokio::test(start_paused = true)]
async fn a_waiter_without_a_znode_neither_holds_nor_waits_forever() {
    let world = world().await;
    let ((zk, one), (_b, two), (_c, three)) = (world.lock().await, world.lock().await, world.lock().await);
    let held = one.acquire().await.unwrap();
    let second = tokio::spawn(async move { two.acquire().await });
    settle(|| async { queue(&zk).await.len() == 2 }).await;
    let third = tokio::spawn(async move { three.acquire().await });
    settle(|| async { queue(&zk).await.len() == 3 }).await;
    zk.delete(&one.contenders().await.unwrap()[1].path).await.unwrap();
    held.release().await.unwrap();
    let refused = second.await.unwrap().unwrap_err();
    assert!(matches!(refused, LockError::NodeDeleted { .. }), "{refused}");
    third.await.unwrap().unwrap().verify().await.unwrap();
}

/// kazoo remembers that it created the directory, and fails when the server has removed it (kazoo #563).
#[tokio::test(start_paused = true)]
async fn a_directory_that_the_server_removes_is_created_again() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
        zk.delete(DIR).await.unwrap();
        zk.delete(path::parent(DIR)).await.unwrap();
    }
    lock.acquire().await.unwrap().release().await.unwrap();
}

/// A missing chroot or parent that must not be created must not be waited for.
#[tokio::test(start_paused = true)]
async fn a_parent_that_cannot_be_created_is_reported_at_once() {
    let world = world().await;
    let zk = world.client().await;
    let lock = Lock::builder(&zk, "/no/such/place").parent(ParentMode::MustExist).build();
    let refused = lock.acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::NoParent { .. }), "{refused}");
}

/// kazoo's `is_acquired` and Java's `isOwner` stay true after the session has expired (Curator: CURATOR-206), and Go reports
/// nothing (samuel #20).
#[tokio::test(start_paused = true)]
async fn an_expired_holder_knows_and_its_later_calls_do_nothing() {
    let world = world().await;
    let ((a, one), (b, two)) = (world.lock().await, world.lock().await);
    b.create("/ledger", "").await.unwrap();
    let guard = one.acquire().await.unwrap();
    world.server.fixture().expire_session(a.session_id()).await.unwrap();
    let next = two.acquire().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::SessionExpired);
    guard.fenced().set_data("/ledger", "late").commit().await.unwrap_err();
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
    next.fenced().set_data("/ledger", "mine").commit().await.unwrap();
    assert_eq!(b.get_data("/ledger").await.unwrap().0, "mine");
}

/// A waiter whose session expires sleeps on in CURATOR-346, zk-ruby #55 and kazoo #482.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_session_expires_gets_an_error() {
    let world = world().await;
    let ((a, one), (b, two)) = (world.lock().await, world.lock().await);
    let _held = one.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { two.acquire().await });
    settle(|| async { queue(&a).await.len() == 2 }).await;
    world.server.fixture().expire_session(b.session_id()).await.unwrap();
    let refused = waiting.await.unwrap().unwrap_err();
    let expired = matches!(refused, LockError::SessionOver { reason: LostReason::SessionExpired, .. });
    assert!(expired, "{refused}");
}
