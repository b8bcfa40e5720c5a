//! The engine: the state and what a turn does to it. The driver runs it; whoever else holds its lock only looks.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zoolet_core::{ConnId, Core, Effects, Input, Message, Millis};

use crate::net::driver::Item;
use crate::net::registry::{Peer, Registry};
use crate::net::stats::{LastRequest, ServerStats};

pub(crate) struct Engine {
    pub(crate) core: Core,
    pub(crate) registry: Arc<Registry>,
    pub(crate) stats: Arc<ServerStats>,
    /// Whose requests were handled in this turn.
    asked: Vec<Arc<Peer>>,
}

/// The engine, for as long as the guard lives: never over an await.
pub(crate) fn locked(engine: &Mutex<Engine>) -> MutexGuard<'_, Engine> {
    // A driver that panics stops the server. What it leaves is for looking at only.
    engine.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    pub(crate) fn new(core: Core, registry: Arc<Registry>, stats: Arc<ServerStats>) -> Self {
        Self { core, registry, stats, asked: Vec::new() }
    }

    /// Deals with everything that has come in and everything that is due.
    pub(crate) fn turn(&mut self, now: Millis, items: impl Iterator<Item = Item>) {
        for item in items {
            match item {
                Item::Inputs { conn, at, inputs } => self.handle(now, conn, at, inputs),
                Item::Act(deed) => deed(self, now),
            }
        }
        // After the inputs: a ping that waited still counts.
        self.handle_timeout(now);
        let effects = self.core.take_effects();
        self.deliver(effects);
        self.asked.drain(..).for_each(|peer| peer.outbox.nudge());
    }

    /// When there is something to do next, whatever comes in.
    pub(crate) fn next_timeout(&self) -> Millis {
        self.core.next_timeout()
    }

    fn handle_timeout(&mut self, now: Millis) {
        let sessions = self.core.sessions().len();
        self.core.handle_timeout(now);
        let expired = sessions - self.core.sessions().len();
        if expired > 0 {
            self.stats.expired.fetch_add(expired as u64, Relaxed);
        }
    }

    fn handle(&mut self, now: Millis, conn: ConnId, at: Millis, inputs: Vec<Input>) {
        let mut requests = 0;
        let mut last = None;
        for input in inputs {
            match &input {
                Input::Connect(_) => {
                    requests += 1;
                    self.stats.connects.fetch_add(1, Relaxed);
                }
                Input::Request(_) => requests += 1,
                Input::Open { .. } | Input::Closed => {}
            }
            last = LastRequest::of(&input).or(last);
            self.core.handle(now, conn, input);
        }
        if requests > 0 {
            self.count(now, conn, at, requests, last);
        }
    }

    fn count(&mut self, now: Millis, conn: ConnId, at: Millis, requests: usize, last: Option<LastRequest>) {
        let waited = now.0 - at.0;
        let zxid = self.core.tree().last_zxid();
        self.stats.handled.fetch_add(requests as u64, Relaxed);
        self.stats.latency.record(waited, i64::try_from(requests).unwrap_or(0));
        if let Some(peer) = self.registry.get(conn) {
            peer.outbox.answered(requests, |stats| stats.record(now, requests as u64, waited, last, zxid));
            self.asked.push(peer);
        }
    }

    /// Hands messages to the outboxes, each run for one connection at once. Never waits.
    fn deliver(&mut self, effects: Effects) {
        let mut outbound = effects.outbound.into_iter().peekable();
        let mut sent = 0;
        while let Some((conn, _)) = outbound.peek() {
            let conn = *conn;
            let peer = self.registry.get(conn);
            let run =
                std::iter::from_fn(|| outbound.next_if(|(to, _)| *to == conn).map(|(_, message)| message));
            let run = run.inspect(|message| sent += u64::from(!matches!(message, Message::Close { .. })));
            match peer {
                Some(peer) => peer.outbox.push(run.inspect(|message| note(&peer, message))),
                None => run.for_each(drop),
            }
        }
        self.stats.sent.fetch_add(sent, Relaxed);
    }
}

/// Lets the connection's span know its session.
fn note(peer: &Peer, message: &Message) {
    if let Message::Connected(response) = message {
        peer.span.record("session", tracing::field::display(response.session));
    }
}
