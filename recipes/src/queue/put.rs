//! [`QueuePut`]: an item that is not put yet.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use zoolet_client::{Client, MultiWrite};

use super::error::QueueError;
use super::names::{LAST, delayed_path, item_path};
use super::{Queue, wall_millis};
use crate::tickets::{Ticket, TicketTxn};

/// The priority of an item unless another is set; as of kazoo.
pub(super) const PRIORITY: u16 = 100;

/// An item that is not put yet, from [`Queue::put`].
#[derive(Debug, Clone)]
#[must_use = "an item is put by `.await`"]
pub struct QueuePut<'q> {
    queue: &'q Queue,
    data: Bytes,
    priority: u16,
    delay: Duration,
}

impl Queue {
    /// Puts an item with this data, by `.await`, exactly once.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(jobs: zoolet_recipes::Queue) -> Result<(), zoolet_recipes::QueueError> {
    /// jobs.put("mail 17").await?;
    /// jobs.put("remind 17").priority(200).delay(Duration::from_secs(3600)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`QueueError::Ticket`]. Without a connection it waits.
    /// # Ordering and cancel safety
    /// Items of one priority are in the order of the transactions that put them. Dropping the future does not recall what was
    /// sent: the item is put once or not at all.
    pub fn put(&self, data: impl Into<Bytes>) -> QueuePut<'_> {
        QueuePut { queue: self, data: data.into(), priority: PRIORITY, delay: Duration::ZERO }
    }
}

impl QueuePut<'_> {
    /// The priority, from 0 for what is taken first to 999; more is 999. Default: 100.
    pub fn priority(mut self, priority: u16) -> Self {
        self.priority = priority.min(LAST);
        self
    }

    /// The item is not taken before this time has passed, by this client's clock and that of the taker.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Puts it once for this ticket: for a caller that stores the ticket before, and calls again with it and the same item
    /// after a crash; see [`Counter::add_once`](crate::Counter::add_once).
    ///
    /// # Errors
    /// As of [`Queue::put`].
    /// # Ordering and cancel safety
    /// After a dropped future, call again.
    pub async fn once(self, ticket: &Ticket) -> Result<(), QueueError> {
        self.execute(Some(ticket)).await
    }

    /// The create of the item, for a multi of the caller: the item is put if the multi is executed. `client` has the same
    /// ensemble and chroot.
    ///
    /// ```no_run
    /// # use zoolet_client::Client;
    /// # use zoolet_recipes::Queue;
    /// # async fn example(jobs: Queue, zk: Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut delivery = jobs.take().await?;
    /// let next = jobs.put("the next step").to_write(&zk);
    /// delivery.done_with([next]).await?;                  // one is done and the other is there, or neither
    /// # Ok(()) }
    /// ```
    pub fn to_write(&self, client: &Client) -> MultiWrite {
        self.queue.0.dirs.create(client, self.path(), self.data.clone())
    }

    fn path(&self) -> String {
        let dirs = &self.queue.0.dirs;
        match self.delay.is_zero() {
            true => item_path(&dirs.items, self.priority, 0),
            false => {
                let due = wall_millis(self.queue.clock(), self.delay);
                delayed_path(&dirs.delayed, due, self.priority, 0)
            }
        }
    }

    async fn execute(self, ticket: Option<&Ticket>) -> Result<(), QueueError> {
        let mut params = format!("put {} {} ", self.priority, self.delay.as_millis()).into_bytes();
        params.extend_from_slice(&self.data);
        let put = |txn: TicketTxn| {
            let write = self.to_write(txn.client());
            async move { Ok(txn.add(write).done("")) }
        };
        self.queue.0.once.run(ticket, &params, put).await?;
        Ok(())
    }
}

impl<'q> IntoFuture for QueuePut<'q> {
    type Output = Result<(), QueueError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'q>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute(None))
    }
}
