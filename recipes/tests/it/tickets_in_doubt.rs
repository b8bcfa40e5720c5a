//! Tickets whose reply was lost: what is reported when a repeat is refused for another reason.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use zoolet_client::{Client, ErrorCode};
use zoolet_fixture::FixtureExt as _;
use zoolet_fixture::fault::{Matcher, request};
use zoolet_recipes::{Lock, Started, Ticket, TicketError, TicketOutcome, Tickets};

use crate::common::bank::started;
use crate::common::{World, world};

const EFFECT: &str = "/effect";

/// Tickets whose scope exists, and the partition of those that are generated now.
async fn tickets(world: &World) -> (Client, Tickets) {
    let client = world.client().await;
    let tickets = Tickets::new(&client, "/idem");
    tickets.run(&tickets.generate(), "", |txn| async { Ok(txn.done("")) }).await.unwrap();
    (client, tickets)
}

/// The `n`th request about a record: each call looks first, and then writes.
fn about_a_record(client: &Client, n: u64) -> Matcher {
    request().path("/idem/*/*").session(client.session_id()).nth(n)
}

/// The reply to the `n`th request about a record is lost, and the request after it is refused.
fn lose_and_refuse(world: &World, client: &Client, n: u64, code: ErrorCode) {
    let faults = world.server.fixture().faults();
    faults.on(about_a_record(client, n)).lose_reply().unwrap();
    // A lost request does not get this far.
    faults.on(about_a_record(client, n)).fail(code).unwrap();
}

async fn bring_about(tickets: &Tickets, ticket: &Ticket) -> Result<TicketOutcome, TicketError> {
    tickets.run(ticket, "create", |txn| async { Ok(txn.create(EFFECT, "").done("")) }).await
}

#[tokio::test(start_paused = true)]
async fn unknown_a_ticket_that_may_have_been_executed_is_not_reported_as_refused_by_its_repeat() {
    for code in [ErrorCode::NoAuth, ErrorCode::SystemError] {
        let world = world().await;
        let (client, tickets) = tickets(&world).await;
        let ticket = tickets.generate();
        lose_and_refuse(&world, &client, 2, code);
        let error = bring_about(&tickets, &ticket).await.unwrap_err();
        assert!(matches!(&error, TicketError::Unknown { ticket: which, .. } if *which == ticket), "{error}");
        assert!(client.exists(EFFECT).await.unwrap().is_some());
        assert!(!bring_about(&tickets, &ticket).await.unwrap().first_time, "it was executed");
    }
}

#[tokio::test(start_paused = true)]
async fn no_auth_a_ticket_without_a_lost_reply_is_reported_as_refused() {
    let world = world().await;
    let (client, tickets) = tickets(&world).await;
    world.server.fixture().faults().on(about_a_record(&client, 2)).fail(ErrorCode::NoAuth).unwrap();
    let error = bring_about(&tickets, &tickets.generate()).await.unwrap_err();
    assert!(matches!(error, TicketError::NoAuth { .. }), "{error}");
    assert!(client.exists(EFFECT).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn refused_a_repeat_that_reaches_the_writes_shows_that_nothing_was_executed() {
    let world = world().await;
    let (client, tickets) = tickets(&world).await;
    world.server.fixture().faults().on(about_a_record(&client, 2)).drop_request().unwrap();
    client.create(EFFECT, "").await.unwrap();
    let error = bring_about(&tickets, &tickets.generate()).await.unwrap_err();
    assert!(matches!(error, TicketError::Refused { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn unknown_a_ticket_that_may_be_begun_or_finished_is_not_reported_as_refused_by_its_repeat() {
    let world = world().await;
    let (client, tickets) = tickets(&world).await;
    let guard = Lock::new(&client, "/locks/ann").acquire().await.unwrap();
    let ticket = tickets.generate();
    lose_and_refuse(&world, &client, 2, ErrorCode::NoAuth);
    let error = tickets.begin(&guard, &ticket, "pay").await.unwrap_err();
    assert!(matches!(error, TicketError::Unknown { .. }), "{error}");
    let Started::Unfinished(_) = tickets.begin(&guard, &ticket, "pay").await.unwrap() else {
        panic!("it was begun");
    };

    let ticket = tickets.generate();
    let in_progress = started(tickets.begin(&guard, &ticket, "pay").await.unwrap());
    lose_and_refuse(&world, &client, 1, ErrorCode::NoAuth);
    let error = in_progress.finish("paid").await.unwrap_err();
    assert!(matches!(error, TicketError::Unknown { .. }), "{error}");
    let Started::Settled(outcome) = tickets.begin(&guard, &ticket, "pay").await.unwrap() else {
        panic!("it was finished");
    };
    assert_eq!(outcome.value, Ok("paid".into()));
}

#[tokio::test(start_paused = true)]
async fn a_decision_of_unknown_outcome_is_sent_again_as_it_is_and_the_work_is_not_run_again() {
    let world = world().await;
    let (client, tickets) = tickets(&world).await;
    let runs = AtomicUsize::new(0);
    let faults = world.server.fixture().faults();
    // It was not executed, which the client cannot know.
    faults.on(about_a_record(&client, 2)).drop_request().unwrap();
    let ticket = tickets.generate();
    let outcome = tickets
        .run(&ticket, "create", |txn| {
            let run = runs.fetch_add(1, SeqCst);
            async move { Ok(txn.create(format!("{EFFECT}-{run}"), "").done(run.to_string())) }
        })
        .await
        .unwrap();
    assert_eq!((runs.load(SeqCst), outcome.first_time, outcome.value), (1, true, Ok("0".into())));
    assert!(client.exists(format!("{EFFECT}-0")).await.unwrap().is_some());
}
