//! A server in memory, clients without a socket, and time under the test's control.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part of it, and panics are test failures"
)]

pub mod bank;
pub mod record;
pub mod relay;

use std::future::Future;
use std::time::Duration;

use zoolet_client::{Client, Clock, ConnectOptions};
use zoolet_recipes::Lock;
use zoolet_server::Server;
use zoolet_test_support::stored;
pub use zoolet_test_support::{at_once, pass};

pub const DIR: &str = "/locks/ledger";

/// The session timeout of every client.
pub const TIMEOUT: Duration = Duration::from_secs(4);

pub struct World {
    pub server: Server,
    pub clock: Clock,
}

pub async fn world() -> World {
    world_on(Clock::tokio()).await
}

/// A server and clients on one clock.
pub async fn world_on(clock: Clock) -> World {
    zoolet_test_support::limit();
    let builder = Server::builder().tick_time(Duration::from_millis(500)).clock(clock.clone());
    World { server: stored(builder).start().await.unwrap(), clock }
}

impl World {
    /// All clients have the same seed, which must not make them collide.
    pub fn options(&self) -> ConnectOptions {
        Client::options().session_timeout(TIMEOUT).seed(7).clock(self.clock.clone())
    }

    pub async fn client(&self) -> Client {
        self.options().connect(self.server.in_process()).await.unwrap()
    }

    pub async fn lock(&self) -> (Client, Lock) {
        let client = self.client().await;
        let lock = Lock::new(&client, DIR);
        (client, lock)
    }
}

/// The children of the lock's directory, sorted; none if there is no directory.
pub async fn queue(client: &Client) -> Vec<String> {
    client.get_children(DIR).await.map(|(names, _)| names).unwrap_or_default()
}

/// Lets every task run until `done` returns true. Time does not move meanwhile.
pub async fn settle<F: Future<Output = bool>>(mut done: impl FnMut() -> F) {
    for _ in 0..1_000 {
        if done().await {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it did not settle");
}

/// Advances a manual clock from one timer to the next, so that everything happens when it is due.
pub async fn pass_in_steps(clock: &Clock, duration: Duration) {
    let end = clock.now() + duration;
    while let Some(_step) = clock.advance_to_next_timeout(end - clock.now()).unwrap() {
        settle(|| async { clock.pending_wakeups() == 0 }).await;
        // Its requests are answered.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    pass(clock, end - clock.now()).await;
}
