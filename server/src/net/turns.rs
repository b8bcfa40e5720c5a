//! [`Turns`]: they process inputs and deadlines under one lock, and so in one order. The task that submits something
//! takes the turn itself; only batches of slow connections are left to the [driver](crate::net::driver).

use std::future::pending;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Span;
use zoolet_clock::Clock;
use zoolet_proto::{Incoming, OpCode, SessionId};
use zoolet_server_core::{ConnId, Core, Input, Millis};

use crate::durable::CommitQueue;
use crate::engine::{Batch, Engine};
use crate::locked::locked;
use crate::net::registry::{PeerState, Registration};
use crate::net::stats::ServerStats;

/// A batch of a slow connection, for the driver. A connection has at most one.
pub(crate) struct SlowBatch {
    pub(crate) conn: ConnId,
    pub(crate) read: Instant,
    pub(crate) inputs: Batch,
}

/// What a turn needs.
pub(crate) struct Turns {
    pub(crate) engine: Arc<Mutex<Engine>>,
    /// Batches, calls and deadlines that are accepted and not completely processed.
    pub(crate) open: AtomicUsize,
    /// Notified if a turn has moved the next deadline. It stays open until the driver has set its timer anew.
    pub(crate) moved: Notify,
    slow: mpsc::UnboundedSender<SlowBatch>,
    /// The way to the log, if there is one.
    commits: Option<Arc<CommitQueue>>,
    stats: Arc<ServerStats>,
    pub(crate) clock: Clock,
    pub(crate) stop: CancellationToken,
    /// The server's, as a turn also logs about other connections than that of its task.
    span: Span,
}

impl Turns {
    /// Turns, and what they leave to the driver.
    pub(crate) fn new(
        engine: Arc<Mutex<Engine>>,
        commits: Option<Arc<CommitQueue>>,
        stats: Arc<ServerStats>,
        clock: Clock,
        stop: CancellationToken,
        span: Span,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<SlowBatch>) {
        let (slow, batches) = mpsc::unbounded_channel();
        let (open, moved) = (AtomicUsize::new(0), Notify::new());
        (Arc::new(Self { engine, open, moved, slow, commits, stats, clock, stop, span }), batches)
    }

    /// Takes a turn. Returns the engine after it, or `None` once the server is stopped or a turn has panicked.
    pub(crate) fn take(&self, work: impl FnOnce(&mut Engine, Millis)) -> Option<MutexGuard<'_, Engine>> {
        let mut engine = locked(&self.engine);
        if engine.in_turn || self.stop.is_cancelled() {
            return None;
        }
        engine.in_turn = true;
        // A turn that panics stops the server: the state that it leaves can only be read.
        let stop_on_panic = self.stop.drop_guard_ref();
        let (at, now) = self.clock.now_and_unix_millis();
        let now = Millis(now);
        self.span.in_scope(|| {
            engine.begin_turn(now, &self.clock);
            if let Some(measures) = &mut engine.bus.measures {
                measures.begin_turn(at, self.open.load(Ordering::Relaxed));
            }
            work(&mut engine, now);
            engine.end_turn(now);
        });
        stop_on_panic.disarm();
        engine.in_turn = false;
        engine.turns += 1;
        Some(engine)
    }

    /// Submits a batch: in a turn of its own or, if the connection is slow, to the driver. False once the server has stopped.
    pub(crate) async fn submit(&self, from: &Registration, inputs: &mut Batch) -> bool {
        let conn = from.id;
        let PeerState { slow, waits_for_room, .. } = &from.peer.state;
        // Before anything that it may wait for: the log, the queue of slow connections, the engine.
        let read = self.clock.now();
        let requests = count_requests(inputs);
        if requests > 0 {
            from.peer.begin_requests(requests);
        }
        // Not later, as the turn counts what it has handled and subtracts what it returns.
        let received = Received::new(&self.stats, requests as u64);
        if let Some(commits) = &self.commits {
            // The room is not reserved: those that have waited go on all at once, each with a batch.
            if commits.is_full() && inputs.iter().any(takes_zxid) {
                waits_for_room.store(true, Ordering::Relaxed);
                commits.has_room().await;
            }
        }
        mem::forget(received);
        let is_taken = if slow.load(Ordering::Relaxed) {
            self.open.fetch_add(1, Ordering::Relaxed);
            let inputs = mem::take(inputs);
            self.slow.send(SlowBatch { conn, read, inputs }).is_ok()
        } else {
            self.act(|engine, now| engine.take(now, conn, read, inputs, false)).is_some()
        };
        // Not before, as a turn for deadlines may come first. Mostly it is not set, and memory that other threads read is not written.
        if waits_for_room.load(Ordering::Relaxed) {
            waits_for_room.store(false, Ordering::Relaxed);
        }
        is_taken
    }

    /// Calls the engine in a turn; `None` once the server has stopped.
    pub(crate) fn act<T>(&self, act: impl FnOnce(&mut Engine, Millis) -> T) -> Option<T> {
        self.open.fetch_add(1, Ordering::Relaxed);
        let mut outcome = None;
        let engine = self.take(|engine, now| outcome = Some(act(engine, now)));
        let has_moved = engine.is_some_and(|mut engine| engine.waits_for_timer());
        if has_moved {
            // It stays open until the timer is set anew: a manual clock must not advance before.
            self.moved.notify_one();
        } else {
            self.open.fetch_sub(1, Ordering::Release);
        }
        outcome
    }

    /// Lets messages leave whose transactions have become durable. Every turn begins with that, so an empty one does no more.
    pub(crate) fn release_durable(&self) {
        self.act(|_, _| {});
    }

    /// Reads the state; `None` once the server has stopped.
    pub(crate) fn read<T>(&self, question: impl FnOnce(&Core) -> T) -> Option<T> {
        self.act(|engine, _| question(engine.bus.core()))
    }

    /// Whether everything that was submitted is processed, to the last message it led to.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_idle = || self.commits.as_ref().is_none_or(|commits| commits.is_idle());
        self.open.load(Ordering::Acquire) == 0 && is_idle()
    }

    /// Waits until messages may leave that wait for the log: the next turn lets them.
    pub(crate) async fn advanced(&self) {
        match &self.commits {
            Some(commits) => commits.advanced().await,
            None => pending().await,
        }
    }
}

/// Requests that count as received. If it is dropped they do not: their connection was closed while they waited for the log.
struct Received<'s> {
    stats: &'s ServerStats,
    requests: u64,
}

impl<'s> Received<'s> {
    fn new(stats: &'s ServerStats, requests: u64) -> Self {
        stats.received.fetch_add(requests, Ordering::Relaxed);
        Self { stats, requests }
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        self.stats.received.fetch_sub(self.requests, Ordering::Relaxed);
    }
}

/// How many inputs are requests.
fn count_requests(inputs: &Batch) -> usize {
    inputs.iter().filter(|input| matches!(input, Input::Connect(_) | Input::Request(_))).count()
}

/// Whether an input is something for the log.
fn takes_zxid(input: &Input) -> bool {
    match input {
        Input::Request(Incoming { op, .. }) => OpCode::from_code(*op).is_some_and(OpCode::takes_zxid),
        // A session that exists is resumed without a transaction.
        Input::Connect(request) => request.session == SessionId(0),
        Input::Open(_) | Input::Closed => false,
    }
}
