//! How an item is found and taken.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, Error, ErrorCode, MultiWrite, Stat, Watch};

use super::delivery::{Delivery, HeldItem, deliveries};
use super::names::{DelayedName, ItemName, item_path};
use super::{QueueHandle, wall_millis};
use crate::path::child;
use crate::requests::{changed, first_of, if_exists, none_if, or_never};
use crate::retry::{PAUSE, RetryPolicy};
use crate::tickets::TicketError;
use crate::unique::unique_number;

/// The most items among which a taker chooses, after collisions with others.
const WIDEST: usize = 64;

/// The most delayed items that one taker moves at once.
const MOVED_AT_ONCE: usize = 16;

/// The item is held, has changed or is gone.
const COLLISIONS: [ErrorCode; 3] = [ErrorCode::NodeExists, ErrorCode::NoNode, ErrorCode::BadVersion];

/// The longest wait for a delayed item before the wall clock is read again: it may have been set.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// One taker on one session.
pub(super) struct Taker<'q> {
    pub(super) queue: &'q QueueHandle,
    pub(super) client: &'q Client,
}

/// The names in the directories, and the watches on them.
struct QueueListing {
    /// Items that nobody holds, in no order.
    free: Vec<(ItemName, String)>,
    /// Whether there are items that somebody holds.
    some_are_held: bool,
    delayed: Vec<(DelayedName, String)>,
    watches: Vec<Watch>,
}

/// What is watched while there is nothing to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    Nothing,
    /// Items and delayed ones.
    Arrivals,
    /// Those, and items that are given back.
    All,
}

impl<'q> Taker<'q> {
    fn retries(&self) -> RetryPolicy<'q, TicketError> {
        RetryPolicy::until_session_ends(self.client, &self.queue.dirs.root)
    }

    /// Takes the next item; `None` if there is none and it must not wait.
    pub(super) async fn take(&self, waits: bool) -> Result<Option<Delivery>, Error> {
        let mut watched = Watched::Nothing;
        loop {
            let mut listing = self.list(watched).await?;
            let now = wall_millis(self.client.clock(), Duration::ZERO);
            if self.move_due(&listing, now).await? {
                continue;
            }
            if let Some((name, item)) = self.choose(&mut listing.free) {
                if let Some(delivery) = self.try_item(*name, item).await? {
                    return Ok(Some(delivery));
                }
                continue;
            }
            if !waits {
                return Ok(None);
            }
            let wanted = if listing.some_are_held { Watched::All } else { Watched::Arrivals };
            if watched == Watched::Nothing || (wanted == Watched::All && watched != Watched::All) {
                // Only while nothing is found, so that a busy queue does not wake those who work.
                watched = wanted;
                continue;
            }
            self.wait(listing, now).await?;
            watched = Watched::Nothing;
        }
    }

    async fn list(&self, watched: Watched) -> Result<QueueListing, Error> {
        let dirs = &self.queue.dirs;
        // In one flight.
        let listed = tokio::try_join!(
            self.names(&dirs.items, watched != Watched::Nothing),
            self.names(&dirs.delayed, watched != Watched::Nothing),
            self.names(&dirs.taken, watched == Watched::All),
        );
        let ((items, arrivals), (delayed, delays), (taken, releases)) = listed?;
        let watches = [arrivals, delays, releases].into_iter().flatten().collect();
        let taken: HashSet<String> = taken.into_iter().collect();
        let items = items.into_iter().filter_map(|name| Some((ItemName::parse(&name)?, name)));
        let (held, free): (Vec<_>, Vec<_>) = items.partition(|(_, name)| taken.contains(name));
        let delayed = delayed.into_iter().filter_map(|name| Some((DelayedName::parse(&name)?, name)));
        let mut delayed: Vec<_> = delayed.collect();
        delayed.sort();
        Ok(QueueListing { free, some_are_held: !held.is_empty(), delayed, watches })
    }

    async fn names(&self, dir: &str, watch: bool) -> Result<(Vec<String>, Option<Watch>), Error> {
        let mut retries = self.retries();
        if watch {
            let listed = retries.ask(|| self.client.get_children(dir).watch()).await;
            return listed.map(|(names, _, watch)| (names, Some(watch)));
        }
        retries.ask(|| self.client.get_children(dir)).await.map(|(names, _)| (names, None))
    }

    /// The first item; after collisions a random one of the first, so that takers do not run after each other.
    fn choose<'l>(&self, free: &'l mut [(ItemName, String)]) -> Option<&'l (ItemName, String)> {
        let width = self.queue.width.load(Relaxed).min(free.len());
        let index = (self.client.random_u128() % width.max(1) as u128) as usize;
        (width > 0).then(|| &*free.select_nth_unstable(index).1)
    }

    /// Moves delayed items that are due to the others; whether there were any.
    async fn move_due(&self, listing: &QueueListing, now: u64) -> Result<bool, Error> {
        let due = listing.delayed.iter().take_while(|(name, _)| name.due <= now);
        let due: Vec<_> = due.take(MOVED_AT_ONCE).collect();
        for (name, delayed) in &due {
            let from = child(&self.queue.dirs.delayed, delayed);
            let Some((data, stat)) = self.read(&from).await? else { continue };
            let to = item_path(&self.queue.dirs.items, name.item.priority, name.item.deliveries);
            let create = self.queue.dirs.create(self.client, to, data);
            let delete = || self.client.delete(&from).version(stat.version);
            let multi = || self.client.multi().add(delete()).add(create.clone());
            // Another taker may be faster, or our own request whose reply was lost.
            none_if(&COLLISIONS, self.retries().ask(multi).await)?;
        }
        Ok(!due.is_empty())
    }

    async fn read(&self, path: &str) -> Result<Option<(Bytes, Stat)>, Error> {
        if_exists(self.retries().ask(|| self.client.get_data(path)).await)
    }

    /// Takes an item, or gives it up if it was delivered too often; `None` if there is none to return.
    async fn try_item(&self, name: ItemName, item: &str) -> Result<Option<Delivery>, Error> {
        let path = child(&self.queue.dirs.items, item);
        let Some((data, stat)) = self.read(&path).await? else {
            self.widen();
            return Ok(None);
        };
        let held = HeldItem {
            client: self.client.clone(),
            dirs: Arc::clone(&self.queue.dirs),
            taken: child(&self.queue.dirs.taken, item),
            item: path,
            name,
            version: stat.version,
        };
        let past = deliveries(name, stat.version);
        if self.queue.max_deliveries.is_some_and(|most| past >= most) {
            self.bury(&held, data, past).await?;
            return Ok(None);
        }
        // A task of its own: if this future is dropped, whatever it has taken comes back by its drop.
        let (sender, taken) = oneshot::channel();
        self.client.runtime().spawn(async move { drop(sender.send(held.take(data).await)) });
        // Without the runtime, the next request fails.
        let delivery = taken.await.unwrap_or(Ok(None))?;
        match delivery {
            Some(_) => self.queue.width.store((self.queue.width.load(Relaxed) / 2).max(1), Relaxed),
            None => self.widen(),
        }
        Ok(delivery)
    }

    fn widen(&self) {
        let width = self.queue.width.load(Relaxed);
        self.queue.width.store((width * 2).min(WIDEST), Relaxed);
    }

    /// Moves an item that nobody holds to the dead ones.
    async fn bury(&self, held: &HeldItem, data: Bytes, past: u32) -> Result<(), Error> {
        let to = item_path(&self.queue.dirs.dead, held.name.priority, past);
        let dead = self.queue.dirs.create(self.client, to, data);
        let multi = || {
            // The mark is there for a moment, so that this fails if somebody holds the item.
            let taken = held.client.multi().add(held.mark(Bytes::new()));
            let item = held.client.delete(&held.item).version(held.version);
            taken.add(item).delete(&held.taken).add(dead.clone())
        };
        none_if(&COLLISIONS, self.retries().ask(multi).await).map(drop)
    }

    /// Waits until something arrives, is given back, or is due.
    async fn wait(&self, listing: QueueListing, now: u64) -> Result<(), Error> {
        let due = listing.delayed.first().map(|(name, _)| {
            let wait = Duration::from_millis(name.due.saturating_sub(now));
            self.client.clock().sleep(wait.min(LONGEST_WAIT))
        });
        tokio::select! {
            event = first_of(listing.watches.into_iter().map(changed)) => event.map(drop),
            () = or_never(due) => Ok(()),
        }
    }
}

impl HeldItem {
    /// The ephemeral znode of the holder.
    fn mark(&self, guid: Bytes) -> MultiWrite {
        self.client.create(&self.taken, guid).ephemeral().acl(self.dirs.acl.clone()).into()
    }

    /// Takes the item at its version; `None` if it is held or has changed.
    async fn take(mut self, data: Bytes) -> Result<Option<Delivery>, Error> {
        let guid = Bytes::from(format!("{:032x}", unique_number(&self.client)));
        loop {
            let raise = self.client.set_data(&self.item, data.clone()).version(self.version);
            let taken = self.client.multi().add(self.mark(guid.clone())).add(raise).commit().await;
            let is_ours = match taken {
                Err(error) if error.may_have_applied() && !error.is_session_over() => {
                    self.has_mark(&guid).await?
                }
                Err(error) if error.is_retryable() => {
                    self.client.clock().sleep(PAUSE).await;
                    false
                }
                taken => match none_if(&COLLISIONS, taken)? {
                    Some(_) => true,
                    None => return Ok(None),
                },
            };
            if is_ours {
                self.version += 1;
                return Ok(Some(Delivery::new(self, data)));
            }
        }
    }

    /// Whether the mark is ours, after its reply was lost. A request of this session that was sent before is executed before
    /// this one, or never.
    async fn has_mark(&self, guid: &Bytes) -> Result<bool, Error> {
        let mut retries = self.retries();
        // The server of this connection may not have seen it yet.
        retries.ask(|| self.client.sync(&self.taken)).await?;
        let mark = if_exists(retries.ask(|| self.client.get_data(&self.taken)).await)?;
        Ok(mark.is_some_and(|(data, stat)| data == guid && stat.ephemeral_owner == self.client.session_id()))
    }
}
