//! The engine: the state, and what a turn does to it. Whoever holds its lock outside of a turn only looks.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zoolet_server_core::{ConnId, Input, Message, Millis};

use crate::fixture::State;
use crate::machine::Machine;
use crate::net::outbox::HIGH_MARK;
use crate::net::registry::{Peer, Registry};
use crate::net::stats::{LastRequest, ServerStats};
use crate::net::weight::{own_weight, shared_weight};

pub(crate) struct Engine {
    pub(crate) machine: Machine,
    pub(crate) registry: Arc<Registry>,
    pub(crate) stats: Arc<ServerStats>,
    /// When the driver's alarm rings.
    pub(crate) alarm: Millis,
    /// Whether a turn is under way, or was when it panicked.
    pub(crate) in_turn: bool,
    /// Set from the first time a test asks for it.
    fixture: Option<Box<State>>,
    /// Whose requests were handled in this turn, in that order, or need not be waited for.
    asked: Vec<(ConnId, Arc<Peer>)>,
}

/// The engine, for as long as the guard lives: never over an await.
pub(crate) fn locked(engine: &Mutex<Engine>) -> MutexGuard<'_, Engine> {
    // A turn that panics stops the server. What it leaves is for looking at only.
    engine.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    pub(crate) fn new(machine: Machine, registry: Arc<Registry>, stats: Arc<ServerStats>) -> Self {
        let alarm = machine.next_timeout();
        Self { machine, registry, stats, alarm, in_turn: false, fixture: None, asked: Vec::new() }
    }

    /// Deals with inputs of a connection that were read `at` a time.
    pub(crate) fn take(
        &mut self,
        now: Millis,
        conn: ConnId,
        at: Millis,
        inputs: impl IntoIterator<Item = Input>,
    ) {
        if self.fixture.is_some() {
            self.with_fixture(now, |fixture, engine| fixture.handle(engine, now, conn, at, inputs));
        } else {
            let mut answered = 0;
            self.handle(now, conn, at, inputs, |engine| {
                answered += engine.deliver_early();
                answered < HIGH_MARK
            });
        }
    }

    /// Does what is due. Comes behind all inputs: a ping that waited still counts.
    pub(crate) fn take_due(&mut self, now: Millis) {
        if self.fixture.is_some() {
            self.with_fixture(now, |fixture, engine| fixture.handle_timeout(engine, now));
        } else {
            self.handle_timeout(now);
        }
    }

    /// Delivers what a turn has led to.
    pub(crate) fn end_turn(&mut self, now: Millis) {
        if self.fixture.is_some() {
            self.with_fixture(now, |fixture, engine| fixture.end_turn(engine, now));
        } else {
            self.deliver_effects();
        }
        self.asked.drain(..).for_each(|(_, peer)| peer.outbox.nudge());
    }

    /// When there is something to do next, whatever comes in.
    pub(crate) fn next_timeout(&self) -> Millis {
        let core = self.machine.next_timeout();
        self.fixture.as_ref().map_or(core, |fixture| fixture.next_timeout(core))
    }

    /// Works with the fixture, which is there from then on.
    pub(crate) fn with_fixture<T>(
        &mut self,
        now: Millis,
        work: impl FnOnce(&mut State, &mut Self) -> T,
    ) -> T {
        let mut fixture = self.fixture.take().unwrap_or_else(|| Box::new(State::new(now)));
        let outcome = work(&mut fixture, self);
        self.fixture = Some(fixture);
        outcome
    }

    pub(crate) fn handle_timeout(&mut self, now: Millis) {
        self.renew_slow_readers(now);
        let sessions = self.machine.sessions().len();
        self.machine.handle_timeout(now);
        let expired = sessions - self.machine.sessions().len();
        if expired > 0 {
            self.stats.expired.fetch_add(expired as u64, Relaxed);
        }
    }

    /// Renews sessions that are due, but whose clients have taken a part of what is sent to them: such a connection is not read
    /// meanwhile, and their pings may lie in it.
    fn renew_slow_readers(&mut self, now: Millis) {
        let due = self.machine.sessions().iter().take_while(|session| session.deadline <= now);
        let slow = due.filter_map(|session| {
            let peer = self.registry.get(session.conn?)?;
            let took = peer.traffic.last_took();
            let lives = took.0 + i64::from(session.timeout) > now.0;
            (lives && peer.outbox.keeps_from_reading()).then_some((session.id, took))
        });
        for (id, took) in slow.collect::<Vec<_>>() {
            self.machine.renew(took, id);
        }
    }

    /// Has the core execute inputs of a connection that were read `at` a time, and counts them. `behind` comes behind each; if
    /// it says no more, the rest goes back to the connection.
    pub(crate) fn handle(
        &mut self,
        now: Millis,
        conn: ConnId,
        at: Millis,
        inputs: impl IntoIterator<Item = Input>,
        mut behind: impl FnMut(&mut Self) -> bool,
    ) {
        let mut requests = 0;
        let mut last = None;
        let mut inputs = inputs.into_iter();
        while let Some(input) = inputs.next() {
            match &input {
                Input::Connect(_) => {
                    requests += 1;
                    self.stats.connects.fetch_add(1, Relaxed);
                }
                Input::Request(_) => requests += 1,
                Input::Open { .. } | Input::Closed => {}
            }
            last = LastRequest::of(&input).map(|next| next.behind(last)).or(last);
            self.execute(now, conn, input);
            if !behind(self) && self.give_back(conn, &mut inputs) {
                break;
            }
        }
        if requests > 0 {
            self.count(now, conn, at, requests, last);
        }
    }

    /// Gives a connection the rest of its batch back, for when its client has taken the answers so far; false if it takes
    /// nothing back.
    pub(crate) fn give_back(&self, conn: ConnId, rest: impl Iterator<Item = Input>) -> bool {
        let Some(peer) = self.registry.get(conn) else { return false };
        let Some(requests) = peer.outbox.give_back(rest) else { return false };
        self.stats.received.fetch_sub(requests as u64, Relaxed);
        true
    }

    /// Has an input executed.
    pub(crate) fn execute(&mut self, now: Millis, conn: ConnId, input: Input) {
        if let Input::Open { peer } = input {
            let endpoint = self.registry.get(conn).map_or(0, |peer| peer.endpoint);
            self.machine.open(now, conn, peer, endpoint);
        } else {
            self.machine.handle(now, conn, input);
        }
    }

    /// Counts requests of a connection that are dealt with.
    pub(crate) fn count(
        &mut self,
        now: Millis,
        conn: ConnId,
        at: Millis,
        requests: usize,
        last: Option<LastRequest>,
    ) {
        let waited = now.0 - at.0;
        let zxid = self.machine.tree().last_zxid();
        self.stats.handled.fetch_add(requests as u64, Relaxed);
        self.stats.latency.record(waited, i64::try_from(requests).unwrap_or(0));
        if let Some(peer) = self.registry.get(conn) {
            peer.outbox.answered(requests, |stats| stats.record(now, requests as u64, waited, last, zxid));
            self.asked.push((conn, peer));
        }
    }

    /// Deals with what was held up until a connection has room for the answers.
    pub(crate) fn made_room(&mut self, now: Millis, conn: ConnId) {
        if let Some(peer) = self.registry.get(conn) {
            peer.outbox.made_room();
        }
        if self.fixture.is_some() {
            self.with_fixture(now, |fixture, engine| fixture.release(engine, now));
        }
    }

    /// Whether a connection is to take what it was answered before more of what it asks for is executed.
    pub(crate) fn is_full(&self, conn: ConnId) -> bool {
        self.registry.get(conn).is_some_and(|peer| peer.outbox.is_full())
    }

    /// Whether what is held up of a connection is to wait for room. There is another turn then once there is.
    pub(crate) fn waits_for_room(&self, conn: ConnId) -> bool {
        self.registry.get(conn).is_some_and(|peer| peer.outbox.turn_waits())
    }

    /// Lets a connection be read on although a request of it is not dealt with.
    pub(crate) fn excuse(&mut self, conn: ConnId) {
        if let Some(peer) = self.registry.get(conn) {
            peer.outbox.excuse();
            self.asked.push((conn, peer));
        }
    }

    /// Delivers before the end of the turn if the last message holds much memory of its own, as a turn may have thousands
    /// of those: the bound of an outbox is then that of what its client asks for. Gives the bytes of that message, as far as
    /// they may be many.
    fn deliver_early(&mut self) -> usize {
        const MUCH: usize = 16 << 10;
        let Some(Message::Reply(_, reply)) = self.machine.last_message() else { return 0 };
        let (own, shared) = (own_weight(reply), shared_weight(reply));
        if own > MUCH {
            self.deliver_effects();
        }
        own + shared
    }

    fn deliver_effects(&mut self) {
        let effects = self.machine.take_effects();
        self.deliver(&effects.outbound);
        self.machine.reuse(effects);
    }

    /// Hands messages to the outboxes, each run for one connection at once. Never waits.
    pub(crate) fn deliver(&mut self, outbound: &[(ConnId, Message)]) {
        // Answers come in the order in which was asked, so that most need no search.
        let mut asked = self.asked.iter().peekable();
        let mut sent = 0;
        for run in outbound.chunk_by(|(one, _), (next, _)| one == next) {
            let conn = run[0].0;
            let mut peer = None;
            while let Some((_, same)) = asked.next_if(|(next, _)| *next == conn) {
                peer = Some(Arc::clone(same));
            }
            let messages = || run.iter().map(|(_, message)| message);
            sent += messages().filter(|message| !matches!(message, Message::Close { .. })).count();
            if let Some(peer) = peer.or_else(|| self.registry.get(conn)) {
                messages().for_each(|message| note(&peer, message));
                peer.outbox.push(messages());
            }
        }
        self.stats.sent.fetch_add(sent as u64, Relaxed);
    }
}

/// Lets the connection's span know its session.
fn note(peer: &Peer, message: &Message) {
    if let Message::Connected(response) = message {
        peer.span.record("session", tracing::field::display(response.session));
    }
}
