//! Eight contenders for one lock, and the fencing tokens that order them: `cargo run --example lock`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use tokio::task::JoinSet;
use zoolet::recipes::LockError;
use zoolet::{Client, Lock, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().start().await?;
    let mut contenders = JoinSet::new();
    for name in 1..=8 {
        // A session each, as if they were programs on different machines.
        let zk = Client::connect(server.in_process()).await?;
        contenders.spawn(contend(name, zk));
    }
    while let Some(outcome) = contenders.join_next().await {
        outcome??;
    }
    server.shutdown().await;
    Ok(())
}

async fn contend(name: u32, zk: Client) -> Result<(), LockError> {
    let guard = Lock::new(&zk, "/locks/ledger").acquire().timeout(Duration::from_secs(5)).await?;
    // A store that rejects tokens lower than the highest one is safe even from a holder that lost the lock without
    // noticing, as it was paused for too long.
    println!("contender {name} holds the lock with token {}", guard.token());
    // Cancelled if the lock is lost.
    if let Err(reason) = guard.run(tokio::time::sleep(Duration::from_millis(10))).await {
        println!("contender {name} has lost the lock: {reason:?}");
    }
    guard.release().await?;
    zk.close().await?;
    Ok(())
}
