//! Readers and writers.

use std::time::Duration;

use tokio::task::JoinHandle;
use zoolet_client::{Client, WatcherType};
use zoolet_recipes::{LockError, Markers, ReadGuard, RwLock, WriteGuard, revoke};

use crate::common::{DIR, World, at_once, queue, settle, world};

async fn contender(world: &World) -> (Client, RwLock) {
    let client = world.client().await;
    let lock = RwLock::new(&client, DIR);
    (client, lock)
}

/// A writer that waits in the queue.
async fn writer(world: &World) -> JoinHandle<WriteGuard> {
    let (client, lock) = contender(world).await;
    let before = queue(&client).await.len();
    let waiting = tokio::spawn(async move { lock.write().await.unwrap() });
    settle(|| async { queue(&client).await.len() > before }).await;
    waiting
}

/// A reader that waits in the queue.
async fn reader(world: &World) -> JoinHandle<ReadGuard> {
    let (client, lock) = contender(world).await;
    let before = queue(&client).await.len();
    let waiting = tokio::spawn(async move { lock.read().await.unwrap() });
    settle(|| async { queue(&client).await.len() > before }).await;
    waiting
}

async fn quiet() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn readers_share_and_a_writer_is_alone() {
    let world = world().await;
    let first = reader(&world).await.await.unwrap();
    let second = reader(&world).await.await.unwrap();
    let write = writer(&world).await;
    let late = reader(&world).await;
    quiet().await;
    assert!(!write.is_finished(), "two read");
    assert!(!late.is_finished(), "a writer waits in front");
    first.release().await.unwrap();
    quiet().await;
    assert!(!write.is_finished(), "one reads");
    second.release().await.unwrap();
    let write = write.await.unwrap();
    quiet().await;
    assert!(!late.is_finished(), "a writer holds the lock");
    write.release().await.unwrap();
    drop(late.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_reader_watches_the_nearest_writer_in_front_and_no_other() {
    let world = world().await;
    let held = writer(&world).await.await.unwrap();
    let second = writer(&world).await;
    let (client, lock) = contender(&world).await;
    let names = queue(&client).await;
    let waiting = tokio::spawn(async move { lock.read().await.unwrap() });
    let nearest = names.iter().map(|name| format!("{DIR}/{name}")).find(|path| path != held.node()).unwrap();
    settle(|| async { client.check_watches(&nearest, WatcherType::Data).await.unwrap() }).await;
    assert!(!client.check_watches(held.node(), WatcherType::Any).await.unwrap());
    held.release().await.unwrap();
    let second = second.await.unwrap();
    assert!(!waiting.is_finished());
    second.release().await.unwrap();
    drop(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_downgraded_writer_keeps_its_token_and_its_place_in_front_of_the_next_writer() {
    let world = world().await;
    let held = writer(&world).await.await.unwrap();
    let next = writer(&world).await;
    let token = held.token();
    let reading = held.downgrade().await.unwrap();
    assert_eq!(reading.token(), token);
    assert!(reading.node().contains("__READ__"), "{}", reading.node());
    reading.verify().await.unwrap();
    quiet().await;
    assert!(!next.is_finished(), "somebody reads");
    reading.release().await.unwrap();
    assert!(next.await.unwrap().token() > token);
}

#[tokio::test(start_paused = true)]
async fn readers_right_after_a_writer_read_too_once_it_is_downgraded() {
    let world = world().await;
    let held = writer(&world).await.await.unwrap();
    let later = reader(&world).await;
    let last = writer(&world).await;
    let reading = held.downgrade().await.unwrap();
    let later = later.await.unwrap();
    drop(reading);
    quiet().await;
    assert!(!last.is_finished());
    drop(later);
    drop(last.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_only_reader_can_become_the_writer() {
    let world = world().await;
    let reading = reader(&world).await.await.unwrap();
    let token = reading.token();
    let writing = reading.try_upgrade().await.unwrap();
    assert!(writing.token() > token);
    assert!(writing.node().contains("__WRIT__"), "{}", writing.node());
    writing.verify().await.unwrap();
    let late = reader(&world).await;
    quiet().await;
    assert!(!late.is_finished());
    // And back, and forth again.
    let reading = writing.downgrade().await.unwrap();
    let late = late.await.unwrap();
    late.release().await.unwrap();
    let writing = reading.try_upgrade().await.unwrap();
    writing.release().await.unwrap();
    let (client, _) = contender(&world).await;
    assert_eq!(queue(&client).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn neither_of_two_readers_becomes_the_writer_and_both_keep_reading() {
    let world = world().await;
    let first = reader(&world).await.await.unwrap();
    let second = reader(&world).await.await.unwrap();
    let (first, refused) = first.try_upgrade().await.unwrap_err();
    assert!(matches!(refused, LockError::NotAlone { .. }), "{refused}");
    let (second, refused) = second.try_upgrade().await.unwrap_err();
    assert!(matches!(refused, LockError::NotAlone { .. }), "{refused}");
    first.verify().await.unwrap();
    second.verify().await.unwrap();
    let (client, _) = contender(&world).await;
    assert_eq!(queue(&client).await.len(), 2, "a failed try leaves nothing");
    first.release().await.unwrap();
    drop(second.try_upgrade().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_reader_in_front_of_a_waiting_writer_is_not_alone() {
    let world = world().await;
    let reading = reader(&world).await.await.unwrap();
    let next = writer(&world).await;
    let (reading, refused) = reading.try_upgrade().await.unwrap_err();
    assert!(matches!(refused, LockError::NotAlone { .. }), "{refused}");
    drop(reading);
    drop(next.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lock_with_other_guards_is_not_changed() {
    let world = world().await;
    let writing = writer(&world).await.await.unwrap();
    let other = writing.reenter();
    let (writing, refused) = writing.downgrade().await.unwrap_err();
    assert!(matches!(refused, LockError::Reentered { .. }), "{refused}");
    drop(other);
    drop(writing.downgrade().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_not_changed() {
    let world = world().await;
    let (client, lock) = contender(&world).await;
    let writing = lock.write().await.unwrap();
    client.delete(writing.node()).await.unwrap();
    let (_, refused) = writing.downgrade().await.unwrap_err();
    assert!(matches!(refused, LockError::NodeDeleted { .. }), "{refused}");
    let writing = lock.write().await.unwrap();
    client.close().await.unwrap();
    writing.lost().await;
    let (_, refused) = writing.downgrade().await.unwrap_err();
    assert!(matches!(refused, LockError::NotHeld { .. }), "{refused}");
}

/// Somebody may have written in between.
#[tokio::test(start_paused = true)]
async fn a_reader_that_was_evicted_does_not_become_a_writer() {
    let world = world().await;
    let (client, lock) = contender(&world).await;
    let reading = lock.read().await.unwrap();
    client.delete(reading.node()).await.unwrap();
    lock.write().await.unwrap().release().await.unwrap();
    let (_, refused) = reading.try_upgrade().await.unwrap_err();
    assert!(matches!(refused, LockError::NodeDeleted { .. }), "{refused}");
    settle(|| async { queue(&client).await.is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn trying_to_read_or_write_never_waits() {
    let world = world().await;
    let (_a, one) = contender(&world).await;
    let (_b, two) = contender(&world).await;
    let reading = one.try_read().await.unwrap().expect("it is free");
    let also = two.try_read().await.unwrap().expect("readers share");
    assert!(two.try_write().await.unwrap().is_none());
    drop((reading, also));
    let writing = two.write().await.unwrap();
    assert!(one.try_read().await.unwrap().is_none());
    writing.release().await.unwrap();
    assert!(one.try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn kazoo_names_are_used_if_configured_also_after_a_change() {
    let world = world().await;
    let client = world.client().await;
    let lock = RwLock::builder(&client, DIR).markers(Markers::Kazoo).build();
    let reading = lock.read().await.unwrap();
    assert!(reading.node().contains("__rlock__"), "{}", reading.node());
    let writing = reading.try_upgrade().await.unwrap();
    assert!(writing.node().contains("__lock__"), "{}", writing.node());
    let reading = writing.downgrade().await.unwrap();
    assert!(reading.node().contains("__rlock__"), "{}", reading.node());
    assert_eq!(lock.contenders().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_change_releases_the_lock() {
    for polls in 1..12 {
        let world = world().await;
        let (client, lock) = contender(&world).await;
        let reading = lock.read().await.unwrap();
        let mut upgrading = Box::pin(reading.try_upgrade());
        for _ in 0..polls {
            if at_once(&mut upgrading).await.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(upgrading);
        settle(|| async { queue(&client).await.is_empty() }).await;
        let mut downgrading =
            Box::pin(lock.write().timeout(Duration::from_secs(1)).await.unwrap().downgrade());
        for _ in 0..polls {
            if at_once(&mut downgrading).await.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(downgrading);
        settle(|| async { queue(&client).await.is_empty() }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_revocation_is_noticed_also_after_a_change_of_the_lock() {
    let world = world().await;
    let (client, lock) = contender(&world).await;
    let (reading, writing) = (lock.read().await.unwrap(), RwLock::new(&client, "/locks/other"));
    let writing = writing.write().await.unwrap();
    let asked = [reading.revoke_requested(), writing.revoke_requested()].map(tokio::spawn);
    quiet().await;
    let (writing, reading) = (reading.try_upgrade().await.unwrap(), writing.downgrade().await.unwrap());
    quiet().await;
    assert!(asked.iter().all(|asked| !asked.is_finished()));
    for (asked, dir) in asked.into_iter().zip([DIR, "/locks/other"]) {
        let contenders = RwLock::new(&client, dir).contenders().await.unwrap();
        revoke(&client, &contenders[0]).await.unwrap();
        settle(|| async { asked.is_finished() }).await;
    }
    drop((writing, reading));
}

/// Its name ends like that of a reader.
#[tokio::test(start_paused = true)]
async fn a_reader_waits_for_a_child_whose_name_is_a_word_that_ends_in_read() {
    let world = world().await;
    let (zk, lock) = contender(&world).await;
    zk.create("/locks", "").await.unwrap();
    zk.create(DIR, "").await.unwrap();
    let thread = zk.create(format!("{DIR}/thread-"), "").ephemeral().sequential().await.unwrap();
    let waiting = tokio::spawn(async move { lock.read().await.unwrap() });
    settle(|| async { queue(&zk).await.len() == 2 }).await;
    quiet().await;
    assert!(!waiting.is_finished());
    zk.delete(thread.path).await.unwrap();
    drop(waiting.await.unwrap());
}

/// Such a name hides the number of its znode, so that the transactions of two contenders have to show which of them came
/// first; but that of a writer that became a reader is a late one.
#[tokio::test(start_paused = true)]
async fn no_writer_enters_beside_a_reader_that_was_a_writer_whatever_else_is_in_the_directory() {
    for markers in [Markers::Curator, Markers::Kazoo] {
        for odd in ["job-202611221", "x-0000000001", "lock-2147483647"] {
            let world = world().await;
            let (zk, other) = (world.client().await, world.client().await);
            let held = RwLock::builder(&zk, DIR).markers(markers).build().write().await.unwrap();
            let next = RwLock::builder(&other, DIR).markers(markers).build();
            let next = tokio::spawn(async move { next.write().await.unwrap() });
            settle(|| async { queue(&zk).await.len() == 2 }).await;
            let odd = format!("{DIR}/{odd}");
            zk.create(&odd, "").await.unwrap();
            let reading = held.downgrade().await.unwrap();
            quiet().await;
            assert!(!next.is_finished(), "{markers:?} {odd}");
            reading.release().await.unwrap();
            zk.delete(&odd).await.unwrap();
            next.await.unwrap().verify().await.unwrap();
        }
    }
}

/// Curator's writers read under their own number.
#[tokio::test(start_paused = true)]
async fn no_writer_enters_beside_the_reader_inside_a_writer_of_curator() {
    let world = world().await;
    let zk = world.client().await;
    zk.create("/locks", "").await.unwrap();
    zk.create(DIR, "").await.unwrap();
    let named = |guid: u8, marker| format!("{DIR}/_c_{guid:08x}-0000-4000-8000-000000000000-{marker}");
    let writing = zk.create(named(1, "__WRIT__"), "").ephemeral().sequential().await.unwrap();
    let next = writer(&world).await;
    let reading = named(2, "__READ__0000000000");
    zk.create(&reading, "").ephemeral().await.unwrap();
    zk.create(format!("{DIR}/job-202611221"), "").await.unwrap();
    zk.delete(&writing.path).await.unwrap();
    quiet().await;
    assert!(!next.is_finished());
    zk.delete(&reading).await.unwrap();
    next.await.unwrap().verify().await.unwrap();
}

/// Both odd children are older than the writer, and one has a higher number than the reader, which must not bring the reader
/// in front of the writer.
#[tokio::test(start_paused = true)]
async fn no_reader_overtakes_a_writer_whatever_else_is_in_the_directory() {
    let world = world().await;
    let zk = world.client().await;
    zk.create("/locks", "").await.unwrap();
    zk.create(DIR, "").await.unwrap();
    let backup = format!("{DIR}/backup-0000000500");
    zk.create(&backup, "").await.unwrap();
    let held = writer(&world).await.await.unwrap();
    zk.create(format!("{DIR}/job-202611221"), "").await.unwrap();
    let late = reader(&world).await;
    quiet().await;
    assert!(!late.is_finished());
    // The order is the same once the odd child is gone.
    zk.delete(format!("{DIR}/job-202611221")).await.unwrap();
    quiet().await;
    assert!(!late.is_finished());
    held.release().await.unwrap();
    drop(late.await.unwrap());
}
