//! The engine: the state, and what a turn does to it. Outside of turns only the timer and the snapshot under way are changed.

use std::any::Any;
use std::mem;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use smallvec::SmallVec;
use tokio::time::Instant;
use zoolet_clock::Clock;
use zoolet_proto::Zxid;
use zoolet_server_core::{ConnId, CoreConfig, Input, Millis, StateMachine, ZnodeRecord};
use zoolet_storage::StorageError;
use zoolet_storage::disk::Disk;

use crate::bus::Bus;
use crate::durable::{SLICE, SLICE_BYTES, SnapshotSource, SnapshotStart};
use crate::locked::locked;
use crate::metrics::KeyNames;
use crate::net::flow::limits::COMPARE_CLOCKS;
use crate::net::stream::Transport;

/// Inputs of one connection. Most reads yield one request, which needs no allocation.
pub(crate) type Batch = SmallVec<[Input; 1]>;

/// Makes the state machine of a server, with the given number of replicas.
pub type MakeMachine = fn(CoreConfig, usize, Millis) -> Box<dyn StateMachine>;

/// Sees what passes through a server. All calls but the first two are made in turns, one after the other.
pub trait Interceptor: Send + Sync + 'static {
    /// Whether a new connection from `peer` is accepted. One that is not is reset.
    fn admits(&self, now: Millis, peer: IpAddr) -> bool;

    /// The stream that serves a new connection, made of the one that was accepted.
    fn wrap(&self, conn: ConnId, stream: Box<dyn Transport>) -> Box<dyn Transport>;

    /// Takes an input of a connection that was `read` at a time of the server's clock. Nothing is executed that it does not hand to
    /// [`Bus::handle`].
    fn input(&self, bus: &mut Bus, now: Millis, conn: ConnId, read: Instant, input: Input);

    /// Does what is due. The deadlines of the state machine are met only if this calls [`Bus::handle_timeout`].
    fn deadlines(&self, bus: &mut Bus, now: Millis);

    /// Ends a turn: delivers what it has led to.
    fn flush(&self, bus: &mut Bus, now: Millis);

    /// When [`deadlines`](Interceptor::deadlines) has something to do next, if the state machine has at `machine`.
    fn next_timeout(&self, machine: Millis) -> Millis;
}

/// What is attached to a server, under its own type and as the server uses it.
pub(crate) struct Attached {
    pub(crate) interceptor: Arc<dyn Interceptor>,
    pub(crate) typed: Arc<dyn Any + Send + Sync>,
}

pub(crate) struct Engine {
    pub(crate) bus: Bus,
    /// The names of quotas among the metrics.
    pub(crate) quota_keys: KeyNames,
    /// When the deadline timer is due to fire.
    pub(crate) timer: Millis,
    /// Turns that stay open until it is set anew.
    open_turns: usize,
    /// How many turns there were.
    pub(crate) turns: u64,
    /// Whether a turn is under way, or was when it panicked.
    pub(crate) in_turn: bool,
    pub(crate) interceptor: Option<Arc<dyn Interceptor>>,
    /// When to compare the wall clock with the clock of deadlines again.
    compare_clocks: Millis,
}

impl Engine {
    pub(crate) fn new(bus: Bus) -> Self {
        let timer = bus.machine().next_timeout();
        Self {
            bus,
            quota_keys: KeyNames::default(),
            timer,
            open_turns: 0,
            turns: 0,
            in_turn: false,
            interceptor: None,
            compare_clocks: Millis(i64::MIN),
        }
    }

    /// Begins a turn.
    pub(crate) fn begin_turn(&mut self, now: Millis, clock: &Clock) {
        self.bus.begin_turn(now);
        if self.compare_clocks <= now {
            self.compare_clocks = now.plus(COMPARE_CLOCKS);
            self.bus.core_mut().set_wall_ahead(clock.wall_ahead());
        }
    }

    /// Deals with inputs of a connection that were `read` at a time, until the turn is full, and empties the batch: the
    /// connection submits the rest again. Notes whether it is slow from now on; `slow` is whether it was.
    pub(crate) fn take(&mut self, now: Millis, conn: ConnId, read: Instant, inputs: &mut Batch, slow: bool) {
        let Self { bus, interceptor, .. } = self;
        // The first and the last input of a connection come alone.
        let is_last = matches!(inputs.first(), Some(Input::Closed));
        if matches!(inputs.first(), Some(Input::Open(_))) {
            bus.enter(conn);
        }
        let submitted = inputs.len();
        let taken = match interceptor {
            None => {
                if submitted > 1 {
                    bus.core().prefetch(inputs);
                }
                bus.handle_all(now, conn, read, inputs.drain(..), slow)
            }
            Some(interceptor) => {
                let mut taken = 0;
                for input in inputs.drain(..) {
                    taken += 1;
                    interceptor.input(bus, now, conn, read, input);
                    if bus.turn_is_full() {
                        break;
                    }
                }
                taken
            }
        };
        let left = submitted - taken;
        if left > 0 {
            bus.return_unprocessed(conn, left);
        }
        if is_last {
            bus.leave(conn);
        }
    }

    /// Does what is due. Comes after all inputs: a ping that waited still counts.
    pub(crate) fn take_due(&mut self, now: Millis) {
        match &self.interceptor {
            None => self.bus.handle_timeout(now),
            Some(interceptor) => interceptor.deadlines(&mut self.bus, now),
        }
    }

    /// Delivers what a turn has led to.
    pub(crate) fn end_turn(&mut self, now: Millis) {
        match &self.interceptor {
            None => self.bus.deliver_effects(),
            Some(interceptor) => interceptor.flush(&mut self.bus, now),
        }
        self.bus.end_turn(now);
    }

    /// Whether the timer has to be set anew, for which the turn then waits.
    pub(crate) fn waits_for_timer(&mut self) -> bool {
        let has_moved = self.next_timeout() != self.timer;
        self.open_turns += usize::from(has_moved);
        has_moved
    }

    /// Notes that the timer is set anew. Returns when it is due, and how many turns have waited for that.
    pub(crate) fn set_timer(&mut self) -> (Millis, usize) {
        self.timer = self.next_timeout();
        (self.timer, mem::take(&mut self.open_turns))
    }

    /// Goes on with the state that the data directory has. See [`Bus::reopen`].
    pub(crate) fn reopen(&mut self, now: Millis, disk: Arc<dyn Disk>) -> Result<(), StorageError> {
        self.compare_clocks = Millis(i64::MIN);
        self.bus.reopen(now, disk)
    }

    /// When there is something to do next, whatever comes in.
    pub(crate) fn next_timeout(&self) -> Millis {
        let machine = self.bus.machine().next_timeout();
        self.interceptor.as_ref().map_or(machine, |interceptor| interceptor.next_timeout(machine))
    }
}

impl SnapshotSource for Mutex<Engine> {
    fn begin(&self, begun: Box<dyn FnOnce() + '_>) -> Option<SnapshotStart> {
        let mut engine = locked(self);
        if engine.in_turn {
            return None;
        }
        let start = engine.bus.core_mut().begin_snapshot();
        begun();
        Some(start)
    }

    fn slice(&self, take: &mut dyn FnMut(ZnodeRecord)) -> Option<bool> {
        let mut engine = locked(self);
        (!engine.in_turn).then(|| engine.bus.core_mut().next_slice(SLICE, SLICE_BYTES, take))
    }

    fn end(&self) {
        locked(self).bus.core_mut().end_snapshot();
    }

    fn last_zxid(&self) -> Zxid {
        locked(self).bus.core().tree().last_zxid()
    }
}
