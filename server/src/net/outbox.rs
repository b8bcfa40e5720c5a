//! The outbox: what waits to be sent on one connection, already in wire form, so that its bound is in bytes.

use std::future::poll_fn;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use zoolet_server_core::{Input, Message};

use crate::net::stats::ConnStats;
use crate::net::weight::shared_weight;

#[cfg(test)]
mod tests;

/// Above this many waiting bytes the connection is not read any more.
pub(crate) const HIGH_MARK: usize = 256 << 10;

/// A buffer larger than this is not kept where little of it was of use last: most connections are idle most of the time, and
/// only ping.
pub(crate) const KEEP: usize = 4 << 10;

/// One larger than this is not kept in any case.
const KEEP_BUSY: usize = 16 << 10;

/// The send queue of one connection. Turns fill it and never wait; the connection empties it.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: BytesMut,
    /// Bytes that the connection has taken and is sending.
    in_flight: usize,
    /// Requests on their way whose replies are not here yet, and those of them that are dealt with.
    unanswered: usize,
    settled: usize,
    /// Requests that a turn has given back.
    given_back: Vec<Input>,
    /// Whether everything that comes to a turn from here on is dealt with in it.
    takes_nothing_back: bool,
    fate: Fate,
    /// Whether the end is to be a reset.
    reset: bool,
    drip: Option<Drip>,
    /// Whether the write loop lets time pass behind a piece.
    pausing: bool,
    /// The connection's task, kept from one wait to the next.
    task: Option<Waker>,
    writer: Writer,
    /// Whether the read loop waits for room.
    reader_waits: bool,
    /// Whether a turn waits for room: with what is held up, which nobody brings again.
    turn_waits: bool,
    /// Whether the end is among what waits for room.
    end_waits: bool,
    stats: ConnStats,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Fate {
    #[default]
    Open,
    /// Closes when what waits is sent.
    Closing { asked: bool },
    /// Closes now.
    Dead,
}

/// Where the write loop stands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// In its own poll: it looks by itself. Or so it was left when its task had run for long enough; that task is woken.
    #[default]
    Busy,
    /// It waits for something to do, or to be told that what it does is to be given up: it is to be woken.
    Waits,
    /// It is polled next whatever happens: it was woken, or the read loop runs and it comes behind that.
    Next,
    /// It has failed. There is no other.
    Gone,
}

/// How bytes are to be sent that are not to be sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drip {
    /// So many go at once before it begins.
    pub(crate) behind: usize,
    /// Then so many at a time,
    pub(crate) bytes: usize,
    /// with such a pause behind each piece.
    pub(crate) every: Duration,
}

/// What the write loop is to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send the bytes, in pieces if it says so.
    Send(Option<Drip>),
    /// Send the bytes, the last ones: behind them comes the end.
    SendLast,
    /// Have a turn taken that waits for room.
    MakeRoom,
    /// Everything is sent: close. If the peer asked for that, it sends nothing more.
    Finish { asked: bool },
    /// Close at once.
    Abort,
}

impl Outbox {
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::default(), limit }
    }

    /// Queues messages. Those behind a [`Message::Close`] are lost, as they are on a closed connection.
    pub(crate) fn push<'m>(&self, messages: impl Iterator<Item = &'m Message>) {
        let mut state = self.lock();
        for message in messages {
            if state.fate != Fate::Open {
                continue;
            }
            match message {
                Message::Connected(response) => response.encode_frame(&mut state.waiting),
                Message::Reply(_, reply) if !state.fits(shared_weight(reply), self.limit) => {
                    state.overflow(self.limit)
                }
                Message::Reply(header, reply) => reply.encode_frame(*header, &mut state.waiting),
                Message::Close { asked } => state.fate = Fate::Closing { asked: *asked },
            }
            state.stats.sent += u64::from(state.fate == Fate::Open);
            if !state.fits(0, self.limit) {
                state.overflow(self.limit);
            }
        }
        state.wake_writer();
    }

    /// Queues the first `bytes` of the frame of a message, or all of it if it is not longer: true then.
    pub(crate) fn push_part(&self, message: &Message, bytes: usize) -> bool {
        let mut frame = BytesMut::new();
        match message {
            Message::Connected(response) => response.encode_frame(&mut frame),
            Message::Reply(header, reply) => reply.encode_frame(*header, &mut frame),
            Message::Close { .. } => {}
        }
        let whole = frame.len() <= bytes;
        frame.truncate(bytes);
        let mut state = self.lock();
        if state.fate == Fate::Open {
            state.waiting.extend_from_slice(&frame);
        }
        state.wake_writer();
        whole
    }

    /// Has everything from now on sent in pieces of so many bytes, with a pause behind each.
    pub(crate) fn drip(&self, bytes: usize, every: Duration) {
        let mut state = self.lock();
        state.drip = Some(Drip { behind: state.waiting.len(), bytes: bytes.max(1), every });
    }

    /// Notes whether the writer lets time pass.
    pub(crate) fn set_pausing(&self, pausing: bool) {
        self.lock().pausing = pausing;
    }

    /// Whether there is nothing to send, or nothing before some time has passed.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock();
        (state.waiting.is_empty() && state.in_flight == 0) || state.pausing || state.fate == Fate::Dead
    }

    /// Closes the connection without sending what waits.
    pub(crate) fn kill(&self) {
        let mut state = self.lock();
        state.die();
        state.wake_writer();
    }

    /// Breaks the connection off: a peer by TCP gets a reset.
    pub(crate) fn reset(&self) {
        self.lock().reset = true;
        self.kill();
    }

    /// Whether there is so much to be sent that more is not to be asked for. Nothing is kept for the sake of a connection that is
    /// not written to any more.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().is_full()
    }

    /// The same, for a turn that keeps something for later: the write loop has another taken then.
    pub(crate) fn turn_waits(&self) -> bool {
        let mut state = self.lock();
        state.turn_waits = state.is_full();
        state.turn_waits
    }

    /// Notes that so many bytes wait for room, or the end of the connection: past the bound it is closed, and it does not wait
    /// for ever for a peer that takes nothing before its end.
    pub(crate) fn owes(&self, bytes: usize, end: bool) {
        let mut state = self.lock();
        if state.fate == Fate::Open && !state.fits(bytes, self.limit) {
            state.overflow(self.limit);
        }
        state.end_waits |= end;
        state.wake_writer();
    }

    /// Notes that what the write loop has taken is sent. For the turn that it asks for alone: before that it is not idle.
    pub(crate) fn made_room(&self) {
        let mut state = self.lock();
        state.in_flight = 0;
        state.turn_waits = false;
    }

    /// Whether the connection was broken off.
    pub(crate) fn is_reset(&self) -> bool {
        self.lock().reset
    }

    /// Notes requests on their way to a turn, the handshake among them. For the read loop alone, behind which the write loop
    /// is polled again: [`writer_is_next`](Outbox::writer_is_next).
    pub(crate) fn asked(&self, requests: usize) {
        let mut state = self.lock();
        state.stats.received += requests as u64;
        state.unanswered += requests;
        if state.writer == Writer::Waits {
            state.writer = Writer::Next;
        }
    }

    /// Notes that so many requests are dealt with; `record` counts them. Their replies are pushed before the
    /// [`nudge`](Outbox::nudge) that ends the turn.
    pub(crate) fn answered(&self, requests: usize, record: impl FnOnce(&mut ConnStats)) {
        let mut state = self.lock();
        record(&mut state.stats);
        state.settled += requests;
    }

    /// Takes back requests that a turn has not dealt with, as what it has answered is much; how many, or `None` if it must
    /// deal with all of them.
    pub(crate) fn give_back(&self, rest: impl Iterator<Item = Input>) -> Option<usize> {
        let mut state = self.lock();
        // One that is not written to any more does not wait for its answers: it has sent on behind these, or reads no more.
        if state.takes_nothing_back || state.fate == Fate::Dead {
            return None;
        }
        state.given_back.extend(rest);
        let requests = state.given_back.len();
        state.stats.received -= requests as u64;
        state.unanswered -= requests;
        Some(requests)
    }

    /// Has what comes to a turn from here on dealt with in it.
    pub(crate) fn take_nothing_back(&self) {
        self.lock().takes_nothing_back = true;
    }

    /// Whether the connection is not read because of what is to be sent first.
    pub(crate) fn keeps_from_reading(&self) -> bool {
        self.lock().reader_waits
    }

    /// Lets the connection be read on although one of its requests is not answered.
    pub(crate) fn excuse(&self) {
        let mut state = self.lock();
        state.unanswered = state.unanswered.saturating_sub(1);
    }

    /// Takes [`excuse`](Outbox::excuse) back.
    pub(crate) fn expect(&self) {
        self.lock().unanswered += 1;
    }

    /// Lets the connection be read on if what was dealt with was all that it had asked for. Behind the pushes: who would read
    /// on before them might come to the end of the stream, and what it was to be sent were lost.
    pub(crate) fn nudge(&self) {
        let mut state = self.lock();
        state.unanswered = state.unanswered.saturating_sub(mem::take(&mut state.settled));
        state.wake_reader();
    }

    /// Waits until there is something to do. The waiting bytes are swapped for `sent`, which is emptied.
    ///
    /// Cancel safe: nothing is taken before it returns. The read loop is to be polled behind it, as this may make room.
    pub(crate) async fn next(&self, sent: &mut BytesMut) -> Next {
        if sent.capacity() > KEEP && (sent.capacity() > KEEP_BUSY || is_little(sent.len(), sent.capacity())) {
            *sent = BytesMut::new();
        }
        sent.clear();
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.turn_waits && state.waiting.len() < HIGH_MARK {
                state.writer = Writer::Busy;
                return Poll::Ready(Next::MakeRoom);
            }
            state.in_flight = 0;
            let next = if state.fate == Fate::Dead {
                Next::Abort
            } else if !state.waiting.is_empty() {
                mem::swap(&mut state.waiting, sent);
                state.in_flight = sent.len();
                let drip = state.drip;
                state.drip = drip.map(|drip| Drip { behind: 0, ..drip });
                if drip.is_none() && state.fate != Fate::Open { Next::SendLast } else { Next::Send(drip) }
            } else if let Fate::Closing { asked } = state.fate {
                Next::Finish { asked }
            } else {
                state.writer = Writer::Waits;
                state.is_polled_by(cx);
                return Poll::Pending;
            };
            state.writer = Writer::Busy;
            Poll::Ready(next)
        })
        .await
    }

    /// Waits until the connection is to close.
    pub(crate) async fn closing(&self) {
        self.until(|state| state.fate != Fate::Open || state.end_waits).await;
    }

    /// Waits until the connection is to close at once.
    pub(crate) async fn dead(&self) {
        self.until(|state| state.fate == Fate::Dead).await;
    }

    async fn until(&self, reached: impl Fn(&State) -> bool) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if reached(&state) {
                return Poll::Ready(());
            }
            state.writer = Writer::Waits;
            state.is_polled_by(cx);
            Poll::Pending
        })
        .await;
    }

    /// Waits until the outbox is below its high mark, with all replies in it: a small request can have a large one. A write
    /// loop that is next and has something to do goes first. Does not hold up the reading of a connection to which nothing
    /// can be sent any more. Gives what turns have given back: it is to be sent again before anything else is.
    pub(crate) async fn room(&self) -> Vec<Input> {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.has_room() {
                state.reader_waits = false;
                return Poll::Ready(mem::take(&mut state.given_back));
            }
            state.reader_waits = true;
            state.is_polled_by(cx);
            Poll::Pending
        })
        .await
    }

    /// Whether the write loop counts on being polled without being woken.
    pub(crate) fn writer_is_next(&self) -> bool {
        self.lock().writer == Writer::Next
    }

    /// Notes that nothing can be sent any more. What the peer has sent may still be read.
    pub(crate) fn writer_is_gone(&self) {
        let mut state = self.lock();
        state.die();
        state.writer = Writer::Gone;
    }

    /// Reads or changes the counters of the connection.
    pub(crate) fn with_stats<T>(&self, look: impl FnOnce(&mut ConnStats) -> T) -> T {
        look(&mut self.lock().stats)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; if something did, the state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Both loops are polled by one task, so that to wake either wakes both.
    fn is_polled_by(&mut self, cx: &Context<'_>) {
        match &mut self.task {
            Some(task) => task.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    fn has_room(&self) -> bool {
        let writer_goes_first =
            self.writer == Writer::Next && (self.fate != Fate::Open || !self.waiting.is_empty());
        let room = self.unanswered == 0 && self.waiting.len() + self.in_flight < HIGH_MARK;
        (room && !writer_goes_first) || self.writer == Writer::Gone
    }

    fn is_full(&self) -> bool {
        self.fate == Fate::Open && self.waiting.len() + self.in_flight >= HIGH_MARK
    }

    fn wake_writer(&mut self) {
        if self.writer == Writer::Waits {
            self.writer = Writer::Next;
            self.wake();
        }
    }

    fn wake_reader(&mut self) {
        if mem::take(&mut self.reader_waits) {
            self.wake();
        }
    }

    /// Under the lock, as the waker stays: to wake a task only has it queued.
    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    fn fits(&self, more: usize, limit: usize) -> bool {
        self.waiting.len() + self.in_flight + more <= limit
    }

    fn overflow(&mut self, limit: usize) {
        tracing::warn!(limit, "a client does not read what it asked for; closing its connection");
        self.die();
    }

    fn die(&mut self) {
        self.fate = Fate::Dead;
        self.waiting = BytesMut::new();
    }
}

/// Whether so much is little for a buffer of that size.
pub(crate) fn is_little(used: usize, capacity: usize) -> bool {
    used < capacity / 8
}
