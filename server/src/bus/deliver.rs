//! The way of messages and events from the state machine to the outboxes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use zoolet_server_core::{ConnId, Message, Output, Recipients, SharedEvent};

use super::{Bus, Conn};
use crate::durable::DurabilityGate;
use crate::net::flow::buffer::EventRuns;
use crate::net::flow::outbox::Pushed;
use crate::net::flow::queue::{Delivery, ReleaseRule};
use crate::net::stats::TurnCounts;

impl Bus {
    /// Delivers a message to a connection, if it is still there. A reply counts against the limit of its connection
    /// only by its own size: it may have been held back, and its client had no chance to read what is before it.
    pub fn deliver(&mut self, to: ConnId, message: &Message) {
        self.turn.count(message);
        let rule = self.release_rule();
        self.push(to, std::iter::once(Delivery::Message(message)), true, rule);
    }

    /// Delivers what this turn has led to.
    pub(crate) fn deliver_effects(&mut self) {
        let mut effects = self.machine.take_effects();
        self.feed(&effects.txns);
        let began = self.measure_effects(&effects);
        if let Some(gate) = &mut self.gate {
            // First, so that the log begins while the messages are encoded.
            gate.submit(effects.txns.drain(..), began);
        }
        let rule = self.release_rule();
        for run in effects.outbound.chunk_by(|one, next| recipient(one) == recipient(next)) {
            match recipient(&run[0]) {
                Some(to) => self.push(to, run.iter().map(Delivery::from), false, rule),
                None => self.push_events(run.iter().filter_map(shared_event), rule),
            }
        }
        self.machine.reuse(effects);
    }

    fn push<'m>(
        &mut self,
        to: ConnId,
        messages: impl Iterator<Item = Delivery<'m>> + Clone,
        is_delayed: bool,
        rule: ReleaseRule,
    ) {
        let Some(conn) = self.conns.get_mut(&to) else { return };
        for message in messages.clone() {
            if let Delivery::Message(Message::Connected(response)) = message {
                conn.peer.span.record("session", tracing::field::display(response.session));
                conn.peer.state.session.store(response.session.0, Relaxed);
            }
        }
        let pushed = conn.peer.outbox.push(messages, is_delayed, rule);
        self.stats.sent.fetch_add(pushed.count, Relaxed);
        conn.note_pushed(&pushed, &mut self.counts, &mut self.gate);
    }

    /// Encodes events in a row once for all connections that get the same of them.
    fn push_events<'e>(
        &mut self,
        events: impl Iterator<Item = (&'e Arc<[ConnId]>, &'e SharedEvent)>,
        rule: ReleaseRule,
    ) {
        let mut runs = EventRuns::default();
        for (to, event) in events {
            if !runs.add(to, event) {
                self.deliver_runs(&mut runs, rule);
                runs.add(to, event);
            }
        }
        self.deliver_runs(&mut runs, rule);
    }

    fn deliver_runs(&mut self, runs: &mut EventRuns, rule: ReleaseRule) {
        for run in runs.take() {
            let events = self.registry.budget.shared(run.bytes);
            for to in run.to.iter() {
                if let Some(conn) = self.conns.get_mut(to) {
                    let pushed = conn.peer.outbox.push_events(&events, run.count, rule);
                    self.stats.sent.fetch_add(pushed.count, Relaxed);
                    conn.note_pushed(&pushed, &mut self.counts, &mut self.gate);
                }
            }
        }
    }

    fn release_rule(&self) -> ReleaseRule {
        self.gate.as_ref().map_or(ReleaseRule::AT_ONCE, |gate| gate.rule)
    }
}

impl Conn {
    fn note_pushed(&mut self, pushed: &Pushed, counts: &mut TurnCounts, gate: &mut Option<DurabilityGate>) {
        counts.replies.append(&pushed.replies);
        counts.event_bytes += pushed.event_bytes;
        self.stats.sent += pushed.count;
        self.held_until = pushed.held_until.unwrap_or(self.held_until);
        if let (Some(first), Some(gate)) = (pushed.waits, gate) {
            gate.wait(first, Arc::clone(&self.peer));
        }
    }
}

/// The only connection that gets an output; `None` if several do.
fn recipient(output: &Output) -> Option<ConnId> {
    match output {
        Output::To(to, _) | Output::Event(SharedEvent { to: Recipients::One(to), .. }) => Some(*to),
        Output::Event(_) => None,
    }
}

fn shared_event(output: &Output) -> Option<(&Arc<[ConnId]>, &SharedEvent)> {
    match output {
        Output::Event(event @ SharedEvent { to: Recipients::Shared(to), .. }) => Some((to, event)),
        _ => None,
    }
}
