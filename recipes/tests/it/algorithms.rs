//! What every algorithm of the lock guarantees.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use zoolet_fixture::FixtureExt as _;

use zoolet_client::{Client, WatcherType};
use zoolet_fixture::fault::{create, request};
use zoolet_recipes::{Algorithm, Compat, ForeignPolicy, Lock, LockError, LostReason, ParentMode, Released};

use crate::common::{DIR, World, settle, world};

fn kinds(client: &Client) -> [(&'static str, Lock); 4] {
    let lock = || Lock::builder(client, DIR);
    [
        ("predecessor", lock().build()),
        ("children watch", lock().algorithm(Algorithm::ChildrenWatch).build()),
        ("single node", lock().algorithm(Algorithm::SingleNode).build()),
        ("dual", lock().compat(Compat::DualKazoo).build()),
    ]
}

/// A client and its lock of the `kind`-th kind.
async fn contender(world: &World, kind: usize) -> (Client, Lock) {
    let client = world.client().await;
    let [a, b, c, d] = kinds(&client).map(|(_, lock)| lock);
    let lock = [a, b, c, d].into_iter().nth(kind).unwrap();
    (client, lock)
}

async fn free(client: &Client, lock: &Lock) -> bool {
    lock.contenders().await.unwrap().is_empty() && client.get_ephemerals("/").await.unwrap().is_empty()
}

#[tokio::test(start_paused = true)]
async fn one_holds_it_at_a_time_and_tokens_rise() {
    for kind in 0..4 {
        let world = world().await;
        let holders = Arc::new(AtomicUsize::new(0));
        let last = Arc::new(AtomicUsize::new(0));
        let mut tasks = Vec::new();
        for _ in 0..6 {
            let (client, lock) = contender(&world, kind).await;
            let (holders, last) = (Arc::clone(&holders), Arc::clone(&last));
            tasks.push(tokio::spawn(async move {
                for _ in 0..4 {
                    let guard = lock.acquire().await.unwrap();
                    assert_eq!(holders.fetch_add(1, SeqCst), 0, "two holders");
                    let token = guard.token().get() as usize;
                    assert!(last.swap(token, SeqCst) < token, "tokens must rise");
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    guard.verify().await.unwrap();
                    holders.fetch_sub(1, SeqCst);
                    assert_eq!(guard.release().await.unwrap(), Released::Deleted);
                }
                assert!(client.get_ephemerals("/").await.unwrap().is_empty());
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_gives_up_leaves_no_znode_and_no_watch() {
    for kind in 0..4 {
        let world = world().await;
        let (_a, one) = contender(&world, kind).await;
        let (b, two) = contender(&world, kind).await;
        let held = one.acquire().await.unwrap();
        let refused = two.acquire().timeout(Duration::from_millis(100)).await.unwrap_err();
        assert!(matches!(refused, LockError::Timeout { .. }), "{refused}");
        settle(|| async { one.contenders().await.unwrap().len() == held.nodes().len() }).await;
        for path in held.nodes().iter().map(String::as_str).chain([DIR]) {
            settle(|| async { !b.check_watches(path, WatcherType::Any).await.unwrap() }).await;
        }
        held.verify().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn trying_takes_a_free_lock_and_leaves_a_held_one_alone() {
    for kind in 0..4 {
        let world = world().await;
        let (_a, one) = contender(&world, kind).await;
        let (b, two) = contender(&world, kind).await;
        let held = one.try_acquire().await.unwrap().expect("it is free");
        b.sync("/").await.unwrap();
        let before = b.last_zxid();
        assert!(two.try_acquire().await.unwrap().is_none());
        b.sync("/").await.unwrap();
        assert_eq!(b.last_zxid(), before, "a try on a held lock writes nothing");
        held.release().await.unwrap();
        assert!(two.try_acquire().await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn an_evicted_holder_learns_it_from_its_next_fenced_write_and_deletes_no_other_lock() {
    for kind in 0..4 {
        let world = world().await;
        let (a, one) = contender(&world, kind).await;
        let (_b, two) = contender(&world, kind).await;
        a.create("/ledger", "").await.unwrap();
        let evicted = one.acquire().await.unwrap();
        for node in evicted.nodes() {
            a.delete(node).await.unwrap();
        }
        let next = two.acquire().await.unwrap();
        assert!(next.token() > evicted.token());
        let refused = evicted.fenced().set_data("/ledger", "late").commit().await.unwrap_err();
        assert!(matches!(refused, LockError::NotHeld { reason: LostReason::NodeDeleted, .. }), "{refused}");
        assert!(a.get_data("/ledger").await.unwrap().0.is_empty());
        // The name may be that of the next holder by now.
        assert_eq!(evicted.release().await.unwrap(), Released::AlreadyGone, "kind {kind}");
        next.verify().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_release_does_not_delete_the_single_znode_of_a_program_without_epochs() {
    let world = world().await;
    let ((_a, lock), other) = (contender(&world, 2).await, world.client().await);
    let evicted = lock.acquire().await.unwrap();
    other.delete(evicted.node()).await.unwrap();
    other.create(evicted.node(), "theirs").ephemeral().await.unwrap();
    let node = evicted.node().to_owned();
    assert_eq!(evicted.release().await.unwrap(), Released::AlreadyGone);
    assert_eq!(other.get_data(&node).await.unwrap().0, "theirs");
}

#[tokio::test(start_paused = true)]
async fn a_single_znode_that_was_written_to_is_still_released() {
    let world = world().await;
    let ((_a, lock), other) = (contender(&world, 2).await, world.client().await);
    let guard = lock.acquire().data("ours").await.unwrap();
    assert_eq!(other.get_data(guard.node()).await.unwrap().0, "ours");
    for data in ["", "__REVOKE__"] {
        other.set_data(guard.node(), data).await.unwrap();
    }
    guard.verify().await.unwrap();
    let node = guard.node().to_owned();
    assert_eq!(guard.release().await.unwrap(), Released::Deleted);
    assert_eq!(other.exists(&node).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_holders_session_lets_the_next_one_in() {
    for kind in 0..4 {
        let world = world().await;
        let (a, one) = contender(&world, kind).await;
        let (_b, two) = contender(&world, kind).await;
        let guard = one.acquire().await.unwrap();
        let waiting = tokio::spawn(async move { two.acquire().await.unwrap().token() });
        tokio::task::yield_now().await;
        a.close().await.unwrap();
        assert_eq!(guard.lost().await, LostReason::SessionClosed);
        assert!(waiting.await.unwrap() > guard.token());
    }
}

#[tokio::test(start_paused = true)]
async fn guards_of_one_acquisition_hold_it_until_the_last_is_gone() {
    for kind in 0..4 {
        let world = world().await;
        let (a, one) = contender(&world, kind).await;
        let (_b, two) = contender(&world, kind).await;
        let outer = one.acquire().await.unwrap();
        let inner = outer.reenter();
        assert_eq!((inner.token(), inner.node()), (outer.token(), outer.node()));
        assert_eq!(outer.release().await.unwrap(), Released::StillHeld);
        inner.verify().await.unwrap();
        let refused = two.acquire().timeout(Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(refused, LockError::Timeout { .. }), "{refused}");
        let elsewhere = tokio::spawn(async move { inner.release().await.unwrap() });
        assert_eq!(elsewhere.await.unwrap(), Released::Deleted);
        settle(|| free(&a, &one)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_data_of_the_holder_can_be_replaced() {
    for kind in 0..4 {
        let world = world().await;
        let (_a, lock) = contender(&world, kind).await;
        let guard = lock.acquire().data("first").await.unwrap();
        assert_eq!(lock.contenders().await.unwrap()[0].data, "first");
        guard.set_data("second").await.unwrap();
        for contender in lock.contenders().await.unwrap() {
            assert_eq!(contender.data, "second");
        }
        guard.verify().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Deleted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_watches_its_znodes_notices_its_eviction() {
    for kind in 0..4 {
        let world = world().await;
        let client = world.client().await;
        let builder = Lock::builder(&client, DIR).watch_own_node(true);
        let lock = match kind {
            0 => builder.build(),
            1 => builder.algorithm(Algorithm::ChildrenWatch).build(),
            2 => builder.algorithm(Algorithm::SingleNode).build(),
            _ => builder.compat(Compat::DualKazoo).build(),
        };
        let guard = lock.acquire().await.unwrap();
        client.delete(guard.nodes().last().unwrap()).await.unwrap();
        assert_eq!(guard.lost().await, LostReason::NodeDeleted);
    }
}

/// The next holder has the same name.
#[tokio::test(start_paused = true)]
async fn a_watched_single_znode_is_not_mistaken_for_that_of_the_next_holder() {
    let world = world().await;
    let (zk, other) = (world.client().await, world.client().await);
    let lock = Lock::builder(&zk, DIR).algorithm(Algorithm::SingleNode).watch_own_node(true).build();
    let next = Lock::builder(&other, DIR).algorithm(Algorithm::SingleNode).build();
    let faults = world.server.fixture().faults();
    // Its first look at its znode finds that of another holder.
    faults.on(request().path(DIR).nth(1)).freeze().unwrap();
    let guard = lock.acquire().await.unwrap();
    let frozen = || async { !faults.fired().is_empty() };
    settle(frozen).await;
    other.delete(DIR).await.unwrap();
    let held = next.acquire().await.unwrap();
    world.server.fixture().unfreeze_all().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::NodeDeleted);
    held.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn arrivals_wake_no_waiter_that_watches_its_predecessor() {
    let world = world().await;
    let (_a, one) = contender(&world, 0).await;
    let (b, two) = contender(&world, 0).await;
    let held = one.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { two.acquire().await });
    settle(|| async { b.check_watches(held.node(), WatcherType::Data).await.unwrap() }).await;
    assert!(!b.check_watches(DIR, WatcherType::Any).await.unwrap());
    held.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_single_znode_that_is_not_a_lock_is_waited_for_or_rejected() {
    let world = world().await;
    let client = world.client().await;
    client.create("/locks", "").await.unwrap();
    client.create(DIR, "somebody else's").await.unwrap();
    let builder = || Lock::builder(&client, DIR).algorithm(Algorithm::SingleNode);
    let refused = builder().build().acquire().timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(refused, LockError::Timeout { .. }), "{refused}");
    let strict = builder().foreign(ForeignPolicy::Reject).build();
    let refused = strict.acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::Foreign { ref name, .. } if name == "ledger"), "{refused}");
    client.delete(DIR).await.unwrap();
    builder().build().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_single_znode_needs_no_directory_that_it_may_not_create() {
    let world = world().await;
    let client = world.client().await;
    let builder = Lock::builder(&client, DIR).algorithm(Algorithm::SingleNode);
    let lock = builder.parent(ParentMode::MustExist).build();
    let refused = lock.acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::NoParent { .. }), "{refused}");
    client.create("/locks", "").await.unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
}

/// The server removes an empty container even if somebody is about to create a znode in it.
#[tokio::test(start_paused = true)]
async fn a_single_znode_is_created_even_if_its_parent_vanishes_while_the_epoch_is_created() {
    let world = world().await;
    let (client, other) = (world.client().await, world.client().await);
    let lock = Lock::builder(&client, DIR).algorithm(Algorithm::SingleNode).build();
    let faults = world.server.fixture().faults();
    faults.on(create().path("/locks/*.epoch").nth(1)).freeze().unwrap();
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    settle(|| async { !faults.fired().is_empty() }).await;
    other.delete("/locks").await.unwrap();
    world.server.fixture().unfreeze_all().await.unwrap();
    acquiring.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dual_contender_has_a_curator_name_and_a_kazoo_name_of_one_transaction() {
    let world = world().await;
    let (client, lock) = contender(&world, 3).await;
    let guard = lock.acquire().await.unwrap();
    let contenders = lock.contenders().await.unwrap();
    assert_eq!(contenders.len(), 2);
    assert_eq!(contenders[0].czxid, contenders[1].czxid);
    assert!(contenders[0].name.starts_with("_c_") && contenders[0].name.contains("-lock-"), "{contenders:?}");
    let (hex, number) = contenders[1].name.split_once("__lock__").unwrap();
    assert_eq!((hex.len(), number.len()), (32, 10));
    assert!(hex.as_bytes()[0] >= b'3', "{hex} sorts before the numbers of Curator's waiters");
    // Losing one znode is losing the lock.
    client.delete(&guard.nodes()[1]).await.unwrap();
    assert!(guard.verify().await.is_err());
    guard.release().await.unwrap();
    settle(|| free(&client, &lock)).await;
}
