//! The report of a failed test. This one fails on purpose: its hand-written lock ignores that a create can succeed although its
//! reply is lost, and the report shows it. `cargo run --example failing`

use zoolet::client::{Client, Error};
use zoolet::testing::{TestServer, create};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let zk = TestServer::builder().seed(7).znode("/locks/job", "").start().await?;
    let (a, b) = (zk.client().await, zk.client().await);
    zk.faults().on(create().path("/locks/**").nth(1)).lose_reply()?;

    let place_of_a = queue_up(&a).await?;
    let place_of_b = queue_up(&b).await?;
    assert!(holds(&a, &place_of_a).await?, "a came first");
    a.delete(&place_of_a).await?;
    assert!(holds(&b, &place_of_b).await?, "a has released, so b is next");
    Ok(())
}

/// Retries until it is in the queue.
async fn queue_up(zk: &Client) -> Result<String, Error> {
    loop {
        match zk.create("/locks/job/lock-", "").ephemeral().sequential().await {
            Err(error) if error.is_retryable() => {}
            outcome => return outcome.map(|created| created.path),
        }
    }
}

/// Whether no other znode precedes `place`; otherwise sets a watch on the predecessor.
async fn holds(zk: &Client, place: &str) -> Result<bool, Error> {
    let (mut queue, _) = zk.get_children("/locks/job").await?;
    queue.sort();
    let before = queue.iter().rev().find(|name| format!("/locks/job/{name}").as_str() < place);
    let Some(before) = before else { return Ok(true) };
    let (stat, _watch) = zk.exists(format!("/locks/job/{before}")).watch().await?;
    Ok(stat.is_none())
}
