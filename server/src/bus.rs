//! [`Bus`]: the state machine, and the way from its messages to the connections.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hashbrown::HashMap;
use zoolet_server_core::{ConnId, Core, Input, Message, Millis, Output};

use crate::extension::StateMachine;
use crate::net::registry::{Peer, Registry};
use crate::net::reply_size::reply_size;
use crate::net::stats::{ConnStats, LastRequest, ServerStats};

/// A turn ends when its replies have this many bytes; what is left comes in the next one.
const TURN_BYTES: usize = 256 << 10;

/// The state machine of a server, its connections and its statistics. An interceptor borrows it for one call.
pub struct Bus {
    machine: Box<dyn StateMachine>,
    registry: Arc<Registry>,
    pub(crate) stats: Arc<ServerStats>,
    /// Open connections. They are entered with their first input, and leave with their last.
    conns: HashMap<ConnId, Conn>,
    /// Requests that this turn has finished.
    finished: Vec<(ConnId, usize)>,
    /// Bytes of replies in this turn.
    turn_bytes: usize,
}

struct Conn {
    peer: Arc<Peer>,
    stats: ConnStats,
}

impl Bus {
    pub(crate) fn new(
        machine: Box<dyn StateMachine>,
        registry: Arc<Registry>,
        stats: Arc<ServerStats>,
    ) -> Self {
        let (conns, finished) = (HashMap::new(), Vec::new());
        Self { machine, registry, stats, conns, finished, turn_bytes: 0 }
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

    /// Executes an input that was read `at` a time, and counts it. `finish` is whether its connection waits for that:
    /// not if [`Bus::finish`] was called for it already.
    pub fn handle(&mut self, now: Millis, conn: ConnId, at: Millis, input: Input, finish: bool) {
        let last = LastRequest::of(&input);
        let requests = self.execute(now, conn, input);
        if requests > 0 {
            self.record(now, conn, at, requests, last);
            if finish {
                self.finish(conn, requests);
            }
        }
    }

    /// Counts a request that something else than its execution has answered.
    pub fn skip(&mut self, now: Millis, conn: ConnId, at: Millis, input: &Input, finish: bool) {
        self.record(now, conn, at, 1, LastRequest::of(input));
        if finish {
            self.finish(conn, 1);
        }
    }

    /// Executes inputs of a connection that were read `at` a time, until the turn is full. The rest stays in `inputs`.
    pub(crate) fn handle_all(
        &mut self,
        now: Millis,
        conn: ConnId,
        at: Millis,
        inputs: &mut impl Iterator<Item = Input>,
    ) {
        let mut requests = 0;
        let mut last = None;
        for input in inputs {
            last = LastRequest::of(&input).map(|next| next.after(last)).or(last);
            requests += self.execute(now, conn, input);
            if let Some(Message::Reply(_, reply)) = self.machine.last_message() {
                self.turn_bytes += reply_size(reply);
            }
            if self.turn_is_full() {
                break;
            }
        }
        if requests > 0 {
            self.record(now, conn, at, requests, last);
            self.finish(conn, requests);
        }
    }

    /// Executes an input. Returns how many requests that was.
    fn execute(&mut self, now: Millis, conn: ConnId, input: Input) -> usize {
        let requests = match &input {
            Input::Open { peer } => {
                let replica = self.conns.get(&conn).map_or(0, |conn| conn.peer.replica);
                self.machine.open(now, conn, *peer, replica);
                return 0;
            }
            Input::Connect(_) => {
                self.stats.connects.fetch_add(1, Relaxed);
                1
            }
            Input::Request(_) => 1,
            Input::Closed => 0,
        };
        self.machine.handle(now, conn, input);
        requests
    }

    fn record(&mut self, now: Millis, conn: ConnId, at: Millis, requests: usize, last: Option<LastRequest>) {
        let waited = now.0 - at.0;
        self.stats.handled.fetch_add(requests as u64, Relaxed);
        self.stats.latency.record(waited, i64::try_from(requests).unwrap_or(0));
        if let Some(conn) = self.conns.get_mut(&conn) {
            let zxid = self.machine.core().tree().last_zxid();
            conn.stats.record(now, requests as u64, waited, last, zxid);
        }
    }

    /// Lets a connection go on as if so many of its requests were answered, from the end of this turn.
    pub fn finish(&mut self, conn: ConnId, requests: usize) {
        self.finished.push((conn, requests));
    }

    /// Does what is due in the state machine.
    pub fn handle_timeout(&mut self, now: Millis) {
        self.renew_slow_readers(now);
        let sessions = self.core().sessions().len();
        self.machine.handle_timeout(now);
        let expired = sessions - self.core().sessions().len();
        if expired > 0 {
            self.count_expired(expired);
        }
    }

    /// Counts sessions that have expired.
    pub fn count_expired(&mut self, sessions: usize) {
        self.stats.expired.fetch_add(sessions as u64, Relaxed);
    }

    /// Renews sessions that are due, but whose clients have taken a part of what is sent to them: such a connection is
    /// not read meanwhile, and their pings may lie in it.
    fn renew_slow_readers(&mut self, now: Millis) {
        let due = self.core().sessions().iter().take_while(|session| session.deadline <= now);
        let slow = due.filter_map(|session| {
            let peer = &self.conns.get(&session.conn?)?.peer;
            let progress = peer.last_progress();
            let is_alive = progress.0 + i64::from(session.timeout) > now.0;
            (is_alive && peer.outbox.reader_waits()).then_some((session.id, progress))
        });
        for (id, progress) in slow.collect::<Vec<_>>() {
            self.machine.renew(progress, id);
        }
    }

    /// Delivers a message to a connection, if it is still there. A reply counts against the limit of its connection
    /// only by its own size: it may have been held back, and its client had no chance to read what is before it.
    pub fn deliver(&mut self, to: ConnId, message: &Message) {
        if let Message::Reply(_, reply) = message {
            self.turn_bytes += reply_size(reply);
        }
        self.push(to, std::slice::from_ref(message).iter(), true);
    }

    /// Delivers what this turn has led to.
    pub(crate) fn deliver_effects(&mut self) {
        let effects = self.machine.take_effects();
        let same = |one: &Output, next: &Output| matches!((one, next), (Output::To(one, _), Output::To(next, _)) if one == next);
        for run in effects.outbound.chunk_by(same) {
            match &run[0] {
                Output::To(to, _) => self.push(*to, run.iter().filter_map(message_of), false),
                Output::Event(event) => {
                    let message = event.message();
                    event.to.iter().for_each(|to| self.push(*to, std::iter::once(&message), false));
                }
            }
        }
        self.machine.reuse(effects);
    }

    fn push<'m>(&mut self, to: ConnId, messages: impl Iterator<Item = &'m Message> + Clone, held: bool) {
        let sent = messages.clone().filter(|message| !matches!(message, Message::Close { .. })).count();
        self.stats.sent.fetch_add(sent as u64, Relaxed);
        let Some(conn) = self.conns.get_mut(&to) else { return };
        for message in messages.clone() {
            if let Message::Connected(response) = message {
                conn.peer.span.record("session", tracing::field::display(response.session));
            }
        }
        conn.stats.sent += conn.peer.outbox.push(messages, held);
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
            self.conns.insert(conn, Conn { peer, stats: ConnStats::default() });
        }
    }

    pub(crate) fn leave(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
    }

    pub(crate) fn conn_stats(&self, conn: ConnId) -> ConnStats {
        self.conns.get(&conn).map_or_else(ConnStats::default, |conn| conn.stats)
    }

    pub(crate) fn reset_stats(&mut self, conn: ConnId) {
        if let Some(conn) = self.conns.get_mut(&conn) {
            // All but what is not answered yet.
            conn.peer.received.fetch_sub(conn.stats.handled, Relaxed);
            conn.stats = ConnStats::default();
        }
    }

    /// Whether the rest of what came is for the next turn.
    pub(crate) fn turn_is_full(&self) -> bool {
        self.turn_bytes >= TURN_BYTES
    }

    /// Returns to a connection the requests that this turn did not reach: it submits them again.
    pub(crate) fn return_unprocessed(&mut self, conn: ConnId, requests: usize) {
        self.stats.received.fetch_sub(requests as u64, Relaxed);
        if let Some(conn) = self.conns.get(&conn) {
            conn.peer.return_unprocessed(requests);
        }
    }

    /// Ends a turn whose messages are delivered: lets connections go on whose requests it has finished.
    pub(crate) fn end_turn(&mut self) {
        self.turn_bytes = 0;
        for (conn, requests) in self.finished.drain(..) {
            if let Some(conn) = self.conns.get(&conn) {
                conn.peer.outbox.finish_requests(requests);
            }
        }
    }
}

fn message_of(output: &Output) -> Option<&Message> {
    match output {
        Output::To(_, message) => Some(message),
        Output::Event(_) => None,
    }
}
