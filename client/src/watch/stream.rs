//! The stream of a persistent watch, and how the driver fills it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::{WatchEvent, WatchRegistration};
use crate::error::Error;
use crate::stream_queue::StreamQueue;

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

/// The updates of one stream. What it cannot hold is merged into one [`WatchUpdate::Missed`].
pub(crate) type UpdateQueue = StreamQueue<WatchUpdate>;

impl UpdateQueue {
    pub(super) fn push_event(&self, event: WatchEvent) {
        self.update(|updates| match updates.len() {
            len if len < STREAM_CAPACITY => updates.push_back(WatchUpdate::Event(event)),
            _ => add_missed(updates),
        });
    }

    pub(super) fn push_missed(&self) {
        self.update(add_missed);
    }
}

fn add_missed(updates: &mut VecDeque<WatchUpdate>) {
    if !matches!(updates.back(), Some(WatchUpdate::Missed)) {
        updates.push_back(WatchUpdate::Missed);
    }
}
