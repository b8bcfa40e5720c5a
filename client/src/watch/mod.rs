//! Watches as their owners hold them: a future for a one-shot watch, a stream for a persistent one.
//!
//! A server has one watch per connection, path and kind; any number of handles share it. The driver's [`WatchTable`]
//! counts them. Dropping a handle notifies the driver and never waits. Dropping the last one of a watch removes it from
//! the server.

mod restore;
mod stream;
mod table;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::{mpsc, oneshot};
pub(crate) use zoolet_proto::WatchKind;
use zoolet_proto::{EventType, Zxid};

use crate::chroot::Chroot;
use crate::command::DriverCommand;
use crate::context::ErrorContext;
use crate::error::Error;

pub(crate) use restore::restore;
#[cfg(test)]
pub(crate) use stream::STREAM_CAPACITY;
pub use stream::{WatchStream, WatchUpdate};
pub(crate) use table::{WatchReply, WatchTable, restored_watches};

/// A change that a watch reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchEvent {
    /// What happened.
    pub kind: EventType,
    /// The path of the znode, as this client sees it.
    pub path: String,
    /// The transaction of the change. `None` from servers before 3.9, and for a change that happened without a connection.
    pub zxid: Option<Zxid>,
}

impl WatchEvent {
    /// An event, for those that test what handles one.
    pub fn new(kind: EventType, path: impl Into<String>, zxid: Option<Zxid>) -> Self {
        Self { kind, path: path.into(), zxid }
    }
}

/// One local user of a watch. Dropping it notifies the driver.
pub(crate) struct WatchRegistration {
    pub(crate) kind: WatchKind,
    /// The path as the server sees it.
    pub(crate) path: String,
    /// The user sees its paths below this.
    pub(crate) chroot: Chroot,
    pub(crate) id: u64,
    /// Weak, so that a watch alone does not keep the session open. `None` once the driver has forgotten this user.
    pub(crate) commands: Option<mpsc::WeakUnboundedSender<DriverCommand>>,
}

impl fmt::Debug for WatchRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("kind", &self.kind).field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for WatchRegistration {
    fn drop(&mut self) {
        if let Some(commands) = self.commands.take().and_then(|commands| commands.upgrade()) {
            let path = std::mem::take(&mut self.path);
            // If the driver is gone, so are its connection and the watch.
            let _ = commands.send(DriverCommand::Unwatch { kind: self.kind, path, id: self.id });
        }
    }
}

/// A one-shot watch: a future of the first change.
///
/// It survives a lost connection: it is set again on the next one, and reports then what changed in between. The exception
/// is a znode that was absent, and was created and deleted in between: no server can report that. The watch ends with an
/// error when the session does. Dropping it removes the watch, from the server too if no other handle of this client uses
/// it.
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let (_data, _stat, watch) = zk.get_data("/config").watch().await?;
/// println!("{:?}", watch.changed().await?.kind);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a watch is removed when it is dropped"]
pub struct Watch {
    pub(crate) changed: oneshot::Receiver<Result<WatchEvent, Error>>,
    pub(crate) registration: WatchRegistration,
}

impl Watch {
    /// Waits for the first change since the reply that brought this watch.
    ///
    /// # Errors
    /// `SessionExpired`, `AuthFailed` or `Closed` if the session ends first. `WatchRemoved` after
    /// [`Client::remove_watches`](crate::Client::remove_watches), or if a server refuses to set the watch again on a new
    /// connection. A lost connection is not an error.
    /// # Ordering and cancel safety
    /// The event arrives before any reply that shows the change. Dropping the future removes the watch; to keep it, poll
    /// `&mut watch`, which is a future as well.
    pub async fn changed(self) -> Result<WatchEvent, Error> {
        self.await
    }
}

impl Future for Watch {
    type Output = Result<WatchEvent, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.changed).poll(cx));
        self.registration.commands = None;
        Poll::Ready(outcome.unwrap_or_else(|_| {
            // The driver was dropped with its runtime.
            let WatchRegistration { path, chroot, .. } = &self.registration;
            Err(Error::Closed(ErrorContext::local("watch", chroot.strip(path))))
        }))
    }
}
