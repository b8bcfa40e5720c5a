//! Recipes on a client that has little room for pending requests.

use std::future::IntoFuture;

use zoolet_client::Error;
use zoolet_fixture::fault::create;
use zoolet_fixture::{FixtureExt as _, RecordedEvent};
use zoolet_recipes::{Barrier, Lock};

use crate::common::{DIR, TIMEOUT, queue, settle, world};

#[tokio::test(start_paused = true)]
async fn a_delete_is_sent_however_many_requests_wait_for_a_reply() {
    let world = world().await;
    let zk = world.options().max_pending(1).connect(world.server.in_process()).await.unwrap();
    let guard = Lock::new(&zk, DIR).acquire().await.unwrap();
    let late = create().path("/late");
    world.server.fixture().faults().on(late).delay_reply(TIMEOUT / 2).unwrap();
    let created = zk.create("/late", "").send();
    assert!(matches!(zk.sync("/").send().await, Err(Error::QueueFull { .. })));
    drop(guard);
    // Time stands still, so the room stays full.
    let other = world.client().await;
    settle(|| async { queue(&other).await.is_empty() }).await;
    created.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_without_room_waits_for_it_and_lets_others_run() {
    let world = world().await;
    let zk = world.options().max_pending(1).connect(world.server.in_process()).await.unwrap();
    zk.create("/locks", "").await.unwrap();
    let lock = Lock::new(&zk, DIR);
    let mut many = Vec::new();
    for _ in 0..8 {
        many.push(tokio::spawn(lock.acquire().into_future()));
    }
    for acquiring in many {
        drop(acquiring.await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_barrier_without_room_is_lowered_by_what_is_seen_after_a_sync() {
    let world = world().await;
    let zk = world.options().max_pending(4_000).connect(world.server.in_process()).await.unwrap();
    let barrier = Barrier::new(&zk, "/barrier");
    barrier.raise().await.unwrap();
    let late = create().path("/late");
    world.server.fixture().faults().on(late).delay_reply(TIMEOUT / 2).unwrap();
    // While this waits, neither of the two requests has room; after it, both have at once.
    let created = zk.create("/late", vec![0; 3_300]).send();
    barrier.lower().await.unwrap();
    created.await.unwrap();
    let requests = world.server.fixture().record().into_iter().filter_map(|entry| match entry.event {
        RecordedEvent::Request { op: Some(op), paths, .. } if paths == ["/barrier"] => Some(op.name()),
        _ => None,
    });
    assert_eq!(requests.collect::<Vec<_>>(), ["sync", "exists", "delete"]);
}
