//! The outbox: what waits to be sent on one connection, already in wire form, so that its bound is in bytes.
//!
//! What bounds it: the read loop submits its next batch of requests when those before are answered and less than the
//! [mark](SendBudget::mark) waits, and the replies of a batch have hardly more. So a connection that does not read holds
//! two marks and one reply. What waits for the log counts as any other byte. Events, and single
//! replies that are larger than the limit, close it at the limit; so does a message for a connection on which more than
//! the mark waits, if the server's budget is spent.

use std::future::poll_fn;
use std::mem;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use std::sync::Arc;

use bytes::Bytes;
use zoolet_proto::{Reply, Zxid};
use zoolet_server_core::{Message, Output, SharedEvent};

use crate::durable::Hold;
use crate::net::flow::budget::SendBudget;
use crate::net::flow::buffer::SendBuffer;
use crate::net::flow::send_queue::{CloseState, SendQueue};
use crate::net::flow::window::Window;
use crate::net::reply_size::reply_size;

/// The send queue of one connection, and its window of requests. Turns fill it and never wait; the connection empties
/// it. An uncontended request locks the queue three times: to push its reply, to take it, and to find nothing more.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Mutex<SendQueue>,
    /// Bytes in the queue or in flight. Changes under the lock of the queue.
    unsent: AtomicUsize,
    /// One of [`writer`]. Changes under the lock of the queue, or by the connection's own task.
    writer: AtomicU8,
    window: Window,
    limit: usize,
    budget: Arc<SendBudget>,
}

/// What a push has led to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// How many messages were queued.
    pub(crate) count: u64,
    /// The transactions that the queue now waits for and did not before: the last of them.
    pub(crate) waits: Option<Zxid>,
}

/// What the write loop does.
mod writer {
    /// Its own poll: it looks by itself. Or it was left there when its task had run for long enough, which is woken.
    pub(super) const BUSY: u8 = 0;
    /// It waits for something to do, or for the end of what it does, and has to be woken.
    pub(super) const WAITS: u8 = 1;
    /// It is polled next in any case: it was woken, or the read loop runs and it comes after that.
    pub(super) const NEXT: u8 = 2;
    /// It has failed, and there is no other.
    pub(super) const GONE: u8 = 3;
}

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

/// What the write loop is to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send the bytes.
    Send,
    /// Send the bytes, and then close.
    SendLast,
    /// Everything is sent: close. If the peer asked for that, it sends nothing more.
    Finish { asked: bool },
    /// Close at once.
    Abort,
}

impl Outbox {
    pub(crate) fn new(limit: usize, budget: &Arc<SendBudget>) -> Self {
        Self {
            queue: Mutex::new(SendQueue::new(budget)),
            unsent: AtomicUsize::new(0),
            writer: AtomicU8::new(writer::BUSY),
            window: Window::default(),
            limit,
            budget: Arc::clone(budget),
        }
    }

    /// Queues messages, each until `hold` lets it leave, and after those before it. Those after a [`Message::Close`] are lost,
    /// as on a closed connection. If they were `held` back, replies among them count against the limit only by their own size.
    pub(crate) fn push<'m>(
        &self,
        messages: impl Iterator<Item = Delivery<'m>>,
        held: bool,
        hold: Hold,
    ) -> Pushed {
        let mut pushed = Pushed::default();
        let mut queue = self.lock();
        for message in messages {
            if queue.state != CloseState::Open {
                continue;
            }
            let exempt = held && matches!(message, Delivery::Message(message) if !message.is_event());
            // Not encoded to find that out: a multiRead of many times one znode takes no memory before.
            if let Delivery::Message(Message::Reply(_, reply)) = message {
                if queue.counted(exempt) + reply_size(reply) > self.limit {
                    queue.overflow();
                    continue;
                }
            }
            let until = hold.until(named(message, hold));
            let is_new = match message {
                Delivery::Event(event) => queue.add(until, |out| out.put(|out| event.encode_frame(out))),
                Delivery::Message(Message::Connected(response)) => {
                    queue.add(until, |out| out.put(|out| response.encode_frame(out)))
                }
                Delivery::Message(Message::Reply(header, reply)) => {
                    queue.add(until, |out| out.put_reply(*header, reply))
                }
                Delivery::Message(Message::Close { asked }) => {
                    queue.state = CloseState::Draining { asked: *asked };
                    continue;
                }
            };
            if is_new {
                pushed.waits = until;
            }
            pushed.count += 1;
            if queue.counted(exempt) > self.limit {
                queue.overflow();
            }
        }
        self.pushed(queue);
        pushed
    }

    /// Queues so many events, encoded one after the other.
    pub(crate) fn push_events(&self, events: &Bytes, count: u64, hold: Hold) -> Pushed {
        let mut queue = self.lock();
        if queue.state != CloseState::Open {
            return Pushed::default();
        }
        let until = hold.until(hold.last());
        let is_new = queue.add(until, |out| out.share(events));
        if queue.unsent() > self.limit {
            queue.overflow();
        }
        let count = if queue.state == CloseState::Open { count } else { 0 };
        self.pushed(queue);
        Pushed { count, waits: until.filter(|_| is_new) }
    }

    /// Lets leave what waits for transactions up to `durable`.
    pub(crate) fn release(&self, durable: Zxid) {
        let mut queue = self.lock();
        queue.release(durable);
        self.wake_writer(&queue);
    }

    fn pushed(&self, mut queue: MutexGuard<'_, SendQueue>) {
        let own = queue.own();
        queue.charge.set(own);
        if own > self.budget.mark() && self.budget.is_spent() && queue.state != CloseState::Aborted {
            queue.overflow();
        }
        self.note_unsent(&queue);
        self.wake_writer(&queue);
    }

    /// Closes the connection without sending what waits.
    pub(crate) fn abort(&self) {
        let mut queue = self.lock();
        queue.abort();
        self.note_unsent(&queue);
        self.wake_writer(&queue);
    }

    /// Whether the connection is closed because too much waited to be sent.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.lock().overflowed
    }

    /// Bytes that wait or are being written. None on a connection that is aborted.
    pub(crate) fn unsent(&self) -> usize {
        let queue = self.lock();
        if queue.state == CloseState::Aborted { 0 } else { queue.unsent() }
    }

    /// All bytes that were ever queued.
    pub(crate) fn position(&self) -> u64 {
        self.lock().position
    }

    /// Notes requests that are submitted to a turn, the handshake among them. For the read loop, after which the write
    /// loop is polled again: [`writer_is_next`](Outbox::writer_is_next).
    pub(crate) fn begin_requests(&self, requests: usize) {
        self.window.begin(requests);
        let _ = self.writer.compare_exchange(writer::WAITS, writer::NEXT, AcqRel, Relaxed);
    }

    /// Notes that so many requests are answered, after their replies were pushed: a read loop that went on before might
    /// come to the end of the stream, and they were lost.
    pub(crate) fn finish_requests(&self, requests: usize) {
        self.window.finish(requests);
        self.wake_reader();
    }

    /// Notes that so many of the requests that were submitted last were not processed.
    pub(crate) fn return_unprocessed(&self, requests: usize) {
        self.window.return_unprocessed(requests);
        self.wake_reader();
    }

    /// Whether the connection is not read because of what is to be sent first.
    pub(crate) fn reader_waits(&self) -> bool {
        self.window.reader_waits()
    }

    /// Waits until there is something to do. The waiting bytes are swapped for `sent`, which is emptied.
    ///
    /// Cancel safe: nothing is taken before it returns. The read loop is to be polled after it: there may be room.
    pub(crate) async fn next(&self, sent: &mut SendBuffer) -> Next {
        sent.reuse();
        poll_fn(|cx| {
            let mut queue = self.lock();
            (queue.in_flight, queue.own_in_flight) = (0, 0);
            let next = match queue.state {
                CloseState::Aborted => Next::Abort,
                state if !queue.waiting.is_empty() => {
                    mem::swap(&mut queue.waiting, sent);
                    (queue.in_flight, queue.own_in_flight) = (sent.len(), sent.own());
                    let more = state == CloseState::Open || queue.is_held();
                    if more { Next::Send } else { Next::SendLast }
                }
                CloseState::Draining { asked } if !queue.is_held() => Next::Finish { asked },
                CloseState::Draining { .. } | CloseState::Open => {
                    let own = queue.own();
                    queue.charge.set(own);
                    self.note_unsent(&queue);
                    self.writer_waits(&mut queue, cx);
                    return Poll::Pending;
                }
            };
            let own = queue.own();
            queue.charge.set(own);
            self.note_unsent(&queue);
            self.writer.store(writer::BUSY, Release);
            Poll::Ready(next)
        })
        .await
    }

    /// Waits until the connection is to close.
    pub(crate) async fn closing(&self) {
        self.until(|state| state != CloseState::Open).await;
    }

    /// Waits until the connection is to close at once.
    pub(crate) async fn aborted(&self) {
        self.until(|state| state == CloseState::Aborted).await;
    }

    async fn until(&self, reached: impl Fn(CloseState) -> bool) {
        poll_fn(|cx| {
            let mut queue = self.lock();
            if reached(queue.state) {
                return Poll::Ready(());
            }
            self.writer_waits(&mut queue, cx);
            Poll::Pending
        })
        .await;
    }

    /// Waits until the next requests may be submitted: all before are answered, and less than the mark is unsent.
    /// Returns how many of those were not processed. After a failed write the unsent bytes no longer count, but a batch
    /// that a turn may return is still awaited: its frames have to be in the read buffer then.
    pub(crate) async fn room(&self) -> usize {
        poll_fn(|cx| {
            // The write loop goes first. Both are polled by one task, which polls this one again after it.
            if self.writer_is_next() {
                return Poll::Pending;
            }
            if !self.has_room() {
                self.lock().is_polled_by(cx);
                self.window.set_reader_waits(true);
                // Answers may have come in between.
                if !self.has_room() {
                    return Poll::Pending;
                }
            }
            if self.window.reader_waits() {
                self.window.set_reader_waits(false);
            }
            Poll::Ready(self.window.take_unprocessed())
        })
        .await
    }

    /// The first transaction that is waited for, if more messages than so many wait for the log.
    pub(crate) fn first_held(&self, most: usize) -> Option<Zxid> {
        self.lock().first_held(most)
    }

    /// Waits until so many messages at most wait for the log: the others have left for the write loop, or the connection is aborted.
    /// For the read loop, which is polled after that one.
    pub(crate) async fn few_held(&self, most: usize) {
        poll_fn(|cx| {
            let mut queue = self.lock();
            if queue.first_held(most).is_none() {
                return Poll::Ready(());
            }
            queue.is_polled_by(cx);
            Poll::Pending
        })
        .await;
    }

    fn has_room(&self) -> bool {
        let is_sent = || self.unsent.load(Acquire) < self.budget.mark() || self.is_gone();
        self.window.is_empty() && is_sent()
    }

    /// Whether the write loop counts on being polled without being woken.
    pub(crate) fn writer_is_next(&self) -> bool {
        self.writer.load(Acquire) == writer::NEXT
    }

    /// Whether nothing can be sent any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.writer.load(Acquire) == writer::GONE
    }

    /// Whether requests are submitted and not answered.
    pub(crate) fn has_requests(&self) -> bool {
        !self.window.is_empty()
    }

    /// Notes that nothing can be sent any more. What the peer has sent may still be read.
    pub(crate) fn writer_is_gone(&self) {
        let mut queue = self.lock();
        queue.abort();
        self.note_unsent(&queue);
        self.writer.store(writer::GONE, Release);
    }

    fn note_unsent(&self, queue: &SendQueue) {
        self.unsent.store(queue.unsent(), Release);
    }

    fn writer_waits(&self, queue: &mut SendQueue, cx: &Context<'_>) {
        self.writer.store(writer::WAITS, Release);
        queue.is_polled_by(cx);
    }

    fn wake_writer(&self, queue: &SendQueue) {
        if self.writer.compare_exchange(writer::WAITS, writer::NEXT, AcqRel, Relaxed).is_ok() {
            queue.wake();
        }
    }

    fn wake_reader(&self) {
        if self.window.reader_waits() {
            self.window.set_reader_waits(false);
            self.lock().wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SendQueue> {
        // Nothing panics while it holds the lock; if something did, the queue is still whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The transaction that a message names: that must be in the log before the message leaves.
fn named(message: Delivery<'_>, hold: Hold) -> Zxid {
    match message {
        Delivery::Event(event) => event.zxid,
        // The event of a watch that is set again: it names no transaction, and shows the newest state.
        Delivery::Message(Message::Reply(header, Reply::Event(_))) if header.zxid <= Zxid(0) => hold.last(),
        Delivery::Message(Message::Reply(header, _)) => header.zxid,
        // It shows that its session exists, or does not.
        Delivery::Message(Message::Connected(_)) => hold.last(),
        Delivery::Message(Message::Close { .. }) => Zxid(0),
    }
}
