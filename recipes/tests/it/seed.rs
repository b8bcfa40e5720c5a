//! The requests of contenders depend only on the seeds of their clients and on the clock.

use std::sync::{Arc, Mutex};

use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, Clock};
use zoolet_recipes::Lock;

use crate::common::record::Record;
use crate::common::{DIR, TIMEOUT, pass, pass_in_steps, queue, settle, world_on};

/// The number of contenders, and of waiters for the loss of one lock: enough that no two orders are equal by chance.
const MANY: usize = 12;

/// The names in the queue, what every client has sent, and in which order tasks noticed a loss.
type Outcome = (Vec<String>, Vec<Vec<u8>>, Vec<usize>);

/// Contenders of several clients, each of which acquires twice at once; the first holder loses the lock.
async fn run(seed: u64) -> Outcome {
    let world = world_on(Clock::manual()).await;
    let (mut records, mut clients) = (Vec::new(), Vec::new());
    for n in 0..MANY as u64 {
        let record = Record::default();
        let options = Client::options().session_timeout(TIMEOUT).clock(world.clock.clone());
        let connector = record.connector(world.server.in_process());
        clients.push(options.seed(seed + n).connect(connector).await.unwrap());
        records.push(record);
    }
    let guard = Lock::new(&clients[0], DIR).acquire().await.unwrap();
    let reported = Arc::<Mutex<Vec<usize>>>::default();
    for n in 0..MANY {
        let (lost, reported) = (guard.lost(), Arc::clone(&reported));
        tokio::spawn(async move {
            lost.await;
            reported.lock().unwrap().push(n);
        });
    }
    let won = Arc::<Mutex<usize>>::default();
    for client in &clients[1..] {
        for _ in 0..2 {
            let (lock, won) = (Lock::new(client, DIR), Arc::clone(&won));
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                *won.lock().unwrap() += 1;
                guard.release().await.unwrap();
            });
        }
    }
    settle(|| async { queue(&clients[1]).await.len() == 2 * MANY - 1 }).await;
    let names = queue(&clients[1]).await;
    pass_in_steps(&world.clock, TIMEOUT).await;
    clients[0].close().await.unwrap();
    settle(|| async { *won.lock().unwrap() == 2 * (MANY - 1) && reported.lock().unwrap().len() == MANY })
        .await;
    pass(&world.clock, TIMEOUT / 4).await;
    let reported = reported.lock().unwrap().clone();
    (names, records.iter().map(Record::bytes).collect(), reported)
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_one_seed_are_the_same_to_the_byte() {
    let first = run(1).await;
    assert_eq!(first.0.len(), 2 * MANY - 1);
    assert!(first.2.iter().copied().eq(0..MANY), "reported in the order of the waits: {:?}", first.2);
    for _ in 0..3 {
        assert_eq!(run(1).await, first);
    }
}

#[tokio::test(start_paused = true)]
async fn another_seed_gives_other_names_in_curators_form() {
    let (one, two) = (run(1).await.0, run(100).await.0);
    let guid = |name: &str| name["_c_".len()..][..36].to_owned();
    let mut guids: Vec<_> = one.iter().chain(&two).map(|name| guid(name)).collect();
    for guid in &guids {
        let parts: Vec<_> = guid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{guid}");
        assert!(guid[14..].starts_with('4') && guid[19..].starts_with(['8', '9', 'a', 'b']), "{guid}");
    }
    guids.sort();
    guids.dedup();
    assert_eq!(guids.len(), one.len() + two.len());
}

#[tokio::test(start_paused = true)]
async fn clients_with_one_seed_are_different_contenders() {
    let world = world_on(Clock::manual()).await;
    let (a, one) = world.lock().await;
    let (b, two) = world.lock().await;
    assert_eq!(a.random_u128(), b.random_u128());
    let held = one.acquire().await.unwrap();
    assert!(two.try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(async move { two.acquire().await.unwrap().token() });
    settle(|| async { queue(&a).await.len() == 2 }).await;
    let token = held.token();
    held.release().await.unwrap();
    assert!(waiting.await.unwrap() > token);
}
