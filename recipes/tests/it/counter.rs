//! The end of a directory's counter at 2^31.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use zoolet_fixture::FixtureExt as _;

use zoolet_client::{Acl, Client, Perms};
use zoolet_fixture::fault::request;
use zoolet_recipes::{Compat, Lock, LockError, LockWarning, ParentMode, RwLock};

use crate::common::{DIR, World, queue, settle, world};

/// Half of the counter's range.
const HALF: u32 = 1 << 30;

/// The directory, as if so many contenders had been there.
async fn after(world: &World, contenders: u32) -> Client {
    let zk = world.client().await;
    zk.create("/locks", "").await.unwrap();
    zk.create(DIR, "kept").await.unwrap();
    world.server.fixture().set_counter(DIR, contenders).await.unwrap();
    zk
}

#[tokio::test(start_paused = true)]
async fn a_half_used_counter_gives_one_warning_and_is_reset_when_nobody_waits() {
    let world = world().await;
    let zk = after(&world, HALF + 1).await;
    zk.set_acl(DIR, Acl::open()).await.unwrap();
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&warnings);
    let lock = Lock::builder(&zk, DIR)
        .on_warning(move |warning| reported.lock().unwrap().push(warning.clone()))
        .build();
    let (one, two) = (lock.acquire().await.unwrap(), world.lock().await);
    let waiting = tokio::spawn(async move { two.1.acquire().await.unwrap() });
    settle(|| async { queue(&zk).await.len() == 2 }).await;
    one.release().await.unwrap();
    let guard = waiting.await.unwrap();
    assert!(guard.node().ends_with("1073741826"), "somebody waited: {}", guard.node());
    guard.release().await.unwrap();
    let guard = lock.acquire().await.unwrap();
    assert!(guard.node().ends_with("-lock-0000000000"), "{}", guard.node());
    assert_eq!(zk.get_data(DIR).await.unwrap().0, "kept");
    let left = HALF - 2;
    assert_eq!(*warnings.lock().unwrap(), [LockWarning::CounterLow { dir: DIR.into(), left }]);
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_must_exist_is_not_recreated() {
    let world = world().await;
    let zk = after(&world, HALF + 1).await;
    let before = zk.exists(DIR).await.unwrap().unwrap().czxid;
    let lock = Lock::builder(&zk, DIR).parent(ParentMode::MustExist).build();
    lock.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(zk.exists(DIR).await.unwrap().unwrap().czxid, before);
}

/// A server does not report which znode is a container, which it removes once it is empty.
#[tokio::test(start_paused = true)]
async fn a_recreated_directory_is_persistent_whoever_created_it() {
    let world = world().await;
    let zk = after(&world, HALF + 1).await;
    let before = zk.exists(DIR).await.unwrap().unwrap().czxid;
    let lock = Lock::new(&zk, DIR);
    for _ in 0..2 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    assert!(zk.exists(DIR).await.unwrap().unwrap().czxid > before, "it was recreated");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(zk.get_data(DIR).await.unwrap().0, "kept");
}

/// A client that may not change an ACL does not see all of it, and cannot create a directory with the same ACL.
#[tokio::test(start_paused = true)]
async fn a_directory_whose_acl_is_masked_is_not_recreated() {
    let world = world().await;
    let zk = after(&world, HALF + 1).await;
    let owner = world.client().await;
    owner.add_auth("digest", "owner:secret").await.unwrap();
    let users = Perms::READ | Perms::CREATE | Perms::DELETE;
    let acl = [Acl::creator_all(), vec![Acl::new(users, "world", "anyone")]].concat();
    owner.set_acl(DIR, acl).await.unwrap();
    let before = owner.get_acl(DIR).await.unwrap().0;
    Lock::new(&zk, DIR).acquire().await.unwrap().release().await.unwrap();
    assert_eq!(owner.get_acl(DIR).await.unwrap().0, before);
    assert_eq!(queue(&zk).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_write_to_a_directory_while_it_is_recreated_is_not_lost() {
    let world = world().await;
    let zk = after(&world, HALF + 1).await;
    let other = world.client().await;
    let guard = Lock::new(&zk, DIR).acquire().await.unwrap();
    let faults = world.server.fixture().faults();
    // After getData and getACL.
    faults.on(request().session(zk.session_id()).nth(3)).delay_request(Duration::from_secs(1)).unwrap();
    let releasing = tokio::spawn(guard.release());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!releasing.is_finished());
    other.set_data(DIR, "new").await.unwrap();
    releasing.await.unwrap().unwrap();
    assert_eq!(other.get_data(DIR).await.unwrap().0, "new");
    assert_eq!(queue(&other).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn contenders_get_their_turn_in_order_past_the_end_of_the_counter() {
    for compat in [Compat::Curator, Compat::DualKazoo] {
        let world = world().await;
        let zk = after(&world, i32::MAX as u32 - 3).await;
        let (order, tokens) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let mut tasks = Vec::new();
        for number in 0..8 {
            let client = world.client().await;
            let lock = Lock::builder(&client, DIR).compat(compat).build();
            let (order, tokens) = (Arc::clone(&order), Arc::clone(&tokens));
            tasks.push(tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                order.lock().unwrap().push(number);
                tokens.lock().unwrap().push(guard.token());
                tokio::time::sleep(Duration::from_millis(5)).await;
                guard.verify().await.unwrap();
                guard.release().await.unwrap();
            }));
            let nodes = if compat == Compat::DualKazoo { 2 } else { 1 };
            settle(|| async { queue(&zk).await.len() == (number + 1) * nodes }).await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
        assert!(tokens.lock().unwrap().is_sorted());
    }
}

/// Apache's servers at the end of the counter: every later contender has the last number, except some that are negative.
#[tokio::test(start_paused = true)]
async fn where_names_are_equal_or_negative_the_order_of_creation_decides() {
    let world = world().await;
    let zk = after(&world, 0).await;
    let name =
        |guid: u8, number: &str| format!("{DIR}/_c_{guid:08x}-0000-4000-8000-000000000000-lock-{number}");
    let names = [
        name(9, "2147483646"),
        name(3, "2147483647"),
        name(7, "-2147483648"),
        name(5, "2147483647"),
        name(1, "2147483647"),
    ];
    for path in &names {
        zk.create(path, "").ephemeral().await.unwrap();
    }
    let lock = Lock::new(&zk, DIR);
    let order: Vec<_> =
        lock.contenders().await.unwrap().into_iter().map(|contender| contender.path).collect();
    assert_eq!(order, names);
    // Our contender comes last, whatever its number.
    let (zk, lock) = (world.client().await, lock);
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    settle(|| async { queue(&zk).await.len() == 6 }).await;
    for path in &names {
        assert!(!waiting.is_finished());
        zk.delete(path).await.unwrap();
    }
    waiting.await.unwrap().verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn counter_low_when_a_writer_is_downgraded_near_the_end_of_the_counter() {
    let world = world().await;
    let zk = after(&world, HALF + 1).await;
    let writing = RwLock::new(&zk, DIR).write().await.unwrap();
    let (writing, refused) = writing.downgrade().await.unwrap_err();
    assert!(matches!(&refused, LockError::CounterLow { dir } if dir == DIR), "{refused}");
    writing.verify().await.unwrap();
    writing.release().await.unwrap();
    let writing = RwLock::new(&zk, DIR).write().await.unwrap();
    drop(writing.downgrade().await.unwrap());
}
