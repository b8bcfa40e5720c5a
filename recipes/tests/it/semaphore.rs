//! The semaphore.

use std::time::Duration;

use zoolet_client::{Acl, Client, ErrorCode, WatcherType};
use zoolet_recipes::{LockError, Permit, Semaphore};

use crate::common::{DIR, World, settle, world};

async fn contender(world: &World) -> (Client, Semaphore) {
    let client = world.client().await;
    let semaphore = Semaphore::new(&client, DIR, 3);
    (client, semaphore)
}

async fn held(semaphore: &Semaphore) -> usize {
    semaphore.holders().await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn no_more_permits_are_held_than_there_are_and_tokens_rise() {
    let world = world().await;
    let (_a, semaphore) = contender(&world).await;
    let first = semaphore.acquire(1).await.unwrap();
    let both = semaphore.acquire(2).await.unwrap();
    assert_eq!((first.count(), both.count(), held(&semaphore).await), (1, 2, 3));
    assert!(both.token() > first.token());
    let refused = semaphore.acquire(1).timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(refused, LockError::Timeout { .. }), "{refused}");
    settle(|| async { semaphore.contenders().await.unwrap().is_empty() }).await;
    both.release().await.unwrap();
    assert_eq!(held(&semaphore).await, 1);
    let again = semaphore.acquire(2).await.unwrap();
    assert!(again.token() > first.token());
    again.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_contender_for_many_permits_is_not_overtaken_by_those_for_few() {
    let world = world().await;
    let (_a, one) = contender(&world).await;
    let (_b, two) = contender(&world).await;
    let (_c, three) = contender(&world).await;
    let first = one.acquire(2).await.unwrap();
    let many = tokio::spawn(async move { two.acquire(3).await.unwrap() });
    settle(|| async { one.contenders().await.unwrap().len() == 1 }).await;
    let few = tokio::spawn(async move { three.acquire(1).await.unwrap() });
    settle(|| async { one.contenders().await.unwrap().len() == 2 }).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!few.is_finished(), "one permit is free, but somebody is in front");
    first.release().await.unwrap();
    let many: Permit = many.await.unwrap();
    assert!(!few.is_finished());
    many.release().await.unwrap();
    drop(few.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_permits_of_a_session_that_ends_are_free_again_and_no_watch_is_left() {
    let world = world().await;
    let (a, one) = contender(&world).await;
    let (b, two) = contender(&world).await;
    let held = one.acquire(3).await.unwrap();
    let waiting = tokio::spawn(async move { two.acquire(3).await.unwrap() });
    let leases = format!("{DIR}/leases");
    settle(|| async { b.check_watches(&leases, WatcherType::Children).await.unwrap() }).await;
    a.close().await.unwrap();
    held.lost().await;
    let permit = waiting.await.unwrap();
    assert!(!b.check_watches(&leases, WatcherType::Any).await.unwrap());
    permit.release().await.unwrap();
    assert_eq!(b.get_ephemerals("/").await.unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn trying_takes_free_permits_and_never_waits() {
    let world = world().await;
    let (a, semaphore) = contender(&world).await;
    let two = semaphore.try_acquire(2).await.unwrap().expect("three are free");
    assert!(semaphore.try_acquire(2).await.unwrap().is_none());
    let one = semaphore.try_acquire(1).await.unwrap().expect("one is free");
    drop((one, two));
    settle(|| async { a.get_ephemerals("/").await.unwrap().is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_number_of_permits_that_differs_is_refused() {
    let world = world().await;
    let (zk, semaphore) = contender(&world).await;
    let refused = semaphore.acquire(4).await.unwrap_err();
    assert!(matches!(refused, LockError::PermitLimit { wanted: 4, limit: 3, .. }), "{refused}");
    let refused = semaphore.acquire(0).await.unwrap_err();
    assert!(matches!(refused, LockError::PermitLimit { wanted: 0, .. }), "{refused}");
    let held = semaphore.acquire(1).await.unwrap();
    for wanted in [0, 4, usize::MAX] {
        let refused = semaphore.try_acquire(wanted).await.unwrap_err();
        assert!(matches!(refused, LockError::PermitLimit { limit: 3, .. }), "{wanted}: {refused}");
    }
    held.release().await.unwrap();
    semaphore.acquire(1).await.unwrap().release().await.unwrap();
    assert_eq!(zk.get_data(DIR).await.unwrap().0, "3");
    let other = Semaphore::new(&zk, DIR, 5);
    let refused = other.acquire(1).await.unwrap_err();
    assert!(matches!(refused, LockError::PermitsDiffer { ours: 5, theirs: 3, .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_waiter_for_permits_gets_an_error_and_no_permits() {
    let world = world().await;
    let (zk, one) = contender(&world).await;
    let (b, two) = contender(&world).await;
    let held = one.acquire(3).await.unwrap();
    let waiting = tokio::spawn(async move { two.acquire(1).await });
    let leases = format!("{DIR}/leases");
    settle(|| async { b.check_watches(&leases, WatcherType::Children).await.unwrap() }).await;
    let place = one.contenders().await.unwrap().pop().unwrap();
    zk.delete(place.path).await.unwrap();
    held.release().await.unwrap();
    let refused = waiting.await.unwrap().unwrap_err();
    assert!(matches!(refused, LockError::NodeDeleted { .. }), "{refused}");
    assert_eq!(one.holders().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_cannot_be_created_is_reported_as_for_a_lock() {
    let world = world().await;
    let zk = world.client().await;
    zk.create("/theirs", "").acl(Acl::read_only()).await.unwrap();
    zk.create("/leaf", "").ephemeral().await.unwrap();
    for dir in ["/theirs/permits", "/leaf/permits"] {
        let semaphore = Semaphore::new(&zk, dir, 1);
        let acquiring = tokio::spawn(async move { semaphore.acquire(1).await });
        settle(|| async { acquiring.is_finished() }).await;
        let refused = acquiring.await.unwrap().unwrap_err();
        match dir {
            "/theirs/permits" => assert!(matches!(refused, LockError::NoAuth { .. }), "{refused}"),
            _ => {
                let code = ErrorCode::NoChildrenForEphemerals;
                assert!(matches!(&refused, LockError::NoParent { code: is, .. } if *is == code), "{refused}");
            }
        }
    }
}

/// As servers do with empty containers.
async fn sweep(zk: &Client) {
    for path in [format!("{DIR}/locks"), format!("{DIR}/leases"), DIR.into()] {
        zk.delete(path).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_recreated_directory_has_the_number_of_permits() {
    let world = world().await;
    let (zk, semaphore) = contender(&world).await;
    semaphore.acquire(1).await.unwrap().release().await.unwrap();
    sweep(&zk).await;
    let held = semaphore.acquire(1).await.unwrap();
    assert_eq!(zk.get_data(DIR).await.unwrap().0, "3");
    let other = Semaphore::new(&zk, DIR, 5);
    let refused = other.acquire(1).await.unwrap_err();
    assert!(matches!(refused, LockError::PermitsDiffer { ours: 5, theirs: 3, .. }), "{refused}");
    held.release().await.unwrap();
    // Somebody else may create it.
    sweep(&zk).await;
    let held = other.acquire(1).await.unwrap();
    let refused = semaphore.acquire(1).await.unwrap_err();
    assert!(matches!(refused, LockError::PermitsDiffer { ours: 3, theirs: 5, .. }), "{refused}");
    assert_eq!(semaphore.contenders().await.unwrap(), []);
    held.release().await.unwrap();
}

/// The directory of Curator's semaphore has the data of its user, or none.
#[tokio::test(start_paused = true)]
async fn a_directory_without_a_number_is_accepted_and_left_unchanged() {
    for data in ["", "10.0.0.1"] {
        let world = world().await;
        let (zk, semaphore) = contender(&world).await;
        zk.create("/locks", "").await.unwrap();
        zk.create(DIR, data).await.unwrap();
        semaphore.acquire(3).await.unwrap().release().await.unwrap();
        assert_eq!(zk.get_data(DIR).await.unwrap().0, data);
    }
}
