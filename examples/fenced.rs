//! A store outside of ZooKeeper that is safe from a holder that was paused for too long: `cargo run --example fenced`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use zoolet::testing::{TestServer, handshake};
use zoolet::{FencingToken, HoldState, Lock};

/// A file, say, whose server keeps the highest token that it has seen.
#[derive(Default)]
struct Store {
    content: String,
    highest: Option<FencingToken>,
}

impl Store {
    /// Takes a write, unless a later holder of the lock was here before.
    fn write(&mut self, token: FencingToken, content: &str) -> Result<(), String> {
        if let Some(highest) = self.highest.filter(|highest| token < *highest) {
            return Err(format!("token {token} is lower than {highest}"));
        }
        self.highest = Some(token);
        self.content = content.to_owned();
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A server whose time is ours, so that a pause of a minute takes no minute.
    let zk = TestServer::start().await;
    let (a, b) = (zk.client().await, zk.client().await);
    let mut store = Store::default();

    let guard = Lock::new(&a, "/locks/report").acquire().await?;
    store.write(guard.token(), "draft of a")?;
    println!("a holds the lock with token {} and writes", guard.token());

    // a is paused in the middle of its work: it has just looked whether it holds the lock, and nothing of it gets through.
    let believes = guard.state();
    zk.freeze(a.session_id()).await?;
    zk.faults().on(handshake().session(a.session_id())).freeze()?;
    zk.advance(Duration::from_secs(60)).await?;

    let next = Lock::new(&b, "/locks/report").acquire().await?;
    println!("a minute later its session has expired, and b holds the lock with token {}", next.token());
    assert!(next.token() > guard.token());
    // A new holder writes before it reads, so that nothing of the former one comes in between.
    store.write(next.token(), "report of b")?;

    assert_eq!(believes, HoldState::Held);
    let late = store.write(guard.token(), "report of a");
    println!("a wakes up in the middle of its work and writes: {late:?}");
    assert!(late.is_err());
    assert_eq!(store.content, "report of b");

    // Inside ZooKeeper no store is needed: the same multi checks the lock.
    zk.faults().clear();
    zk.heal_all().await?;
    let fenced = zk.pass_time_until(guard.fenced().create("/report", "of a").commit()).await?;
    println!("and in ZooKeeper: {}", fenced.as_ref().expect_err("it does not hold the lock"));
    assert_eq!(zk.get("/report"), None);
    Ok(())
}
