//! The collection of old tickets: what is deleted, what stays, and what happens to a late retry.

use std::time::Duration;

use zoolet_recipes::{Ticket, TicketError, Tickets};

use crate::common::bank::{AGE, SCOPE, balance, bank, lock_of, started, unfinished, value, withdraw};

#[tokio::test(start_paused = true)]
async fn collected_a_late_retry_is_refused_and_never_executed() {
    let (world, client, tickets) = bank().await;
    let (old, never_run) = (tickets.generate(), tickets.generate());
    withdraw(&tickets, &old, 30).await.unwrap();
    // It has read the scope before, and does not read it again until it must.
    let elsewhere = Tickets::new(&world.client().await, SCOPE);
    elsewhere.run(&elsewhere.generate(), "", |txn| async { Ok(txn.done("")) }).await.unwrap();
    tokio::time::sleep(2 * AGE).await;
    let young = tickets.generate();
    withdraw(&tickets, &young, 5).await.unwrap();

    let collected = tickets.collect(AGE).await.unwrap();
    assert_eq!((collected.deleted, collected.pending), (2, 0));
    for tickets in [&tickets, &elsewhere] {
        for late in [old, never_run] {
            let error = withdraw(tickets, &late, 30).await.unwrap_err();
            let TicketError::Collected { ticket, watermark } = error else { panic!("{error}") };
            assert_eq!((ticket, watermark), (late, collected.watermark));
        }
        assert!(!withdraw(tickets, &young, 5).await.unwrap().first_time, "it is above the watermark");
    }
    assert_eq!(balance(&client).await, 65);
    let (names, _) = client.get_children(SCOPE).await.unwrap();
    assert_eq!(names.len(), 2, "the partition of the young ticket, and `pending`: {names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watermark_never_falls_and_young_tickets_are_never_collected() {
    let (_world, _client, tickets) = bank().await;
    tokio::time::sleep(3 * AGE).await;
    let watermark = tickets.collect(AGE).await.unwrap().watermark;
    assert_eq!(tickets.collect(2 * AGE).await.unwrap().watermark, watermark);
    let ticket = tickets.generate();
    withdraw(&tickets, &ticket, 30).await.unwrap();
    let collected = tickets.collect(Duration::ZERO).await.unwrap();
    assert_eq!(collected.deleted, 0, "its partition is not over");
    assert!(!withdraw(&tickets, &ticket, 30).await.unwrap().first_time);
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_clock_is_fast_collects_by_the_servers_clock() {
    let (world, client, tickets) = bank().await;
    let ticket = tickets.generate();
    withdraw(&tickets, &ticket, 30).await.unwrap();
    let now = Duration::from_millis(u64::try_from(world.clock.unix_millis()).unwrap());
    let ahead = world.options().clock(world.clock.clone().starting_at(now + 10 * AGE));
    let ahead = ahead.connect(world.server.in_process()).await.unwrap();
    let collected = Tickets::new(&ahead, SCOPE).collect(AGE).await.unwrap();
    assert!(collected.watermark <= (now - AGE).as_secs(), "{collected:?}");
    assert_eq!(collected.deleted, 0);
    assert!(!withdraw(&tickets, &ticket, 30).await.unwrap().first_time);
    assert!(withdraw(&tickets, &tickets.generate(), 30).await.unwrap().first_time);
    assert_eq!(balance(&client).await, 40);
}

#[tokio::test(start_paused = true)]
async fn more_records_than_fit_into_one_request_are_all_collected() {
    let (_world, client, tickets) = bank().await;
    let mut generated = Vec::new();
    for _ in 0..2_000 {
        generated.push(tickets.generate());
    }
    assert!(generated.is_sorted_by_key(Ticket::unix_millis));
    for tickets_of in generated.chunks(100) {
        let run = |ticket: Ticket| {
            let tickets = tickets.clone();
            tokio::spawn(async move { tickets.run(&ticket, "", |txn| async { Ok(txn.done("")) }).await })
        };
        let runs: Vec<_> = tickets_of.iter().map(|ticket| run(*ticket)).collect();
        for run in runs {
            assert!(run.await.unwrap().unwrap().first_time, "all are different");
        }
    }
    tokio::time::sleep(2 * AGE).await;
    let other = tickets.clone();
    let at_once = tokio::spawn(async move { other.collect(AGE).await });
    let here = tickets.collect(AGE).await.unwrap();
    let there = at_once.await.unwrap().unwrap();
    assert!(here.deleted + there.deleted == 2_000, "{here:?} {there:?}");
    assert_eq!(client.get_children(SCOPE).await.unwrap().0, ["pending"]);
}

#[tokio::test(start_paused = true)]
async fn a_pending_ticket_is_not_collected_before_it_is_finished() {
    let (_world, client, tickets) = bank().await;
    let guard = lock_of(&client).await;
    let (begun, done) = (tickets.generate(), tickets.generate());
    let in_progress = started(tickets.begin(&guard, &begun, "pay ann").await.unwrap());
    withdraw(&tickets, &done, 30).await.unwrap();
    tokio::time::sleep(2 * AGE).await;

    let collected = tickets.collect(AGE).await.unwrap();
    assert_eq!((collected.deleted, collected.pending), (1, 1));
    drop(in_progress);
    let in_progress = unfinished(tickets.begin(&guard, &begun, "pay ann").await.unwrap());
    in_progress.finish("paid").await.unwrap();
    assert_eq!(value(&tickets.outcome(&begun).await.unwrap().unwrap()), "paid");

    let collected = tickets.collect(AGE).await.unwrap();
    assert_eq!((collected.deleted, collected.pending), (1, 0));
    let error = tickets.begin(&guard, &begun, "pay ann").await.unwrap_err();
    assert!(matches!(error, TicketError::Collected { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_retry_during_a_collection_is_not_executed_even_if_its_partition_still_exists() {
    let (_world, client, tickets) = bank().await;
    let (old, kept) = (tickets.generate(), tickets.generate());
    let guard = lock_of(&client).await;
    withdraw(&tickets, &old, 30).await.unwrap();
    // A pending ticket keeps its partition.
    let _running = started(tickets.begin(&guard, &kept, "").await.unwrap());
    // It has read the scope before, and does not read it again until it must.
    let elsewhere = Tickets::new(&client, SCOPE);
    elsewhere.run(&elsewhere.generate(), "", |txn| async { Ok(txn.done("")) }).await.unwrap();
    tokio::time::sleep(2 * AGE).await;
    tickets.collect(AGE).await.unwrap();
    for tickets in [tickets, elsewhere] {
        let error = withdraw(&tickets, &old, 30).await.unwrap_err();
        assert!(matches!(error, TicketError::Collected { .. }), "{error}");
    }
    assert_eq!(balance(&client).await, 70);
}
