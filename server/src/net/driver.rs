//! The driver: the one task that turns what comes in into what goes out. One loop, in which everything that can happen
//! meets.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use smallvec::SmallVec;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use zoolet_clock::Clock;
use zoolet_core::{ConnId, Core, Input, Millis};

use crate::engine::{Engine, locked};
use crate::net::registry::Registry;

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

/// The way to the driver.
#[derive(Clone)]
pub(crate) struct Inbox {
    items: mpsc::Sender<Item>,
    /// Items that are sent and not dealt with to the end.
    open: Arc<AtomicUsize>,
}

impl Inbox {
    /// Takes what one read gave; waits while the inbox is full. False, and it stays, once the driver has ended.
    pub(crate) async fn send(&self, conn: ConnId, at: Millis, inputs: &mut Batch) -> bool {
        // With a place it cannot be left behind half sent, whoever gives up waiting. Most often there is one.
        let place = match self.items.try_reserve() {
            Err(TrySendError::Full(())) => self.items.reserve().await.ok(),
            place => place.ok(),
        };
        let Some(place) = place else { return false };
        self.fill(place, Item::Inputs { conn, at, inputs: mem::take(inputs) });
        true
    }

    /// Asks the state; `None` once the driver has ended.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Core) -> T + Send + 'static,
    ) -> Option<T> {
        self.act(|engine, _| question(engine.machine.core())).await
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
        self.open.load(Ordering::Acquire) == 0
    }

    fn fill(&self, place: mpsc::Permit<'_, Item>, item: Item) {
        self.open.fetch_add(1, Ordering::Relaxed);
        place.send(item);
    }
}

pub(crate) struct Driver {
    engine: Arc<Mutex<Engine>>,
    inbox: mpsc::Receiver<Item>,
    open: Arc<AtomicUsize>,
    clock: Clock,
    stop: CancellationToken,
}

/// Stops the server when the driver ends, however it ends: without it nobody is answered.
struct Ending {
    stop: CancellationToken,
    registry: Arc<Registry>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.stop.cancel();
        self.registry.kill_all();
    }
}

impl Driver {
    pub(crate) fn new(engine: Arc<Mutex<Engine>>, clock: Clock, stop: CancellationToken) -> (Self, Inbox) {
        let (items, inbox) = mpsc::channel(INBOX);
        let open = Arc::new(AtomicUsize::new(0));
        (Self { engine, inbox, open: Arc::clone(&open), clock, stop }, Inbox { items, open })
    }

    /// Runs until the server is stopped.
    pub(crate) async fn run(mut self) {
        let stop = self.stop.clone();
        let registry = Arc::clone(&locked(&self.engine).registry);
        let _ending = Ending { stop: stop.clone(), registry };
        let mut stopped = std::pin::pin!(stop.cancelled());
        let mut due = locked(&self.engine).next_timeout();
        let mut alarm = self.clock.sleep_until(self.clock.instant_of(due.0));
        let mut turn = Vec::with_capacity(TURN);
        loop {
            let mut rang = false;
            // What comes in comes most often, and is looked at first. Where it never ends, what is due is done at the end of
            // each turn, and the stop is looked for behind this.
            tokio::select! {
                biased;
                got = self.inbox.recv_many(&mut turn, TURN) => if got == 0 { return },
                () = &mut stopped => return,
                () = &mut alarm => rang = true,
            }
            if stop.is_cancelled() {
                return;
            }
            let taken = turn.len();
            let now = Millis(self.clock.unix_millis());
            let next = {
                let mut engine = locked(&self.engine);
                engine.turn(now, turn.drain(..));
                engine.next_timeout()
            };
            self.open.fetch_sub(taken, Ordering::Release);
            // Deadlines move far less often than turns come; setting the alarm anew costs more than looking.
            if next != due || rang {
                due = next;
                alarm.reset(self.clock.instant_of(due.0));
            }
        }
    }
}
