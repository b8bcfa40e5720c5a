//! The queue of a feed, and how the driver fills it.

use std::collections::VecDeque;
use std::mem;
use std::sync::Weak;

use zoolet_proto::Zxid;

use super::{FEED_CAPACITY, FeedItem, FeedReply};
use crate::context::ErrorContext;
use crate::error::Error;
use crate::stream_queue::StreamQueue;
use crate::watch::WatchEvent;

/// The items of one feed that were not read.
pub(crate) type FeedQueue = StreamQueue<FeedItem>;

/// The driver's end of a feed.
#[derive(Debug, Clone)]
pub(crate) struct FeedSink(pub(super) Weak<FeedQueue>);

impl FeedSink {
    /// Whether there is somebody to read it.
    pub(crate) fn is_read(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn reply(&self, reply: FeedReply) {
        self.push(FeedItem::Reply(reply));
    }

    /// Events are all that is not asked for, so they are what is dropped.
    pub(crate) fn event(&self, event: WatchEvent) {
        self.update(|items| match items.len() {
            len if len < FEED_CAPACITY => items.push_back(FeedItem::Event(event)),
            _ if matches!(items.back(), Some(FeedItem::Missed)) => {}
            _ => items.push_back(FeedItem::Missed),
        });
    }

    pub(crate) fn disarmed(&self) {
        self.update(|items| match items.back() {
            Some(FeedItem::Disarmed) => {}
            _ => items.push_back(FeedItem::Disarmed),
        });
    }

    fn reached(&self, zxid: Zxid) {
        self.update(|items| {
            if let Some(FeedItem::Reached(_)) = items.back() {
                items.pop_back();
            }
            // At the capacity, each would let the next event be marked as dropped once more. A later ping says it again.
            if items.len() < FEED_CAPACITY {
                items.push_back(FeedItem::Reached(zxid));
            }
        });
    }

    /// What came on the lost connection is of no use without the rest, and a consumer that does not read while connections
    /// come and go would fill its queue.
    fn lost(&self) {
        self.update(|items| *items = VecDeque::from([FeedItem::Lost]));
    }

    fn push(&self, item: FeedItem) {
        self.update(|items| items.push_back(item));
    }

    fn update(&self, change: impl FnOnce(&mut VecDeque<FeedItem>)) {
        if let Some(queue) = self.0.upgrade() {
            queue.update(change);
        }
    }
}

/// Every feed of a session.
#[derive(Debug, Default)]
pub(crate) struct Feeds(Vec<FeedSink>);

impl Feeds {
    /// Adds a feed. `generation` is that of the connection that serves the session now, if there is one.
    pub(crate) fn open(&mut self, feed: FeedSink, generation: Option<u64>) {
        if let Some(generation) = generation {
            feed.push(FeedItem::Connected { generation });
        }
        self.0.push(feed);
    }

    pub(crate) fn close(&mut self, feed: &FeedSink) {
        self.0.retain(|other| !other.is(feed));
    }

    pub(crate) fn connected(&self, generation: u64) {
        self.0.iter().for_each(|feed| feed.push(FeedItem::Connected { generation }));
    }

    pub(crate) fn reached(&self, zxid: Zxid) {
        self.0.iter().for_each(|feed| feed.reached(zxid));
    }

    pub(crate) fn lost(&self) {
        self.0.iter().for_each(FeedSink::lost);
    }

    pub(crate) fn end(&mut self, error: impl Fn(ErrorContext) -> Error) {
        for queue in mem::take(&mut self.0).iter().filter_map(|feed| feed.0.upgrade()) {
            queue.end(FeedItem::Ended(error(ErrorContext::local("feed", ""))));
        }
    }
}
