//! A withdrawal that is executed once, however often it is requested: `cargo run --example withdraw`

#![allow(clippy::print_stdout, reason = "an example prints")]

use zoolet::Client;
use zoolet::recipes::{Ticket, TicketDecision, TicketError, TicketOutcome, TicketTxn, Tickets, WorkError};
use zoolet::testing::{OpCode, TestServer, op};

/// Reads, decides, and returns the writes. It has no other effect, as it may run more than once.
async fn take(mut txn: TicketTxn, amount: u64) -> Result<TicketDecision, WorkError> {
    let Some((data, _)) = txn.get_data("/accounts/ann").await? else {
        return Ok(txn.refuse("no such account"));
    };
    let balance: u64 = std::str::from_utf8(&data)?.parse()?;
    let Some(left) = balance.checked_sub(amount) else {
        return Ok(txn.refuse("too little money"));
    };
    Ok(txn.set_data("/accounts/ann", left.to_string()).done(left.to_string()))
}

async fn withdraw(zk: &Client, ticket: &Ticket, amount: u64) -> Result<TicketOutcome, TicketError> {
    let tickets = Tickets::new(zk, "/idem/withdrawals");
    tickets.run(ticket, format!("take {amount}"), |txn| take(txn, amount)).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::builder().znode("/accounts/ann", "100").start().await?;
    let zk = server.client().await;

    // Generated before the first attempt, and stored with the order.
    let ticket = Tickets::new(&zk, "/idem/withdrawals").generate();
    println!("ticket {ticket}: {:?}", Tickets::new(&zk, "/idem/withdrawals").outcome(&ticket).await?);

    // The withdrawal is executed, but its reply is lost with the connection, so it is retried automatically. This is the second
    // multi: the first one found that the partition for the tickets of these ten minutes does not exist yet.
    server.faults().on(op(OpCode::Multi).path("/accounts/ann").nth(2)).lose_reply()?;
    let outcome = server.pass_time_until(withdraw(&zk, &ticket, 30)).await??;
    println!("first attempt, {}: {:?}", server.faults().fired()[0], outcome);
    assert_eq!((outcome.first_time, outcome.value), (true, Ok("70".into())));

    // The program crashes before it stores the outcome, and another one continues with the order.
    let other = server.client().await;
    let ticket: Ticket = ticket.to_string().parse()?;
    let again = withdraw(&other, &ticket, 30).await?;
    println!("the same ticket again: {again:?}");
    assert_eq!((again.first_time, again.value), (false, Ok("70".into())));
    assert_eq!(server.get("/accounts/ann").expect("an account").text(), "70");

    // The same ticket with another amount is an error.
    let error = withdraw(&other, &ticket, 40).await.expect_err("other parameters");
    println!("the same ticket for 40: {error}");
    assert_eq!(server.get("/accounts/ann").expect("an account").text(), "70");
    zk.close().await?;
    other.close().await?;
    Ok(())
}
