//! Queues under faults: whatever is lost at whichever request, no item is lost, stuck or done twice.

mod others;
mod random;

use std::time::Duration;

use zoolet::recipes::{Delivery, Queue, QueueError};
use zoolet::testing::{OpCode, TestServer, op};
use zoolet::{Client, Sessions};

use crate::common::test_server;
use crate::request_fault::{RequestFault, RunEnd, at_every_request, run_with_fault};

const JOBS: &str = "/jobs";
const RESULTS: &str = "/results";

fn sessions(zk: &TestServer) -> Sessions {
    Sessions::open(zk.options(), zk.connector()).unwrap()
}

async fn open(sessions: &Sessions) -> Queue {
    open_for(sessions, 3).await
}

async fn open_for(sessions: &Sessions, deliveries: u32) -> Queue {
    Queue::builder(sessions, JOBS).max_deliveries(deliveries).open().await.unwrap()
}

/// A server with a queue, these items in it, and a program that has it open.
async fn world(items: &[&str]) -> (TestServer, Sessions, Client, Queue) {
    let zk = test_server().znode(RESULTS, "").start().await.unwrap();
    let sessions = sessions(&zk);
    let client = sessions.client().await.unwrap();
    let queue = open(&sessions).await;
    for item in items {
        queue.put(item.to_string()).await.unwrap();
    }
    (zk, sessions, client, queue)
}

/// The data of the znodes in a directory of the queue, in order.
fn data(zk: &TestServer, dir: &str) -> Vec<String> {
    let dir = format!("{dir}/");
    zk.tree().iter().filter(|node| node.path.starts_with(&dir)).map(|node| node.text().to_owned()).collect()
}

fn items(zk: &TestServer) -> Vec<String> {
    data(zk, "/jobs/items")
}

fn results(zk: &TestServer) -> Vec<String> {
    let mut results = data(zk, RESULTS);
    results.sort();
    results
}

async fn finish(delivery: &mut Delivery, client: &Client) -> Result<(), QueueError> {
    let result = client.create("/results/r-", delivery.data().clone()).sequential();
    delivery.done_with([result.into()]).await
}

async fn finish_all(zk: &TestServer, case: &str) {
    finish_all_within(zk, 3, case).await;
}

/// Another program takes what there is until the queue is empty.
async fn finish_all_within(zk: &TestServer, deliveries: u32, case: &str) {
    let sessions = sessions(zk);
    let (queue, client) = (open_for(&sessions, deliveries).await, sessions.client().await.unwrap());
    let finishing = async {
        loop {
            let counts = queue.counts().await.unwrap();
            if counts.items + counts.delayed == 0 {
                break;
            }
            finish(&mut queue.take().await.unwrap(), &client).await.unwrap();
        }
    };
    zk.pass_time_until(finishing).await.unwrap_or_else(|error| panic!("{case}: {error}"));
}

#[tokio::test]
async fn an_item_is_put_once_whatever_happens_at_any_request() {
    for later in [false, true] {
        at_every_request(async |fault, nth| {
            let case = format!("{fault:?} at request {nth}, later: {later}");
            let before: &[&str] = if later { &["first"] } else { &[] };
            let (zk, _sessions, client, queue) = world(before).await;
            let put = queue.clone();
            let run = async move {
                put.put("job").await?;
                put.put("more").await
            };
            let end = run_with_fault(&zk, &client, fault, nth, run).await?;
            let put = |item: &str| items(&zk).iter().filter(|put| *put == item).count();
            match end {
                RunEnd::Returned(returned) => {
                    returned.unwrap_or_else(|error| panic!("{case}: {error}"));
                    assert_eq!((put("job"), put("more")), (1, 1), "{case}");
                }
                RunEnd::Unknown => assert!(put("more") <= put("job") && put("job") <= 1, "{case}"),
            }
            assert_eq!(put("first"), before.len(), "{case}");
            Some(())
        })
        .await;
    }
}

#[tokio::test]
async fn an_item_is_put_once_for_a_ticket_though_the_program_crashes_at_any_request() {
    at_every_request(async |fault, nth| {
        let (zk, _sessions, client, queue) = world(&[]).await;
        let ticket = queue.ticket().await.unwrap();
        let put = queue.clone();
        let run = async move { put.put("job").priority(3).once(&ticket).await };
        run_with_fault(&zk, &client, fault, nth, run).await?;
        let next = sessions(&zk);
        let again = async { open(&next).await.put("job").priority(3).once(&ticket).await };
        zk.pass_time_until(again).await.unwrap().unwrap();
        assert_eq!(items(&zk), ["job"], "{fault:?} at request {nth}");
        Some(())
    })
    .await;
}

#[tokio::test]
async fn the_writes_of_an_item_are_executed_once_whatever_happens_at_any_request() {
    let requests = at_every_request(async |fault, nth| {
        let case = format!("{fault:?} at request {nth}");
        let (zk, _sessions, client, queue) = world(&["a", "b"]).await;
        let run = {
            let (queue, client) = (queue.clone(), client.clone());
            async move {
                let mut delivery = queue.take().await?;
                finish(&mut delivery, &client).await
            }
        };
        match run_with_fault(&zk, &client, fault, nth, run).await? {
            RunEnd::Returned(returned) => {
                returned.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(results(&zk), ["a"], "{case}");
                assert_eq!(items(&zk), ["b"], "{case}");
            }
            RunEnd::Unknown => assert!(!fault.is_survived(), "{case}"),
        }
        finish_all(&zk, &case).await;
        assert_eq!(results(&zk), ["a", "b"], "{case}");
        assert_eq!(data(&zk, "/jobs/taken").len() + data(&zk, "/jobs/dead").len(), 0, "{case}");
        Some(())
    })
    .await;
    // Three listings, the item, two multis.
    assert!(requests >= 6, "{requests}");
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GiveBack {
    Nack,
    NackAfter,
    Reject,
    Drop,
}

#[tokio::test]
async fn an_item_that_is_given_back_is_there_once_whatever_happens_at_any_request() {
    use GiveBack::*;
    for way in [Nack, NackAfter, Reject, Drop] {
        at_every_request(async |fault, nth| {
            let case = format!("{way:?}, {fault:?} at request {nth}");
            let (zk, _sessions, client, queue) = world(&["a"]).await;
            let run = {
                let queue = queue.clone();
                async move {
                    let mut delivery = queue.take().await?;
                    match way {
                        Nack => delivery.nack().await,
                        NackAfter => delivery.nack_after(Duration::from_secs(5)).await,
                        Reject => delivery.reject().await,
                        Drop => Ok(()),
                    }
                }
            };
            let end = run_with_fault(&zk, &client, fault, nth, run).await?;
            zk.wait_until_idle().await.unwrap();
            if let RunEnd::Returned(returned) = end {
                returned.unwrap_or_else(|error| panic!("{case}: {error}"));
                let there = ["items", "delayed", "dead"].map(|dir| data(&zk, &format!("/jobs/{dir}")).len());
                let expected = match way {
                    Nack | Drop => [1, 0, 0],
                    NackAfter => [0, 1, 0],
                    Reject => [0, 0, 1],
                };
                assert_eq!(there, expected, "{case}");
            }
            finish_all(&zk, &case).await;
            let (done, dead) = (results(&zk), data(&zk, "/jobs/dead"));
            assert_eq!([done, dead].concat(), ["a"], "{case}");
            Some(())
        })
        .await;
    }
}

#[tokio::test]
async fn an_item_that_was_delivered_too_often_is_dead_once_whatever_happens_at_any_request() {
    at_every_request(async |fault, nth| {
        let case = format!("{fault:?} at request {nth}");
        let (zk, _sessions, client, queue) = world(&["poison"]).await;
        for deliveries in 1..=3 {
            let mut delivery = zk.pass_time_until(queue.take()).await.unwrap().unwrap();
            assert_eq!((&delivery.data()[..], delivery.deliveries()), (&b"poison"[..], deliveries));
            match deliveries {
                // The count survives a new name.
                1 => delivery.nack_after(Duration::from_secs(1)).await.unwrap(),
                _ => delivery.nack().await.unwrap(),
            }
        }
        queue.put("good").await.unwrap();
        let run = {
            let (queue, client) = (queue.clone(), client.clone());
            async move { finish(&mut queue.take().await?, &client).await }
        };
        let end = run_with_fault(&zk, &client, fault, nth, run).await?;
        if let RunEnd::Returned(returned) = end {
            returned.unwrap_or_else(|error| panic!("{case}: {error}"));
        }
        finish_all(&zk, &case).await;
        assert_eq!(results(&zk), ["good"], "{case}");
        assert_eq!(data(&zk, "/jobs/dead"), ["poison"], "{case}");
        assert_eq!(zk.children("/jobs/dead"), ["100-3-0000000000"], "{case}");
        Some(())
    })
    .await;
}

#[tokio::test]
async fn an_item_that_another_has_taken_meanwhile_is_not_given_up() {
    let (zk, _sessions, client, queue) = world(&["a"]).await;
    let gives_up = Queue::builder(&sessions(&zk), JOBS).max_deliveries(1).open().await.unwrap();
    // It has listed the item as free when it reads it, and by then it is held, at that version.
    let read = op(OpCode::GetData).path("/jobs/items/*").nth(1);
    zk.faults().on(read).delay_request(Duration::from_secs(1)).unwrap();
    let giving_up = tokio::spawn(async move { gives_up.try_take().await.map(|taken| taken.is_none()) });
    zk.wait_until_idle().await.unwrap();
    let mut delivery = queue.take().await.unwrap();
    assert!(zk.pass_time_until(giving_up).await.unwrap().unwrap().unwrap());
    finish(&mut delivery, &client).await.unwrap();
    assert_eq!(results(&zk), ["a"]);
    assert_eq!(data(&zk, "/jobs/dead"), Vec::<String>::new());
}

#[tokio::test]
async fn a_take_that_is_dropped_anywhere_leaves_no_item_stuck() {
    for polls in 1.. {
        let (zk, _sessions, _client, queue) = world(&["a"]).await;
        let done = {
            let taking = async {
                let delivery = queue.take().await.unwrap();
                drop(delivery);
            };
            crate::request_fault::polled(&zk, polls, taking).await
        };
        zk.wait_until_idle().await.unwrap();
        assert_eq!(data(&zk, "/jobs/taken"), Vec::<String>::new(), "dropped after {polls} polls");
        // Without a wait for the end of a session.
        let mut delivery = queue.try_take().await.unwrap().expect("it is there");
        delivery.done().await.unwrap();
        assert_eq!(zk.watches(), []);
        if done {
            assert!(polls > 3, "{polls}");
            return;
        }
    }
}

#[tokio::test]
async fn a_waiting_take_that_is_dropped_leaves_no_watch() {
    let (zk, _sessions, _client, queue) = world(&[]).await;
    let waiting = tokio::spawn(async move { queue.take().await });
    zk.wait_until_idle().await.unwrap();
    assert_eq!(zk.watches().len(), 2, "items and delayed ones");
    waiting.abort();
    let _ = waiting.await;
    zk.wait_until_idle().await.unwrap();
    assert_eq!(zk.watches(), []);
}

#[tokio::test]
async fn a_waiting_take_gets_what_is_put_given_back_or_due() {
    let (zk, _sessions, _client, queue) = world(&[]).await;
    let other = open(&sessions(&zk)).await;
    for way in 0..4 {
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.take().await }
        });
        zk.wait_until_idle().await.unwrap();
        match way {
            0 => other.put("a").await.unwrap(),
            // Held by another when it begins to wait.
            1 | 2 => {
                waiting.abort();
                other.put("a").await.unwrap();
                let mut held = other.take().await.unwrap();
                let waiting = tokio::spawn({
                    let queue = queue.clone();
                    async move { queue.take().await }
                });
                zk.wait_until_idle().await.unwrap();
                assert!(!waiting.is_finished());
                if way == 1 {
                    held.nack().await.unwrap()
                } else {
                    drop(held)
                }
                let mut delivery = zk.pass_time_until(waiting).await.unwrap().unwrap().unwrap();
                assert_eq!(delivery.deliveries(), 2);
                delivery.done().await.unwrap();
                continue;
            }
            _ => {
                other.put("later").delay(Duration::from_secs(90)).await.unwrap();
                zk.advance(Duration::from_secs(89)).await.unwrap();
                assert!(!waiting.is_finished());
                other.put("b").priority(0).delay(Duration::from_millis(500)).await.unwrap();
            }
        }
        let mut delivery = zk.pass_time_until(waiting).await.unwrap().unwrap().unwrap();
        assert_eq!(delivery.data(), if way == 0 { "a" } else { "b" });
        delivery.done().await.unwrap();
    }
    let mut later = zk.pass_time_until(queue.take()).await.unwrap().unwrap();
    assert_eq!(later.data(), "later");
    later.done().await.unwrap();
}

#[tokio::test]
async fn items_come_by_priority_and_age_and_keep_their_place() {
    let (zk, _sessions, _client, queue) = world(&["a", "b"]).await;
    queue.put("last").priority(2000).await.unwrap();
    queue.put("first").priority(0).await.unwrap();
    let mut taken = Vec::new();
    queue.take().await.unwrap().nack().await.unwrap();
    while let Some(mut delivery) = queue.try_take().await.unwrap() {
        taken.push(String::from_utf8(delivery.data().to_vec()).unwrap());
        delivery.done().await.unwrap();
    }
    assert_eq!(taken, ["first", "a", "b", "last"]);
    assert_eq!(items(&zk), Vec::<String>::new());
}

#[tokio::test]
async fn a_holder_that_lost_its_item_changes_nothing_and_takes_nothing_from_the_next() {
    let (zk, _sessions, client, queue) = world(&["a"]).await;
    let mut late = queue.take().await.unwrap();
    // As after the end of its session, but it does not know.
    let mark = format!("/jobs/taken/{}", zk.children("/jobs/taken")[0]);
    client.delete(mark.clone()).await.unwrap();
    let next_sessions = sessions(&zk);
    let next = open(&next_sessions).await;
    let mut present = next.take().await.unwrap();
    assert_eq!(present.deliveries(), 2);

    let error = finish(&mut late, &client).await.unwrap_err();
    assert!(matches!(error, QueueError::NotHeld { .. }), "{error}");
    let error = late.nack_after(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, QueueError::NotHeld { .. }), "{error}");
    late.nack().await.unwrap();
    drop(late);
    zk.wait_until_idle().await.unwrap();
    assert!(zk.get(&mark).is_some(), "the next one still holds it");
    finish(&mut present, &next_sessions.client().await.unwrap()).await.unwrap();
    assert_eq!(results(&zk), ["a"]);
}

#[tokio::test]
async fn unknown_a_session_that_ends_before_the_reply_and_not_held_one_that_ended_before() {
    let (zk, _sessions, client, queue) = world(&["a"]).await;
    let mut delivery = queue.take().await.unwrap();
    zk.faults().on(op(OpCode::Multi).nth(1)).freeze().unwrap();
    let finishing = tokio::spawn({
        let client = client.clone();
        async move { (finish(&mut delivery, &client).await, delivery) }
    });
    zk.wait_until_idle().await.unwrap();
    zk.expire_session(client.session_id()).await.unwrap();
    zk.unfreeze_all().await.unwrap();
    let (error, mut delivery) = zk.pass_time_until(finishing).await.unwrap().unwrap();
    let error = error.unwrap_err();
    assert!(matches!(error, QueueError::Unknown { .. }), "{error}");
    let error = delivery.done().await.unwrap_err();
    assert!(matches!(error, QueueError::NotHeld { .. }), "{error}");
    finish_all(&zk, "").await;
    assert_eq!(results(&zk), ["a"]);
}

#[tokio::test]
async fn refused_a_write_of_the_consumer_leaves_the_item_held() {
    let (zk, _sessions, client, queue) = world(&["a"]).await;
    let mut delivery = queue.take().await.unwrap();
    let error = delivery.done_with([client.create("/missing/x", "").into()]).await.unwrap_err();
    assert!(matches!(error, QueueError::Refused { .. }), "{error}");
    assert!(queue.try_take().await.unwrap().is_none(), "it is held");
    // It goes on to another queue, in one transaction.
    let next = queue.put("a2").to_write(&client);
    delivery.done_with([next]).await.unwrap();
    assert_eq!(items(&zk), ["a2"]);
    let error = delivery.done().await.unwrap_err();
    assert!(matches!(error, QueueError::NotHeld { .. }), "{error}");
}

#[tokio::test]
async fn programs_that_take_at_the_same_time_get_different_items() {
    let (zk, _sessions, _client, queue) = world(&[]).await;
    for n in 0..40 {
        queue.put(format!("{n:02}")).await.unwrap();
    }
    let mut taking = Vec::new();
    for _ in 0..4 {
        let sessions = sessions(&zk);
        taking.push(tokio::spawn(async move {
            let (queue, client) = (open(&sessions).await, sessions.client().await.unwrap());
            while let Some(mut delivery) = queue.try_take().await.unwrap() {
                assert_eq!(delivery.deliveries(), 1);
                finish(&mut delivery, &client).await.unwrap();
            }
        }));
    }
    for taking in taking {
        zk.pass_time_until(taking).await.unwrap().unwrap();
    }
    let expected: Vec<_> = (0..40).map(|n| format!("{n:02}")).collect();
    finish_all(&zk, "").await;
    assert_eq!(results(&zk), expected);
}

#[tokio::test]
async fn counts_are_those_of_the_directories() {
    let (_zk, _sessions, _client, queue) = world(&["a", "b", "c"]).await;
    queue.put("d").delay(Duration::from_secs(60)).await.unwrap();
    queue.take().await.unwrap().reject().await.unwrap();
    let _held = queue.take().await.unwrap();
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.items, counts.taken, counts.delayed, counts.dead), (2, 1, 1, 1));
}

#[tokio::test]
async fn the_faults_leave_the_queue_open() {
    for fault in [RequestFault::DropRequest, RequestFault::LoseReply] {
        for nth in 1..12 {
            let zk = test_server().start().await.unwrap();
            let sessions = sessions(&zk);
            let client = sessions.client().await.unwrap();
            let opening = {
                let sessions = sessions.clone();
                async move { Queue::builder(&sessions, "/a/b/jobs").open().await }
            };
            let end = run_with_fault(&zk, &client, fault, nth, opening).await;
            assert_eq!(zk.children("/a/b/jobs"), ["dead", "delayed", "items", "taken"], "{fault:?} {nth}");
            if end.is_none() {
                assert!(nth > 5, "{nth}");
                break;
            }
        }
    }
}
