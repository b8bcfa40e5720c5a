//! The fair lock on connections that break at every frame of an acquisition and a release, before and after it arrives.

use std::time::Duration;

use zoolet_client::Client;
use zoolet_recipes::{HoldState, Lock};

use crate::common::relay::{Cut, Way};
use crate::common::{DIR, World, queue, settle, world};

async fn client_through(world: &World, cut: &Cut) -> Client {
    let options = Client::options().session_timeout(Duration::from_secs(4)).seed(7);
    options.connect(cut.clone().connector(world.server.in_process())).await.unwrap()
}

/// Acquires and releases through a connection that is cut at the `at`-th frame; false if it was too short for that.
async fn acquire_and_release(way: Way, at: usize, contended: bool) -> bool {
    let world = world().await;
    let (observer, first) = world.lock().await;
    let ahead = if contended { Some(first.acquire().await.unwrap()) } else { None };
    let cut = Cut::new(way, at);
    let client = client_through(&world, &cut).await;
    let lock = Lock::new(&client, DIR);
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    if let Some(ahead) = ahead {
        settle(|| async { queue(&observer).await.len() == 2 || cut.happened() }).await;
        ahead.release().await.unwrap();
    }
    let guard = acquiring.await.unwrap().unwrap_or_else(|error| panic!("{way:?} {at}: {error}"));

    let names = queue(&observer).await;
    assert_eq!(names.len(), 1, "{way:?} {at}: one contender, one znode, also after a lost reply: {names:?}");
    let stat = observer.exists(guard.node()).await.unwrap().expect("the znode of the holder");
    assert_eq!(guard.token().get(), stat.czxid.0.unsigned_abs(), "{way:?} {at}");
    assert!(!matches!(guard.state(), HoldState::Lost(_)), "{way:?} {at}");

    guard.release().await.unwrap_or_else(|error| panic!("{way:?} {at}: {error}"));
    assert_eq!(queue(&observer).await, Vec::<String>::new(), "{way:?} {at}");
    client.sync("/").await.ok();
    cut.happened()
}

async fn at_every_frame(way: Way, contended: bool) {
    // The first frame in each direction is the handshake, without which there is no client.
    let mut at = 1;
    while acquire_and_release(way, at, contended).await {
        at += 1;
    }
    assert!(at > 4, "only {at} frames {way:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_arrives_costs_nothing() {
    at_every_frame(Way::ToServer, false).await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_never_arrives_costs_nothing() {
    at_every_frame(Way::ToClient, false).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_requests_get_lost_is_still_woken() {
    at_every_frame(Way::ToServer, true).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_replies_and_events_get_lost_is_still_woken() {
    at_every_frame(Way::ToClient, true).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_acquisition_whose_replies_get_lost_leaves_nothing() {
    for at in 1..8 {
        let world = world().await;
        let (observer, first) = world.lock().await;
        let held = first.acquire().await.unwrap();
        let cut = Cut::new(Way::ToClient, at);
        let client = client_through(&world, &cut).await;
        let acquire = Lock::new(&client, DIR).acquire().timeout(Duration::from_millis(1));
        assert!(acquire.await.is_err(), "cut at {at}");
        // The session stays alive, so a leftover znode would stay.
        settle(|| async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            client.state().is_connected() && queue(&observer).await.len() == 1
        })
        .await;
        assert_eq!(client.get_ephemerals("/").await.unwrap(), Vec::<String>::new(), "cut at {at}");
        drop(held);
    }
}
