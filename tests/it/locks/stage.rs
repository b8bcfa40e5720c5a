//! The stage of one schedule: a server, the contenders that come to it, and what is asked of them whenever nothing is left
//! to do.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;
use zoolet::testing::TestServer;
use zoolet::{Client, Server, SessionId};

use crate::common::test_ensemble;
use crate::locks::audit::{Audit, Claim};
use crate::locks::contender::Seat;
use crate::locks::recipe::{Held, Part, Recipe};
use crate::locks::store::{Outside, STORE};

/// The session timeout of every contender.
pub const TIMEOUT: Duration = Duration::from_secs(4);

pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub struct Stage {
    pub zk: TestServer,
    pub recipe: Recipe,
    pub outside: Mutex<Outside>,
    pub claims: Mutex<Vec<Claim>>,
    seats: Mutex<Vec<Arc<Seat>>>,
    audit: Mutex<Audit>,
    /// Futures that are polled repeatedly, though nothing wakes them.
    pub restless: Arc<AtomicUsize>,
    /// How often all was looked at while nothing was held up.
    calms: AtomicU64,
    /// Until when a contender may wait for a timer after the answer "not now".
    put_off: Mutex<Option<Instant>>,
    told: Mutex<Vec<String>>,
    /// What is printed of the schedule if it fails.
    name: String,
}

/// What a contender may be doing.
#[derive(Debug)]
pub enum Phase {
    /// It wants nothing, and so may have nothing.
    Idle,
    /// It waits for the lock.
    Acquiring,
    /// It asks for something else and waits for the answer.
    Asking,
    /// It has the lock, and rests.
    Holding(Held),
}

impl Stage {
    pub async fn start(recipe: Recipe, seed: u64, name: impl fmt::Debug, endpoints: usize) -> Arc<Self> {
        let server = Server::builder()
            .tick_time(millis(500))
            .container_check_interval(Duration::from_secs(2))
            .container_max_never_used(Duration::from_secs(2));
        let builder = test_ensemble(endpoints).seed(seed).server(server).znode(STORE, "0 0");
        Arc::new(Self {
            zk: builder.start().await.expect("a server"),
            recipe,
            outside: Mutex::default(),
            claims: Mutex::default(),
            seats: Mutex::default(),
            audit: Mutex::new(Audit::new(recipe)),
            restless: Arc::default(),
            calms: AtomicU64::new(0),
            put_off: Mutex::default(),
            told: Mutex::default(),
            name: format!("{name:?}"),
        })
    }

    /// Makes the directories of the recipe. If so wanted, they have had so many children already.
    pub async fn make_directories(&self, counter: Option<u32>) {
        for dir in self.recipe.directories() {
            self.zk.set(dir, "").await.expect("a directory");
            if let Some(counter) = counter {
                self.zk.set_counter(dir, counter).await.expect("a directory");
            }
        }
    }

    /// A contender of its own session, whose first connection is at that endpoint.
    pub async fn seat(&self, endpoint: usize) -> Arc<Seat> {
        let options = self.zk.options().session_timeout(TIMEOUT);
        let connecting = options.connect(self.zk.connector_at(endpoint));
        let client = self.zk.pass_time_until(connecting).await.expect("time passes").expect("a session");
        self.seat_of(client)
    }

    /// A contender of a session that others may have, too.
    pub fn seat_of(&self, client: Client) -> Arc<Seat> {
        let mut seats = locked(&self.seats);
        let seat = Arc::new(Seat::new(seats.len(), client));
        seats.push(Arc::clone(&seat));
        seat
    }

    pub fn seats(&self) -> Vec<Arc<Seat>> {
        locked(&self.seats).clone()
    }

    /// Waits until nothing is left to do in this moment.
    pub async fn rest(&self) {
        loop {
            self.zk.wait_until_idle().await.expect("it comes to rest");
            if self.restless.load(SeqCst) == 0 {
                return;
            }
        }
    }

    /// Advances the clock to the next timeout; false if there is none.
    pub async fn next_moment(&self) -> bool {
        self.rest().await;
        let moved = self.zk.clock().advance_to_next_timeout(Duration::MAX).expect("a manual clock");
        self.rest().await;
        moved.is_some()
    }

    /// What the server's transactions show, up to now.
    pub fn audit(&self) -> MutexGuard<'_, Audit> {
        let mut audit = locked(&self.audit);
        audit.go_on(&self.zk.transactions());
        audit
    }

    /// Notes that a contender was given the lock.
    pub fn note_claim(&self, part: Part, held: &Held, instead_of: Option<(String, u64)>) {
        let guard = held.guard();
        let (nodes, token) = (guard.nodes().to_vec(), guard.token().get());
        let (session, exclusive) = (guard.session_id().0, self.recipe.is_exclusive(part));
        let claim = Claim { session, nodes, token, exclusive, instead_of, at: self.zk.last_zxid().0 };
        locked(&self.claims).push(claim);
    }

    /// Deletes a znode, as an operator does to evict its owner; false if it does not exist.
    pub async fn evict(&self, path: &str) -> bool {
        // What comes between the look and the deletion would be evicted, too.
        self.rest().await;
        let is_gone =
            |node: &str| node.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        for node in self.zk.tree().iter().filter(|node| node.owner().is_some() && is_gone(&node.path)) {
            for seat in self.seats().iter().filter(|seat| seat.is_named_by(node)) {
                seat.evicted.store(true, SeqCst);
            }
        }
        self.zk.delete(path).await.is_ok()
    }

    /// Lets a session appear to have moved. Its client tries again a little later.
    pub async fn move_session(&self, session: SessionId) {
        *locked(&self.put_off) = Some(self.zk.clock().now() + TIMEOUT);
        // One without a connection does not move.
        let _ = self.zk.move_session(session).await;
    }

    /// Whether a contender may be waiting to retry.
    pub fn is_put_off(&self) -> bool {
        locked(&self.put_off).is_some_and(|until| self.zk.clock().now() < until)
    }

    /// Rewrites the data of a znode, as a client does that revokes the lock of its owner.
    pub async fn touch(&self, path: &str) {
        // What comes between the look and the write could delete it, and the write would create it again.
        self.rest().await;
        let Some(node) = self.zk.get(path) else { return };
        // It cannot be written while the leader is unreachable.
        let _ = self.zk.set(path, node.data.unwrap_or_default()).await;
    }

    /// Notes what came of something.
    pub fn tell(&self, what: fmt::Arguments<'_>) {
        locked(&self.told).push(what.to_string());
    }

    pub fn told(&self) -> Vec<String> {
        locked(&self.told).clone()
    }

    pub fn note_quiescent(&self) {
        self.calms.fetch_add(1, SeqCst);
    }

    pub fn calms(&self) -> u64 {
        self.calms.load(SeqCst)
    }

    /// What must hold in the end in any case.
    pub fn judge(&self) {
        let claims = locked(&self.claims);
        self.audit().judge(&claims);
        locked(&self.outside).judge();
    }
}

impl Drop for Stage {
    #[allow(clippy::print_stderr, reason = "explains a failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the schedule was {}", self.name);
        }
    }
}

/// A lock is poisoned only when a test fails.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
