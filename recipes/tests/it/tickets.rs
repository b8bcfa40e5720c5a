//! Tickets: executed once, however often they are tried; and what each error means.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use zoolet_client::{Acl, Error, ErrorCode, Perms};
use zoolet_recipes::{Algorithm, Lock, MultiLock, Ticket, TicketError, TicketTxn, Tickets};

use crate::common::bank::{ANN, SCOPE, balance, bank, lock_of, started, take, value, withdraw};

#[tokio::test(start_paused = true)]
async fn a_ticket_is_executed_once_and_later_runs_return_its_outcome() {
    let (world, client, tickets) = bank().await;
    let ticket = tickets.generate();
    assert_eq!(tickets.outcome(&ticket).await.unwrap(), None);
    let first = withdraw(&tickets, &ticket, 30).await.unwrap();
    assert!(first.first_time);
    assert_eq!(value(&first), "70 left");
    withdraw(&tickets, &tickets.generate(), 5).await.unwrap();

    let elsewhere = Tickets::new(&world.client().await, SCOPE);
    let stored: Ticket = ticket.to_string().parse().unwrap();
    let again = withdraw(&elsewhere, &stored, 30).await.unwrap();
    assert!(!again.first_time);
    assert_eq!(again.value, first.value);
    assert_eq!(elsewhere.outcome(&ticket).await.unwrap(), Some(again));
    assert_eq!(balance(&client).await, 65);
}

#[tokio::test(start_paused = true)]
async fn the_record_is_read_before_the_work_is_run() {
    let (_world, _client, tickets) = bank().await;
    let ticket = tickets.generate();
    withdraw(&tickets, &ticket, 30).await.unwrap();
    let again =
        tickets.run(&ticket, "take 30", |_| async { panic!("it was executed before") }).await.unwrap();
    assert_eq!(value(&again), "70 left");
}

#[tokio::test(start_paused = true)]
async fn one_of_many_concurrent_copies_is_executed() {
    let (world, client, tickets) = bank().await;
    let ticket = tickets.generate();
    let mut copies = Vec::new();
    for _ in 0..8 {
        let tickets = Tickets::new(&world.client().await, SCOPE);
        copies.push(tokio::spawn(async move { withdraw(&tickets, &ticket, 30).await }));
    }
    let mut first_times = 0;
    for copy in copies {
        let outcome = copy.await.unwrap().unwrap();
        assert_eq!(value(&outcome), "70 left");
        first_times += usize::from(outcome.first_time);
    }
    assert_eq!(first_times, 1);
    assert_eq!(balance(&client).await, 70);
}

#[tokio::test(start_paused = true)]
async fn different_concurrent_tickets_are_all_executed() {
    let (world, client, _) = bank().await;
    let mut withdrawals = Vec::new();
    for _ in 0..8 {
        let tickets = Tickets::new(&world.client().await, SCOPE);
        withdrawals.push(tokio::spawn(async move { withdraw(&tickets, &tickets.generate(), 10).await }));
    }
    for withdrawal in withdrawals {
        assert!(withdrawal.await.unwrap().unwrap().first_time);
    }
    assert_eq!(balance(&client).await, 20);
}

#[tokio::test(start_paused = true)]
async fn a_last_attempt_that_finds_the_ticket_executed_returns_its_outcome() {
    let (world, client, tickets) = bank().await;
    let (ticket, runs) = (tickets.generate(), AtomicUsize::new(0));
    let other = Tickets::new(&world.client().await, SCOPE);
    // So that the partition exists.
    withdraw(&other, &other.generate(), 0).await.unwrap();
    // What was read is changed at every attempt. At the last one another caller is faster.
    let outcome = tickets
        .run(&ticket, "take 30", |mut txn| {
            let (client, other, run) = (&client, &other, runs.fetch_add(1, SeqCst));
            async move {
                txn.get_data(ANN).await?;
                match run {
                    15 => assert!(withdraw(other, &ticket, 30).await?.first_time),
                    _ => drop(client.set_data(ANN, "100").await?),
                }
                Ok(txn.done("by us"))
            }
        })
        .await
        .unwrap();
    assert_eq!((runs.into_inner(), outcome.first_time, value(&outcome)), (16, false, "70 left"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_remembered_even_if_the_work_could_succeed_by_now() {
    let (_world, client, tickets) = bank().await;
    let ticket = tickets.generate();
    let refused = withdraw(&tickets, &ticket, 300).await.unwrap();
    assert_eq!((refused.first_time, refused.value), (true, Err("too little".into())));
    client.set_data(ANN, "1000").await.unwrap();
    let again = withdraw(&tickets, &ticket, 300).await.unwrap();
    assert_eq!((again.first_time, again.value), (false, Err("too little".into())));
    assert_eq!(balance(&client).await, 1000);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_rests_on_the_data_at_the_time_of_its_record() {
    let (_world, client, tickets) = bank().await;
    let runs = AtomicUsize::new(0);
    let outcome = tickets
        .run(&tickets.generate(), "take 300", |mut txn| {
            let (client, first) = (client.clone(), runs.fetch_add(1, SeqCst) == 0);
            async move {
                let (data, _) = txn.get_data(ANN).await?.expect("an account");
                if first {
                    client.set_data(ANN, "1000").await?;
                }
                Ok(if data == "100" { txn.refuse("too little") } else { txn.done("enough") })
            }
        })
        .await
        .unwrap();
    assert_eq!(outcome.value, Ok("enough".into()));
    assert_eq!(runs.load(SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_writes_nothing_but_itself() {
    let (_world, client, tickets) = bank().await;
    let work = |txn: TicketTxn| async { Ok(txn.set_data(ANN, "0").refuse("no")) };
    tickets.run(&tickets.generate(), "", work).await.unwrap();
    assert_eq!(balance(&client).await, 100);
}

#[tokio::test(start_paused = true)]
async fn other_parameters_the_ticket_is_never_executed_with_them() {
    let (_world, client, tickets) = bank().await;
    let ticket = tickets.generate();
    withdraw(&tickets, &ticket, 30).await.unwrap();
    let error = withdraw(&tickets, &ticket, 31).await.unwrap_err();
    assert!(matches!(error, TicketError::OtherParameters { ticket: named } if named == ticket), "{error}");
    assert_eq!(balance(&client).await, 70);
}

#[tokio::test(start_paused = true)]
async fn a_znode_created_since_it_was_read_as_absent_makes_the_work_run_again() {
    let (_world, client, tickets) = bank().await;
    let runs = AtomicUsize::new(0);
    let outcome = tickets
        .run(&tickets.generate(), "open bob", |mut txn| {
            let (client, run) = (client.clone(), runs.fetch_add(1, SeqCst));
            async move {
                if txn.get_data("/bob").await?.is_some() {
                    return Ok(txn.refuse("there is one"));
                }
                if run == 0 {
                    client.create("/bob", "quicker").await?;
                }
                Ok(txn.create("/bob", "0").done(""))
            }
        })
        .await
        .unwrap();
    assert_eq!(outcome.value, Err("there is one".into()));
    assert_eq!(runs.load(SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn contended_when_the_data_of_the_work_changes_at_every_attempt() {
    let (_world, client, tickets) = bank().await;
    let (ticket, runs) = (tickets.generate(), AtomicUsize::new(0));
    // The scope and the partition exist.
    withdraw(&tickets, &tickets.generate(), 0).await.unwrap();
    let began = tokio::time::Instant::now();
    let error = tickets
        .run(&ticket, "take 30", |mut txn| {
            runs.fetch_add(1, SeqCst);
            let client = client.clone();
            async move {
                txn.get_data(ANN).await?;
                client.set_data(ANN, "100").await?;
                Ok(txn.set_data(ANN, "70").done(""))
            }
        })
        .await
        .unwrap_err();
    assert!(matches!(error, TicketError::Contended { ticket: named } if named == ticket), "{error}");
    assert_eq!(runs.load(SeqCst), 16);
    assert!(began.elapsed() > Duration::from_secs(1), "there are pauses between the attempts");
    assert_eq!(balance(&client).await, 100);
    assert!(withdraw(&tickets, &ticket, 30).await.unwrap().first_time, "the ticket can still be executed");
}

#[tokio::test(start_paused = true)]
async fn not_held_after_a_lost_lock_a_ticket_is_not_executed_but_its_outcome_is_returned() {
    let (_world, client, tickets) = bank().await;
    let guard = lock_of(&client).await;
    let (done, late) = (tickets.generate(), tickets.generate());
    assert!(tickets.run_under(&guard, &done, "", |txn| take(txn, 30)).await.unwrap().first_time);
    client.delete(guard.node()).await.unwrap();
    let error = tickets.run_under(&guard, &late, "", |txn| take(txn, 30)).await.unwrap_err();
    assert!(matches!(error, TicketError::NotHeld { ticket } if ticket == late), "{error}");
    assert_eq!(balance(&client).await, 70);
    let later = tickets.run_under(&guard, &done, "", |txn| take(txn, 30)).await.unwrap();
    assert_eq!(value(&later), "70 left");
}

#[tokio::test(start_paused = true)]
async fn not_held_when_the_single_znode_belongs_to_another_by_now() {
    let (world, client, tickets) = bank().await;
    let lock = |client| Lock::builder(client, "/locks/one").algorithm(Algorithm::SingleNode).build();
    let guard = lock(&client).acquire().await.unwrap();
    client.delete(guard.node()).await.unwrap();
    let next = world.client().await;
    let held = lock(&next).acquire().await.unwrap();
    assert_eq!(held.node(), guard.node());
    let ticket = tickets.generate();
    let error = tickets.run_under(&guard, &ticket, "", |txn| take(txn, 30)).await.unwrap_err();
    assert!(matches!(error, TicketError::NotHeld { .. }), "{error}");
    assert!(matches!(tickets.begin(&guard, &ticket, "").await, Err(TicketError::NotHeld { .. })));
    assert_eq!(balance(&client).await, 100);
    let tickets = Tickets::new(&next, SCOPE);
    assert!(tickets.run_under(&held, &ticket, "", |txn| take(txn, 30)).await.unwrap().first_time);
}

#[tokio::test(start_paused = true)]
async fn several_locks_at_once_are_all_checked() {
    let (_world, client, tickets) = bank().await;
    let guard = MultiLock::over(&client, ["/locks/ann", "/locks/bob"]).acquire().await.unwrap();
    assert!(
        tickets.run_under(&guard, &tickets.generate(), "", |txn| take(txn, 30)).await.unwrap().first_time
    );
    client.delete(&guard.nodes()[1]).await.unwrap();
    let error = tickets.run_under(&guard, &tickets.generate(), "", |txn| take(txn, 30)).await.unwrap_err();
    assert!(matches!(error, TicketError::NotHeld { .. }), "{error}");
    assert_eq!(balance(&client).await, 70);
}

#[tokio::test(start_paused = true)]
async fn refused_an_impossible_write_is_reported_at_once_and_the_ticket_can_still_be_executed() {
    let (_world, client, tickets) = bank().await;
    let ticket = tickets.generate();
    let began = tokio::time::Instant::now();
    let work = |txn: TicketTxn| async { Ok(txn.set_data(ANN, "0").create("/no/parent", "").done("")) };
    let error = tickets.run(&ticket, "", work).await.unwrap_err();
    let TicketError::Refused { cause, .. } = &error else { panic!("{error}") };
    assert_eq!(cause.code(), Some(ErrorCode::NoNode));
    assert_eq!(cause.context().unwrap().path(), "/no/parent");
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(balance(&client).await, 100);
    client.create("/no", "").await.unwrap();
    assert!(tickets.run(&ticket, "", work).await.unwrap().first_time);
}

#[tokio::test(start_paused = true)]
async fn work_after_an_error_of_the_work_the_ticket_can_still_be_executed() {
    let (_world, client, tickets) = bank().await;
    client.set_data(ANN, "a hundred").await.unwrap();
    let ticket = tickets.generate();
    let error = withdraw(&tickets, &ticket, 30).await.unwrap_err();
    let TicketError::Work { cause, .. } = &error else { panic!("{error}") };
    assert!(cause.is::<std::num::ParseIntError>());
    client.set_data(ANN, "100").await.unwrap();
    assert!(withdraw(&tickets, &ticket, 30).await.unwrap().first_time);
}

#[tokio::test(start_paused = true)]
async fn too_large_an_outcome_that_exceeds_a_request_is_reported_and_nothing_executed() {
    let (_world, client, tickets) = bank().await;
    let work = |txn: TicketTxn| async { Ok(txn.set_data(ANN, "0").done(vec![0; 2 << 20])) };
    let error = tickets.run(&tickets.generate(), "", work).await.unwrap_err();
    assert!(matches!(error, TicketError::TooLarge { size, max, .. } if size > max), "{error}");
    assert_eq!(balance(&client).await, 100);
}

#[tokio::test(start_paused = true)]
async fn foreign_data_in_the_scope_or_in_a_record_is_left_alone() {
    let (_world, client, tickets) = bank().await;
    let ticket = tickets.generate();
    withdraw(&tickets, &ticket, 30).await.unwrap();
    let partition = ticket.unix_millis() / 600_000 * 600;
    let record = format!("{SCOPE}/{partition}/{ticket}");
    client.set_data(&record, "zoolet-ticket/2 whatever").await.unwrap();
    let error = withdraw(&tickets, &ticket, 30).await.unwrap_err();
    assert!(matches!(&error, TicketError::Foreign { path } if *path == record), "{error}");

    client.create("/other", "somebody else's").await.unwrap();
    let error = withdraw(&Tickets::new(&client, "/other"), &ticket, 30).await.unwrap_err();
    assert!(matches!(&error, TicketError::Foreign { path } if path == "/other"), "{error}");
    assert_eq!(balance(&client).await, 70);
}

#[tokio::test(start_paused = true)]
async fn an_empty_znode_at_the_path_of_the_scope_becomes_the_scope() {
    let (_world, client, _) = bank().await;
    client.create("/prepared", "").await.unwrap();
    let tickets = Tickets::new(&client, "/prepared");
    assert!(withdraw(&tickets, &tickets.generate(), 30).await.unwrap().first_time);
    let (data, _) = client.get_data("/prepared").await.unwrap();
    assert_eq!(data, "zoolet-tickets/1 0");
}

#[tokio::test(start_paused = true)]
async fn a_prepared_scope_with_its_child_is_accepted() {
    let (world, client, _) = bank().await;
    for path in ["/prepared", "/prepared/pending"] {
        client.create(path, "").await.unwrap();
    }
    let (one, other) = (world.client().await, world.client().await);
    let (one, other) = (Tickets::new(&one, "/prepared"), Tickets::new(&other, "/prepared"));
    let (ticket, begun) = (one.generate(), one.generate());
    let (first, second) = tokio::join!(withdraw(&one, &ticket, 30), withdraw(&other, &ticket, 30));
    assert_ne!(first.unwrap().first_time, second.unwrap().first_time);
    assert_eq!(balance(&client).await, 70);
    let guard = lock_of(&client).await;
    let _running = started(one.begin(&guard, &begun, "pay").await.unwrap());
    assert_eq!(other.pending().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_auth_a_client_that_may_not_write_tickets_executes_none() {
    let (world, client, _) = bank().await;
    client.add_auth("digest", "teller:secret").await.unwrap();
    let acl = vec![Acl::new(Perms::ALL, "auth", "")];
    let tickets = Tickets::builder(&client, SCOPE).acl(acl).build();
    let ticket = tickets.generate();
    withdraw(&tickets, &ticket, 30).await.unwrap();

    let stranger = Tickets::new(&world.client().await, SCOPE);
    for ticket in [ticket, stranger.generate()] {
        let error = withdraw(&stranger, &ticket, 30).await.unwrap_err();
        assert!(matches!(&error, TicketError::NoAuth { scope } if scope == SCOPE), "{error}");
    }
    assert_eq!(balance(&client).await, 70);
}

#[tokio::test(start_paused = true)]
async fn session_over_another_client_continues_with_the_same_ticket() {
    let (world, client, tickets) = bank().await;
    let ticket = tickets.generate();
    client.close().await.unwrap();
    let error = withdraw(&tickets, &ticket, 30).await.unwrap_err();
    assert!(matches!(&error, TicketError::SessionOver { scope, .. } if scope == SCOPE), "{error}");
    let client = world.client().await;
    assert!(withdraw(&Tickets::new(&client, SCOPE), &ticket, 30).await.unwrap().first_time);
    assert_eq!(balance(&client).await, 70);
}

#[tokio::test(start_paused = true)]
async fn client_any_other_error_is_returned_as_it_is() {
    let (_world, client, _) = bank().await;
    let error =
        withdraw(&Tickets::new(&client, "no/slash"), &Tickets::new(&client, "/a").generate(), 1).await;
    assert!(matches!(error, Err(TicketError::Client(Error::InvalidPath { .. }))), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn tickets_are_unique_even_among_clients_with_one_seed() {
    let (world, ..) = bank().await;
    let mut generated = Vec::new();
    for _ in 0..10 {
        let tickets = Tickets::new(&world.client().await, SCOPE);
        generated.extend((0..100).map(|_| tickets.generate()));
    }
    generated.sort();
    generated.dedup();
    assert_eq!(generated.len(), 1_000);
    let now = u64::try_from(world.clock.unix_millis()).unwrap();
    assert_eq!(generated[0].unix_millis(), now, "by the client's clock, which does not move");
}

#[tokio::test(start_paused = true)]
async fn one_handle_serves_many_tasks() {
    let (_world, client, tickets) = bank().await;
    let tickets = Arc::new(tickets);
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let tickets = Arc::clone(&tickets);
        tasks.push(tokio::spawn(async move {
            let ticket = tickets.generate();
            tickets
                .run(&ticket, "take 1", |mut txn| async move {
                    let (data, _) = txn.get_data(ANN).await?.ok_or("no account")?;
                    let left = std::str::from_utf8(&data)?.parse::<u64>()? - 1;
                    Ok(txn.set_data(ANN, left.to_string()).done(""))
                })
                .await
        }));
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(balance(&client).await, 90);
}
