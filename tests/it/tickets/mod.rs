//! Tickets under faults: at every request of every operation the connection breaks, before it is executed and after, the
//! session expires, the program crashes; and what was to be done once is done once.

mod bank;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolet::recipes::{
    Started, Ticket, TicketDecision, TicketError, TicketOutcome, TicketTxn, Tickets, WorkError,
};
use zoolet::testing::{OpCode, TestServer, op};
use zoolet::{Client, ErrorCode, Lock};

use crate::request_fault::{RequestFault, RunEnd, at_every_request, run_with_fault};

const SCOPE: &str = "/idem/withdrawals";
const ANN: &str = "/ann";
const LOCK: &str = "/locks/ann";

async fn test_server() -> TestServer {
    crate::common::test_server().znode(ANN, "100").start().await.unwrap()
}

async fn take_30(mut txn: TicketTxn) -> Result<TicketDecision, WorkError> {
    let Some((data, _)) = txn.get_data(ANN).await? else { return Ok(txn.refuse("no account")) };
    let left = std::str::from_utf8(&data)?.parse::<u64>()? - 30;
    Ok(txn.set_data(ANN, left.to_string()).done(left.to_string()))
}

async fn withdraw(client: Client, ticket: Ticket) -> Result<TicketOutcome, TicketError> {
    Tickets::new(&client, SCOPE).run(&ticket, "take 30", take_30).await
}

async fn withdraw_under_lock(client: Client, ticket: Ticket) -> Result<TicketOutcome, TicketError> {
    let guard = match Lock::new(&client, LOCK).acquire().await {
        Ok(guard) => guard,
        Err(error) => panic!("the lock comes before the fault: {error}"),
    };
    Tickets::new(&client, SCOPE).run_under(&guard, &ticket, "take 30", take_30).await
}

/// A ticket drawn by a client that has gone.
async fn drawn(zk: &TestServer) -> Ticket {
    Tickets::new(&zk.client().await, SCOPE).generate()
}

/// A ticket drawn so long ago, according to its name.
fn drawn_ago(ticket: Ticket, ago: Duration) -> Ticket {
    let hex = ticket.to_string().replace('-', "");
    let millis = u64::from_str_radix(&hex[..12], 16).unwrap() - u64::try_from(ago.as_millis()).unwrap();
    format!("{millis:012x}{}", &hex[12..]).parse().unwrap()
}

/// The records of all tickets.
fn records(zk: &TestServer) -> Vec<String> {
    let tree = zk.tree();
    let records = tree.iter().filter(|node| node.text().starts_with("zoolet-ticket/1"));
    records.map(|node| node.text().to_owned()).collect()
}

/// Asks again by another client, which settles it.
async fn is_done_once(zk: &TestServer, ticket: Ticket, end: RunEnd<TicketOutcome, TicketError>, case: &str) {
    let client = zk.client().await;
    let settled = zk.pass_time_until(withdraw(client.clone(), ticket)).await.unwrap();
    let settled = settled.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(settled.value, Ok("70".into()), "{case}");
    assert_eq!(zk.get(ANN).unwrap().text(), "70", "{case}");
    let withdrawals = records(zk).iter().filter(|record| record.ends_with("\n70")).count();
    assert_eq!(withdrawals, 1, "{case}");
    if let RunEnd::Returned(told) = end {
        let told = told.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(told.value, settled.value, "{case}");
        assert!(told.first_time, "{case}: no other client has done it");
        assert!(!settled.first_time, "{case}");
    }
}

#[tokio::test]
async fn a_withdrawal_into_an_empty_tree_is_done_once_whatever_happens_at_any_of_its_requests() {
    let requests = at_every_request(async |fault, nth| {
        let zk = test_server().await;
        let (client, ticket) = (zk.client().await, drawn(&zk).await);
        let end = run_with_fault(&zk, &client, fault, nth, withdraw(client.clone(), ticket)).await?;
        is_done_once(&zk, ticket, end, &format!("{fault:?} at request {nth}")).await;
        Some(())
    })
    .await;
    // Scope, two directories of it, record, account, multi, bucket, multi.
    assert!(requests >= 7, "{requests}");
}

#[tokio::test]
async fn a_withdrawal_under_a_lock_is_done_once_whatever_happens_at_any_of_its_requests() {
    at_every_request(async |fault, nth| {
        let zk = test_server().await;
        let (client, ticket) = (zk.client().await, drawn(&zk).await);
        // The lock's requests have tests of their own.
        let guard = Lock::new(&client, LOCK).acquire().await.unwrap();
        let tickets = Tickets::new(&client, SCOPE);
        let run = async move { tickets.run_under(&guard, &ticket, "take 30", take_30).await };
        let end = run_with_fault(&zk, &client, fault, nth, run).await?;
        let next = zk.client().await;
        zk.pass_time_until(withdraw_under_lock(next, ticket)).await.unwrap().unwrap();
        is_done_once(&zk, ticket, end, &format!("{fault:?} at request {nth}")).await;
        Some(())
    })
    .await;
}

#[tokio::test]
async fn a_retry_returns_what_was_done_after_any_fault_at_any_request() {
    at_every_request(async |fault, nth| {
        let zk = test_server().await;
        let (client, ticket) = (zk.client().await, drawn(&zk).await);
        assert!(withdraw(zk.client().await, ticket).await.unwrap().first_time);
        let end = run_with_fault(&zk, &client, fault, nth, withdraw(client.clone(), ticket)).await?;
        if let RunEnd::Returned(told) = end {
            assert!(!told.unwrap().first_time);
        }
        is_done_once(&zk, ticket, RunEnd::Unknown, &format!("{fault:?} at request {nth}")).await;
        Some(())
    })
    .await;
}

#[tokio::test]
async fn two_copies_at_once_are_done_once_whatever_happens_to_one_of_them() {
    at_every_request(async |fault, nth| {
        let zk = test_server().await;
        let (client, other, ticket) = (zk.client().await, zk.client().await, drawn(&zk).await);
        let copy = tokio::spawn(withdraw(other, ticket));
        let end = run_with_fault(&zk, &client, fault, nth, withdraw(client.clone(), ticket)).await?;
        let copy = zk.pass_time_until(copy).await.unwrap().unwrap().unwrap();
        let case = format!("{fault:?} at request {nth}");
        if let RunEnd::Returned(told) = end {
            let told = told.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(told.first_time != copy.first_time, "{case}: one of them has done it");
        }
        is_done_once(&zk, ticket, RunEnd::Unknown, &case).await;
        Some(())
    })
    .await;
}

/// What is outside of ZooKeeper: keeps tickets with their effects, and refuses tokens lower than it has seen.
#[derive(Debug, Clone, Default)]
struct Store(Arc<Mutex<(u64, Vec<Ticket>)>>);

impl Store {
    fn pay(&self, token: u64, ticket: Ticket) -> bool {
        let (highest, paid) = &mut *self.0.lock().unwrap();
        if token < *highest {
            return false;
        }
        *highest = token;
        assert!(!paid.contains(&ticket), "a unique key");
        paid.push(ticket);
        true
    }

    fn has(&self, token: u64, ticket: Ticket) -> bool {
        let (highest, paid) = &mut *self.0.lock().unwrap();
        // A new holder is known before it is answered, so that nothing of the former one comes later.
        *highest = token.max(*highest);
        paid.contains(&ticket)
    }
}

async fn pay(client: Client, guard: zoolet::Guard, store: Store, ticket: Ticket) -> Result<(), TicketError> {
    let in_progress = match Tickets::new(&client, SCOPE).begin(&guard, &ticket, "pay 30").await? {
        Started::Settled(_) => return Ok(()),
        Started::New(in_progress) => {
            store.pay(in_progress.token().get(), ticket);
            in_progress
        }
        Started::Unfinished(in_progress) => {
            let token = in_progress.token().get();
            if !store.has(token, ticket) {
                store.pay(token, ticket);
            }
            in_progress
        }
    };
    in_progress.finish("paid").await.map(drop)
}

async fn is_paid_once(zk: &TestServer, store: &Store, ticket: Ticket, case: &str) {
    let client = zk.client().await;
    let tickets = Tickets::new(&client, SCOPE);
    let recovered = async {
        let guard = Lock::new(&client, LOCK).acquire().await.unwrap();
        for pending in tickets.pending().await.unwrap() {
            assert_eq!((pending.ticket, &pending.params[..]), (ticket, &b"pay 30"[..]), "{case}");
        }
        pay(client.clone(), guard, store.clone(), ticket).await
    };
    zk.pass_time_until(recovered).await.unwrap().unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(store.0.lock().unwrap().1, [ticket], "{case}");
    assert!(tickets.pending().await.unwrap().is_empty(), "{case}");
    assert_eq!(tickets.outcome(&ticket).await.unwrap().unwrap().value, Ok("paid".into()), "{case}");
    assert_eq!(zk.children(&format!("{SCOPE}/pending")), Vec::<String>::new(), "{case}");
}

#[tokio::test]
async fn an_effect_outside_is_brought_about_once_whatever_happens_at_any_request() {
    let requests = at_every_request(async |fault, nth| {
        let zk = test_server().await;
        let (client, ticket, store) = (zk.client().await, drawn(&zk).await, Store::default());
        let guard = Lock::new(&client, LOCK).acquire().await.unwrap();
        let paid = pay(client.clone(), guard, store.clone(), ticket);
        let end = run_with_fault(&zk, &client, fault, nth, paid).await?;
        let case = format!("{fault:?} at request {nth}");
        if let RunEnd::Returned(told) = end {
            told.unwrap_or_else(|error| panic!("{case}: {error}"));
        }
        is_paid_once(&zk, &store, ticket, &case).await;
        Some(())
    })
    .await;
    assert!(requests >= 7, "{requests}");
}

#[tokio::test]
async fn a_client_that_resumes_an_outside_effect_may_meet_the_same_faults() {
    at_every_request(async |fault, nth| {
        let zk = test_server().await;
        let (client, ticket, store) = (zk.client().await, drawn(&zk).await, Store::default());
        let gone = zk.client().await;
        let guard = Lock::new(&gone, LOCK).acquire().await.unwrap();
        let begun = Tickets::new(&gone, SCOPE).begin(&guard, &ticket, "pay 30").await.unwrap();
        assert!(matches!(begun, Started::New(_)));
        drop(begun);
        guard.release().await.unwrap();

        let guard = Lock::new(&client, LOCK).acquire().await.unwrap();
        let paid = pay(client.clone(), guard, store.clone(), ticket);
        let end = run_with_fault(&zk, &client, fault, nth, paid).await?;
        let case = format!("{fault:?} at request {nth}");
        if let RunEnd::Returned(told) = end {
            told.unwrap_or_else(|error| panic!("{case}: {error}"));
        }
        is_paid_once(&zk, &store, ticket, &case).await;
        Some(())
    })
    .await;
}

#[tokio::test]
async fn a_collection_that_breaks_off_at_any_request_is_taken_up_by_another_and_lets_nothing_through() {
    at_every_request(async |fault, nth| {
        let zk = test_server().await;
        let (client, age) = (zk.client().await, Duration::from_secs(1200));
        let [ticket, old] = [drawn_ago(drawn(&zk).await, 2 * age), drawn_ago(drawn(&zk).await, 2 * age)];
        withdraw(zk.client().await, ticket).await.unwrap();
        for times in 1..3 {
            let client = zk.client().await;
            let (tickets, other) = (Tickets::new(&client, SCOPE), drawn_ago(ticket, times * age));
            tickets.run(&other, "", |txn| async { Ok(txn.done("")) }).await.unwrap();
        }
        let tickets = Tickets::new(&client, SCOPE);
        let collect = async move { tickets.collect(age).await };
        let end = run_with_fault(&zk, &client, fault, nth, collect).await?;
        let case = format!("{fault:?} at request {nth}");
        if let RunEnd::Returned(told) = end {
            told.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(records(&zk), Vec::<String>::new(), "{case}");
        }
        // Wherever it stopped: the recorded outcome or a refusal, but no second execution.
        let late = zk.client().await;
        match zk.pass_time_until(withdraw(late.clone(), ticket)).await.unwrap() {
            Ok(outcome) => assert_eq!(outcome.value, Ok("70".into()), "{case}"),
            Err(error) => assert!(matches!(error, TicketError::Collected { .. }), "{case}: {error}"),
        }
        assert_eq!(zk.get(ANN).unwrap().text(), "70", "{case}");

        let collected = Tickets::new(&late, SCOPE).collect(age).await.unwrap();
        assert_eq!(records(&zk), Vec::<String>::new(), "{case}");
        assert_eq!(zk.children(SCOPE), ["pending"], "{case}");
        for ticket in [ticket, old] {
            let error = withdraw(late.clone(), ticket).await.unwrap_err();
            let refused =
                matches!(error, TicketError::Collected { watermark, .. } if watermark == collected.watermark);
            assert!(refused, "{case}: {error}");
        }
        assert_eq!(zk.get(ANN).unwrap().text(), "70", "{case}");
        Some(())
    })
    .await;
}

#[tokio::test]
async fn what_was_done_and_collected_before_its_reply_came_is_not_done_again_by_the_retry() {
    let zk = crate::common::test_server().znode("/payments", "").start().await.unwrap();
    let (client, age) = (zk.client().await, Duration::from_secs(1200));
    let ticket = drawn_ago(drawn(&zk).await, 2 * age);
    let tickets = Tickets::new(&client, SCOPE);
    tickets.run(&drawn_ago(ticket, age), "", |txn| async { Ok(txn.done("")) }).await.unwrap();
    // The second, as the first finds no bucket: it is done, and the next try comes after a pause.
    zk.faults().on(op(OpCode::Multi).path("/payments/*").nth(2)).lose_reply().unwrap();
    let retrying = tokio::spawn({
        let (tickets, client) = (tickets.clone(), client.clone());
        async move {
            // Reads nothing, so that nothing it has read can keep it from being done again.
            let pay = |txn: TicketTxn| {
                let payment = client.create("/payments/p-", "30").sequential();
                std::future::ready(Ok(txn.add(payment).done("")))
            };
            tickets.run(&ticket, "pay 30", pay).await
        }
    });
    zk.wait_until_idle().await.unwrap();
    assert_eq!(zk.faults().fired().len(), 1);
    assert_eq!(zk.children("/payments").len(), 1);
    // By the same handle, so that what the retry believes of the scope is new.
    assert_eq!(tickets.collect(age).await.unwrap().deleted, 2);

    let error = zk.pass_time_until(retrying).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, TicketError::Collected { .. }), "{error}");
    assert_eq!(zk.children("/payments").len(), 1);
}

#[tokio::test]
async fn unknown_when_a_reply_is_always_lost_and_the_next_run_returns_the_outcome() {
    let zk = test_server().await;
    let (client, ticket) = (zk.client().await, drawn(&zk).await);
    let tickets = Tickets::new(&client, SCOPE);
    tickets.run(&tickets.generate(), "", |txn| async { Ok(txn.done("")) }).await.unwrap();
    let fault = zk.faults().on(op(OpCode::Multi)).drop_request().unwrap();
    let began = zk.clock().now();
    let error = zk.pass_time_until(withdraw(client.clone(), ticket)).await.unwrap().unwrap_err();
    assert!(matches!(error, TicketError::Unknown { ticket: named, .. } if named == ticket), "{error}");
    assert_eq!(zk.faults().fired().len(), 16, "it is tried so often and no oftener");
    assert!(zk.clock().now() - began > Duration::from_secs(1), "with pauses in between");
    zk.faults().remove(fault);
    is_done_once(&zk, ticket, RunEnd::Unknown, "").await;
}

#[tokio::test]
async fn a_client_that_is_told_not_now_retries_after_a_pause_and_not_forever() {
    let zk = test_server().await;
    let (client, ticket) = (zk.client().await, drawn(&zk).await);
    let fault = zk.faults().on(op(OpCode::Multi)).fail(ErrorCode::ThrottledOp).unwrap();
    let began = zk.clock().now();
    let error = zk.pass_time_until(withdraw(client.clone(), ticket)).await.unwrap().unwrap_err();
    assert!(matches!(&error, TicketError::Client(error) if error.is_retryable()), "{error}");
    assert_eq!(zk.faults().fired().len(), 16);
    assert!(zk.clock().now() - began > Duration::from_secs(1));
    zk.faults().remove(fault);
    is_done_once(&zk, ticket, RunEnd::Unknown, "").await;
}

#[tokio::test]
async fn a_dropped_run_leaves_the_ticket_for_another_try_wherever_it_was() {
    for polls in 1.. {
        let zk = test_server().await;
        let (client, ticket) = (zk.client().await, drawn(&zk).await);
        let done = crate::request_fault::polled(&zk, polls, withdraw(client.clone(), ticket)).await;
        is_done_once(&zk, ticket, RunEnd::Unknown, &format!("dropped after {polls} polls")).await;
        assert_eq!(zk.watches(), []);
        if done {
            assert!(polls > 5, "{polls}");
            return;
        }
    }
}

#[tokio::test]
async fn the_faults_are_what_their_names_say() {
    for (fault, applied) in [
        (RequestFault::DropRequest, false),
        (RequestFault::LoseReply, true),
        (RequestFault::ExpireAfter, true),
    ] {
        let zk = test_server().await;
        let client = zk.client().await;
        let set = client.set_data(ANN, "1").send();
        assert!(run_with_fault(&zk, &client, fault, 1, set).await.is_some());
        assert_eq!(zk.get(ANN).unwrap().text() == "1", applied, "{fault:?}");
    }
}
