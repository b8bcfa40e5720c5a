//! A client that never stops writing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zoolet::{Client, ErrorCode};

/// Increments the number in a znode, again and again, whatever becomes of the servers.
pub struct Counter {
    acknowledged: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Counter {
    pub fn start(client: Client, path: &'static str) -> Self {
        let (acknowledged, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let task = tokio::spawn(count(client, path, Arc::clone(&acknowledged), Arc::clone(&stop)));
        Self { acknowledged, stop, task }
    }

    /// Waits until some more increments are acknowledged.
    ///
    /// # Panics
    /// If that takes longer than `limit`, or the counter has gone back.
    pub async fn goes_on(&self, limit: Duration) {
        let goal = self.acknowledged.load(Relaxed) + 10;
        let counting = async {
            while self.acknowledged.load(Relaxed) < goal {
                assert!(!self.task.is_finished(), "the counter has failed");
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(limit, counting).await.expect("the counter goes on");
    }

    pub async fn end(self) {
        self.stop.store(true, Relaxed);
        self.task.await.expect("a counter that does not fail");
    }
}

async fn count(client: Client, path: &'static str, acknowledged: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
    while !stop.load(Relaxed) {
        let Ok((data, stat)) = client.get_data(path).await else {
            assert!(!client.state().is_final(), "the session is over: {:?}", client.state());
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        let number: u64 = String::from_utf8_lossy(&data).parse().expect("a number");
        assert!(
            number >= acknowledged.load(Relaxed),
            "an acknowledged write is gone: {number}, {acknowledged:?}"
        );
        match client.set_data(path, (number + 1).to_string()).version(stat.version).await {
            Ok(_) => acknowledged.store(number + 1, Relaxed),
            // It may have been executed before the connection was lost.
            Err(error) if error.is_retryable() || error.code() == Some(ErrorCode::BadVersion) => {}
            Err(error) => panic!("{error}"),
        }
        sleep(Duration::from_millis(2)).await;
    }
    client.close().await.expect("a session");
}
