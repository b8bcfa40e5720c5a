//! What happens between two requests of one contender.

use std::time::Duration;

use tokio::time::timeout;
use zoolet_fixture::FixtureExt as _;
use zoolet_fixture::fault::request;
use zoolet_recipes::{Algorithm, Election, Lock, LockError, Semaphore};

use crate::common::{DIR, queue, settle, world};

#[tokio::test(start_paused = true)]
async fn trying_does_not_queue_behind_a_contender_that_came_after_the_look() {
    for algorithm in [Algorithm::Predecessor, Algorithm::ChildrenWatch, Algorithm::SingleNode] {
        let world = world().await;
        let lock = |client| Lock::builder(client, DIR).algorithm(algorithm).build();
        let (a, b) = (world.client().await, world.client().await);
        let (one, two) = (lock(&a), lock(&b));
        one.acquire().await.unwrap().release().await.unwrap();
        let faults = world.server.fixture().faults();
        let look = request().path(DIR).session(a.session_id()).nth(1);
        faults.on(look).delay_reply(Duration::from_millis(100)).unwrap();
        let trying = tokio::spawn(async move { one.try_acquire().await });
        settle(|| async { !faults.fired().is_empty() }).await;
        let held = two.acquire().await.unwrap();
        let tried = timeout(Duration::from_secs(1), trying).await.expect("it waits").unwrap();
        assert!(tried.unwrap().is_none(), "{algorithm:?}");
        assert_eq!(a.get_ephemerals("/").await.unwrap(), Vec::<String>::new(), "{algorithm:?}");
        held.verify().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_create_that_was_executed_twice_the_first_znode_stays_and_the_second_is_deleted() {
    let world = world().await;
    let (observer, first) = world.lock().await;
    let held = first.acquire().await.unwrap();
    let (zk, lock) = world.lock().await;
    let waiting = tokio::spawn(async move { lock.acquire().await });
    settle(|| async { queue(&observer).await.len() == 2 }).await;
    let own = zk.get_ephemerals("/").await.unwrap().remove(0);
    // A retry of the create looks like this if the first one is executed after the contender has looked for it.
    let prefix = own.trim_end_matches(|char: char| char.is_ascii_digit());
    zk.create(prefix, "").ephemeral().sequential().await.unwrap();
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(guard.node(), own);
    assert_eq!(zk.get_ephemerals("/").await.unwrap(), [own]);
    guard.release().await.unwrap();
    assert_eq!(queue(&observer).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_number_of_permits_that_has_changed_since_the_last_look_is_noticed_before_any_are_taken() {
    let world = world().await;
    let (zk, other) = (world.client().await, world.client().await);
    let three = Semaphore::new(&zk, DIR, 3);
    let differs = |refused: LockError| {
        assert!(matches!(refused, LockError::PermitsDiffer { ours: 3, theirs: 5, .. }), "{refused}");
    };
    three.acquire(1).await.unwrap().release().await.unwrap();
    // Nobody is there, and somebody creates the directory anew with another number.
    for dir in ["/locks", "/leases", ""] {
        zk.delete(format!("{DIR}{dir}")).await.unwrap();
    }
    let held = Semaphore::new(&other, DIR, 5).acquire(5).await.unwrap();
    differs(three.acquire(1).await.unwrap_err());
    held.release().await.unwrap();

    // As before, but the number changes while a contender waits in the queue.
    other.set_data(DIR, "3").await.unwrap();
    let first = Semaphore::new(&other, DIR, 3);
    let (second, held) = (first.clone(), first.acquire(3).await.unwrap());
    let ahead = tokio::spawn(async move { second.acquire(1).await });
    settle(|| async { first.contenders().await.unwrap().len() == 1 }).await;
    let last = three.clone();
    let waiting = tokio::spawn(async move { last.acquire(1).await });
    settle(|| async { first.contenders().await.unwrap().len() == 2 }).await;
    other.set_data(DIR, "5").await.unwrap();
    held.release().await.unwrap();
    let _ahead = ahead.await.unwrap().unwrap();
    differs(waiting.await.unwrap().unwrap_err());
    assert_eq!(zk.get_ephemerals("/").await.unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_a_leader_that_came_between_its_listing_and_its_watch() {
    let world = world().await;
    let (observer, candidate) = (world.client().await, world.client().await);
    let election = Election::new(&candidate, DIR);
    election.campaign("earlier").await.unwrap().resign().await.unwrap();
    let faults = world.server.fixture().faults();
    let listing = request().path(DIR).session(observer.session_id()).nth(1);
    faults.on(listing).delay_reply(Duration::from_millis(100)).unwrap();
    let mut leaders = Election::new(&observer, DIR).observe();
    settle(|| async { !faults.fired().is_empty() }).await;
    let leadership = election.campaign("now").await.unwrap();
    let soon = Duration::from_secs(1);
    assert_eq!(timeout(soon, leaders.next()).await.unwrap().unwrap().unwrap(), None, "as it was listed");
    let leader = timeout(soon, leaders.next()).await.expect("it waits").unwrap().unwrap();
    assert_eq!(leader.unwrap().path, leadership.node());
}
