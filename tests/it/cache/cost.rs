//! What a cache asks of its server.

use std::collections::BTreeMap;

use zoolet::Cache;
use zoolet::testing::{OpCode, op};
use zoolet_test_support::secs;

use super::{Age, World, idle, put};

/// The requests of the cache's session by kind, without pings.
async fn requests(world: &World, since: &mut u64) -> BTreeMap<String, usize> {
    idle(&world.zk).await.unwrap();
    let mut counts = BTreeMap::new();
    for entry in world.zk.requests(world.session().await) {
        let text = format!("{:?}", entry.event);
        let kind = ["AddWatch", "GetData", "GetChildren2", "Exists", "SetWatches", "Sync", "MultiRead"]
            .into_iter()
            .find(|kind| text.contains(kind));
        if let Some(kind) = kind.filter(|_| entry.seq > *since) {
            *counts.entry(kind.to_owned()).or_default() += 1;
        }
    }
    *since = world.zk.record().last().map_or(0, |entry| entry.seq);
    counts
}

fn counts(all: &[(&str, usize)]) -> BTreeMap<String, usize> {
    all.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
}

#[tokio::test]
async fn a_walk_a_change_and_a_reconnect_cost_what_the_documentation_says() {
    let world = World::start(Age::New).await;
    // 1 + 10 + 100 znodes, 11 of which have children.
    for dir in 0..10 {
        for leaf in 0..10 {
            put(&world.writer, &format!("/r/{dir}/{leaf}"), "data").await;
        }
    }
    let mut since = 0;
    let cache = world.open("/r").await;
    let walk = [("AddWatch", 1), ("GetData", 111), ("GetChildren2", 11)];
    assert_eq!(requests(&world, &mut since).await, counts(&walk));

    world.writer.set_data("/r/1/1", "new").await.unwrap();
    assert_eq!(requests(&world, &mut since).await, counts(&[("GetData", 1)]), "one change");
    put(&world.writer, "/r/1/new", "").await;
    assert_eq!(requests(&world, &mut since).await, counts(&[("GetData", 1)]), "one child, and no listing");
    world.writer.set_data("/r/1", "").await.unwrap();
    assert_eq!(
        requests(&world, &mut since).await,
        counts(&[("GetData", 1)]),
        "its children are not read again"
    );
    world.writer.delete("/r/1/new").await.unwrap();
    assert_eq!(requests(&world, &mut since).await, counts(&[("Exists", 1)]), "for its label");

    let replies = world.zk.counters().replies;
    world.zk.disconnect(world.session().await).await.unwrap();
    world.check(&cache, "/r").await;
    let reconnect = [("AddWatch", 1), ("Exists", 111), ("Sync", 1)];
    assert_eq!(requests(&world, &mut since).await, counts(&reconnect), "no data, no names");
    assert!(world.zk.counters().replies > replies);

    world
        .while_disconnected(async {
            world.writer.set_data("/r/2/2", "new").await.unwrap();
            put(&world.writer, "/r/3/new", "").await;
        })
        .await;
    world.check(&cache, "/r").await;
    let mut repair = requests(&world, &mut since).await;
    // One is the test's own.
    *repair.get_mut("Exists").unwrap() -= 1;
    let changed = [("AddWatch", 1), ("Exists", 111), ("GetData", 2), ("GetChildren2", 1), ("Sync", 1)];
    assert_eq!(repair, counts(&changed), "what has changed, and no more");
}

#[tokio::test]
async fn a_walk_leaves_room_for_others_on_its_session() {
    let world = World::start(Age::New).await;
    put(&world.writer, "/r", "").await;
    for n in 0..1_000 {
        world.zk.set(&format!("/r/{n}"), "").await.unwrap();
    }
    let session = world.session().await;
    let slow = op(OpCode::GetData).session(session).path("/r/*").nth(1);
    world.zk.faults().on(slow).delay_reply(secs(1)).unwrap();
    let opening = tokio::spawn(Cache::builder(&world.sessions, "/r").open());
    idle(&world.zk).await.unwrap();
    let sent = world.zk.requests(session).len();
    assert!(sent <= 131, "{sent} requests before one of another caller");
    let client = world.sessions.client().await.unwrap();
    let mut other = client.create("/other", "").send();
    idle(&world.zk).await.unwrap();
    assert_eq!(world.zk.requests(session).len(), sent + 1, "it is next");
    world.time(&mut other).await.unwrap();
    world.time(opening).await.unwrap().unwrap();
}
