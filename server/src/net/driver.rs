//! Turns: they process inputs and deadlines under one lock, and so in one order. A connection task that submits inputs
//! while nothing else is pending takes the turn itself; all else goes to the driver, a task that also keeps the time.
//!
//! Batches of a connection that is slow, because one of them has used up a turn, wait in a second queue of the driver.
//! It serves that queue one batch at a time while no other batch waits, and for at most half of the time while others do.

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use smallvec::SmallVec;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use tracing::Span;
use zoolet_clock::Clock;
use zoolet_proto::{Incoming, OpCode};
use zoolet_server_core::{ConnId, Core, Input, Millis};

use crate::durable::CommitQueue;
use crate::engine::{Engine, locked};
use crate::net::registry::Registry;

#[cfg(test)]
mod tests;

/// How many items the driver takes at once.
const TURN: usize = 128;

/// How many items the inbox holds before senders have to wait.
const INBOX: usize = 1024;

/// Work for the driver.
pub(crate) enum Item {
    /// A batch of a connection, read at a time, and whether the connection is slow.
    Inputs { conn: ConnId, at: Millis, inputs: Batch, slow: bool },
    /// A call of the engine between two inputs.
    Act(Job),
}

/// Most reads yield one request, which needs no allocation.
pub(crate) type Batch = SmallVec<[Input; 1]>;

type Job = Box<dyn FnOnce(&mut Engine, Millis) + Send>;

/// Submits work to a turn.
#[derive(Clone)]
pub(crate) struct Inbox {
    items: mpsc::Sender<Item>,
    turns: Arc<Turns>,
}

/// What a turn needs, in the driver or in a connection task.
struct Turns {
    engine: Arc<Mutex<Engine>>,
    /// Batches, jobs and deadlines that are accepted and not completely processed.
    open: AtomicUsize,
    /// Notified if a turn of a connection task has moved the next deadline. That batch stays open.
    moved: Notify,
    /// The way to the log, if there is one.
    commits: Option<Arc<CommitQueue>>,
    clock: Clock,
    stop: CancellationToken,
    /// The server's, as a turn also logs about other connections than that of its task.
    span: Span,
}

impl Turns {
    /// Takes a turn. Returns the engine after it, or `None` once the server is stopped or a turn has panicked.
    fn take(&self, work: impl FnOnce(&mut Engine, Millis)) -> Option<MutexGuard<'_, Engine>> {
        let mut engine = locked(&self.engine);
        if engine.in_turn || self.stop.is_cancelled() {
            return None;
        }
        engine.in_turn = true;
        // A turn that panics stops the server: the state that it leaves can only be read.
        let broken = self.stop.drop_guard_ref();
        let now = self.now();
        self.span.in_scope(|| {
            engine.begin_turn(now, &self.clock);
            work(&mut engine, now);
            engine.end_turn(now);
        });
        broken.disarm();
        engine.in_turn = false;
        Some(engine)
    }

    fn now(&self) -> Millis {
        Millis(self.clock.unix_millis())
    }
}

impl Inbox {
    /// Submits a batch: in a turn of its own if nothing else is pending and the connection is not slow, or else to the
    /// driver, waiting while the inbox is full. False, and the batch stays, once the server has stopped.
    pub(crate) async fn send(&self, conn: ConnId, inputs: &mut Batch, slow: bool) -> bool {
        if let Some(commits) = &self.turns.commits {
            if commits.is_full() && inputs.iter().any(takes_zxid) {
                commits.has_room().await;
            }
        }
        // While nothing is open, all earlier batches of this connection are processed: its order is kept.
        let open = &self.turns.open;
        if !slow
            && !self.items.is_closed()
            && open.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            return self.take_turn(conn, inputs);
        }
        let at = self.turns.now();
        // With a permit the batch is sent completely or not at all, even if the caller gives up waiting.
        let permit = match self.items.try_reserve() {
            Err(TrySendError::Full(())) => self.items.reserve().await.ok(),
            permit => permit.ok(),
        };
        let Some(permit) = permit else { return false };
        self.fill(permit, Item::Inputs { conn, at, inputs: mem::take(inputs), slow });
        true
    }

    /// Takes a turn with the only open batch. Its memory is kept for the next one.
    fn take_turn(&self, conn: ConnId, inputs: &mut Batch) -> bool {
        let turns = &*self.turns;
        let Some(engine) = turns.take(|engine, now| engine.take(now, conn, now, inputs, false)) else {
            return false;
        };
        let moved = engine.next_timeout() != engine.timer;
        drop(engine);
        if moved {
            // It stays open until the timer is set anew: a manual clock must not advance before.
            turns.moved.notify_one();
        } else {
            turns.open.fetch_sub(1, Ordering::Release);
        }
        true
    }

    /// Reads the state; `None` once the driver has ended.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Core) -> T + Send + 'static,
    ) -> Option<T> {
        self.act(|engine, _| question(engine.bus.core())).await
    }

    /// Calls the engine; `None` once the driver has ended.
    ///
    /// If the future is dropped before the call is made, it is not made.
    pub(crate) async fn act<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine, Millis) -> T + Send + 'static,
    ) -> Option<T> {
        let (done, outcome) = oneshot::channel();
        let job: Job = Box::new(move |engine, now| {
            if !done.is_closed() {
                let _ = done.send(act(engine, now));
            }
        });
        let permit = self.items.reserve().await.ok()?;
        self.fill(permit, Item::Act(job));
        outcome.await.ok()
    }

    /// Whether everything that was submitted is processed, to the last message it led to.
    pub(crate) fn is_quiet(&self) -> bool {
        let Turns { open, commits, .. } = &*self.turns;
        open.load(Ordering::Acquire) == 0 && commits.as_ref().is_none_or(|commits| commits.is_idle())
    }

    fn fill(&self, permit: mpsc::Permit<'_, Item>, item: Item) {
        self.turns.open.fetch_add(1, Ordering::Relaxed);
        permit.send(item);
    }
}

/// Takes the turns that no connection task takes, and those for deadlines.
pub(crate) struct Driver {
    turns: Arc<Turns>,
    inbox: mpsc::Receiver<Item>,
    registry: Arc<Registry>,
}

/// Without a driver no deadline is met: the server stops when it ends, even if it never ran.
impl Drop for Driver {
    fn drop(&mut self) {
        self.turns.stop.cancel();
        self.registry.abort_all();
    }
}

impl Driver {
    pub(crate) fn new(
        engine: Arc<Mutex<Engine>>,
        registry: Arc<Registry>,
        commits: Option<Arc<CommitQueue>>,
        clock: Clock,
        stop: CancellationToken,
        span: Span,
    ) -> (Self, Inbox) {
        let (items, inbox) = mpsc::channel(INBOX);
        let (open, moved) = (AtomicUsize::new(0), Notify::new());
        let turns = Arc::new(Turns { engine, open, moved, commits, clock, stop, span });
        (Self { turns: Arc::clone(&turns), inbox, registry }, Inbox { items, turns })
    }

    /// Runs until the server is stopped.
    pub(crate) async fn run(mut self) {
        let turns = &*self.turns;
        let Turns { engine, open, moved, commits, clock, stop, .. } = turns;
        let mut stopped = pin!(stop.cancelled());
        let due = locked(engine).timer;
        let mut timer = clock
            .sleep_until(clock.instant_of(due.0))
            .internal("the server: its next deadline, such as the end of a session");
        let mut items = Vec::with_capacity(TURN);
        let mut slow = VecDeque::new();
        // When a slow batch is next although others wait: they have had as long as the last one took.
        let mut slow_from = clock.now();
        loop {
            if !slow.is_empty() {
                // Replies leave, and others submit their batches, before the next slow one.
                yield_now().await;
            }
            let (mut timer_fired, mut moved_on) = (false, false);
            // Inputs may never end, so they come last.
            tokio::select! {
                biased;
                () = &mut stopped => return,
                () = &mut timer => timer_fired = true,
                () = moved.notified() => moved_on = true,
                () = advanced(commits) => {}
                got = self.inbox.recv_many(&mut items, TURN) => if got == 0 { return },
                () = ready(()), if !slow.is_empty() => {}
            }
            if timer_fired {
                // What clients have sent by now was sent in time, though it may still be in a socket. So other tasks run first:
                // with one thread, all that the runtime can poll. If there are many connections, neither the inbox nor one
                // poll of the sockets holds all of them.
                open.fetch_add(1, Ordering::Relaxed);
                for _ in 0..1 + 2 * (self.registry.len() / INBOX) {
                    yield_now().await;
                    let queued = self.inbox.len();
                    items.extend((0..queued).map_while(|_| self.inbox.try_recv().ok()));
                }
            }
            let mut taken = items.len() + usize::from(timer_fired) + usize::from(moved_on);
            let mut slow_is_next = !slow.is_empty() && (taken == 0 || clock.now() >= slow_from);
            let mut due_now = timer_fired;
            let mut waiting = items.drain(..);
            // A turn that is full ends early; the rest comes in the next one, after other tasks have run.
            let (due, is_wrong) = loop {
                let mut more = false;
                let ended = {
                    let turn = turns.take(|engine, now| {
                        if mem::take(&mut slow_is_next) {
                            if let Some((conn, at, mut inputs)) = slow.pop_front() {
                                (taken, more) = (taken + 1, true);
                                let begun = clock.now();
                                engine.take(now, conn, at, &mut inputs, true);
                                let end = clock.now();
                                slow_from = end + (end - begun);
                                return;
                            }
                        }
                        for item in waiting.by_ref() {
                            match item {
                                Item::Inputs { conn, at, inputs, slow: true } => {
                                    taken -= 1;
                                    slow.push_back((conn, at, inputs));
                                }
                                Item::Inputs { conn, at, mut inputs, .. } => {
                                    engine.take(now, conn, at, &mut inputs, false);
                                }
                                Item::Act(job) => job(engine, now),
                            }
                            if engine.bus.turn_is_full() {
                                more = true;
                                return;
                            }
                        }
                        if mem::take(&mut due_now) {
                            engine.take_due(now);
                        }
                    });
                    let Some(mut engine) = turn else { return };
                    let due = engine.next_timeout();
                    (!more).then(|| (due, mem::replace(&mut engine.timer, due) != due))
                };
                match ended {
                    Some(ended) => break ended,
                    None => yield_now().await,
                }
            };
            drop(waiting);
            // Deadlines move far less often than turns come; setting the timer anew costs more than comparing.
            if is_wrong || timer_fired {
                timer.reset(clock.instant_of(due.0));
            }
            open.fetch_sub(taken, Ordering::Release);
        }
    }
}

/// Waits until messages may leave that wait for the log: the next turn lets them.
async fn advanced(commits: &Option<Arc<CommitQueue>>) {
    match commits {
        Some(commits) => commits.advanced().await,
        None => pending().await,
    }
}

/// Whether an input is something for the log.
fn takes_zxid(input: &Input) -> bool {
    match input {
        Input::Request(Incoming { op, .. }) => OpCode::from_code(*op).is_some_and(OpCode::takes_zxid),
        Input::Connect(_) => true,
        Input::Open { .. } | Input::Closed => false,
    }
}
