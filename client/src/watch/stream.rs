//! The stream of a persistent watch, and the queue that the driver fills it through.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

use super::{WatchEvent, WatchRegistration};
use crate::error::Error;

/// Most events that wait in a [`WatchStream`]. Further ones are dropped and reported by one [`WatchUpdate::Missed`].
pub(crate) const STREAM_CAPACITY: usize = 16_384;

/// An item of a [`WatchStream`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WatchUpdate {
    /// A change.
    Event(WatchEvent),
    /// Changes may have been missed here: the connection was lost and restored, and servers do not report to a persistent
    /// watch what happened in between; or 16,384 events were waiting already. The watch is set again, so what is read
    /// from now on is watched.
    Missed,
    /// The watch has ended, for this reason: the session is over, or the watch was removed. The last item.
    Ended(Error),
}

/// A persistent watch, from [`Client::add_watch`](crate::Client::add_watch): a [`Stream`] of changes that ends with the
/// session.
///
/// Dropping it removes the watch, from the server too if no other handle of this client uses it. Servers before 3.9
/// guarantee less: see [`Client::add_watch`](crate::Client::add_watch).
///
/// ```no_run
/// use zoolet_client::{AddWatchMode, WatchUpdate};
///
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let mut changes = zk.add_watch("/config", AddWatchMode::PersistentRecursive).await?;
/// while let Some(update) = changes.next().await {
///     match update {
///         WatchUpdate::Event(event) => println!("{:?} {}", event.kind, event.path),
///         WatchUpdate::Missed => println!("read everything again"),
///         WatchUpdate::Ended(error) => return Err(error),
///         _ => {}
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a watch is removed when it is dropped"]
pub struct WatchStream {
    pub(crate) queue: Arc<UpdateQueue>,
    pub(crate) _registration: WatchRegistration,
}

impl WatchStream {
    /// Waits for the next update; `None` after [`WatchUpdate::Ended`].
    ///
    /// # Ordering and cancel safety
    /// Events arrive in the order of their transactions, each before any reply that shows its change. Dropping the future
    /// loses nothing.
    pub async fn next(&mut self) -> Option<WatchUpdate> {
        poll_fn(|cx| self.queue.poll_next(cx)).await
    }
}

impl Stream for WatchStream {
    type Item = WatchUpdate;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WatchUpdate>> {
        self.queue.poll_next(cx)
    }
}

/// A queue from the driver to one stream. Filling it never waits; it is bounded by merging what it cannot hold.
#[derive(Debug, Default)]
pub(crate) struct UpdateQueue(Mutex<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    updates: VecDeque<WatchUpdate>,
    ended: bool,
    reader: Option<Waker>,
}

impl UpdateQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        // No foreign code runs under this lock, so its data is consistent even if it is poisoned.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push_event(&self, event: WatchEvent) {
        self.update(|state| match state.updates.len() {
            len if len < STREAM_CAPACITY => state.updates.push_back(WatchUpdate::Event(event)),
            _ => state.push_missed(),
        });
    }

    pub(super) fn push_missed(&self) {
        self.update(QueueState::push_missed);
    }

    pub(super) fn end(&self, error: Error) {
        self.update(|state| {
            state.updates.push_back(WatchUpdate::Ended(error));
            state.ended = true;
        });
    }

    fn update(&self, change: impl FnOnce(&mut QueueState)) {
        let mut state = self.state();
        if state.ended {
            return;
        }
        change(&mut state);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<WatchUpdate>> {
        let mut state = self.state();
        match state.updates.pop_front() {
            Some(update) => Poll::Ready(Some(update)),
            None if state.ended => Poll::Ready(None),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl QueueState {
    fn push_missed(&mut self) {
        if !matches!(self.updates.back(), Some(WatchUpdate::Missed)) {
            self.updates.push_back(WatchUpdate::Missed);
        }
    }
}
