//! A store outside of ZooKeeper that rejects writes of a lock holder that was paused for too long: `cargo run --example fenced`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use zoolet::testing::{TestServer, handshake};
use zoolet::{FencingToken, HoldState, Lock};

/// For example a file whose server remembers the highest token.
#[derive(Default)]
struct Store {
    content: String,
    highest: Option<FencingToken>,
}

impl Store {
    /// Accepts a write, unless a later holder of the lock has written before.
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
    // Its clock is under our control, so that a pause of a minute takes no time.
    let zk = TestServer::start().await;
    let (a, b) = (zk.client().await, zk.client().await);
    let mut store = Store::default();

    let guard = Lock::new(&a, "/locks/report").acquire().await?;
    store.write(guard.token(), "draft of a")?;
    println!("a holds the lock with token {} and writes", guard.token());

    // a is paused right after it has checked the lock, and its pings do not reach the server.
    let last_seen = guard.state();
    zk.freeze(a.session_id()).await?;
    zk.faults().on(handshake().session(a.session_id())).freeze()?;
    zk.advance(Duration::from_secs(60)).await?;

    let next = Lock::new(&b, "/locks/report").acquire().await?;
    println!("a minute later its session has expired, and b holds the lock with token {}", next.token());
    assert!(next.token() > guard.token());
    // A new holder writes first, so that the store rejects the former one from now on.
    store.write(next.token(), "report of b")?;

    assert_eq!(last_seen, HoldState::Held);
    let late = store.write(guard.token(), "report of a");
    println!("a resumes and writes: {late:?}");
    assert!(late.is_err());
    assert_eq!(store.content, "report of b");

    // For data in ZooKeeper, the multi itself checks the lock.
    zk.faults().clear();
    zk.unfreeze_all().await?;
    let fenced = zk.pass_time_until(guard.fenced().create("/report", "of a").commit()).await?;
    println!("and in ZooKeeper: {}", fenced.as_ref().expect_err("a lost the lock"));
    assert_eq!(zk.get("/report"), None);
    b.close().await?;
    Ok(())
}
