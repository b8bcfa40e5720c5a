//! What a cache keeps: depth, filter, decoded values, no data, bounds.

use zoolet::Cache;
use zoolet::recipes::{CacheChange, CacheError};

use super::{AGES, Age, World, put};

#[tokio::test]
async fn depth_and_filter_leave_out_what_nobody_wants() {
    for age in AGES {
        let world = World::start(age).await;
        for path in ["/r/a/b/c", "/r/locks/x", "/r/d"] {
            put(&world.writer, path, "").await;
        }
        let builder = || Cache::builder(&world.sessions, "/r");
        let flat = world.time(builder().max_depth(1).open()).await.unwrap();
        let lockless = world.time(builder().filter(|path| !path.ends_with("/locks")).open()).await.unwrap();
        let alone = world.time(builder().max_depth(0).open()).await.unwrap();
        for path in ["/r/locks/y/z", "/r/a/b/d", "/r/e"] {
            put(&world.writer, path, "").await;
        }
        let mut paths = Vec::new();
        for cache in [&flat, &lockless, &alone] {
            let fresh = world.time(cache.fresh()).await.unwrap();
            paths.push(fresh.iter().map(|entry| entry.path().to_owned()).collect::<Vec<_>>());
        }
        assert_eq!(paths[0], ["/r", "/r/a", "/r/d", "/r/e", "/r/locks"]);
        assert_eq!(paths[1], ["/r", "/r/a", "/r/a/b", "/r/a/b/c", "/r/a/b/d", "/r/d", "/r/e"]);
        assert_eq!(paths[2], ["/r"]);
    }
}

#[tokio::test]
async fn a_cache_of_the_root_leaves_out_what_belongs_to_the_server() {
    let world = World::start(Age::New).await;
    put(&world.writer, "/a/b", "").await;
    let cache = world.open("/").await;
    let paths: Vec<_> = cache.snapshot().iter().map(|entry| entry.path().to_owned()).collect();
    assert_eq!(paths, ["/", "/a", "/a/b"]);
}

#[tokio::test]
async fn a_znode_that_cannot_be_decoded_is_an_error_of_that_znode() {
    let world = World::start(Age::New).await;
    put(&world.writer, "/r/good", "17").await;
    put(&world.writer, "/r/bad", "seventeen").await;
    let decoded = Cache::builder(&world.sessions, "/r")
        .decode(|path, data| match path {
            "/r" => Ok(0),
            _ => Ok(std::str::from_utf8(data)?.parse::<u32>()?),
        })
        .open();
    let cache = world.time(decoded).await.unwrap();
    let snapshot = cache.snapshot();
    assert_eq!(snapshot.get("/r/good").unwrap().value().unwrap(), &17);
    let error = snapshot.get("/r/bad").unwrap().value().unwrap_err().to_string();
    assert_eq!(error, "the data cannot be decoded: invalid digit found in string");
    world.writer.set_data("/r/bad", "18").await.unwrap();
    let fresh = world.time(cache.fresh()).await.unwrap();
    assert_eq!(fresh.get("/r/bad").unwrap().value().unwrap(), &18);
}

#[tokio::test]
async fn a_cache_without_data_reads_none() {
    let world = World::start(Age::New).await;
    put(&world.writer, "/r/a", &"x".repeat(1_000)).await;
    let cache = world.time(Cache::builder(&world.sessions, "/r").without_data().open()).await.unwrap();
    assert_eq!(cache.snapshot().get("/r/a").unwrap().stat().data_length, 1_000);
    assert_eq!(cache.snapshot().data_len(), 0);
    world.check(&cache, "/r").await;
    let gets = world.zk.counters().requests.get(&zoolet::testing::OpCode::GetData).copied();
    assert_eq!(gets.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_subtree_that_is_too_large_is_an_error_and_ends_the_cache_if_it_grows() {
    for age in AGES {
        let world = World::start(age).await;
        for n in 0..10 {
            put(&world.writer, &format!("/r/{n}"), "ten bytes.").await;
        }
        let builder = || Cache::builder(&world.sessions, "/r");
        let refused = world.time(builder().max_nodes(10).open()).await.unwrap_err();
        assert_eq!(refused.to_string(), "cache of /r: more than 10 znodes, the limit is `max_nodes`");
        let refused = world.time(builder().max_bytes(99).open()).await.unwrap_err();
        assert_eq!(refused.to_string(), "cache of /r: more than 99 bytes of data, the limit is `max_bytes`");
        let cache = world.time(builder().max_nodes(11).max_bytes(100).open()).await.unwrap();
        let mut changes = cache.changes_since(&cache.snapshot());
        put(&world.writer, "/r/one-more", "").await;
        let ended = world.time(changes.next()).await.unwrap();
        assert!(matches!(ended, CacheChange::Ended(CacheError::TooManyNodes { max: 11, .. })), "{ended:?}");
        assert!(changes.next().await.is_none());
        assert!(world.time(cache.fresh()).await.is_err());
        assert_eq!(cache.snapshot().len(), 11, "what was exact is exact");
    }
    let world = World::start(Age::New).await;
    let invalid = Cache::builder(&world.sessions, "r").open().await.unwrap_err();
    assert_eq!(invalid.to_string(), "cache r: a path must start with /; did you mean /r?");
}

#[tokio::test]
async fn a_reader_that_is_slow_gets_the_newest_state_of_each_znode() {
    let world = World::start(Age::New).await;
    put(&world.writer, "/r/a", "0").await;
    let cache = world.open("/r").await;
    let mut slow = cache.changes_since(&cache.snapshot());
    for n in 1..=300 {
        world.writer.set_data("/r/a", n.to_string()).await.unwrap();
        put(&world.writer, "/r/passing", "").await;
        world.writer.delete("/r/passing").await.unwrap();
        world.time(cache.fresh()).await.unwrap();
    }
    let change = slow.next().await.unwrap();
    let CacheChange::Changed { old, new } = change else { panic!("{change:?}") };
    assert_eq!((old.value().unwrap().as_ref(), new.value().unwrap().as_ref()), (&b"0"[..], &b"300"[..]));
    world.writer.set_data("/r/a", "last").await.unwrap();
    let change = world.time(slow.next()).await.unwrap();
    assert!(
        matches!(&change, CacheChange::Changed { new, .. } if new.value().unwrap() == "last"),
        "{change:?}"
    );
}

#[tokio::test]
async fn a_cache_ends_with_its_sessions() {
    let world = World::start(Age::New).await;
    let cache = world.open("/r").await;
    let mut changes = cache.changes_since(&cache.snapshot());
    world.time(world.sessions.close()).await;
    let error = world.time(cache.fresh()).await.unwrap_err();
    assert!(matches!(error, CacheError::SessionsEnded(_)), "{error}");
    let stale = changes.next().await.unwrap();
    assert!(matches!(stale, CacheChange::Stale { .. }), "{stale:?}");
    assert!(matches!(changes.next().await.unwrap(), CacheChange::Ended(_)));
}
