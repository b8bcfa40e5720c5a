//! [`Feed`]: the replies, events and connections of one consumer, in the order of the wire.
//!
//! A caller gets its reply by a future and its events by a stream, and cannot know which came first. A cache must: an
//! event before a reply says that the reply shows the change. So a consumer inside the client gets both from one queue.
//!
//! Its requests belong to one connection. They are neither resent nor failed when that is lost: [`FeedItem::Lost`] ends
//! them all, and the consumer begins anew on the next one. Its watches end with the connection too, because only the
//! consumer knows since which zxid to ask for changes.

mod queue;
mod request;

use std::future::poll_fn;
use std::sync::Arc;

use tokio::sync::mpsc;
use zoolet_proto::{Reply, Zxid};

use crate::chroot::Chroot;
use crate::command::{DriverCommand, FeedTicket};
use crate::context::ErrorContext;
use crate::error::Error;
use crate::features::ServerFeature;
use crate::state::SharedState;
use crate::watch::WatchEvent;

pub(crate) use queue::{FeedQueue, FeedSink, Feeds};
pub use request::FeedRequest;

/// An item of a [`Feed`].
#[derive(Debug)]
#[non_exhaustive]
pub enum FeedItem {
    /// A connection serves the session. The first item, unless there is none; then after each `Lost`. Nothing is watched
    /// on it yet.
    Connected {
        /// Counts the connections of the session, with gaps. A request names it, and is dropped on any other.
        generation: u64,
    },
    /// A request of this feed is answered.
    Reply(FeedReply),
    /// A change that a watch of this feed reports.
    Event(WatchEvent),
    /// The server has applied this transaction, and every event up to it came before: from a ping, so that an idle consumer
    /// learns it too.
    Reached(Zxid),
    /// More than [`FEED_CAPACITY`] items waited, and events were dropped here. Everything from here on is complete again.
    Missed,
    /// Another handle has removed a watch of this feed from the server. To be set again, and then as after `Missed`.
    Disarmed,
    /// The connection is lost, and with it all watches and unanswered requests of this feed. Items that were not read
    /// before are dropped.
    Lost,
    /// The session is over. The last item.
    Ended(Error),
}

/// Most items that wait in a feed before events are dropped. The replies that may wait besides are bounded by the number
/// of requests that the consumer has in flight.
pub const FEED_CAPACITY: usize = 16_384;

/// The answer to a request of a feed.
#[derive(Debug)]
pub struct FeedReply {
    /// The number that the consumer gave to its request.
    pub tag: u64,
    /// The state that the reply shows; `None` if no server has replied, with `Unimplemented`, and with `ReplyTooLarge`.
    pub zxid: Option<Zxid>,
    /// What the server replied. An absent znode is the error `NoNode`, also of an exists. To a request that has set watches: what
    /// is read from now on is watched, and changes since the zxid that it named, if it did, came before.
    pub outcome: Result<Reply, Error>,
}

/// The replies, events and connections of one consumer in the order of the wire, from
/// [`ClientExt::feed`](crate::internal::ClientExt::feed). It does not keep the session open. Dropping it drops its requests
/// and removes its persistent watches from the server.
///
/// One-shot watches are left: there may be two for each of many znodes, and each goes with its event or its connection.
#[derive(Debug)]
pub struct Feed {
    queue: Arc<FeedQueue>,
    commands: mpsc::WeakUnboundedSender<DriverCommand>,
    shared: Arc<SharedState>,
    chroot: Chroot,
}

impl Feed {
    pub(crate) fn open(
        commands: &mpsc::UnboundedSender<DriverCommand>,
        shared: &Arc<SharedState>,
        chroot: &Chroot,
    ) -> Self {
        let feed = Self {
            queue: Arc::default(),
            commands: commands.downgrade(),
            shared: Arc::clone(shared),
            chroot: chroot.clone(),
        };
        if commands.send(DriverCommand::OpenFeed(feed.sink())).is_err() {
            feed.queue.end(FeedItem::Ended(feed.shared.end_error(ErrorContext::local("feed", ""))));
        }
        feed
    }

    fn sink(&self) -> FeedSink {
        FeedSink(Arc::downgrade(&self.queue))
    }

    /// Waits until there are items and moves all of them to the end of `items`. Adds nothing once the feed has ended.
    ///
    /// # Ordering and cancel safety
    /// Items are in the order in which the connection brought them. Dropping the future loses nothing.
    pub async fn fill(&mut self, items: &mut Vec<FeedItem>) {
        poll_fn(|cx| self.queue.poll_all(cx, items)).await;
    }

    /// Sends a request on the connection of `generation`, now. On any other it is dropped without an answer: the feed says
    /// that the connection is lost.
    ///
    /// Requests do not count against the limit of pending requests; a consumer limits its own. They share the connection in
    /// order, so a consumer with few in flight leaves room for pings and other callers.
    pub fn send(&self, generation: u64, tag: u64, request: FeedRequest) {
        // The driver is gone, or is about to end the feed.
        let Some(commands) = self.commands.upgrade() else { return };
        let ticket = FeedTicket { feed: self.sink(), generation, tag };
        let _ = commands.send(DriverCommand::Submit(request.submission(&self.chroot, ticket)));
    }

    /// Whether the server of the present connection has an operation, as far as it was asked before.
    pub fn supports(&self, feature: ServerFeature) -> Option<bool> {
        self.shared.supports(feature)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some(commands) = self.commands.upgrade() {
            let _ = commands.send(DriverCommand::CloseFeed(self.sink()));
        }
    }
}
