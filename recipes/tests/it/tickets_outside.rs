//! Tickets with effects outside: begun, taken over, and finished by the holder of the lock.

use zoolet_recipes::{HoldState, Lock, LostReason, Started, TicketError, Tickets};

use crate::common::bank::{SCOPE, balance, bank, lock_of, started, unfinished, value, withdraw};

#[tokio::test(start_paused = true)]
async fn outside_a_ticket_is_begun_and_finished_and_then_settled() {
    let (_world, client, tickets) = bank().await;
    let guard = lock_of(&client).await;
    let ticket = tickets.generate();
    let in_progress = started(tickets.begin(&guard, &ticket, "pay ann").await.unwrap());
    assert_eq!((in_progress.ticket(), in_progress.token()), (ticket, guard.token()));
    let pending = tickets.pending().await.unwrap();
    assert_eq!(pending.len(), 1);
    assert_eq!((pending[0].ticket, pending[0].token), (ticket, guard.token().get()));
    assert_eq!(pending[0].params, "pay ann");

    assert!(in_progress.finish("receipt 7").await.unwrap().first_time);
    assert!(tickets.pending().await.unwrap().is_empty());
    let Started::Settled(settled) = tickets.begin(&guard, &ticket, "pay ann").await.unwrap() else {
        panic!("it is settled")
    };
    assert_eq!((settled.first_time, value(&settled)), (false, "receipt 7"));
    let error = tickets.begin(&guard, &ticket, "pay bob").await.unwrap_err();
    assert!(matches!(error, TicketError::OtherParameters { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn outside_the_next_owner_gets_unfinished_and_the_former_owner_cannot_finish() {
    let (world, client, tickets) = bank().await;
    let evicted = lock_of(&client).await;
    let ticket = tickets.generate();
    let stuck = started(tickets.begin(&evicted, &ticket, "pay ann").await.unwrap());
    // By an operator, or after a pause that was too long.
    client.delete(evicted.node()).await.unwrap();

    let next = world.client().await;
    let (guard, tickets) = (lock_of(&next).await, Tickets::new(&next, SCOPE));
    let pending = tickets.pending().await.unwrap().remove(0);
    let in_progress = unfinished(tickets.begin(&guard, &pending.ticket, &pending.params).await.unwrap());
    assert!(in_progress.token().get() > pending.token);
    let error = stuck.finish("too late").await.unwrap_err();
    assert!(matches!(error, TicketError::NotHeld { ticket: named } if named == ticket), "{error}");
    assert_eq!(evicted.state(), HoldState::Lost(LostReason::NodeDeleted));
    in_progress.refuse("a person looks into it").await.unwrap();
    let settled = tickets.outcome(&ticket).await.unwrap().unwrap();
    assert_eq!(settled.value, Err("a person looks into it".into()));
}

#[tokio::test(start_paused = true)]
async fn outside_a_second_call_under_the_same_guard_takes_the_ticket_over() {
    let (_world, client, tickets) = bank().await;
    let guard = lock_of(&client).await;
    let ticket = tickets.generate();
    let first = started(tickets.begin(&guard, &ticket, "").await.unwrap());
    let second = unfinished(tickets.begin(&guard, &ticket, "").await.unwrap());
    assert!(matches!(first.finish("first").await, Err(TicketError::NotHeld { .. })));
    assert_eq!(guard.state(), HoldState::Held);
    second.finish("second").await.unwrap();
    assert_eq!(value(&tickets.outcome(&ticket).await.unwrap().unwrap()), "second");
}

#[tokio::test(start_paused = true)]
async fn outside_nothing_is_begun_or_taken_over_without_the_lock() {
    let (_world, client, tickets) = bank().await;
    let (guard, lost) = (lock_of(&client).await, Lock::new(&client, "/locks/bob").acquire().await.unwrap());
    client.delete(lost.node()).await.unwrap();
    let (new, begun) = (tickets.generate(), tickets.generate());
    let in_progress = started(tickets.begin(&guard, &begun, "").await.unwrap());
    for ticket in [new, begun] {
        let error = tickets.begin(&lost, &ticket, "").await.unwrap_err();
        assert!(matches!(error, TicketError::NotHeld { .. }), "{error}");
    }
    assert_eq!(tickets.outcome(&new).await.unwrap(), None);
    in_progress.finish("").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pending_a_ticket_that_is_begun_is_not_run() {
    let (_world, client, tickets) = bank().await;
    let guard = lock_of(&client).await;
    let ticket = tickets.generate();
    let in_progress = started(tickets.begin(&guard, &ticket, "take 30").await.unwrap());
    let error = withdraw(&tickets, &ticket, 30).await.unwrap_err();
    assert!(matches!(error, TicketError::Pending { ticket: named } if named == ticket), "{error}");
    assert!(matches!(tickets.outcome(&ticket).await, Err(TicketError::Pending { .. })));
    assert_eq!(balance(&client).await, 100);
    in_progress.finish("").await.unwrap();
}
