//! Several locks at once, elections, revocation, warnings, and the end of a directory's counter.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zoolet_fixture::FixtureExt as _;
use zoolet_fixture::fault::request;

use zoolet_recipes::{Compat, Election, Lock, LockError, LockWarning, LostReason, MultiLock, revoke};

use crate::common::{DIR, settle, world};

#[tokio::test(start_paused = true)]
async fn several_locks_are_held_together_or_not_at_all() {
    let world = world().await;
    let (a, b) = (world.client().await, world.client().await);
    let both = MultiLock::over(&a, ["/locks/x", "/locks/y"]);
    let y = Lock::new(&b, "/locks/y");
    let held = y.acquire().await.unwrap();
    let refused = both.acquire().timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(refused, LockError::Timeout { .. }), "{refused}");
    assert!(both.try_acquire().await.unwrap().is_none());
    settle(|| async { a.get_ephemerals("/").await.unwrap().is_empty() }).await;
    held.release().await.unwrap();
    let guard = both.acquire().await.unwrap();
    assert_eq!(guard.nodes().len(), 2);
    assert!(y.try_acquire().await.unwrap().is_none());
    guard.verify().await.unwrap();
    // Losing one of them is losing all of them.
    b.delete(&guard.nodes()[1]).await.unwrap();
    let refused = guard.verify().await.unwrap_err();
    assert!(matches!(refused, LockError::NotHeld { reason: LostReason::NodeDeleted, .. }), "{refused}");
    // The release of a lost lock waits for nothing; what is left of it is deleted in the background.
    guard.release().await.unwrap();
    settle(|| async { a.get_ephemerals("/").await.unwrap().is_empty() }).await;
}

/// Some are in several queues, and some in one queue under two names.
#[tokio::test(start_paused = true)]
async fn a_contender_counts_once_however_many_znodes_it_has() {
    let world = world().await;
    let (a, b) = (world.client().await, world.client().await);
    let dirs = ["/locks/x", "/locks/y", "/locks/z"];
    let held = MultiLock::over(&a, dirs).acquire().await.unwrap();
    let dual = Lock::builder(&a, dirs[0]).compat(Compat::DualKazoo);
    let reported = Arc::new(Mutex::new(Vec::new()));
    let count = || {
        let reported = Arc::clone(&reported);
        move |ahead| reported.lock().unwrap().push(ahead)
    };
    let one = dual.clone().max_queue(1).build().acquire().on_queued(count());
    let one = tokio::spawn(one.into_future());
    settle(|| async { reported.lock().unwrap().len() == 1 }).await;
    let two = MultiLock::builder(&b, dirs).max_queue(2).build().acquire().on_queued(count());
    let two = tokio::spawn(two.into_future());
    settle(|| async { reported.lock().unwrap().len() == 2 }).await;
    let refused = dual.max_queue(2).build().acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::QueueFull { len: 3, .. }), "{refused}");
    let refused = MultiLock::builder(&b, dirs).max_queue(2).build().acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::QueueFull { len: 3, .. }), "{refused}");
    assert_eq!(*reported.lock().unwrap(), [1, 2]);
    // Names without a guid count as one contender each.
    for dir in &dirs[1..] {
        b.create(format!("{dir}/n_"), "").ephemeral().sequential().await.unwrap();
    }
    let refused = MultiLock::builder(&b, dirs).max_queue(4).build().acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::QueueFull { len: 5, .. }), "{refused}");
    held.release().await.unwrap();
    one.await.unwrap().unwrap().release().await.unwrap();
    drop(two.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn contenders_that_name_the_same_locks_in_different_orders_do_not_deadlock() {
    let world = world().await;
    let mut tasks = Vec::new();
    for number in 0..6 {
        let client = world.client().await;
        tasks.push(tokio::spawn(async move {
            let mut dirs = ["/locks/x", "/locks/y", "/locks/z"];
            dirs.rotate_left(number % 3);
            let some = MultiLock::over(&client, dirs[..2].to_vec());
            for _ in 0..5 {
                let guard = some.acquire().timeout(Duration::from_secs(60)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
                guard.verify().await.unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// The create of all znodes is executed twice, because it was sent again and arrived late, and then a part of the first is
/// deleted by somebody: the rest would be in front of others in one queue, and after them in the other.
#[tokio::test(start_paused = true)]
async fn znodes_of_two_transactions_are_not_mistaken_for_one_contender() {
    let mut evicted = 0;
    for listing in 1..5 {
        let world = world().await;
        let (a, b) = (world.client().await, world.client().await);
        let both = MultiLock::over(&a, ["/locks/x", "/locks/y"]);
        both.acquire().await.unwrap().release().await.unwrap();
        let fixture = world.server.fixture();
        fixture.faults().on(request().session(a.session_id()).nth(1)).lose_reply().unwrap();
        fixture.faults().on(request().path("/locks/x").nth(listing)).freeze().unwrap();
        let acquiring = tokio::spawn(async move { both.acquire().await });
        for _ in 0..300 {
            tokio::task::yield_now().await;
        }
        if let [name] = &b.get_children("/locks/x").await.unwrap().0[..] {
            let prefix = &name[..name.len() - 10];
            let again = |dir| b.create(format!("{dir}/{prefix}"), "").ephemeral().sequential();
            b.multi().add(again("/locks/x")).add(again("/locks/y")).commit().await.unwrap();
            b.delete(format!("/locks/x/{name}")).await.unwrap();
        }
        // There may have been fewer listings.
        let _ = fixture.unfreeze_all().await;
        match acquiring.await.unwrap() {
            Ok(guard) => guard.verify().await.unwrap(),
            Err(error) => {
                assert!(matches!(error, LockError::NodeDeleted { .. }), "{error}");
                evicted += 1;
            }
        }
        settle(|| async { b.get_children("/locks/x").await.unwrap().0.is_empty() }).await;
        settle(|| async { b.get_children("/locks/y").await.unwrap().0.is_empty() }).await;
    }
    assert!(evicted > 0, "no listing came after two creates");
}

#[tokio::test(start_paused = true)]
async fn observers_see_the_leader_and_every_change() {
    let world = world().await;
    let (a, b, c) = (world.client().await, world.client().await, world.client().await);
    let mut leaders = Election::new(&c, DIR).observe();
    assert_eq!(leaders.next().await.unwrap().unwrap(), None);
    let first = Election::new(&a, DIR).campaign("a:1").await.unwrap();
    let seen = leaders.next().await.unwrap().unwrap().unwrap();
    assert_eq!((seen.data, seen.token, seen.session), ("a:1".into(), first.token(), a.session_id()));
    first.set_data("a:2").await.unwrap();
    assert_eq!(leaders.next().await.unwrap().unwrap().unwrap().data, "a:2");
    let next = Election::new(&b, DIR);
    let campaign = tokio::spawn(async move { next.campaign("b").await.unwrap() });
    let election = Election::new(&c, DIR);
    settle(|| async { election.contenders().await.unwrap().len() == 2 }).await;
    first.resign().await.unwrap();
    let second = campaign.await.unwrap();
    assert_eq!(leaders.next().await.unwrap().unwrap().unwrap().token, second.token());
    assert!(second.node().contains("-latch-"), "{}", second.node());
    b.close().await.unwrap();
    assert_eq!(leaders.next().await.unwrap().unwrap(), None);
    c.close().await.unwrap();
    let over = leaders.next().await.unwrap().unwrap_err();
    assert!(matches!(over, LockError::SessionOver { .. }), "{over}");
    assert!(leaders.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn who_stops_observing_leaves_no_watch() {
    let world = world().await;
    let (a, b) = (world.client().await, world.client().await);
    let leader = Election::new(&a, DIR).campaign("a").await.unwrap();
    let mut leaders = Election::new(&b, DIR).observe();
    leaders.next().await.unwrap().unwrap().unwrap();
    let watched = || b.check_watches(leader.node(), zoolet_client::WatcherType::Any);
    settle(|| async { watched().await.unwrap() }).await;
    drop(leaders);
    settle(|| async { !watched().await.unwrap() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_can_be_asked_for_its_lock_and_decides_itself() {
    let world = world().await;
    let (a, b) = (world.client().await, world.client().await);
    let (one, two) = (Lock::new(&a, DIR), Lock::new(&b, DIR));
    let guard = one.acquire().data("mine").await.unwrap();
    let asked = tokio::spawn(guard.revoke_requested());
    let next = tokio::spawn({
        let two = two.clone();
        async move { two.acquire().await.unwrap().token() }
    });
    settle(|| async { two.contenders().await.unwrap().len() == 2 }).await;
    guard.set_data("still mine").await.unwrap();
    settle(|| async { two.contenders().await.unwrap()[0].data == "still mine" }).await;
    assert!(!asked.is_finished(), "not every change of its data is a request");
    let holder = two.contenders().await.unwrap().remove(0);
    revoke(&b, &holder).await.unwrap();
    asked.await.unwrap();
    guard.verify().await.unwrap();
    assert!(!next.is_finished());
    guard.release().await.unwrap();
    next.await.unwrap();
    let gone = revoke(&b, &holder).await.unwrap_err();
    assert!(matches!(gone, LockError::NodeDeleted { .. }), "{gone}");
}

#[tokio::test(start_paused = true)]
async fn a_session_timeout_that_is_unsafe_on_an_ensemble_gives_one_warning() {
    let world = world().await;
    let client = world.client().await;
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&warnings);
    let builder = Lock::builder(&client, DIR).ensemble(Duration::from_secs(2), 5);
    let lock = builder.on_warning(move |warning| reported.lock().unwrap().push(warning.clone())).build();
    lock.acquire().await.unwrap().release().await.unwrap();
    lock.clone().acquire().await.unwrap().release().await.unwrap();
    let (timeout, least) = (client.session_timeout(), Duration::from_secs(11));
    assert_eq!(*warnings.lock().unwrap(), [LockWarning::TimeoutUnsafe { timeout, least }]);

    let reported = Arc::clone(&warnings);
    let builder = Lock::builder(&client, DIR).ensemble(Duration::from_millis(200), 5);
    let safe = builder.on_warning(move |warning| reported.lock().unwrap().push(warning.clone())).build();
    safe.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(warnings.lock().unwrap().len(), 1);
}
