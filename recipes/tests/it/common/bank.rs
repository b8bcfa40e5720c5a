//! An account, and withdrawals from it that are executed once.

use std::time::Duration;

use zoolet_client::Client;
use zoolet_recipes::{
    Guard, InProgress, Lock, Started, Ticket, TicketDecision, TicketError, TicketOutcome, TicketTxn, Tickets,
    WorkError,
};

use super::{World, world};

pub const SCOPE: &str = "/idem/withdrawals";
pub const ANN: &str = "/ann";
/// The age of collected tickets: more than one partition.
pub const AGE: Duration = Duration::from_secs(900);

/// A client, its tickets, and an account with 100 in it.
pub async fn bank() -> (World, Client, Tickets) {
    let world = world().await;
    let client = world.client().await;
    client.create(ANN, "100").await.unwrap();
    let tickets = Tickets::new(&client, SCOPE);
    (world, client, tickets)
}

pub async fn balance(client: &Client) -> u64 {
    let (data, _) = client.get_data(ANN).await.unwrap();
    std::str::from_utf8(&data).unwrap().parse().unwrap()
}

/// The work of a withdrawal.
pub async fn take(mut txn: TicketTxn, amount: u64) -> Result<TicketDecision, WorkError> {
    let Some((data, _)) = txn.get_data(ANN).await? else { return Ok(txn.refuse("no account")) };
    let balance: u64 = std::str::from_utf8(&data)?.parse()?;
    let Some(left) = balance.checked_sub(amount) else { return Ok(txn.refuse("too little")) };
    Ok(txn.set_data(ANN, left.to_string()).done(format!("{left} left")))
}

pub async fn withdraw(tickets: &Tickets, ticket: &Ticket, amount: u64) -> Result<TicketOutcome, TicketError> {
    tickets.run(ticket, format!("take {amount}"), |txn| take(txn, amount)).await
}

pub fn value(outcome: &TicketOutcome) -> &str {
    std::str::from_utf8(outcome.value.as_ref().expect("done")).unwrap()
}

pub async fn lock_of(client: &Client) -> Guard {
    Lock::new(client, "/locks/ann").acquire().await.unwrap()
}

pub fn unfinished(begun: Started<'_>) -> InProgress<'_> {
    match begun {
        Started::Unfinished(in_progress) => in_progress,
        begun => panic!("{begun:?}"),
    }
}

pub fn started(begun: Started<'_>) -> InProgress<'_> {
    match begun {
        Started::New(in_progress) => in_progress,
        begun => panic!("{begun:?}"),
    }
}
