//! Watches as their owners hold them: a future for a one-shot watch, a stream for a persistent one.
//!
//! A server knows one watch per connection, path and kind; any number of handles here share it. The driver's
//! [`WatchTable`] counts them. Dropping a handle tells the driver so and never waits; the last one of a watch takes it
//! away from the server.

mod restore;
mod table;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::{mpsc, oneshot};
pub(crate) use zoolet_proto::WatchKind;
use zoolet_proto::{EventType, Zxid};

use crate::call::Command;
use crate::context::ErrorContext;
use crate::error::Error;
use crate::queue::Queue;

pub(crate) use restore::restore;
pub(crate) use table::{Mark, WatchTable};

/// How many events may wait in a [`WatchStream`] before further ones are left out and [`WatchUpdate::Missed`] says so.
pub(crate) const STREAM_CAPACITY: usize = 16_384;

/// What a watch tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEvent {
    /// What happened.
    pub kind: EventType,
    /// The znode it happened to, as this client calls it.
    pub path: String,
    /// The transaction that did it; `None` from servers before 3.9, and for what happened without a connection.
    pub zxid: Option<Zxid>,
}

/// What a persistent watch tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WatchUpdate {
    /// A change.
    Event(WatchEvent),
    /// Changes may have been missed here: the connection was lost and is back, and a server tells a persistent watch
    /// nothing of the time between; or 16,384 events were waiting already. What is read from now on is
    /// watched again.
    Missed,
    /// The watch is at its end, for this reason: the session is over, or the watch was removed. The last item.
    Ended(Error),
}

/// One local user of a watch. Dropped, it tells the driver that this user is gone.
pub(crate) struct Registration {
    pub(crate) kind: WatchKind,
    /// The server's name of the znode.
    pub(crate) path: String,
    pub(crate) id: u64,
    /// Weak, so that a watch alone does not keep the session open. `None` once the driver has forgotten this user.
    pub(crate) commands: Option<mpsc::WeakUnboundedSender<Command>>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("kind", &self.kind).field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(commands) = self.commands.take().and_then(|commands| commands.upgrade()) {
            let path = std::mem::take(&mut self.path);
            // A driver that is gone has taken its connection, and so the watch, with it.
            let _ = commands.send(Command::Unwatch { kind: self.kind, path, id: self.id });
        }
    }
}

/// What the reply to a call that sets a watch hands to its caller.
#[derive(Debug)]
pub(crate) enum Handle {
    OneShot(Watch),
    Persistent(WatchStream),
}

/// A one-shot watch: a future of the first change.
///
/// It outlives the connection: the watch is set again on the next one, and a change in between is told then, but for a znode
/// that was not there, came and went: nobody can know. It ends with an error when the session does. Dropping it takes the
/// watch back, from the server too if nobody else here uses it.
#[derive(Debug)]
#[must_use = "a watch is taken back when it is dropped"]
pub struct Watch {
    pub(crate) changed: oneshot::Receiver<Result<WatchEvent, Error>>,
    pub(crate) registration: Registration,
}

impl Watch {
    /// The first change since the reply that came with this watch.
    ///
    /// # Errors
    /// `SessionExpired`, `AuthFailed` or `Closed` when the session ends first, `WatchRemoved` after
    /// [`Client::remove_watches`](crate::Client::remove_watches), or when a server refuses to set it again on a new
    /// connection. A lost connection is none.
    /// # Ordering and cancel safety
    /// The event is here before any reply that shows the change. Dropping the future takes the watch back; to wait
    /// in turns, poll `&mut watch`, which is a future as well.
    pub async fn changed(self) -> Result<WatchEvent, Error> {
        self.await
    }
}

impl Future for Watch {
    type Output = Result<WatchEvent, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let told = std::task::ready!(Pin::new(&mut self.changed).poll(cx));
        self.registration.commands = None;
        Poll::Ready(told.unwrap_or_else(|_| {
            // The driver went without a word, as its runtime did.
            Err(Error::Closed(ErrorContext::local("watch", self.registration.path.clone())))
        }))
    }
}

/// A persistent watch: a [`Stream`] of changes that ends with the session.
///
/// Dropping it takes the watch back, from the server too if nobody else here uses it. With servers before 3.9 there is
/// less to count on: see [`Client::add_watch`](crate::Client::add_watch).
#[derive(Debug)]
#[must_use = "a watch is taken back when it is dropped"]
pub struct WatchStream {
    pub(crate) queue: Arc<Queue<WatchUpdate>>,
    pub(crate) _registration: Registration,
}

impl WatchStream {
    /// The next thing to know; `None` behind [`WatchUpdate::Ended`].
    ///
    /// # Ordering and cancel safety
    /// Events are in the order of their transactions, and each is here before any reply that shows its change. Dropping
    /// the future loses nothing.
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
