//! [`SendQueue`]: the messages of one connection that are not sent yet, in order; and [`ReleaseRule`]: which of them wait for the
//! log.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Waker};

use zoolet_proto::{Reply, Zxid};
use zoolet_server_core::{Message, Output, SharedEvent};

use super::budget::{Charge, SendBudget};
use super::buffer::{SendBuffer, Size};

/// One of the things that a turn delivers to a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Delivery<'m> {
    Message(&'m Message),
    Event(&'m SharedEvent),
}

impl<'m> From<&'m Output> for Delivery<'m> {
    fn from(output: &'m Output) -> Self {
        match output {
            Output::To(_, message) => Self::Message(message),
            Output::Event(event) => Self::Event(event),
        }
    }
}

/// Which transaction has to be in the log before a message leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReleaseRule {
    /// The last transaction whose messages may leave.
    pub(crate) durable: Zxid,
    /// The last transaction of the turns before this one.
    pub(crate) before: Zxid,
    /// The last transaction that was submitted. A turn submits once, before it delivers; under an interceptor it may several times.
    pub(crate) last: Zxid,
}

impl ReleaseRule {
    /// Of a server without a log: every message may leave.
    pub(crate) const AT_ONCE: Self = Self::all_durable(Zxid(i64::MAX));

    /// With everything up to `last` in the log, and nothing after it.
    pub(crate) const fn all_durable(last: Zxid) -> Self {
        Self { durable: last, before: last, last }
    }

    /// The transaction that a delivery waits for; `None` if it may leave.
    pub(crate) fn waits_for(self, delivery: Delivery<'_>) -> Option<Zxid> {
        self.waits_for_zxid(match delivery {
            Delivery::Event(event) => event.zxid,
            // The event of a watch that is set again names no transaction, and shows the newest state.
            Delivery::Message(Message::Reply(header, Reply::Event(_))) if header.zxid <= Zxid(0) => self.last,
            Delivery::Message(Message::Reply(header, _)) => header.zxid,
            // It shows that its session exists, or does not.
            Delivery::Message(Message::Connected(_)) => self.last,
            Delivery::Message(Message::Close { .. }) => return None,
        })
    }

    /// The transaction that the events of this turn wait for; `None` if they may leave.
    pub(crate) fn events_wait_for(self) -> Option<Zxid> {
        self.waits_for_zxid(self.last)
    }

    fn waits_for_zxid(self, zxid: Zxid) -> Option<Zxid> {
        // What a turn submits at once becomes durable at once, so its replies are one piece of an outbox. Under an interceptor a
        // reply that is delivered later in the turn may wait for a later transaction than its own, which is safe.
        (zxid > self.durable).then(|| if zxid > self.before { self.last } else { zxid })
    }
}

/// The messages that are not sent yet, and what an [`Outbox`](super::outbox::Outbox) knows of their connection.
#[derive(Debug)]
pub(crate) struct SendQueue {
    /// Messages that may leave.
    pub(crate) ready: SendBuffer,
    /// The messages after those, by the transaction that they wait for; how many these are, and their bytes.
    held: VecDeque<HeldMessages>,
    held_count: usize,
    held_size: Size,
    /// An empty buffer, for the next messages that wait for the log.
    spare: SendBuffer,
    /// The bytes that the write loop has taken and is writing.
    pub(crate) in_flight: Size,
    /// What the budget is charged for the bytes that no other connection shares.
    pub(crate) charge: Charge,
    /// All bytes that were ever queued.
    pub(crate) position: u64,
    pub(crate) state: CloseState,
    /// Whether it was aborted for the length of its queue.
    pub(crate) overflowed: bool,
    /// Why the server has closed it, if it has.
    pub(crate) close_reason: Option<&'static str>,
    /// Whether the read loop waits until it may submit requests.
    pub(crate) reader_waits: bool,
    /// The connection's task, kept from one wait to the next.
    waker: Option<Waker>,
}

/// Messages that leave when a transaction is in the log.
#[derive(Debug)]
struct HeldMessages {
    until: Zxid,
    count: usize,
    messages: SendBuffer,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseState {
    #[default]
    Open,
    /// Closes when all messages are sent.
    Draining { asked: bool },
    /// Closes now.
    Aborted,
}

impl SendQueue {
    pub(crate) fn new(budget: &Arc<SendBudget>) -> Self {
        Self {
            ready: SendBuffer::default(),
            held: VecDeque::new(),
            held_count: 0,
            held_size: Size::default(),
            spare: SendBuffer::default(),
            in_flight: Size::default(),
            charge: Charge::new(budget),
            position: 0,
            state: CloseState::Open,
            overflowed: false,
            close_reason: None,
            reader_waits: false,
            waker: None,
        }
    }

    /// Appends a message that waits for the transaction `until`, if there is one, and for those before it.
    pub(crate) fn add(&mut self, until: Option<Zxid>, put: impl FnOnce(&mut SendBuffer)) {
        let last = self.last_held();
        if let Some(until) = until.filter(|until| last.is_none_or(|last| last < *until)) {
            self.held.push_back(HeldMessages { until, count: 0, messages: mem::take(&mut self.spare) });
        }
        let is_held = !self.held.is_empty();
        // A message that waits for nothing itself still must not overtake those that do.
        let buffer = self.held.back_mut().map_or(&mut self.ready, |held| {
            held.count += 1;
            &mut held.messages
        });
        let before = buffer.size();
        put(buffer);
        let added = buffer.size() - before;
        self.position += added.all as u64;
        if is_held {
            self.held_count += 1;
            self.held_size = self.held_size + added;
        }
    }

    pub(crate) fn release(&mut self, durable: Zxid) {
        while self.held.front().is_some_and(|held| held.until <= durable) {
            let Some(HeldMessages { mut messages, count, .. }) = self.held.pop_front() else { break };
            self.held_count -= count;
            self.held_size = self.held_size - messages.size();
            self.ready.append_all(&mut messages);
            self.spare = messages;
        }
    }

    pub(crate) fn first_held_beyond(&self, most: usize) -> Option<Zxid> {
        self.held.front().filter(|_| self.held_count > most).map(|held| held.until)
    }

    pub(crate) fn last_held(&self) -> Option<Zxid> {
        self.held.back().map(|held| held.until)
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn size(&self) -> Size {
        self.ready.size() + self.held_size + self.in_flight
    }

    /// Whether the write loop has something to do that it does not come to by itself: after a write it looks again.
    pub(crate) fn needs_writer(&self) -> bool {
        self.state != CloseState::Open || (self.in_flight.all == 0 && !self.ready.is_empty())
    }

    pub(crate) fn overflow(&mut self) {
        self.overflowed = true;
        self.close_reason = Some("too much waited to be sent");
        self.abort();
    }

    pub(crate) fn abort(&mut self) {
        self.state = CloseState::Aborted;
        (self.ready, self.spare) = Default::default();
        self.held.clear();
        (self.held_count, self.held_size) = Default::default();
    }

    /// Both loops are polled by one task, so that to wake either wakes both.
    pub(crate) fn is_polled_by(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    /// Called under the lock, since the waker stays in the queue. That is cheap: a wake-up only schedules the task.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}
