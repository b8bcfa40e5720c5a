//! A test that waits while its clock stands still, and what it prints. It fails on purpose: the timeout of the lock is on the manual
//! clock, which nobody moves. `cargo run --example stalled`

use std::time::Duration;

use zoolet::Lock;
use zoolet::testing::TestServer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = TestServer::builder().seed(7).znode("/locks/job", "");
    let zk = settings.stall_timeout(Duration::from_millis(100)).start().await?;
    let (a, b) = (zk.client().await, zk.client().await);
    let _held = Lock::new(&a, "/locks/job").acquire().await?;

    // Right is: zk.pass_time_until(Lock::new(..).acquire().timeout(..)).await
    let refused = Lock::new(&b, "/locks/job").acquire().timeout(Duration::from_secs(1)).await;
    assert!(refused.is_err());
    Ok(())
}
