//! What others do at every moment of the life of a cache.

use zoolet::recipes::CacheChange;
use zoolet::testing::{create, request};
use zoolet::{AddWatchMode, Cache};
use zoolet_test_support::{Dice, secs};

use super::{AGES, Age, World, idle, put};

/// The writes of race 1, 2 and 3: of what has been read, of what is being read, and of what is still to be read.
async fn disturb(world: &World, kind: usize) {
    let zk = &world.writer;
    match kind {
        0 => drop(zk.set_data("/r/a", "new").await.unwrap()),
        1 => zk.delete_recursive("/r/a").await.unwrap(),
        2 => put(zk, "/r/a/new/deep", "x").await,
        // Another directory with as many children, and the same data, in one transaction.
        3 => drop(
            zk.multi()
                .delete("/r/a/x")
                .delete("/r/a/y")
                .delete("/r/a")
                .create("/r/a", "a")
                .create("/r/a/y", "y")
                .create("/r/a/z", "z")
                .await
                .unwrap(),
        ),
        4 => zk.delete_recursive("/r").await.unwrap(),
        5 => {
            zk.delete_recursive("/r").await.unwrap();
            put(zk, "/r/b/c", "again").await;
        }
        _ => {
            zk.set_data("/r/b", "changed before it is listed").await.unwrap();
            put(zk, "/r/b/late", "").await;
        }
    }
}

async fn plant(world: &World) {
    for path in ["/r/a/x", "/r/a/y", "/r/b/c/d", "/r/e"] {
        put(&world.writer, path, path.rsplit('/').next().unwrap()).await;
    }
}

#[tokio::test]
async fn race_1_2_3_changes_at_every_request_of_the_walk_before_and_after_its_execution() {
    for age in AGES {
        for kind in 0..7 {
            for nth in 1..20 {
                for executed in [false, true] {
                    let world = World::start(age).await;
                    plant(&world).await;
                    let session = world.session().await;
                    let fault = world.zk.faults().on(request().session(session).nth(nth));
                    match executed {
                        false => fault.delay_request(secs(1)).unwrap(),
                        true => fault.delay_reply(secs(1)).unwrap(),
                    };
                    let opening = tokio::spawn(Cache::builder(&world.sessions, "/r").open());
                    idle(&world.zk).await.unwrap();
                    if world.zk.faults().fired().is_empty() {
                        assert!(nth > 8, "it has read more than that");
                        break;
                    }
                    disturb(&world, kind).await;
                    let cache = world.time(opening).await.unwrap().unwrap();
                    world.check(&cache, "/r").await;
                }
            }
        }
    }
}

#[tokio::test]
async fn race_4_znodes_that_are_created_again_with_equal_versions_while_disconnected_are_noticed() {
    for age in AGES {
        let world = World::start(age).await;
        put(&world.writer, "/r/node", "v1").await;
        put(&world.writer, "/r/dir/a", "").await;
        let cache = world.open("/r").await;
        let before = cache.snapshot();
        let mut changes = cache.changes_since(&before);
        world
            .while_disconnected(async {
                let zk = &world.writer;
                zk.delete("/r/node").await.unwrap();
                zk.create("/r/node", "v2").await.unwrap();
                zk.delete_recursive("/r/dir").await.unwrap();
                put(zk, "/r/dir/b", "").await;
            })
            .await;
        world.check(&cache, "/r").await;
        let after = cache.snapshot();
        for path in ["/r/node", "/r/dir"] {
            let (old, new) = (before.get(path).unwrap().stat(), after.get(path).unwrap().stat());
            assert_eq!(old.version, new.version, "{path}: what others compare says nothing");
        }
        let cversion = |path: &str| world.zk.get(path).unwrap().stat.cversion;
        assert_eq!(cversion("/r/dir"), before.get("/r/dir").unwrap().stat().cversion);
        let mut seen = Vec::new();
        while let Some(change) = world.time(changes.next()).await {
            seen.push(format!("{change:?}"));
            if matches!(change, CacheChange::Restored { .. }) {
                break;
            }
        }
        let (stale, changes) = seen.split_first().unwrap();
        assert!(stale.starts_with("Stale"), "{stale}");
        assert_eq!(
            changes[..changes.len() - 1],
            [
                "Deleted(/r/node)",
                "Deleted(/r/dir/a)",
                "Deleted(/r/dir)",
                "Created(/r/node)",
                "Created(/r/dir)",
                "Created(/r/dir/b)",
            ]
        );
    }
}

#[tokio::test]
async fn race_5_the_root_comes_and_goes() {
    for age in AGES {
        for chroot in [false, true] {
            let world = World::start(age).await;
            let (root, seen) = if chroot { ("/app/r", "/r") } else { ("/r", "/r") };
            let sessions = match chroot {
                true => {
                    zoolet::Sessions::open(world.zk.options().chroot("/app"), world.zk.connector()).unwrap()
                }
                false => world.sessions.clone(),
            };
            let cache = world.time(Cache::builder(&sessions, "/r").open()).await.unwrap();
            let count = async |expected: usize| {
                let fresh = world.time(cache.fresh()).await.unwrap();
                assert_eq!(fresh.len(), expected, "{age:?} {chroot} {fresh:?}");
                assert_eq!(fresh.contains(seen), expected > 0);
            };
            count(0).await;
            put(&world.writer, &format!("{root}/a/b"), "").await;
            count(3).await;
            world.writer.delete_recursive(root).await.unwrap();
            count(0).await;
            put(&world.writer, root, "").await;
            count(1).await;
            world.writer.delete_recursive(if chroot { "/app" } else { root }).await.unwrap();
            count(0).await;
            put(&world.writer, &format!("{root}/c"), "").await;
            count(2).await;
        }
    }
}

#[tokio::test]
async fn race_9_a_cache_that_is_dropped_at_any_request_leaves_no_watch() {
    for nth in 1..20 {
        let world = World::start(Age::New).await;
        plant(&world).await;
        let session = world.session().await;
        world.zk.faults().on(request().session(session).nth(nth)).delay_reply(secs(1)).unwrap();
        let opening = tokio::spawn(Cache::builder(&world.sessions, "/r").open());
        idle(&world.zk).await.unwrap();
        opening.abort();
        // It may be open already.
        drop(opening);
        world.zk.advance(secs(2)).await.unwrap();
        assert_eq!(world.zk.watches(), [], "dropped at request {nth}");
    }
    let world = World::start(Age::New).await;
    let cache = world.open("/r").await;
    assert_eq!(world.zk.watches().len(), 1);
    let other = cache.clone();
    drop(cache);
    idle(&world.zk).await.unwrap();
    assert_eq!(world.zk.watches().len(), 1);
    let mut changes = other.changes();
    drop(other);
    idle(&world.zk).await.unwrap();
    assert_eq!(world.zk.watches(), []);
    while let Some(change) = changes.next().await {
        assert!(matches!(change, CacheChange::Initialized { .. }), "{change:?}");
    }
}

#[tokio::test]
async fn race_11_what_vanishes_by_itself_vanishes_from_the_cache() {
    for age in AGES {
        let world = World::start(age).await;
        put(&world.writer, "/r", "").await;
        let cache = world.open("/r").await;
        let dying = world.zk.client().await;
        dying.create("/r/ephemeral", "").ephemeral().await.unwrap();
        world.writer.create("/r/container", "").container().await.unwrap();
        put(&world.writer, "/r/container/child", "").await;
        world.check(&cache, "/r").await;
        assert_eq!(cache.snapshot().len(), 4);
        world.zk.expire_session(dying.session_id()).await.unwrap();
        world.writer.delete("/r/container/child").await.unwrap();
        world.zk.advance(secs(300)).await.unwrap();
        world.check(&cache, "/r").await;
        assert_eq!(cache.snapshot().len(), 1);
    }
}

/// Race 12. A writer moves a token by multi; the connection is cut again and again.
#[tokio::test]
async fn race_12_every_snapshot_has_the_token_that_a_writer_moves_exactly_once() {
    for (seed, age) in [(1, Age::New), (2, Age::New), (3, Age::Old), (4, Age::Old)] {
        let world = World::start(age).await;
        for place in 0..10 {
            put(&world.writer, &format!("/r/{place}"), "").await;
        }
        world.writer.set_data("/r/0", "token").await.unwrap();
        let cache = world.open("/r").await;
        let mut changes = cache.changes();
        let (mut dice, mut at, mut seen) = (Dice::new(seed), 0, 0);
        for _ in 0..300 {
            let to = dice.below(10);
            let (from, next) = (format!("/r/{at}"), format!("/r/{to}"));
            let moves = world.writer.multi().set_data(from, "").set_data(next, "token");
            let moves = match dice.chance(30) {
                // By deleting and creating it.
                true => moves.delete(format!("/r/{to}")).create(format!("/r/{to}"), "token"),
                false => moves,
            };
            moves.await.unwrap();
            at = to;
            match dice.below(10) {
                0 => world.zk.disconnect(world.session().await).await.unwrap(),
                1 => world.zk.advance(secs(1)).await.unwrap(),
                _ => tokio::task::yield_now().await,
            }
            while let Some(_change) = poll(changes.next()) {
                let snapshot = changes.snapshot();
                let tokens = snapshot.iter().filter(|entry| entry.value().unwrap() == "token").count();
                assert_eq!(tokens, 1, "seed {seed}, as of {}", snapshot.as_of());
                seen += 1;
            }
        }
        world.check(&cache, "/r").await;
        assert!(seen > 300, "{seen}");
    }
}

fn poll<F: Future<Output = Option<T>>, T>(future: F) -> Option<T> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(item) => item,
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn race_13_a_cache_that_is_asked_for_it_has_what_another_session_has_written() {
    for age in AGES {
        let world = World::start(age).await;
        put(&world.writer, "/r", "").await;
        let cache = world.open("/r").await;
        let (written, zxid) = world.writer.set_data("/r", "v2").send().with_zxid().await;
        written.unwrap();
        let snapshot = world.time(cache.at_least(zxid.unwrap())).await.unwrap();
        assert_eq!(snapshot.get("/r").unwrap().value().unwrap(), "v2");
        // Elsewhere: no event comes, and the zxid is reached all the same.
        let (written, zxid) = world.writer.set_data("/", "").send().with_zxid().await;
        written.unwrap();
        assert!(world.time(cache.at_least(zxid.unwrap())).await.unwrap().as_of() >= zxid.unwrap());
        world.writer.set_data("/r", "v3").await.unwrap();
        let fresh = world.time(cache.fresh()).await.unwrap();
        assert_eq!(fresh.get("/r").unwrap().value().unwrap(), "v3");
        // By the same session: the event comes before the reply.
        let own = world.sessions.client().await.unwrap();
        own.set_data("/r", "v4").await.unwrap();
        let own = world.time(cache.at_least(own.last_zxid())).await.unwrap();
        assert_eq!(own.get("/r").unwrap().value().unwrap(), "v4");
    }
}

#[tokio::test]
async fn race_14_caches_with_overlapping_roots_and_watches_of_the_user_do_not_disturb_each_other() {
    for age in AGES {
        let world = World::start(age).await;
        plant(&world).await;
        let (outer, inner) = (world.open("/r").await, world.open("/r/b").await);
        let zk = world.sessions.client().await.unwrap();
        let (_, _, watch) = zk.get_data("/r/b").watch().await.unwrap();
        let stream = zk.add_watch("/r/b", AddWatchMode::PersistentRecursive).await.ok();
        world.writer.set_data("/r/b", "new").await.unwrap();
        put(&world.writer, "/r/b/x/y", "").await;
        assert_eq!(watch.changed().await.unwrap().path, "/r/b");
        drop(stream);
        world.check(&outer, "/r").await;
        world.check(&inner, "/r/b").await;
        drop(inner);
        idle(&world.zk).await.unwrap();
        world.writer.delete("/r/b/x/y").await.unwrap();
        world.check(&outer, "/r").await;
        // Another handle of the session removes the watch that the cache lives from.
        let _ = zk.remove_watches("/r", zoolet::client::WatcherType::Any).await;
        idle(&world.zk).await.unwrap();
        world.writer.delete("/r/b/x").await.unwrap();
        world.check(&outer, "/r").await;
    }
}

#[tokio::test]
async fn a_sequence_of_creates_during_the_walk_is_complete() {
    let world = World::start(Age::New).await;
    put(&world.writer, "/r", "").await;
    world.zk.faults().on(create().path("/r/**").nth(500)).delay_request(secs(1)).unwrap();
    let creates: Vec<_> = (0..1_000).map(|_| world.writer.create("/r/n-", "").sequential().send()).collect();
    let cache = world.open("/r").await;
    for create in creates {
        world.time(create).await.unwrap();
    }
    world.check(&cache, "/r").await;
    assert_eq!(cache.snapshot().children("/r").count(), 1_000);
}
