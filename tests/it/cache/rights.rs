//! Znodes that may not be read.

use zoolet::recipes::{CacheChange, UnreadableReason};
use zoolet::{Acl, Cache, Perms, Sessions};
use zoolet_test_support::secs;

use super::{AGES, World, put};

fn readable(may: bool) -> Vec<Acl> {
    let perms = if may { Perms::ALL } else { Perms::WRITE | Perms::CREATE | Perms::DELETE | Perms::ADMIN };
    vec![Acl::new(perms, "world", "anyone")]
}

#[tokio::test]
async fn race_10_a_znode_that_may_not_be_read_is_told_and_read_once_it_may() {
    for age in AGES {
        let world = World::start(age).await;
        put(&world.writer, "/r/secret/below", "x").await;
        put(&world.writer, "/r/open", "y").await;
        world.writer.set_acl("/r/secret", readable(false)).await.unwrap();
        let cache = world.open("/r").await;
        let secret = [("/r/secret", UnreadableReason::NoAuth)];
        assert_eq!(cache.snapshot().unreadable().collect::<Vec<_>>(), secret);
        assert!(cache.snapshot().contains("/r/open") && !cache.snapshot().contains("/r/secret"));
        let mut changes = cache.changes();
        let mut seen = Vec::new();
        loop {
            let change = changes.next().await.unwrap();
            seen.push(format!("{change:?}"));
            if matches!(change, CacheChange::Initialized { .. }) {
                break;
            }
        }
        assert_eq!(seen[..3], ["Created(/r)", "Created(/r/open)", "Unreadable(/r/secret, NoAuth)"]);

        // Nobody reports that it may be read.
        world.writer.set_acl("/r/secret", readable(true)).await.unwrap();
        world.zk.advance(secs(121)).await.unwrap();
        world.check(&cache, "/r").await;
        assert_eq!(cache.snapshot().unreadable().count(), 0);
        assert!(cache.snapshot().contains("/r/secret/below"), "what was there before is found");

        // It was read, and may not be any more; a reconnect shows that.
        world.writer.set_acl("/r/secret", readable(false)).await.unwrap();
        world
            .while_disconnected(async {
                world.writer.set_data("/r/secret", "z").await.unwrap();
            })
            .await;
        let fresh = world.time(cache.fresh()).await.unwrap();
        assert_eq!(fresh.unreadable().collect::<Vec<_>>(), secret, "{age:?}");
        world.writer.delete("/r/secret/below").await.unwrap();
        world.writer.delete("/r/secret").await.unwrap();
        world.while_disconnected(async {}).await;
        let fresh = world.time(cache.fresh()).await.unwrap();
        assert_eq!((fresh.unreadable().count(), fresh.len()), (0, 2));
    }
}

#[tokio::test]
async fn race_10_a_reply_that_is_too_large_leaves_the_rest_as_it_is() {
    for age in AGES {
        let world = World::start(age).await;
        for n in 0..300 {
            world.zk.set(&format!("/r/many/child-with-a-long-name-{n}"), "").await.unwrap();
        }
        put(&world.writer, "/r/small", "").await;
        world.zk.set("/r/large", "x".repeat(8_000)).await.unwrap();
        let sessions = Sessions::open(world.zk.options().max_reply(5_000), world.zk.connector()).unwrap();
        let cache = world.time(Cache::builder(&sessions, "/r").open()).await.unwrap();
        let snapshot = cache.snapshot();
        let too_large: Vec<_> = snapshot.unreadable().collect();
        let reason = UnreadableReason::TooLarge;
        assert_eq!(too_large, [("/r/large", reason), ("/r/many", reason)]);
        assert!(
            snapshot.contains("/r/many") && snapshot.contains("/r/small") && !snapshot.contains("/r/large")
        );

        // That its data was read says nothing of its children.
        world.writer.set_data("/r/many", "changed").await.unwrap();
        let fresh = world.time(cache.fresh()).await.unwrap();
        assert_eq!(fresh.unreadable().collect::<Vec<_>>(), too_large, "{age:?}");
        for n in 0..250 {
            world.writer.delete(format!("/r/many/child-with-a-long-name-{n}")).await.unwrap();
        }
        world.writer.set_data("/r/large", "").await.unwrap();
        world.zk.advance(secs(61)).await.unwrap();
        world.check(&cache, "/r").await;
        assert_eq!(cache.snapshot().unreadable().count(), 0);
    }
}
