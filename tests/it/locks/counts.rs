//! How many requests and events each step costs, counted by the server: exactly so many, however many wait.

use std::collections::HashMap;

use tokio::task::JoinHandle;
use zoolet::recipes::{Algorithm, MultiLock, RwLock, Semaphore};
use zoolet::testing::OpCode::{Create2, Delete, GetChildren2, GetData, Multi, RemoveWatches};
use zoolet::testing::fixture::RecordedEvent;
use zoolet::testing::{OpCode, TestServer, create};
use zoolet::{Client, Guard, Lock, SessionId};

use crate::locks::recipe::{DIR, LEASES, OTHER, QUEUE};
use crate::locks::stage::millis;

/// How many contend.
const MANY: [usize; 3] = [2, 10, 1_000];

/// A server with the directories that contenders need.
async fn test_server(dirs: &[&str]) -> TestServer {
    let zk = crate::common::test_server().start().await.unwrap();
    for dir in dirs {
        zk.set(dir, "").await.unwrap();
    }
    zk
}

/// What a session has asked for so far, pings left out.
fn asked(zk: &TestServer, client: &Client) -> Vec<OpCode> {
    zk.requests(client.session_id()).into_iter().filter_map(|entry| opcode(entry.event)).collect()
}

fn opcode(event: RecordedEvent) -> Option<OpCode> {
    match event {
        RecordedEvent::Request { op, .. } => op.filter(|op| *op != OpCode::Ping),
        _ => None,
    }
}

/// As [`asked`], of every session.
fn asked_by_all(zk: &TestServer) -> HashMap<SessionId, Vec<OpCode>> {
    let mut asked: HashMap<_, Vec<_>> = HashMap::new();
    for entry in zk.record() {
        if let (Some(session), Some(op)) = (entry.session, opcode(entry.event)) {
            asked.entry(session).or_default().push(op);
        }
    }
    asked
}

/// How many requests and events all sessions together have cost so far.
fn costs(zk: &TestServer) -> (u64, u64) {
    let counters = zk.counters();
    (counters.requests_but_pings(), counters.events)
}

type Waiter = (Client, JoinHandle<Guard>);

/// So many contenders, each with a session of its own, in the order in which they come.
async fn contenders(zk: &TestServer, count: usize, algorithm: Algorithm) -> Vec<Waiter> {
    let mut waiters = Vec::with_capacity(count);
    for _ in 0..count {
        let client = zk.client().await;
        let acquire = Lock::builder(&client, DIR).algorithm(algorithm).build().acquire();
        waiters.push((client, tokio::spawn(async move { acquire.await.unwrap() })));
        zk.wait_until_idle().await.unwrap();
    }
    waiters
}

#[tokio::test]
async fn an_acquisition_takes_two_requests_in_one_round_trip_and_a_release_one() {
    let zk = test_server(&[DIR]).await;
    let client = zk.client().await;
    zk.faults().on(create().nth(1)).delay_reply(millis(10)).unwrap();
    let acquire = Lock::new(&client, DIR).acquire();
    let acquiring = tokio::spawn(async move { acquire.await.unwrap() });
    zk.wait_until_idle().await.unwrap();
    assert_eq!(asked(&zk, &client), [Create2, GetChildren2], "the second does not wait for the first");
    zk.advance(millis(10)).await.unwrap();
    let guard = acquiring.await.unwrap();
    assert_eq!(asked(&zk, &client).len(), 2);
    guard.fenced().set_data(DIR, "fenced").commit().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(asked(&zk, &client), [Create2, GetChildren2, Multi, Delete]);
}

#[tokio::test]
async fn to_queue_up_takes_three_requests_and_to_be_handed_the_lock_one_event_and_one_read() {
    for count in MANY {
        let zk = test_server(&[DIR]).await;
        let mut waiters = contenders(&zk, count, Algorithm::Predecessor).await;
        let before = asked_by_all(&zk);
        assert_eq!(before[&waiters[0].0.session_id()], [Create2, GetChildren2]);
        for (client, _) in &waiters[1..] {
            assert_eq!(before[&client.session_id()], [Create2, GetChildren2, GetData], "of {count}");
        }
        assert_eq!(costs(&zk).1, 0, "an arrival notifies no client");
        assert_eq!(zk.watches().len(), count - 1, "one for each waiter");

        let (mut requests, mut events) = costs(&zk);
        // A session that ends costs a request, too.
        let mut served = Vec::new();
        while !waiters.is_empty() {
            let (client, holder) = waiters.remove(0);
            holder.await.unwrap().release().await.unwrap();
            zk.wait_until_idle().await.unwrap();
            // The release, and unless it was the last an event and a read.
            let handed_over = u64::from(!waiters.is_empty());
            (requests, events) = (requests + 1 + handed_over, events + handed_over);
            served.push(client);
            assert_eq!(costs(&zk), (requests, events), "no other request or event: {} wait", waiters.len());
        }
        let after = asked_by_all(&zk);
        assert_eq!(after[&served[0].session_id()], [Create2, GetChildren2, Delete]);
        for client in &served[1..] {
            let expected = [Create2, GetChildren2, GetData, GetChildren2, Delete];
            assert_eq!(after[&client.session_id()], expected, "of {count}");
        }
        assert_eq!(zk.watches(), []);
    }
}

#[tokio::test]
async fn to_give_up_takes_two_requests_and_costs_the_next_one_event_and_two_reads() {
    for count in [3, 10, 1_000] {
        let zk = test_server(&[DIR]).await;
        let waiters = contenders(&zk, count, Algorithm::Predecessor).await;
        let (requests, events) = costs(&zk);
        let middle = count / 2;
        waiters[middle].1.abort();
        zk.wait_until_idle().await.unwrap();
        let mut own = asked(&zk, &waiters[middle].0)[3..].to_vec();
        own.sort_unstable();
        let mut both = [Delete, RemoveWatches];
        both.sort_unstable();
        assert_eq!(own, both);
        if middle + 1 < count {
            assert_eq!(asked(&zk, &waiters[middle + 1].0)[3..], [GetChildren2, GetData]);
            assert_eq!(costs(&zk), (requests + 4, events + 1), "of {count}");
        }
        assert_eq!(zk.watches().len(), count - 2);
    }
}

#[tokio::test]
async fn a_single_znode_takes_one_request_and_its_release_notifies_all() {
    for count in [2, 10, 200] {
        let zk = test_server(&["/locks/ledger.epoch"]).await;
        let mut waiters = contenders(&zk, count, Algorithm::SingleNode).await;
        assert_eq!(asked(&zk, &waiters[0].0), [Multi]);
        for (client, _) in &waiters[1..] {
            assert_eq!(asked(&zk, client), [Multi, GetData]);
        }
        let (requests, events) = costs(&zk);
        let (client, holder) = waiters.remove(0);
        holder.await.unwrap().release().await.unwrap();
        zk.wait_until_idle().await.unwrap();
        assert_eq!(asked(&zk, &client), [Multi, Multi]);
        let waiting = waiters.len() as u64;
        let (tried, watch_again) = (waiting, waiting - 1);
        assert_eq!(costs(&zk), (requests + 1 + tried + watch_again, events + waiting), "of {count}");
    }
}

#[tokio::test]
async fn a_lock_that_watches_its_directory_notifies_all_of_every_change() {
    for count in [2, 10, 50] {
        let zk = test_server(&[DIR]).await;
        let mut waiters = contenders(&zk, count, Algorithm::ChildrenWatch).await;
        let arrivals: u64 = (0..count.saturating_sub(1) as u64).sum();
        assert_eq!(costs(&zk).1, arrivals, "each arrival notifies all waiters");
        let (_, holder) = waiters.remove(0);
        holder.await.unwrap().release().await.unwrap();
        zk.wait_until_idle().await.unwrap();
        assert_eq!(costs(&zk).1, arrivals + waiters.len() as u64, "and so does a release");
    }
}

#[tokio::test]
async fn a_reader_after_many_writers_is_woken_only_by_the_last_of_them() {
    let zk = test_server(&[DIR]).await;
    let mut writers = Vec::new();
    for _ in 0..10 {
        let client = zk.client().await;
        let acquire = RwLock::new(&client, DIR).write();
        writers.push((client, tokio::spawn(async move { acquire.await.unwrap() })));
        zk.wait_until_idle().await.unwrap();
    }
    let mut readers = Vec::new();
    for _ in 0..5 {
        let client = zk.client().await;
        let acquire = RwLock::new(&client, DIR).read();
        readers.push((client, tokio::spawn(async move { acquire.await.unwrap() })));
        zk.wait_until_idle().await.unwrap();
    }
    for (left, (_, writer)) in (0..10).rev().zip(writers) {
        let (_, events) = costs(&zk);
        writer.await.unwrap().release().await.unwrap();
        zk.wait_until_idle().await.unwrap();
        let woken = if left == 0 { readers.len() as u64 } else { 1 };
        assert_eq!(costs(&zk).1, events + woken, "{left} writers are left");
    }
    for (client, reader) in readers {
        let _guard = reader.await.unwrap();
        assert_eq!(asked(&zk, &client), [Create2, GetChildren2, GetData, GetChildren2]);
    }
}

#[tokio::test]
async fn several_locks_at_once_are_one_write_and_the_reads_of_each_seen_at_one_moment() {
    let zk = test_server(&[DIR, OTHER]).await;
    let client = zk.client().await;
    let guard = MultiLock::over(&client, [DIR, OTHER]).acquire().await.unwrap();
    assert_eq!(asked(&zk, &client), [Multi, GetChildren2, GetChildren2, GetChildren2]);
    guard.release().await.unwrap();
    assert_eq!(asked(&zk, &client)[4..], [Multi]);
}

#[tokio::test]
async fn a_permit_takes_six_requests_at_most_and_its_release_one() {
    let zk = test_server(&[QUEUE, LEASES]).await;
    let client = zk.client().await;
    let semaphore = Semaphore::new(&client, DIR, 2);
    let permit = semaphore.acquire(1).await.unwrap();
    // The first of them once per semaphore: whether others count on the same number. It is asked again with a place in the queue,
    // by which the directory stays what it is.
    assert_eq!(asked(&zk, &client), [GetData, Create2, GetChildren2, GetData, GetChildren2, Multi]);
    permit.release().await.unwrap();
    assert_eq!(asked(&zk, &client)[6..], [Delete]);
}
