//! A ZooKeeper server for one test: its clock, its faults and its state. `cargo run --example test_server`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use zoolet::testing::{TestServer, create};
use zoolet::{Lock, SessionState};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let zk = TestServer::builder().znode("/config", "v1").znode("/lock", "").start().await?;
    let (a, b) = (zk.client().await, zk.client().await);

    // The create of the lock's znode is executed, but its reply is lost with the connection.
    zk.faults().on(create().path("/lock/**").nth(1)).lose_reply()?;
    let guard = Lock::new(&a, "/lock").acquire().await?;
    println!("held with token {} in spite of {}", guard.token(), zk.faults().fired()[0].event);
    println!("znodes:\n{}", zk.tree());

    let waiting = tokio::spawn({
        let lock = Lock::new(&b, "/lock");
        async move { lock.acquire().await }
    });
    zk.advance(Duration::from_secs(600)).await?;
    println!("ten minutes later, after {} requests, b still waits", zk.counters().replies);

    zk.expire_session(a.session_id()).await?;
    assert_eq!(a.state(), SessionState::Expired);
    println!("a has expired, b holds the lock with token {}", waiting.await??.token());
    b.close().await?;
    Ok(())
}
