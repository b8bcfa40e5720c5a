//! Recipes on a client that has little room for pending requests.

use std::future::IntoFuture;

use zoolet_client::Error;
use zoolet_fixture::FixtureExt as _;
use zoolet_fixture::fault::create;
use zoolet_recipes::Lock;

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
