//! Counters and shared values under faults: whatever is lost at whichever request, each call counts once.

mod random;

use std::collections::BTreeMap;
use std::time::Duration;

use zoolet::recipes::CacheChange;
use zoolet::recipes::{
    Added, Counter, CounterError, CounterLayout, SharedValue, Ticket, TicketError, Tickets,
};
use zoolet::testing::{OpCode, TestServer, op};
use zoolet::{Client, ErrorCode, Sessions};

use crate::common::test_server;
use crate::request_fault::{RequestFault, RunEnd, at_every_request, run_with_fault};

const HITS: &str = "/counters/hits";
const RECORDS: &str = "/counters/hits.tickets";

fn sessions(zk: &TestServer) -> Sessions {
    Sessions::open(zk.options(), zk.connector()).unwrap()
}

fn hits(sessions: &Sessions) -> Counter {
    Counter::new(sessions, HITS, CounterLayout::KazooText)
}

/// The records of all tickets.
fn records(zk: &TestServer) -> Vec<String> {
    let tree = zk.tree();
    let records = tree.iter().filter(|node| node.text().starts_with("zoolet-ticket/1"));
    records.map(|node| node.path.clone()).collect()
}

fn text(zk: &TestServer, path: &str) -> Option<String> {
    zk.get(path).map(|node| node.text().to_owned())
}

/// What a call may do to a counter of 5 and what it returns then.
#[derive(Debug, Clone, Copy)]
enum Call {
    Add,
    Set,
    CompareAndSet,
    /// With a number that it is not.
    CompareInVain,
}

const CALLS: [Call; 4] = [Call::Add, Call::Set, Call::CompareAndSet, Call::CompareInVain];

impl Call {
    /// The numbers before and after, as returned.
    async fn execute(self, counter: &Counter) -> Result<(i64, i64), CounterError> {
        Ok(match self {
            Self::Add => counter.add(3).await.map(both)?,
            Self::Set => (counter.set(8).await?, 8),
            Self::CompareAndSet => counter.compare_and_set(5, 8).await?.map_or_else(|is| (is, is), both),
            Self::CompareInVain => counter.compare_and_set(4, 8).await?.map_or_else(|is| (is, is), both),
        })
    }

    fn after(self) -> i64 {
        match self {
            Self::CompareInVain => 5,
            _ => 8,
        }
    }
}

fn both(added: Added) -> (i64, i64) {
    (added.before, added.after)
}

/// One call with each fault at each request, by a program that has made `calls` before.
async fn sweep(call: Call, calls: i64) -> u64 {
    at_every_request(async |fault, nth| {
        let case = format!("{call:?} after {calls}, {fault:?} at request {nth}");
        let zk = test_server().znode(HITS, (5 - calls).to_string()).start().await.unwrap();
        let sessions = sessions(&zk);
        let client = sessions.client().await.unwrap();
        let counter = hits(&sessions);
        for _ in 0..calls {
            counter.add(1).await.unwrap();
        }
        let run = {
            // It is not dropped, which would delete its records.
            let counter = counter.clone();
            async move { call.execute(&counter).await }
        };
        let end = run_with_fault(&zk, &client, fault, nth, run).await?;
        let after = text(&zk, HITS).unwrap();
        match end {
            RunEnd::Returned(returned) => {
                let returned = returned.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(returned, (5, call.after()), "{case}");
                assert_eq!(after, call.after().to_string(), "{case}");
            }
            // It crashed, and has counted or not.
            RunEnd::Unknown => {
                assert!(!fault.is_survived(), "{case}");
                assert!(after == "5" || after == call.after().to_string(), "{case}: {after}");
            }
        }
        // Nothing is in the way of the next.
        let next = hits(&crate::counters::sessions(&zk));
        let added = zk.pass_time_until(next.add(1)).await.unwrap().unwrap();
        assert_eq!(added.before.to_string(), after, "{case}");
        assert_eq!(text(&zk, HITS).unwrap(), added.after.to_string(), "{case}");
        Some(())
    })
    .await
}

#[tokio::test]
async fn each_call_counts_once_whatever_happens_at_any_of_its_requests() {
    for call in CALLS {
        let first = sweep(call, 0).await;
        // Scope, its two directories, the number, multi, partition, multi.
        assert!(first >= 5, "{first}");
        // A read and a multi that deletes the record of the call before.
        let later = sweep(call, 2).await;
        assert!(later >= 2, "{later}");
    }
}

#[tokio::test]
async fn a_call_with_a_ticket_counts_once_though_the_program_crashes_at_any_of_its_requests() {
    at_every_request(async |fault, nth| {
        let case = format!("{fault:?} at request {nth}");
        let zk = test_server().znode(HITS, "5").start().await.unwrap();
        let sessions = sessions(&zk);
        let client = sessions.client().await.unwrap();
        let counter = hits(&sessions);
        let ticket = counter.ticket().await.unwrap();
        let run = async move { counter.add_once(&ticket, 3).await };
        let end = run_with_fault(&zk, &client, fault, nth, run).await?;
        if let RunEnd::Returned(returned) = end {
            assert_eq!(both(returned.unwrap()), (5, 8), "{case}");
        }
        let next = hits(&crate::counters::sessions(&zk));
        let again = zk.pass_time_until(next.add_once(&ticket, 3)).await.unwrap().unwrap();
        assert_eq!(both(again), (5, 8), "{case}");
        assert_eq!(text(&zk, HITS).as_deref(), Some("8"), "{case}");
        Some(())
    })
    .await;
}

#[tokio::test]
async fn a_value_is_updated_once_whatever_happens_at_any_of_its_requests() {
    for compares in [false, true] {
        at_every_request(async |fault, nth| {
            let case = format!("compares: {compares}, {fault:?} at request {nth}");
            let zk = test_server().znode("/value", "a").start().await.unwrap();
            let sessions = sessions(&zk);
            let client = sessions.client().await.unwrap();
            let value = SharedValue::new(&sessions, "/value");
            let seen = value.get().await.unwrap();
            let run = async move {
                match compares {
                    false => value.update(|old| [old.unwrap(), b"b"].concat()).await.map(|()| true),
                    true => value.compare_and_set(&seen, "ab").await,
                }
            };
            let end = run_with_fault(&zk, &client, fault, nth, run).await?;
            let after = text(&zk, "/value").unwrap();
            match end {
                RunEnd::Returned(returned) => {
                    assert!(returned.unwrap(), "{case}");
                    assert_eq!(after, "ab", "{case}");
                }
                RunEnd::Unknown => assert!(["a", "ab"].contains(&&*after), "{case}: {after}"),
            }
            Some(())
        })
        .await;
    }
}

#[tokio::test]
async fn in_the_steady_state_a_call_is_a_read_and_a_multi_and_leaves_one_record() {
    let zk = test_server().start().await.unwrap();
    let sessions = sessions(&zk);
    let counter = hits(&sessions);
    for n in 1..=3 {
        assert_eq!(both(counter.add(1).await.unwrap()), (n - 1, n));
    }
    let before = zk.counters();
    assert_eq!(both(counter.add(1).await.unwrap()), (3, 4));
    let after = zk.counters();
    let sent = |code| after.requests.get(&code).unwrap_or(&0) - before.requests.get(&code).unwrap_or(&0);
    assert_eq!((sent(OpCode::GetData), sent(OpCode::Multi)), (1, 1));
    let total = |requests: &BTreeMap<OpCode, u64>| requests.values().sum::<u64>();
    assert_eq!(total(&after.requests) - total(&before.requests), 2);
    assert_eq!(records(&zk).len(), 1);
    drop(counter);
    zk.wait_until_idle().await.unwrap();
    assert_eq!(records(&zk), Vec::<String>::new(), "the last one is deleted with the handle");
    assert_eq!(zk.children(RECORDS), ["pending"], "and so is its partition");
}

#[tokio::test]
async fn partitions_of_records_that_are_gone_are_deleted() {
    let zk = test_server().start().await.unwrap();
    let sessions = sessions(&zk);
    let (one, other) = (hits(&sessions), hits(&sessions));
    for _ in 0..4 {
        for counter in [&one, &other] {
            zk.pass_time_until(counter.add(1)).await.unwrap().unwrap();
        }
        zk.wait_until_idle().await.unwrap();
        assert_eq!(zk.children(RECORDS).len(), 2, "this partition, and the list of pending ones");
        assert_eq!(records(&zk).len(), 2);
        zk.advance(Duration::from_secs(600)).await.unwrap();
    }
    assert_eq!(one.get().await.unwrap(), 8);
}

/// The record of a call whose reply was lost, with the version of its scope.
async fn record_in_doubt(zk: &TestServer, counter: &Counter, fault: RequestFault) -> (String, i32) {
    counter.add(1).await.unwrap();
    let at = zk.faults().on(op(OpCode::Multi).nth(1));
    match fault {
        RequestFault::DropRequest => at.drop_request(),
        _ => at.lose_reply(),
    }
    .unwrap();
    let first = records(zk);
    zk.pass_time_until(counter.add(1)).await.unwrap().unwrap();
    let record = records(zk).into_iter().find(|record| !first.contains(record)).unwrap();
    (record, zk.get(RECORDS).unwrap().stat.version)
}

/// Executes what a network may have kept of the call: its record, under the version of its scope, and an effect.
async fn execute_copy(client: &Client, record: &str, version: i32) -> Result<(), zoolet::Error> {
    let copy = client.multi().create(record, "").check(RECORDS, version).create("/effect", "");
    copy.commit().await.map(drop)
}

#[tokio::test]
async fn a_record_whose_reply_was_lost_stays_until_it_is_collected_so_that_no_late_copy_is_executed() {
    for fault in [RequestFault::DropRequest, RequestFault::LoseReply] {
        let zk = test_server().start().await.unwrap();
        let (sessions, client) = (sessions(&zk), zk.client().await);
        let counter = hits(&sessions);
        let (record, version) = record_in_doubt(&zk, &counter, fault).await;
        for _ in 0..8 {
            counter.add(1).await.unwrap();
        }
        let error = execute_copy(&client, &record, version).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NodeExists), "{fault:?}");
        assert_eq!(records(&zk).len(), 2, "{fault:?}: that one, and the last");

        zk.advance(Duration::from_secs(3600)).await.unwrap();
        counter.collect(Duration::from_secs(1200)).await.unwrap();
        assert_eq!(records(&zk), Vec::<String>::new());
        let error = execute_copy(&client, &record, version).await.unwrap_err();
        assert_ne!(error.code(), Some(ErrorCode::NodeExists), "{fault:?}: {error}");
        assert!(zk.get("/effect").is_none());
        // What the handle believed of its records is no obstacle.
        assert_eq!(both(zk.pass_time_until(counter.add(1)).await.unwrap().unwrap()), (10, 11));
    }
}

#[tokio::test]
async fn a_record_that_somebody_else_has_deleted_is_not_in_the_way() {
    let zk = test_server().start().await.unwrap();
    let (sessions, client) = (sessions(&zk), zk.client().await);
    let counter = hits(&sessions);
    counter.add(1).await.unwrap();
    for record in records(&zk) {
        client.delete(record).await.unwrap();
    }
    assert_eq!(both(counter.add(1).await.unwrap()), (1, 2));
    assert_eq!(records(&zk).len(), 1);
}

#[tokio::test]
async fn programs_that_count_at_the_same_time_get_different_numbers() {
    let zk = test_server().start().await.unwrap();
    let mut adding = Vec::new();
    for _ in 0..8 {
        let sessions = sessions(&zk);
        adding.push(tokio::spawn(async move {
            let counter = hits(&sessions);
            let mut numbers = Vec::new();
            for _ in 0..10 {
                numbers.push(counter.add(1).await.unwrap().after);
            }
            numbers
        }));
    }
    let mut numbers = Vec::new();
    for adding in adding {
        numbers.extend(zk.pass_time_until(adding).await.unwrap().unwrap());
    }
    numbers.sort();
    assert_eq!(numbers, (1..=80).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_number_that_does_not_fit_is_an_error_and_nothing_is_written() {
    let zk = test_server().start().await.unwrap();
    let sessions = sessions(&zk);
    let counter = Counter::new(&sessions, HITS, CounterLayout::CuratorI32);
    counter.set(i32::MAX.into()).await.unwrap();
    let mzxid = zk.get(HITS).unwrap().stat.mzxid;
    for error in [
        counter.add(1).await.map(drop).unwrap_err(),
        counter.add(i64::MAX).await.map(drop).unwrap_err(),
        counter.set(i64::MIN).await.map(drop).unwrap_err(),
        counter.compare_and_set(i32::MAX.into(), i64::MAX).await.map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, CounterError::Overflow { from: 0x7fff_ffff, .. }), "{error}");
    }
    let error = counter.add(1).await.unwrap_err().to_string();
    assert_eq!(error, "/counters/hits: 2147483648 does not fit into 32 bits; it is still 2147483647");
    assert_eq!(counter.compare_and_set(1, 2).await.unwrap(), Err(i32::MAX.into()));
    assert_eq!(zk.get(HITS).unwrap().stat.mzxid, mzxid);
}

#[tokio::test]
async fn data_that_is_not_a_counter_is_an_error_and_stays() {
    let zk = test_server().znode(HITS, "3.5").start().await.unwrap();
    let sessions = sessions(&zk);
    let counter = hits(&sessions);
    let said =
        "/counters/hits: 3 bytes that are not a counter: it is a float, and a whole number is expected";
    assert_eq!(counter.get().await.unwrap_err().to_string(), said);
    for error in [counter.add(1).await.map(drop).unwrap_err(), counter.set(1).await.map(drop).unwrap_err()] {
        assert!(matches!(&error, CounterError::Undecodable { .. }), "{error}");
        assert_eq!(error.to_string(), said);
    }
    assert_eq!(text(&zk, HITS).as_deref(), Some("3.5"));
}

#[tokio::test]
async fn an_absent_counter_is_zero_and_its_changes_are_seen_after_a_deletion_and_a_lost_session() {
    let zk = test_server().start().await.unwrap();
    let (sessions, client) = (sessions(&zk), zk.client().await);
    let counter = Counter::new(&sessions, HITS, CounterLayout::CuratorI64);
    assert_eq!(counter.get().await.unwrap(), 0);
    let cache = zk.pass_time_until(counter.cache().open()).await.unwrap().unwrap();
    let mut changes = cache.changes();
    let mut seen = Vec::new();
    for step in 0..3 {
        counter.add(5).await.unwrap();
        match step {
            0 => client.delete(HITS).await.unwrap(),
            1 => {
                let session = sessions.client().await.unwrap().session_id();
                zk.expire_session(session).await.unwrap();
            }
            _ => {}
        }
        zk.wait_until_idle().await.unwrap();
        zk.pass_time_until(cache.fresh()).await.unwrap().unwrap();
    }
    drop(cache);
    while let Some(change) = zk.pass_time_until(changes.next()).await.unwrap() {
        if let CacheChange::Created(new) | CacheChange::Changed { new, .. } = change {
            seen.push(*new.value().unwrap());
        }
    }
    assert_eq!(seen.last(), Some(&10), "{seen:?}");
}

#[tokio::test]
async fn a_ticket_that_was_used_for_another_number_is_refused() {
    let zk = test_server().start().await.unwrap();
    let sessions = sessions(&zk);
    let counter = hits(&sessions);
    let ticket: Ticket = counter.ticket().await.unwrap();
    counter.add_once(&ticket, 1).await.unwrap();
    let error = counter.add_once(&ticket, 2).await.unwrap_err();
    assert!(matches!(error, CounterError::Ticket(TicketError::OtherParameters { .. })), "{error}");
    // Whoever asks for the outcome by itself finds it.
    let tickets = Tickets::new(&zk.client().await, RECORDS);
    assert_eq!(tickets.outcome(&ticket).await.unwrap().unwrap().value, Ok("0 1".into()));
}
