//! [`SendQueue`]: the bytes of one connection that are not sent yet, in order.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Waker};

use zoolet_proto::Zxid;

use crate::net::flow::budget::{Charge, SendBudget};
use crate::net::flow::buffer::SendBuffer;

/// What waits to be sent, what waits for the log, and what is being sent.
#[derive(Debug)]
pub(crate) struct SendQueue {
    pub(crate) waiting: SendBuffer,
    /// What comes after that and waits for the log; how many messages these are, their bytes, and how many of those are shared with
    /// no other.
    held: VecDeque<Held>,
    held_count: usize,
    held_len: usize,
    own_held: usize,
    /// An empty buffer, for what waits for the log next.
    spare: SendBuffer,
    /// Bytes that the connection has taken and is writing, and how many of them are shared with no other.
    pub(crate) in_flight: usize,
    pub(crate) own_in_flight: usize,
    /// What the budget has been charged for the bytes that are shared with no other.
    pub(crate) charge: Charge,
    /// All bytes that were ever queued.
    pub(crate) position: u64,
    pub(crate) state: CloseState,
    /// Whether it was aborted for what waited.
    pub(crate) overflowed: bool,
    /// The connection's task, kept from one wait to the next.
    task: Option<Waker>,
}

/// Messages that leave when a transaction is in the log.
#[derive(Debug)]
struct Held {
    until: Zxid,
    count: usize,
    messages: SendBuffer,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseState {
    #[default]
    Open,
    /// Closes when what waits is sent.
    Draining { asked: bool },
    /// Closes now.
    Aborted,
}

impl SendQueue {
    pub(crate) fn new(budget: &Arc<SendBudget>) -> Self {
        Self {
            waiting: SendBuffer::default(),
            held: VecDeque::new(),
            held_count: 0,
            held_len: 0,
            own_held: 0,
            spare: SendBuffer::default(),
            in_flight: 0,
            own_in_flight: 0,
            charge: Charge::new(budget),
            position: 0,
            state: CloseState::Open,
            overflowed: false,
            task: None,
        }
    }

    /// Both loops are polled by one task, so that to wake either wakes both.
    pub(crate) fn is_polled_by(&mut self, cx: &Context<'_>) {
        match &mut self.task {
            Some(task) => task.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    /// Under the lock, as the waker stays: to wake a task only has it queued.
    pub(crate) fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    /// Appends what waits for a transaction, if it does. Returns whether the queue waits for a later one than before.
    pub(crate) fn add(&mut self, until: Option<Zxid>, put: impl FnOnce(&mut SendBuffer)) -> bool {
        let last = self.held.back().map(|held| held.until);
        let is_new = until.is_some_and(|until| last.is_none_or(|last| last < until));
        if let (Some(until), true) = (until, is_new) {
            self.held.push_back(Held { until, count: 0, messages: mem::take(&mut self.spare) });
        }
        let is_held = !self.held.is_empty();
        let buffer = match self.held.back_mut() {
            Some(held) => {
                held.count += 1;
                self.held_count += 1;
                &mut held.messages
            }
            None => &mut self.waiting,
        };
        let (len, own) = (buffer.len(), buffer.own());
        put(buffer);
        let (len, own) = (buffer.len() - len, buffer.own() - own);
        self.position += len as u64;
        if is_held {
            self.held_len += len;
            self.own_held += own;
        }
        is_new
    }

    /// Lets leave what waits for transactions up to `durable`.
    pub(crate) fn release(&mut self, durable: Zxid) {
        while self.held.front().is_some_and(|held| held.until <= durable) {
            let Some(Held { mut messages, count, .. }) = self.held.pop_front() else { break };
            self.held_count -= count;
            self.held_len -= messages.len();
            self.own_held -= messages.own();
            self.waiting.append(&mut messages);
            self.spare = messages;
        }
    }

    /// The first transaction that is waited for, if more messages than so many wait.
    pub(crate) fn first_held(&self, most: usize) -> Option<Zxid> {
        self.held.front().filter(|_| self.held_count > most).map(|held| held.until)
    }

    /// Whether something waits for the log.
    pub(crate) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn unsent(&self) -> usize {
        self.waiting.len() + self.held_len + self.in_flight
    }

    pub(crate) fn own(&self) -> usize {
        self.waiting.own() + self.own_held + self.own_in_flight
    }

    /// The bytes that count against the limit.
    pub(crate) fn counted(&self, exempt: bool) -> usize {
        if exempt { 0 } else { self.unsent() }
    }

    pub(crate) fn overflow(&mut self) {
        self.overflowed = true;
        self.abort();
    }

    pub(crate) fn abort(&mut self) {
        self.state = CloseState::Aborted;
        self.waiting = SendBuffer::default();
        self.held.clear();
        self.spare = SendBuffer::default();
        (self.held_count, self.held_len, self.own_held) = (0, 0, 0);
        let own = self.own();
        self.charge.set(own);
    }
}
