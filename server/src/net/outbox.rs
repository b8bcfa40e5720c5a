//! The outbox: what waits to be sent on one connection, already in wire form, so that its bound is in bytes.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::BytesMut;
use zoolet_core::Message;

use crate::net::stats::ConnStats;

/// Above this many waiting bytes the connection is not read any more.
const HIGH_MARK: usize = 256 << 10;

/// A buffer larger than this is not kept for the next messages: most connections are idle most of the time.
const KEEP: usize = 16 << 10;

/// The send queue of one connection. The driver fills it and never waits; the connection empties it.
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
    fate: Fate,
    /// The connection's task, if its write loop waits for bytes or its read loop for room.
    writer: Option<Waker>,
    reader: Option<Waker>,
    stats: ConnStats,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Fate {
    #[default]
    Open,
    /// Closes when what waits is sent.
    Closing,
    /// Closes now.
    Dead,
}

/// What the write loop is to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send the bytes.
    Send,
    /// Everything is sent: close.
    Finish,
    /// Close at once.
    Abort,
}

impl Outbox {
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::default(), limit }
    }

    /// Queues messages. Those behind a [`Message::Close`] are lost, as they are on a closed connection.
    pub(crate) fn push(&self, messages: impl Iterator<Item = Message>) {
        let mut state = self.lock();
        for message in messages {
            if state.fate != Fate::Open {
                continue;
            }
            match message {
                Message::Connected(response) => response.encode_frame(&mut state.waiting),
                Message::Reply(header, reply) => {
                    reply.encode_frame(header, &mut state.waiting);
                    state.stats.last_zxid = Some(header.zxid);
                }
                Message::Close => state.fate = Fate::Closing,
            }
            state.stats.sent += u64::from(state.fate == Fate::Open);
        }
        if state.waiting.len() + state.in_flight > self.limit {
            tracing::warn!(
                limit = self.limit,
                "a client does not read what it asked for; closing its connection"
            );
            state.fate = Fate::Dead;
        }
        let waker = state.writer.take();
        drop(state);
        wake(waker);
    }

    /// Closes the connection without sending what waits.
    pub(crate) fn kill(&self) {
        let mut state = self.lock();
        state.fate = Fate::Dead;
        let waker = state.writer.take();
        drop(state);
        wake(waker);
    }

    /// Waits until there is something to do. The waiting bytes are swapped for `sent`, which is emptied.
    ///
    /// Cancel safe: nothing is taken before it returns.
    pub(crate) async fn next(&self, sent: &mut BytesMut) -> Next {
        if sent.capacity() > KEEP {
            *sent = BytesMut::new();
        }
        sent.clear();
        poll_fn(|cx| {
            let mut state = self.lock();
            state.in_flight = 0;
            let next = if state.fate == Fate::Dead {
                Next::Abort
            } else if !state.waiting.is_empty() {
                std::mem::swap(&mut state.waiting, sent);
                state.in_flight = sent.len();
                Next::Send
            } else if state.fate == Fate::Closing {
                Next::Finish
            } else {
                state.writer = Some(cx.waker().clone());
                let reader = state.reader.take();
                drop(state);
                wake(reader);
                return Poll::Pending;
            };
            let reader = state.reader.take();
            drop(state);
            wake(reader);
            Poll::Ready(next)
        })
        .await
    }

    /// Waits until the outbox is below its high mark.
    pub(crate) async fn room(&self) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.waiting.len() + state.in_flight < HIGH_MARK {
                return Poll::Ready(());
            }
            state.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
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

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use zoolet_proto::{Reply, ReplyHeader, Xid, Zxid};

    use super::*;

    fn ping() -> Message {
        Message::Reply(ReplyHeader::ok(Xid::PING, Zxid(1)), Reply::Empty)
    }

    #[tokio::test]
    async fn what_is_queued_behind_a_close_is_lost_and_what_is_before_it_is_sent() {
        let outbox = Outbox::new(1 << 20);
        outbox.push([ping(), Message::Close, ping()].into_iter());
        let mut bytes = BytesMut::new();
        assert_eq!((outbox.next(&mut bytes).await, bytes.len()), (Next::Send, 20));
        assert_eq!(outbox.next(&mut bytes).await, Next::Finish);
    }

    #[tokio::test]
    async fn past_its_limit_an_outbox_closes_the_connection() {
        let outbox = Outbox::new(30);
        outbox.push([ping()].into_iter());
        outbox.push([ping()].into_iter());
        assert_eq!(outbox.next(&mut BytesMut::new()).await, Next::Abort);
    }

    #[tokio::test]
    async fn above_the_high_mark_there_is_no_room_until_it_is_sent() {
        let outbox = Outbox::new(1 << 30);
        outbox.push((0..HIGH_MARK / 20 + 1).map(|_| ping()));
        let mut bytes = BytesMut::new();
        let mut room = std::pin::pin!(outbox.room());
        assert!(futures_poll(room.as_mut()).await.is_pending());
        assert_eq!(outbox.next(&mut bytes).await, Next::Send);
        assert!(futures_poll(room.as_mut()).await.is_pending(), "the bytes are taken but not sent");
        let mut next = std::pin::pin!(outbox.next(&mut bytes));
        assert!(futures_poll(next.as_mut()).await.is_pending());
        assert!(futures_poll(room.as_mut()).await.is_ready());
    }

    async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
    }
}
