//! Turns: what comes in and what is due become what goes out, under one lock and so in one order. Whoever brings something
//! while nothing else is under way takes the turn at once; the rest is the driver's, a task that also keeps the time.

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
use zoolet_server_core::{ConnId, Core, Input, Millis};

use crate::engine::{Engine, locked};
use crate::net::registry::Registry;

#[cfg(test)]
mod tests;

/// How many items are taken as one turn.
const TURN: usize = 128;

/// How many items wait at most before whoever sends more has to wait.
const INBOX: usize = 1024;

/// What the driver is sent.
pub(crate) enum Item {
    /// What one read of a connection gave.
    Inputs { conn: ConnId, at: Millis, inputs: Batch },
    /// Something for the engine to do or to tell, between two inputs.
    Act(Job),
}

/// Most reads of most connections give one request, which needs no allocation.
pub(crate) type Batch = SmallVec<[Input; 1]>;

type Job = Box<dyn FnOnce(&mut Engine, Millis) + Send>;

/// The way to a turn.
#[derive(Clone)]
pub(crate) struct Inbox {
    items: mpsc::Sender<Item>,
    turns: Arc<Turns>,
}

/// What a turn needs, whoever takes it.
struct Turns {
    engine: Arc<Mutex<Engine>>,
    /// Batches and jobs that were let in, and alarms, that are not dealt with to the end.
    open: AtomicUsize,
    /// Told when a turn that was not the driver's has moved what the alarm is set for. What it dealt with stays open.
    moved: Notify,
    clock: Clock,
    stop: CancellationToken,
    /// The server's, as a turn tells of other connections than the one whose task takes it.
    span: Span,
}

impl Turns {
    /// Takes a turn of this work; the engine behind it, or `None` once the server is stopped or a turn has panicked.
    fn take(&self, work: impl FnOnce(&mut Engine, Millis)) -> Option<MutexGuard<'_, Engine>> {
        let mut engine = locked(&self.engine);
        if engine.in_turn || self.stop.is_cancelled() {
            return None;
        }
        engine.in_turn = true;
        let broken = StopIfBroken(&self.stop);
        let now = self.now();
        self.span.in_scope(|| {
            work(&mut engine, now);
            engine.end_turn(now);
        });
        mem::forget(broken);
        engine.in_turn = false;
        Some(engine)
    }

    fn now(&self) -> Millis {
        Millis(self.clock.unix_millis())
    }
}

/// Stops the server if a turn panics: what it leaves behind is for looking at only.
struct StopIfBroken<'a>(&'a CancellationToken);

impl Drop for StopIfBroken<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Inbox {
    /// Brings what one read gave: to a turn of its own if nothing else is under way, to the driver otherwise, and waits
    /// while there is too much. False, and it stays, once the server has stopped.
    pub(crate) async fn send(&self, conn: ConnId, inputs: &mut Batch) -> bool {
        // While nothing is open, whatever this connection has sent before is dealt with: its order is kept.
        let open = &self.turns.open;
        if !self.items.is_closed() && open.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            return self.take_turn(conn, inputs);
        }
        let at = self.turns.now();
        // With a place it cannot be left behind half sent, whoever gives up waiting. Most often there is one.
        let place = match self.items.try_reserve() {
            Err(TrySendError::Full(())) => self.items.reserve().await.ok(),
            place => place.ok(),
        };
        let Some(place) = place else { return false };
        self.fill(place, Item::Inputs { conn, at, inputs: mem::take(inputs) });
        true
    }

    /// Takes a turn with the one thing that is open. The inputs leave their memory to the next ones.
    fn take_turn(&self, conn: ConnId, inputs: &mut Batch) -> bool {
        let turns = &*self.turns;
        let Some(engine) = turns.take(|engine, now| engine.take(now, conn, now, inputs.drain(..))) else {
            return false;
        };
        let moved = engine.next_timeout() != engine.timer;
        drop(engine);
        if moved {
            // It stays open until the alarm is right, so that nobody moves the time before.
            turns.moved.notify_one();
        } else {
            turns.open.fetch_sub(1, Ordering::Release);
        }
        true
    }

    /// Asks the state; `None` once the driver has ended.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Core) -> T + Send + 'static,
    ) -> Option<T> {
        self.act(|engine, _| question(engine.bus.core())).await
    }

    /// Has the engine do something; `None` once the driver has ended.
    ///
    /// Cancel safe in so far as it is done or not; what it gives is lost.
    pub(crate) async fn act<T: Send + 'static>(
        &self,
        deed: impl FnOnce(&mut Engine, Millis) -> T + Send + 'static,
    ) -> Option<T> {
        let (done, outcome) = oneshot::channel();
        let job: Job = Box::new(move |engine, now| {
            let _ = done.send(deed(engine, now));
        });
        let place = self.items.reserve().await.ok()?;
        self.fill(place, Item::Act(job));
        outcome.await.ok()
    }

    /// Whether everything that was sent is dealt with, to the last message it led to.
    pub(crate) fn is_quiet(&self) -> bool {
        self.turns.open.load(Ordering::Acquire) == 0
    }

    fn fill(&self, place: mpsc::Permit<'_, Item>, item: Item) {
        self.turns.open.fetch_add(1, Ordering::Relaxed);
        place.send(item);
    }
}

/// Takes the turns that nobody else takes, and those that are due.
pub(crate) struct Driver {
    turns: Arc<Turns>,
    inbox: mpsc::Receiver<Item>,
    registry: Arc<Registry>,
    _ending: Ending,
}

/// Stops the server when the driver ends, however it ends, be it before it ran: without it time stands still.
struct Ending {
    stop: CancellationToken,
    registry: Arc<Registry>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.stop.cancel();
        self.registry.abort_all();
    }
}

impl Driver {
    pub(crate) fn new(
        engine: Arc<Mutex<Engine>>,
        registry: Arc<Registry>,
        clock: Clock,
        stop: CancellationToken,
        span: Span,
    ) -> (Self, Inbox) {
        let (items, inbox) = mpsc::channel(INBOX);
        let (open, moved) = (AtomicUsize::new(0), Notify::new());
        let _ending = Ending { stop: stop.clone(), registry: Arc::clone(&registry) };
        let turns = Arc::new(Turns { engine, open, moved, clock, stop, span });
        (Self { turns: Arc::clone(&turns), inbox, registry, _ending }, Inbox { items, turns })
    }

    /// Runs until the server is stopped.
    pub(crate) async fn run(mut self) {
        let Turns { engine, open, moved, clock, stop, .. } = &*self.turns;
        let mut stopped = pin!(stop.cancelled());
        let due = locked(engine).timer;
        let mut timer = clock.sleep_until(clock.instant_of(due.0));
        let mut items = Vec::with_capacity(TURN);
        loop {
            let (mut timer_fired, mut moved_on) = (false, false);
            // What comes in may never end, and is looked at last.
            tokio::select! {
                biased;
                () = &mut stopped => return,
                () = &mut timer => timer_fired = true,
                () = moved.notified() => moved_on = true,
                got = self.inbox.recv_many(&mut items, TURN) => if got == 0 { return },
            }
            if timer_fired {
                // What has been sent by now was sent in time, though it may lie in a socket yet. So others run before, and all
                // of those that the runtime has something for if it has one thread. Where there are many they don't all have
                // room in the inbox at once, nor does the runtime look at all sockets at once.
                open.fetch_add(1, Ordering::Relaxed);
                for _ in 0..1 + 2 * (self.registry.len() / INBOX) {
                    yield_now().await;
                    let there = self.inbox.len();
                    items.extend((0..there).map_while(|_| self.inbox.try_recv().ok()));
                }
            }
            let taken = items.len() + usize::from(timer_fired) + usize::from(moved_on);
            let mut due_now = timer_fired;
            let mut waiting = items.drain(..);
            // A turn that is full ends early; the rest comes in the next one.
            let (due, is_wrong) = loop {
                let mut more = false;
                let turn = self.turns.take(|engine, now| {
                    for item in waiting.by_ref() {
                        match item {
                            Item::Inputs { conn, at, inputs } => engine.take(now, conn, at, inputs),
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
                if !more {
                    let due = engine.next_timeout();
                    break (due, mem::replace(&mut engine.timer, due) != due);
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
