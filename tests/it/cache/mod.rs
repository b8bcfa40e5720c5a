//! Caches: whatever happens, a snapshot is the tree as it was at its zxid.

mod apache;
mod cost;
mod faults;
mod races;
mod rights;
mod values;

use zoolet::recipes::{CacheError, Entry};
use zoolet::testing::{FixtureError, OpCode, TestServer, TestServerBuilder, op};
use zoolet::{Cache, Client, ErrorCode, Sessions};

use crate::common::test_server;

/// What the server can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    New,
    /// Without a recursive watch, as before 3.6.
    Old,
}

const AGES: [Age; 2] = [Age::New, Age::Old];

struct World {
    zk: TestServer,
    sessions: Sessions,
    /// Another session, which writes.
    writer: Client,
}

impl World {
    async fn start(age: Age) -> Self {
        Self::of(test_server(), age).await
    }

    async fn of(builder: TestServerBuilder, age: Age) -> Self {
        let zk = builder.start().await.unwrap();
        if age == Age::Old {
            for unknown in [OpCode::AddWatch, OpCode::MultiRead, OpCode::SetWatches2] {
                zk.faults().on(op(unknown)).fail(ErrorCode::Unimplemented).unwrap();
            }
        }
        let sessions = Sessions::open(zk.options(), zk.connector()).unwrap();
        let writer = zk.client().await;
        Self { zk, sessions, writer }
    }

    async fn open(&self, root: &str) -> Cache {
        self.time(Cache::builder(&self.sessions, root).open()).await.unwrap()
    }

    async fn session(&self) -> zoolet::SessionId {
        self.sessions.client().await.unwrap().session_id()
    }

    /// Lets time pass until then.
    async fn time<F: Future>(&self, future: F) -> F::Output {
        self.zk.pass_time_until(future).await.unwrap()
    }

    /// Loses a connection, once there is one.
    async fn disconnect(&self) {
        let client = self.sessions.client().await.unwrap();
        self.time(client.exists("/").send()).await.unwrap();
        self.zk.disconnect(client.session_id()).await.unwrap();
    }

    /// Loses the connection, executes `meanwhile` with the writer, and lets the client reconnect.
    async fn while_disconnected<F: Future<Output = ()>>(&self, meanwhile: F) {
        let id = self.session().await;
        self.zk.refuse_connections();
        self.zk.disconnect(id).await.unwrap();
        meanwhile.await;
        self.zk.accept_connections();
        self.time(self.sessions.client().await.unwrap().exists("/").send()).await.unwrap();
    }

    /// Waits until the cache has everything, and compares it with the tree.
    async fn check<T: Send + Sync + 'static>(&self, cache: &Cache<T>, root: &str) {
        let fresh: Result<_, CacheError> = self.time(cache.fresh()).await;
        let fresh = fresh.unwrap();
        let has = |entry: &Entry<T>| (entry.path().to_owned(), entry.stat().czxid, entry.stat().mzxid);
        let got: Vec<_> = fresh.iter().map(|entry| has(entry)).collect();
        let tree = self.zk.tree();
        let below = format!("{}/", root.trim_end_matches('/'));
        let inside = |path: &str| path == root || path.starts_with(&below);
        let mut expected: Vec<_> = tree
            .iter()
            .filter(|node| inside(&node.path))
            .map(|node| (node.path.clone(), node.stat.czxid, node.stat.mzxid))
            .collect();
        expected.sort();
        assert_eq!(got, expected);
        assert_eq!(fresh.stale_since(), None);
    }
}

/// Creates or replaces what others may see in passing.
async fn put(zk: &Client, path: &str, data: &str) {
    zk.create(path.to_owned(), data.to_owned()).parents().await.unwrap();
}

async fn idle(zk: &TestServer) -> Result<(), FixtureError> {
    zk.wait_until_idle().await
}
