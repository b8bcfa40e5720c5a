//! Lost connections and lost sessions at every request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use zoolet::recipes::{CacheChange, CacheError};
use zoolet::testing::{TestServer, request};
use zoolet::{Cache, Sessions, Zxid};
use zoolet_test_support::{limit, secs};

use super::{AGES, Age, World, idle, put};

async fn plant(world: &World) {
    for path in ["/r/a/x", "/r/a/y", "/r/b/c/d", "/r/e"] {
        put(&world.writer, path, "").await;
    }
}

#[tokio::test]
async fn race_6_the_connection_is_lost_at_every_request_of_a_walk_and_of_a_repair() {
    for age in AGES {
        for executed in [false, true] {
            for nth in 1..60 {
                let world = World::start(age).await;
                plant(&world).await;
                let session = world.session().await;
                let fault = world.zk.faults().on(request().session(session).nth(nth));
                match executed {
                    false => fault.drop_request().unwrap(),
                    true => fault.lose_reply().unwrap(),
                };
                let cache = world.open("/r").await;
                // New directories, whose children are being read when the connection is lost.
                put(&world.writer, "/r/new/one", "").await;
                put(&world.writer, "/r/new/two/three", "").await;
                world.disconnect().await;
                world.writer.delete_recursive("/r/b").await.unwrap();
                put(&world.writer, "/r/b/other", "").await;
                world.disconnect().await;
                world.check(&cache, "/r").await;
                let done = world.zk.faults().fired().iter().filter(|entry| entry.event.is_fault()).count();
                if done < 4 && nth > 30 {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn race_7_the_session_expires_at_every_request_and_the_cache_goes_on_in_the_next() {
    for age in AGES {
        for nth in 1..14 {
            let world = World::start(age).await;
            plant(&world).await;
            let session = world.session().await;
            world.zk.faults().on(request().session(session).nth(nth)).delay_reply(secs(1)).unwrap();
            let opening = tokio::spawn(Cache::builder(&world.sessions, "/r").open());
            idle(&world.zk).await.unwrap();
            world.zk.expire_session(session).await.unwrap();
            let cache = world.time(opening).await.unwrap().unwrap();
            world.check(&cache, "/r").await;
            let before = cache.snapshot().as_of();
            // Once more, with changes while there is no session.
            let mut changes = cache.changes_since(&cache.snapshot());
            world.zk.expire_session(world.session().await).await.unwrap();
            world.writer.set_data("/r/e", "changed").await.unwrap();
            world.check(&cache, "/r").await;
            assert!(cache.snapshot().as_of() > before, "it never goes back");
            let first = world.time(changes.next()).await.unwrap();
            assert!(matches!(first, CacheChange::Stale { .. }), "{first:?}");
            assert_eq!(cache.snapshot().epoch(), 0);
        }
    }
}

#[tokio::test]
async fn race_7_servers_that_were_restored_from_an_older_backup_are_a_reset() {
    limit();
    let (present, backup) = (TestServer::start().await, TestServer::start().await);
    for path in ["/r", "/r/old", "/r/both"] {
        let (one, other) = (present.client().await, backup.client().await);
        one.create(path, "present").await.unwrap();
        if path != "/r/old" {
            other.create(path, "backup").await.unwrap();
        }
    }
    let restored = Arc::<AtomicBool>::default();
    let connect = {
        let (restored, one, other) = (Arc::clone(&restored), present.connector(), backup.connector());
        move || if restored.load(SeqCst) { other.connect() } else { one.connect() }
    };
    // The clocks of the two servers are different ones, so that of the client is real; everything is in process.
    let options = zoolet::Client::options().session_timeout(secs(1)).connect_timeout(secs(1));
    let sessions = Sessions::open(options, connect).unwrap();
    let cache = Cache::builder(&sessions, "/r").open().await.unwrap();
    assert_eq!(cache.snapshot().len(), 3);
    let far = present.client().await.last_zxid();
    let mut changes = cache.changes_since(&cache.snapshot());
    let waiting = tokio::spawn({
        let cache = cache.clone();
        async move { cache.at_least(Zxid(far.0 + 1_000)).await }
    });
    restored.store(true, SeqCst);
    present.disconnect(sessions.client().await.unwrap().session_id()).await.unwrap();
    // Answered by the next session, before the cache has read what is there; its zxid is lower than that of the old state.
    let fresh = tokio::spawn({
        let cache = cache.clone();
        async move { cache.fresh().await }
    });
    let mut seen = Vec::new();
    loop {
        let change = changes.next().await.unwrap();
        seen.push(format!("{change:?}"));
        if matches!(change, CacheChange::Restored { .. }) {
            break;
        }
    }
    let (ends, middle) = ((&seen[0], &seen[seen.len() - 1]), &seen[1..seen.len() - 1]);
    assert!(ends.0.starts_with("Stale") && ends.1.starts_with("Restored"), "{seen:?}");
    assert_eq!(
        middle,
        ["Reset", "Deleted(/r/old)", "Deleted(/r/both)", "Deleted(/r)", "Created(/r)", "Created(/r/both)",]
    );
    assert!(matches!(waiting.await.unwrap(), Err(CacheError::Reset)));
    for snapshot in [fresh.await.unwrap().unwrap(), cache.fresh().await.unwrap()] {
        assert_eq!((snapshot.len(), snapshot.epoch()), (2, 1));
        assert_eq!(snapshot.get("/r/both").unwrap().value().unwrap(), "backup");
    }
}

#[tokio::test]
async fn race_9_a_burst_of_events_is_coalesced_into_few_reads() {
    let world = World::start(Age::New).await;
    put(&world.writer, "/r", "").await;
    let cache = world.open("/r").await;
    world.zk.freeze(world.session().await).await.unwrap();
    for n in 0..40_000 {
        world.zk.set(&format!("/r/n{}", n % 50), n.to_string()).await.unwrap();
    }
    world.zk.unfreeze(world.session().await).await.unwrap();
    world.check(&cache, "/r").await;
    assert_eq!(cache.snapshot().len(), 51);
    let gets = world.zk.counters().requests.get(&zoolet::testing::OpCode::GetData).copied();
    assert!(gets < Some(4_000), "{gets:?} for 40,000 events of 50 znodes");
}

#[tokio::test]
async fn while_there_is_no_connection_the_snapshot_stays_and_says_since_when() {
    let world = World::start(Age::New).await;
    plant(&world).await;
    let cache = world.open("/r").await;
    let before = cache.snapshot();
    let id = world.session().await;
    world.zk.refuse_connections();
    world.zk.disconnect(id).await.unwrap();
    world.writer.delete_recursive("/r").await.unwrap();
    idle(&world.zk).await.unwrap();
    let stale = cache.snapshot();
    assert!(stale.stale_since().is_some());
    assert_eq!((stale.len(), stale.as_of()), (before.len(), before.as_of()));
    world.zk.accept_connections();
    world.check(&cache, "/r").await;
    assert_eq!((cache.snapshot().len(), before.len()), (0, 8), "the old snapshot is what it was");
}
