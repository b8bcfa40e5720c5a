//! A server in memory, clients without a socket, and time that is the test's.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its own part, and fails where it stands"
)]

pub mod relay;

use std::future::Future;
use std::time::Duration;

use zoolet_client::Client;
use zoolet_recipes::Lock;
use zoolet_server::Server;

pub const DIR: &str = "/locks/ledger";

pub struct World {
    pub server: Server,
}

pub async fn world() -> World {
    let server = Server::builder().tick_time(Duration::from_millis(500)).start().await.unwrap();
    World { server }
}

impl World {
    pub async fn client(&self) -> Client {
        let options = Client::options().session_timeout(Duration::from_secs(4)).seed(7);
        options.connect(self.server.in_process()).await.unwrap()
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

/// Lets every task run until `done` says so. Time is paused, so nothing but work can be waited for.
pub async fn settle<F: Future<Output = bool>>(mut done: impl FnMut() -> F) {
    for _ in 0..1_000 {
        if done().await {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it did not settle");
}
