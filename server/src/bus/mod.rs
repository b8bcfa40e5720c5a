//! [`Bus`]: the state machine with its connections. Inputs are executed here; [`deliver`] has the way of their effects.

use std::mem;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hashbrown::HashMap;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;
use zoolet_clock::Clock;
use zoolet_proto::{Incoming, OpCode, SessionId, Zxid};
use zoolet_server_core::{ConnId, Core, Effects, Input, Millis, StateMachine, Tree, Txn};
use zoolet_storage::disk::Disk;
use zoolet_storage::{SnapshotSpool, SpooledState, StorageError};

use self::feed::{Follower, TxnFeed};
use crate::durable::{DurabilityGate, RestoredState};
use crate::metrics::Measures;
use crate::net::flow::cost::{Cost, TurnLimit, is_without_effect};
use crate::net::registry::{Peer, Registry};
use crate::net::stats::{ConnStats, Executed, LastRequest, ServerStats, TurnCounts};

mod deadlines;
mod deliver;
pub(crate) mod feed;
mod statistics;

/// The state machine of a server, its connections and its statistics. An interceptor borrows it for one call.
pub struct Bus {
    machine: Box<dyn StateMachine>,
    registry: Arc<Registry>,
    pub(crate) stats: Arc<ServerStats>,
    /// Open connections. They are entered with their first input, and leave with their last.
    conns: HashMap<ConnId, Conn>,
    /// The way to the log, if there is one.
    gate: Option<DurabilityGate>,
    /// Requests that this turn has finished.
    finished: Vec<(ConnId, usize)>,
    /// Requests that this turn has executed, which are not counted yet.
    executed: Vec<Executed>,
    counts: TurnCounts,
    /// Distributions, if the server measures.
    pub(crate) measures: Option<Measures>,
    /// What this turn has done so far.
    turn: TurnLimit,
    /// The latest transactions, while somebody follows them: who has a share of it besides the bus.
    feed: Option<Arc<TxnFeed>>,
}

struct Conn {
    peer: Arc<Peer>,
    stats: ConnStats,
    /// The last transaction that one of its messages waits for, or has waited for.
    held_until: Zxid,
}

impl Bus {
    pub(crate) fn new(
        machine: Box<dyn StateMachine>,
        registry: Arc<Registry>,
        stats: Arc<ServerStats>,
        clock: Clock,
        gate: Option<DurabilityGate>,
    ) -> Self {
        Self {
            machine,
            registry,
            stats,
            conns: HashMap::new(),
            gate,
            finished: Vec::new(),
            executed: Vec::new(),
            counts: TurnCounts::default(),
            measures: None,
            turn: TurnLimit::new(clock),
            feed: None,
        }
    }

    /// The state machine.
    pub fn machine(&self) -> &dyn StateMachine {
        &*self.machine
    }

    /// The state machine, to change it. The caller delivers the effects of that.
    pub fn machine_mut(&mut self) -> &mut dyn StateMachine {
        &mut *self.machine
    }

    /// The newest state.
    pub fn core(&self) -> &Core {
        self.machine.core()
    }

    /// The newest state, to change it. The caller delivers the effects of that.
    pub fn core_mut(&mut self) -> &mut Core {
        self.machine.core_mut()
    }

    /// Executes an input that was `read` at a time, and counts it. `finish` is whether its connection waits for that:
    /// not if [`Bus::finish`] was called for it already.
    pub fn handle(&mut self, now: Millis, conn: ConnId, read: Instant, input: Input, finish: bool) {
        let last = LastRequest::of(&input);
        let before = self.progress();
        let requests = self.execute(now, conn, input);
        if requests > 0 {
            self.note_executed(conn, read, requests, before, last);
            if finish {
                self.finish(conn, requests);
            }
        }
    }

    /// Counts a request that something else than its execution has answered.
    pub fn skip(&mut self, conn: ConnId, read: Instant, input: &Input, finish: bool) {
        self.note_executed(conn, read, 1, self.progress(), LastRequest::of(input));
        if finish {
            self.finish(conn, 1);
        }
    }

    /// Executes inputs of a connection that were `read` at a time, until the turn is full. Returns how many.
    ///
    /// A connection is slow if its batch fills a turn, or if it has come to a request that would: that is left to the driver's
    /// queue, where it finds `slow` set. It is no longer slow after a batch that does not.
    pub(crate) fn handle_all(
        &mut self,
        now: Millis,
        conn: ConnId,
        read: Instant,
        inputs: impl Iterator<Item = Input>,
        slow: bool,
    ) -> usize {
        let mut requests = 0;
        let mut last = None;
        let before = self.progress();
        // Its share of a turn: a connection that is not read above its mark gets no replies for more than that either.
        let mark = self.registry.budget.mark();
        let is_gone = self.conns.get(&conn).is_some_and(|conn| conn.peer.outbox.is_aborted());
        let mut is_slow = false;
        let mut taken = 0;
        for input in inputs {
            let cost = Cost::of(&input, self.core());
            if cost == Cost::Large && !slow {
                // Not counted as taken: the connection submits it again, as it does with all after it.
                is_slow = true;
                break;
            }
            self.turn.begin(cost);
            taken += 1;
            last = LastRequest::of(&input).map(|next| next.after(last)).or(last);
            if is_gone && is_without_effect(&input) {
                self.skip_unsendable_read(now, conn);
                requests += 1;
                continue;
            }
            requests += self.execute(now, conn, input);
            self.turn.count_outputs(self.machine.outputs());
            self.turn.executed(cost);
            if self.turn.is_full() || self.turn.bytes() >= mark {
                break;
            }
        }
        if requests > 0 {
            self.note_executed(conn, read, requests, before, last);
            self.finish(conn, requests);
        }
        is_slow |= self.turn.is_full();
        // None of its requests waits in the driver's queue now, so that a change keeps them in order.
        if is_slow != slow {
            if let Some(conn) = self.conns.get(&conn) {
                conn.peer.state.slow.store(is_slow, Relaxed);
            }
        }
        taken
    }

    /// Does not execute a request whose only effect was the reply to a connection that is gone, but for what it shows of its
    /// client: it was alive.
    fn skip_unsendable_read(&mut self, now: Millis, conn: ConnId) {
        self.counts.stale_requests += 1;
        let replica = self.conns.get(&conn).map_or(0, |conn| conn.peer.replica);
        if let Some(session) = self.machine.replica(replica).session_of(conn) {
            self.core_mut().renew(now, session);
        }
    }

    /// Executes an input. Returns how many requests that was.
    fn execute(&mut self, now: Millis, conn: ConnId, input: Input) -> usize {
        let requests = match &input {
            Input::Open(origin) => {
                let replica = self.conns.get(&conn).map_or(0, |conn| conn.peer.replica);
                self.machine.open(now, conn, origin.clone(), replica);
                return 0;
            }
            Input::Connect(request) => {
                self.stats.connects.fetch_add(1, Relaxed);
                self.counts.revalidations += u64::from(request.session != SessionId(0));
                1
            }
            Input::Request(Incoming { op, xid, .. }) => {
                // Within the macro, which evaluates it only if somebody listens.
                tracing::trace!(%conn, %xid, name = OpCode::from_code(*op).map_or("unknown", OpCode::name), "request");
                1
            }
            Input::Closed => 0,
        };
        let access = self.measures.as_mut().and_then(|measures| measures.begin(&input));
        self.machine.handle(now, conn, input);
        if let (Some(access), Some(measures)) = (access, &mut self.measures) {
            measures.executed(access, self.machine.outputs().last());
        }
        requests
    }

    /// Lets a connection go on as if `requests` of its requests were answered, from the end of this turn.
    pub fn finish(&mut self, conn: ConnId, requests: usize) {
        self.finished.push((conn, requests));
    }

    /// Takes the effects of what was executed since the last call. The transactions among them are passed on to the log, and
    /// messages that show them must be delivered after that.
    pub fn take_effects(&mut self) -> Effects {
        let effects = self.machine.take_effects();
        self.feed(&effects.txns);
        let began = self.measure_effects(&effects);
        if let Some(gate) = &mut self.gate {
            gate.submit(effects.txns.iter().cloned(), began);
        }
        effects
    }

    /// Shows transactions to those who follow them.
    fn feed(&mut self, txns: &[Txn]) {
        let Some(feed) = &self.feed else { return };
        if feed.is_followed(self.turn.clock.now()) {
            feed.note(txns);
        } else {
            self.feed = None;
        }
    }

    /// Follows the transactions from now on.
    pub(crate) fn follow(&mut self) -> Follower {
        let (last, clock) = (self.core().tree().last_zxid(), self.turn.clock.clone());
        let feed = self.feed.get_or_insert_with(|| Arc::new(TxnFeed::new(last, clock.now())));
        Follower::new(Arc::clone(feed), clock)
    }

    /// The disk of the data directory, if there is one.
    pub fn disk(&self) -> Option<&Arc<dyn Disk>> {
        self.gate.as_ref().map(|gate| &gate.config.disk)
    }

    /// Begins a turn: messages leave whose transactions are in the log by now.
    pub(crate) fn begin_turn(&mut self, now: Millis) {
        let Some(gate) = &mut self.gate else { return };
        let Some(durable) = gate.advance(&mut self.executed) else { return };
        self.core_mut().set_durable(durable);
        let at = self.turn.clock.now();
        let mut answered = mem::take(&mut self.executed);
        answered.drain(..).for_each(|answered| self.count_answered(now, at, &answered));
        self.executed = answered;
    }

    /// Goes on with the state that the data directory has, after a crash of a simulated disk. Connections must be aborted before.
    /// Nothing happens without a data directory.
    pub(crate) fn reopen(&mut self, now: Millis, disk: Arc<dyn Disk>) -> Result<(), StorageError> {
        if let Some(gate) = &mut self.gate {
            let config = self.machine.core().config().clone();
            let (core, lost) = gate.reopen(config, now, disk)?;
            self.machine = Box::new(core);
            // Nobody gets an answer, and they are not outstanding any more.
            self.stats.handled.fetch_add(lost, Relaxed);
        }
        Ok(())
    }

    /// Replaces the state by that of a snapshot, which `shows` transactions up to this one: see [`Core::replace_tree`]. Returns the
    /// former tree, to be dropped outside of turns.
    ///
    /// Every client reads the new state after a handshake, whose answer waits until that is durable.
    pub(crate) fn restore(
        &mut self,
        now: Millis,
        state: SpooledState,
        spool: SnapshotSpool,
        permit: OwnedMutexGuard<()>,
    ) -> Tree {
        let SpooledState { mut tree, sessions, shows, .. } = state;
        let core = self.machine.core_mut();
        let mut at = core.tree().last_zxid().max(shows).next();
        if at.0 & 0xffff_ffff == 0 {
            // The first transaction of an epoch may follow any other: the log would seem to go on where it does not.
            at = at.next();
        }
        let mut header = tree.begin_snapshot();
        tree.end_snapshot();
        (header.zxid, header.restored_at) = (at, Some(at));
        let former = core.replace_tree(now, tree, &sessions, at);
        let sessions = core.sessions().timeouts();
        if let Some(gate) = &mut self.gate {
            gate.restore(RestoredState { spool, header, sessions, _permit: permit });
        }
        // After that: they are transactions on the new tree.
        self.machine.core_mut().end_unknown_sessions(now);
        former
    }

    /// How many bytes were queued on a connection so far: where its next frame begins in its stream.
    pub fn position(&self, conn: ConnId) -> u64 {
        self.conns.get(&conn).map_or(0, |conn| conn.peer.outbox.position())
    }

    /// Closes a connection without sending what waits.
    pub fn abort(&mut self, conn: ConnId) {
        if let Some(conn) = self.conns.get(&conn) {
            conn.peer.outbox.abort();
        }
    }

    /// Closes every connection like this.
    pub fn abort_all(&mut self) {
        self.registry.abort_all();
    }

    /// Where a connection comes from.
    pub fn peer_ip(&self, conn: ConnId) -> Option<IpAddr> {
        self.conns.get(&conn).map(|conn| conn.peer.addr.ip())
    }

    pub(crate) fn enter(&mut self, conn: ConnId) {
        if let Some(peer) = self.registry.get(conn) {
            let held_until = Zxid(0);
            self.conns.insert(conn, Conn { peer, stats: ConnStats::default(), held_until });
        }
    }

    pub(crate) fn leave(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
    }

    /// Whether the rest of what came is for the next turn.
    pub(crate) fn turn_is_full(&self) -> bool {
        self.turn.is_full()
    }

    /// Returns to a connection the requests that this turn did not reach: it submits them again.
    pub(crate) fn return_unprocessed(&mut self, conn: ConnId, requests: usize) {
        self.stats.received.fetch_sub(requests as u64, Relaxed);
        if let Some(conn) = self.conns.get(&conn) {
            conn.peer.return_unprocessed(requests);
        }
    }

    /// Ends a turn whose messages are delivered: lets connections go on whose requests it has finished.
    pub(crate) fn end_turn(&mut self, now: Millis) {
        let at = self.count_executed(now);
        if let Some(measures) = &mut self.measures {
            measures.end_turn(at.unwrap_or_else(|| self.turn.clock.now()));
        }
        self.turn.reset();
        if let Some(gate) = &mut self.gate {
            gate.end_turn();
        }
        for (conn, requests) in self.finished.drain(..) {
            if let Some(conn) = self.conns.get(&conn) {
                conn.peer.outbox.finish_requests(requests);
            }
        }
    }
}
