//! What an operator can see of a running server: the same values for the four-letter words and for whoever else shows them.
//!
//! Lists may have millions of entries. A turn copies a slice of them, so that no client waits for a list, but all sessions at once. One
//! list is made at a time. The text that a four-letter word makes of it counts among the unsent bytes of all connections.

mod backup;
mod configuration;
mod connections;
pub(crate) mod environment;
mod inspect;
mod sessions;
mod summary;
mod watches;

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::task::yield_now;
use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{Core, Millis};

use crate::durable::{DirectorySizes, LastSnapshot};
use crate::engine::Engine;
use crate::metrics::{AdminCounts, ServerMetrics};
use crate::net::flow::limits::LISTED;
use crate::shared::Shared;

pub use backup::{RestoreError, StateRestore, TakenSnapshot};
pub use configuration::ServerConfiguration;
pub use connections::ObservedConnection;
pub use inspect::{ConnectionSource, ServerLoad};
pub use summary::{RequestLatency, ServerSummary};
pub use watches::ObservedWatch;
pub use zoolet_server_core::SessionView as ObservedSession;

/// A handle that looks at a running server. It does not keep the server running: once that has stopped, methods that look at it return
/// `None`. Clones look at the same server.
///
/// What a method returns is durable: it waits for the log, as a reply to a client does. So a value that was seen once is not undone by a
/// crash.
#[derive(Clone)]
pub struct Observer {
    shared: Weak<Shared>,
}

/// A list. Only one exists at a time, so make what you need of it and drop it: whoever wants the next one waits for that, the
/// four-letter words included.
pub struct Listing<T: Send + 'static> {
    items: Vec<T>,
    _permit: OwnedMutexGuard<()>,
}

impl Observer {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared) }
    }

    /// The state and the counters of the server as a whole.
    pub async fn summary(&self) -> Option<ServerSummary> {
        let shared = self.shared()?;
        let summary = shared.summary(0)?;
        shared.is_durable().await.then_some(summary)
    }

    /// What [`Server::metrics`](crate::Server::metrics) returns: it waits for nothing, also if the disk answers nothing, and so may
    /// show what is not durable.
    pub fn metrics(&self) -> Option<ServerMetrics> {
        Some(self.shared()?.metrics(0))
    }

    /// Counts what an admin server does, for the metrics of the server that it is of.
    pub fn count_admin(&self, count: impl FnOnce(&mut AdminCounts)) {
        if let Some(shared) = self.shared() {
            count(&mut shared.stats.admin());
        }
    }

    /// Does what [`Server::measure`](crate::Server::measure) does.
    #[cfg(feature = "metrics")]
    pub fn measure(&self) {
        if let Some(shared) = self.shared() {
            shared.measure();
        }
    }

    /// The last snapshot that was loaded or written; none of a server in memory.
    pub fn last_snapshot(&self) -> Option<Option<LastSnapshot>> {
        let shared = self.shared()?;
        Some(shared.log.as_ref().and_then(|log| log.queue.last_snapshot()))
    }

    /// Every connection, oldest first.
    pub async fn connections(&self) -> Option<Listing<ObservedConnection>> {
        self.list(async |shared| shared.connections(Some(0)).await).await
    }

    /// Every session, the first to expire first.
    pub async fn sessions(&self) -> Option<Listing<ObservedSession>> {
        self.list(async |shared| shared.sessions().await).await
    }

    /// The sessions that own ephemerals, with the paths of these, sorted.
    pub async fn ephemerals(&self) -> Option<Listing<(SessionId, Vec<Arc<str>>)>> {
        self.list(async |shared| shared.ephemerals().await).await
    }

    /// The watches on znodes themselves, by connection and then by path. Those on lists of children only are not among them, as on a
    /// real server.
    pub async fn watches(&self) -> Option<Listing<ObservedWatch>> {
        self.list(async |shared| shared.watches(0).await).await
    }

    /// The settings of the server that its clients depend on, and its directories.
    pub async fn configuration(&self) -> Option<ServerConfiguration> {
        self.shared()?.configuration().await
    }

    /// Its directories, and how large they are.
    pub async fn directories(&self) -> Option<DirectorySizes> {
        Some(self.shared()?.dirs().await)
    }

    /// The digest of the tree after the last transaction, of a server that keeps one: with a data directory.
    pub async fn digest(&self) -> Option<(Zxid, Option<u64>)> {
        let shared = self.shared()?;
        let digest = shared.turns.read(|core| (core.tree().last_zxid(), core.tree().digest()))?;
        shared.is_durable().await.then_some(digest)
    }

    /// The environment of the process, with the keys that a real server has.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        environment::variables()
    }

    /// Sets the counters of the server to zero, but for requests that are not answered yet.
    pub fn reset_statistics(&self) -> Option<()> {
        self.shared()?.reset_statistics();
        Some(())
    }

    /// Sets the counters of all connections to zero, but for requests that are not answered yet.
    pub fn reset_connections(&self) -> Option<()> {
        self.shared()?.reset_connections(0);
        Some(())
    }

    /// The trace mask, which has no effect.
    pub fn trace_mask(&self) -> Option<i64> {
        Some(self.shared()?.stats.trace_mask.load(Relaxed))
    }

    /// Sets it.
    pub fn set_trace_mask(&self, mask: i64) -> Option<()> {
        self.shared()?.stats.trace_mask.store(mask, Relaxed);
        Some(())
    }

    /// Makes a list, when it is the only one.
    async fn list<T: Send + 'static>(
        &self,
        make: impl AsyncFnOnce(&Shared) -> Option<Vec<T>>,
    ) -> Option<Listing<T>> {
        let shared = self.shared()?;
        let permit = Arc::clone(&shared.listing).lock_owned().await;
        let items = make(&shared).await?;
        shared.is_durable().await.then_some(Listing { items, _permit: permit })
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.upgrade().filter(|shared| !shared.stop.is_cancelled())
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Deref for Listing<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T: Send + 'static> Drop for Listing<T> {
    fn drop(&mut self) {
        // To free a million paths takes a tenth of a second, in which the thread would serve nobody.
        if let Ok(runtime) = Handle::try_current() {
            let items = mem::take(&mut self.items);
            runtime.spawn_blocking(move || drop(items));
        }
    }
}

impl<T: fmt::Debug + Send + 'static> fmt::Debug for Listing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.fmt(f)
    }
}

impl Shared {
    /// Waits until everything that was decided so far is durable. False if the log has failed before: what was seen may never be.
    pub(crate) async fn is_durable(&self) -> bool {
        match &self.log {
            Some(log) => log.queue.all_durable().await,
            None => true,
        }
    }

    /// Reads the state of a replica, after the tasks that are ready to run.
    pub(crate) async fn read_later<T>(&self, at: usize, question: impl FnOnce(&Core) -> T) -> Option<T> {
        self.act_later(|engine, _| question(engine.bus.machine().replica(at))).await
    }

    /// Calls the engine after the sockets were polled: a task that is answered each time it asks keeps a runtime of one
    /// thread from that.
    pub(crate) async fn act_later<T>(&self, act: impl FnOnce(&mut Engine, Millis) -> T) -> Option<T> {
        yield_now().await;
        self.turns.act(act)
    }
}

/// Lets other tasks run now and then, while something is `made` of a long list.
pub(crate) async fn pause(made: usize) {
    if made % LISTED == LISTED - 1 {
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    use tokio::sync::Mutex;

    use super::*;

    struct Item(mpsc::Sender<ThreadId>);

    impl Drop for Item {
        fn drop(&mut self) {
            let _ = self.0.send(thread::current().id());
        }
    }

    #[tokio::test]
    async fn a_list_is_not_freed_by_the_thread_that_serves_clients() {
        let (sender, freed) = mpsc::channel();
        let permit = Arc::new(Mutex::new(())).lock_owned().await;
        drop(Listing { items: vec![Item(sender)], _permit: permit });
        assert_ne!(freed.recv().expect("an item"), thread::current().id());
    }
}
