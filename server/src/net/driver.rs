//! The driver: the one task that owns the state. One loop, in which everything that can happen meets.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use zoolet_core::{ConnId, Core, Input, Message, Millis};

use crate::net::clock::Clock;
use crate::net::registry::{Peer, Registry};
use crate::net::stats::{LastRequest, ServerStats};

/// How many items are taken as one turn.
const TURN: usize = 128;

/// How many items wait at most before whoever sends more has to wait.
const INBOX: usize = 1024;

/// What the driver is sent.
pub(crate) enum Item {
    /// What one read of a connection gave.
    Inputs { conn: ConnId, at: Millis, inputs: Vec<Input> },
    /// A question to the state, asked between two inputs.
    Ask(Box<dyn FnOnce(&Core) + Send>),
}

/// The way to the driver.
#[derive(Clone)]
pub(crate) struct Inbox(mpsc::Sender<Item>);

impl Inbox {
    /// Sends what one read gave; waits while the inbox is full. False once the driver has ended.
    pub(crate) async fn send(&self, conn: ConnId, at: Millis, inputs: Vec<Input>) -> bool {
        self.0.send(Item::Inputs { conn, at, inputs }).await.is_ok()
    }

    /// Asks the state; `None` once the driver has ended.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Core) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let ask = Box::new(move |core: &Core| {
            let _ = answer.send(question(core));
        });
        self.0.send(Item::Ask(ask)).await.ok()?;
        answered.await.ok()
    }
}

pub(crate) struct Driver {
    core: Core,
    inbox: mpsc::Receiver<Item>,
    clock: Clock,
    registry: Arc<Registry>,
    stats: Arc<ServerStats>,
    stop: CancellationToken,
    /// Whose requests were handled in this turn.
    asked: Vec<Arc<Peer>>,
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
    pub(crate) fn new(
        core: Core,
        clock: Clock,
        registry: Arc<Registry>,
        stats: Arc<ServerStats>,
        stop: CancellationToken,
    ) -> (Self, Inbox) {
        let (sender, inbox) = mpsc::channel(INBOX);
        (Self { core, inbox, clock, registry, stats, stop, asked: Vec::new() }, Inbox(sender))
    }

    /// Runs until the server is stopped.
    pub(crate) async fn run(mut self) {
        let stop = self.stop.clone();
        let _ending = Ending { stop: stop.clone(), registry: Arc::clone(&self.registry) };
        let mut stopped = std::pin::pin!(stop.cancelled());
        let mut due = self.core.next_timeout();
        let mut alarm = std::pin::pin!(tokio::time::sleep_until(self.clock.instant(due)));
        let mut turn = Vec::with_capacity(TURN);
        loop {
            tokio::select! {
                biased;
                () = &mut stopped => return,
                got = self.inbox.recv_many(&mut turn, TURN) => if got == 0 { return },
                () = &mut alarm => {}
            }
            let now = self.clock.now();
            for item in turn.drain(..) {
                match item {
                    Item::Inputs { conn, at, inputs } => self.handle(now, conn, at, inputs),
                    Item::Ask(question) => question(&self.core),
                }
            }
            // After the inputs: a ping that waited still counts.
            let sessions = self.core.sessions().len();
            self.core.handle_timeout(now);
            let expired = sessions - self.core.sessions().len();
            if expired > 0 {
                self.stats.expired.fetch_add(expired as u64, Relaxed);
            }
            self.deliver();
            self.asked.drain(..).for_each(|peer| peer.outbox.nudge());
            // Deadlines move far less often than turns come; setting the alarm anew costs more than looking.
            let next = self.core.next_timeout();
            if next != due {
                due = next;
                alarm.as_mut().reset(self.clock.instant(due));
            }
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

    /// Hands the messages of the turn to the outboxes, each run for one connection at once. Never waits.
    fn deliver(&mut self) {
        let effects = self.core.take_effects();
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
