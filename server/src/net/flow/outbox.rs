//! [`Outbox`]: the messages that wait to be sent on one connection, and the requests that wait to be answered.
//!
//! Messages are in wire form, so that their bound is in bytes: the read loop submits requests when all before are answered and
//! less than the [mark](SendBudget::mark) is unsent, and the replies of a batch have hardly more. So a connection that
//! does not read holds two marks and one reply. Messages that wait for the log count as any other. Events, and single replies
//! that are larger than the limit, close the connection at the limit; so does a message for a connection with more than
//! the mark unsent, if the server's budget is spent.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use zoolet_proto::{Reply, Xid, Zxid, frame};
use zoolet_server_core::Message;

use super::budget::SendBudget;
use super::buffer::{SendBuffer, Size};
use super::limits::ROUNDS;
use super::queue::{CloseState, Delivery, ReleaseRule, SendQueue};
use crate::net::stats::ReplySizes;

use super::sync::{AtomicBool, AtomicU8, AtomicUsize, Mutex, MutexGuard};

/// The send queue of one connection, and the count of its requests in flight. Turns fill the queue and never wait; the task
/// of the connection, with its read loop and its write loop, empties it.
///
/// The rule of wake-ups: *after* a change to what a loop waits for, [`schedule`](Outbox::schedule) is called, and the task is
/// woken if it was parked; [`changed`](Outbox::changed) does both. Only what is pushed during a write needs no call: the write loop
/// looks again after it. The task parks only if nobody has called since before its loops looked, and has left its waker then
/// ([`poll_loops`](Outbox::poll_loops)). `outbox_model_tests.rs` tries the interleavings.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Mutex<SendQueue>,
    /// A [`PollState`].
    task: AtomicU8,
    /// Requests that are submitted and not answered. Counted without the lock, as each request changes it twice.
    unanswered: AtomicUsize,
    /// Requests that the last turn did not reach. The read loop submits them again.
    unprocessed: AtomicUsize,
    /// Bytes that are queued or in flight; 0 on an aborted connection. Changes under the lock.
    unsent: AtomicUsize,
    /// Whether nothing can be sent any more. Changes under the lock.
    aborted: AtomicBool,
    limit: usize,
    budget: Arc<SendBudget>,
}

/// What the task of the connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum PollState {
    /// It is polled, and nothing has changed since that began.
    Polling,
    /// It sleeps: a change wakes it.
    Parked,
    /// Something has changed, and it will look without being woken again: it is polled now, or is woken already.
    Scheduled,
}

/// The length before each frame. The sizes of replies and events that are counted are without it, as on Apache.
const PREFIX: u64 = frame::PREFIX as u64;

/// What a push has led to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// How many messages were queued. One that overflows the queue is not.
    pub(crate) count: u64,
    /// How many bytes the replies and the events among them are.
    pub(crate) replies: ReplySizes,
    pub(crate) event_bytes: u64,
    /// The first transaction that the queue waits for, if it waited for none before. So the gate has a connection under one zxid
    /// at most, that of its first held message; [`Outbox::release`] names the next.
    pub(crate) waits: Option<Zxid>,
    /// The last transaction that the queue waits for.
    pub(crate) held_until: Option<Zxid>,
}

impl Pushed {
    fn with_waits(self, queue: &SendQueue, waited: bool) -> Self {
        let waits = if waited { None } else { queue.first_held_beyond(0) };
        Self { waits, held_until: queue.last_held(), ..self }
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

/// For turns.
impl Outbox {
    pub(crate) fn new(limit: usize, budget: &Arc<SendBudget>) -> Self {
        Self {
            queue: Mutex::new(SendQueue::new(budget)),
            // Not parked, as there is no waker yet: the first poll sees what changes before it.
            task: AtomicU8::new(PollState::Polling as u8),
            unanswered: AtomicUsize::new(0),
            unprocessed: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
            aborted: AtomicBool::new(false),
            limit,
            budget: Arc::clone(budget),
        }
    }

    /// Queues messages, each after those before it and until `rule` lets it leave. Those after a [`Message::Close`] are lost,
    /// as on a closed connection. If the push `is_delayed`, as by a fault of a test, replies count against the limit only
    /// by their own size.
    pub(crate) fn push<'m>(
        &self,
        messages: impl Iterator<Item = Delivery<'m>>,
        is_delayed: bool,
        rule: ReleaseRule,
    ) -> Pushed {
        let mut pushed = Pushed::default();
        let mut queue = self.lock();
        let waited = queue.is_held();
        for message in messages {
            if queue.state != CloseState::Open {
                break;
            }
            let position = queue.position;
            let until = rule.waits_for(message);
            match message {
                Delivery::Event(event) => queue.add(until, |out| out.put(|out| event.encode_frame(out))),
                Delivery::Message(Message::Connected(response)) => {
                    queue.add(until, |out| out.put(|out| response.encode_frame(out)))
                }
                Delivery::Message(Message::Reply(header, reply)) => {
                    let len = reply.encoded_len();
                    let is_exempt = is_delayed && !matches!(reply, Reply::Event(_));
                    // Counted, and not encoded to find that out: a multiRead of many times one znode takes no memory before.
                    if len + if is_exempt { 0 } else { queue.size().all } > self.limit {
                        queue.overflow();
                        break;
                    }
                    queue.add(until, |out| out.put_reply(*header, reply, len))
                }
                Delivery::Message(Message::Close { asked, reason }) => {
                    queue.state = CloseState::Draining { asked: *asked };
                    queue.close_reason = Some(reason);
                    break;
                }
            }
            // Of events, whose length is known only now.
            if !is_delayed && queue.size().all > self.limit {
                queue.overflow();
                break;
            }
            pushed.count += 1;
            let added = (queue.position - position).saturating_sub(PREFIX);
            match message {
                Delivery::Event(_) | Delivery::Message(Message::Reply(_, Reply::Event(_))) => {
                    pushed.event_bytes += added;
                }
                Delivery::Message(Message::Reply(header, _)) => {
                    pushed.replies.add(added, header.xid == Xid::PING)
                }
                Delivery::Message(_) => {}
            }
        }
        self.account_and_wake(&mut queue);
        pushed.with_waits(&queue, waited)
    }

    /// Queues `count` events, encoded one after the other.
    pub(crate) fn push_events(&self, events: &Bytes, count: u64, rule: ReleaseRule) -> Pushed {
        let mut queue = self.lock();
        if queue.state != CloseState::Open {
            return Pushed::default();
        }
        let waited = queue.is_held();
        queue.add(rule.events_wait_for(), |out| out.share(events));
        let mut pushed = Pushed::default();
        if queue.size().all > self.limit {
            queue.overflow();
        } else {
            pushed.count = count;
            pushed.event_bytes = (events.len() as u64).saturating_sub(PREFIX * count);
        }
        self.account_and_wake(&mut queue);
        pushed.with_waits(&queue, waited)
    }

    /// Accounts for what was queued, and has it sent.
    fn account_and_wake(&self, queue: &mut SendQueue) {
        self.note_size(queue);
        let is_large = queue.size().unshared > self.budget.mark() && self.budget.is_spent();
        if is_large && queue.state != CloseState::Aborted {
            queue.overflow();
            self.note_size(queue);
        }
        if queue.needs_writer() {
            self.changed(queue);
        }
    }

    /// Lets the messages leave that wait for transactions up to `durable`. Returns the first transaction that others wait for.
    pub(crate) fn release(&self, durable: Zxid) -> Option<Zxid> {
        let mut queue = self.lock();
        queue.release(durable);
        self.changed(&queue);
        queue.first_held_beyond(0)
    }

    /// Closes the connection without sending what is queued. After a write that failed, requests that the peer has sent are still
    /// read for a while (`Connection::run_loops`).
    pub(crate) fn abort(&self) {
        let mut queue = self.lock();
        queue.abort();
        self.note_size(&mut queue);
        self.changed(&queue);
    }

    /// Notes that `requests` were answered. Comes after the push of their replies: a read loop that goes on earlier could come to
    /// the end of the stream, and the replies would be lost.
    pub(crate) fn finish_requests(&self, requests: usize) {
        // The update cannot fail: the closure always returns a value.
        let _ = self.unanswered.fetch_update(AcqRel, Acquire, |now| Some(now.saturating_sub(requests)));
        // Most often the task itself takes this turn, or the push has woken it: then the lock is not needed.
        if self.schedule() {
            self.lock().wake();
        }
    }

    /// Notes that `requests` of those that were submitted last were not processed.
    pub(crate) fn return_unprocessed(&self, requests: usize) {
        self.unprocessed.fetch_add(requests, AcqRel);
        self.finish_requests(requests);
    }

    /// Whether requests are submitted and not answered.
    pub(crate) fn has_requests(&self) -> bool {
        self.unanswered.load(Acquire) > 0
    }

    /// Whether the connection is not read until requests are answered or bytes sent.
    pub(crate) fn reader_waits(&self) -> bool {
        self.lock().reader_waits
    }

    /// Whether it is so for the log alone: the stream has taken everything that may leave.
    pub(crate) fn reader_waits_for_log(&self) -> bool {
        let queue = self.lock();
        queue.reader_waits && queue.is_held() && queue.in_flight.all == 0 && queue.ready.is_empty()
    }

    /// Whether nothing can be sent any more.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Relaxed)
    }

    /// Whether the connection is closed because too much waited to be sent.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.lock().overflowed
    }

    /// Why the server has closed the connection, if it was the server.
    pub(crate) fn close_reason(&self) -> Option<&'static str> {
        self.lock().close_reason
    }

    /// Bytes that wait or are being written; 0 on an aborted connection.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.load(Relaxed)
    }

    /// All bytes that were ever queued.
    pub(crate) fn position(&self) -> u64 {
        self.lock().position
    }
}

/// For the task of the connection.
impl Outbox {
    /// Polls both loops until either ends: the write loop first, so that a connection that a turn has closed is not read any more.
    /// Both are polled again if something has changed meanwhile, as when the turn that the read loop submits to pushes the replies.
    pub(crate) fn poll_loops<T>(
        &self,
        cx: &mut Context<'_>,
        mut writing: Pin<&mut impl Future<Output = io::Result<T>>>,
        mut reading: Pin<&mut impl Future<Output = T>>,
    ) -> Poll<io::Result<T>> {
        for _ in 0..ROUNDS {
            // Before the loops look, so that a change after their look is seen below.
            self.task.swap(PollState::Polling as u8, AcqRel);
            if let Poll::Ready(outcome) = writing.as_mut().poll(cx) {
                return Poll::Ready(outcome);
            }
            if let Poll::Ready(outcome) = reading.as_mut().poll(cx) {
                return Poll::Ready(Ok(outcome));
            }
            // Both have left their waker with what they wait for.
            let (polling, parked) = (PollState::Polling as u8, PollState::Parked as u8);
            if self.task.compare_exchange(polling, parked, AcqRel, Acquire).is_ok() {
                return Poll::Pending;
            }
        }
        // It stays scheduled, and turns need not wake it meanwhile.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Waits until there is something to do. The bytes that may leave are swapped for `sent`, which is emptied.
    ///
    /// Cancel safe: nothing is taken before it returns.
    pub(crate) async fn next(&self, sent: &mut SendBuffer) -> Next {
        sent.reuse();
        poll_fn(|cx| {
            let mut queue = self.lock_to_wait(cx);
            // The write loop has sent what it took. The read loop, which is polled after it, may have waited for that.
            queue.in_flight = Size::default();
            let next = match queue.state {
                CloseState::Aborted => Poll::Ready(Next::Abort),
                state if !queue.ready.is_empty() => {
                    mem::swap(&mut queue.ready, sent);
                    queue.in_flight = sent.size();
                    let more = state == CloseState::Open || queue.is_held();
                    Poll::Ready(if more { Next::Send } else { Next::SendLast })
                }
                CloseState::Draining { asked } if !queue.is_held() => Poll::Ready(Next::Finish { asked }),
                CloseState::Draining { .. } | CloseState::Open => Poll::Pending,
            };
            self.note_size(&mut queue);
            next
        })
        .await
    }

    /// Waits until the connection is to close.
    pub(crate) async fn closing(&self) {
        self.until(|queue| queue.state != CloseState::Open).await;
    }

    /// Waits until the connection is to close at once.
    pub(crate) async fn aborted(&self) {
        self.until(|queue| queue.state == CloseState::Aborted).await;
    }

    /// Notes requests that are submitted to a turn, the handshake among them.
    pub(crate) fn begin_requests(&self, requests: usize) {
        self.unanswered.fetch_add(requests, Relaxed);
    }

    /// Waits until the next requests may be submitted: a turn has answered or returned all that were, and less than the mark is
    /// unsent. Returns how many were returned ([`return_unprocessed`](Outbox::return_unprocessed)); they are submitted again from the
    /// read buffer, so an aborted connection, with nothing unsent, waits for the turn too. Only for
    /// [`poll_loops`](Outbox::poll_loops).
    pub(crate) async fn ready_for_requests(&self) -> usize {
        let mut waits = false;
        poll_fn(|cx| {
            // Replies leave before more is read. No waker is left: `poll_loops` sees that the task is scheduled, and polls both loops
            // again, the write loop first, or wakes the task itself.
            if self.is_scheduled() {
                return Poll::Pending;
            }
            let is_ready = !self.has_requests() && self.unsent() < self.budget.mark();
            if waits || !is_ready {
                let mut queue = self.lock_to_wait(cx);
                queue.reader_waits = !is_ready;
                waits = true;
            }
            match is_ready {
                // Most often none, and then a load suffices.
                true if self.unprocessed.load(Acquire) == 0 => Poll::Ready(0),
                true => Poll::Ready(self.unprocessed.swap(0, AcqRel)),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// The first transaction that messages wait for, if more than `most` messages wait for the log.
    pub(crate) fn first_held_beyond(&self, most: usize) -> Option<Zxid> {
        self.lock().first_held_beyond(most)
    }

    /// Waits until at most `most` messages wait for the log: the write loop has the others, or the connection is aborted. Only for
    /// [`poll_loops`](Outbox::poll_loops).
    pub(crate) async fn held_at_most(&self, most: usize) {
        // A turn on another thread may have released messages since the write loop looked. That schedules the task under the
        // lock, so the write loop is polled again before the read loop goes on, or ends the connection.
        self.until(|queue| queue.first_held_beyond(most).is_none() && !self.is_scheduled()).await;
    }

    async fn until(&self, is_reached: impl Fn(&SendQueue) -> bool) {
        poll_fn(|cx| if is_reached(&self.lock_to_wait(cx)) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// For both.
impl Outbox {
    /// Has the task look again after a change.
    fn changed(&self, queue: &SendQueue) {
        if self.schedule() {
            queue.wake();
        }
    }

    /// Whether something has changed since the loops were polled last: both are polled again.
    fn is_scheduled(&self) -> bool {
        self.task.load(Acquire) == PollState::Scheduled as u8
    }

    /// Notes a change. Returns whether the task has to be woken: after that, nobody else has to.
    fn schedule(&self) -> bool {
        // Never only a load, even if it shows that the task is scheduled: the exchange makes the change visible to the next poll.
        self.task.swap(PollState::Scheduled as u8, AcqRel) == PollState::Parked as u8
    }

    /// Accounts for the size of the queue after a change.
    fn note_size(&self, queue: &mut SendQueue) {
        let is_aborted = queue.state == CloseState::Aborted;
        let Size { all, unshared } = queue.size();
        queue.charge.set(unshared);
        // Relaxed: the task sees these by the `schedule` or the count of requests that follows. To others they are hints.
        self.unsent.store(if is_aborted { 0 } else { all }, Relaxed);
        self.aborted.store(is_aborted, Relaxed);
    }

    /// The queue, for a look after which the task may park.
    fn lock_to_wait(&self, cx: &Context<'_>) -> MutexGuard<'_, SendQueue> {
        let mut queue = self.lock();
        queue.is_polled_by(cx);
        queue
    }

    fn lock(&self) -> MutexGuard<'_, SendQueue> {
        // Not `crate::locked`: the model test has another mutex. Nothing panics while it holds the lock; if something did, the queue
        // is still whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
