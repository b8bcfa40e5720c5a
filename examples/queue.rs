//! Work that is handed out, with a result for each item, over a lost session: `cargo run --example queue`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use zoolet::recipes::{CounterLayout, QueueError};
use zoolet::testing::TestServer;
use zoolet::{Counter, Queue, Sessions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::builder().znode("/results", "").start().await?;
    let sessions = Sessions::open(server.options(), server.connector())?;
    let numbers = Counter::new(&sessions, "/orders/number", CounterLayout::CuratorI64);
    let orders = Queue::builder(&sessions, "/orders/queue").max_deliveries(3).open().await?;
    for item in ["apples", "poison", "pears"] {
        let number = numbers.add(1).await?.after;
        orders.put(format!("{number} {item}")).await?;
    }
    orders.put("4 plums, tomorrow").delay(Duration::from_secs(24 * 3600)).await?;

    server.pass_time_until(work(&server, &sessions, &orders)).await??;
    let results = server.children("/results").len();
    let dead = server.children("/orders/queue/dead");
    println!("{results} results, dead: {dead:?}");
    assert_eq!((results, dead.len(), numbers.get().await?), (2, 1, 3));

    // The next day.
    let mut delivery = server.pass_time_until(orders.take()).await??;
    println!("{:?}", delivery.data());
    delivery.done().await?;
    Ok(())
}

/// Writes a result for each order.
async fn work(
    server: &TestServer,
    sessions: &Sessions,
    orders: &Queue,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut lost = false;
    while orders.counts().await?.items > 0 {
        let Some(mut delivery) = orders.try_take().await? else { continue };
        let order = String::from_utf8(delivery.data().to_vec())?;
        println!("{order}, delivered {} times", delivery.deliveries());
        if order.ends_with("poison") {
            // After the third time it is in /orders/queue/dead.
            delivery.nack().await?;
            continue;
        }
        let client = sessions.client().await?;
        if !lost {
            // The item is given back, and this holder cannot finish it any more.
            lost = true;
            server.expire_session(client.session_id()).await?;
        }
        let result = client.create("/results/r-", order).sequential();
        match delivery.done_with([result.into()]).await {
            Err(QueueError::NotHeld { .. } | QueueError::Unknown { .. }) => println!("delivered again"),
            finished => finished?,
        }
    }
    Ok(())
}
