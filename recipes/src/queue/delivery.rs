//! [`Delivery`]: an item that is held, and what may be done with it.
//!
//! The item's version is its token: a taker raises the version in the transaction that creates `taken/<item>`, and
//! every later step of the holder names that version. So a step that comes late, after another has taken the item, is
//! refused; the version of `taken/<item>` itself would say nothing, as it is 0 for every holder.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, Error, ErrorCode, Multi, MultiWrite};

use super::error::QueueError;
use super::names::{ItemName, QueueDirs, delayed_path, item_path};
use super::wall_millis;
use crate::requests::none_if;
use crate::retry::RetryPolicy;
use crate::tickets::TicketError;

/// An item that this program holds, as long as its session lives; from [`Queue::take`](super::Queue::take).
///
/// ```no_run
/// # use zoolet_client::Client;
/// # use zoolet_recipes::{Queue, QueueError};
/// # async fn example(queue: Queue, zk: Client) -> Result<(), QueueError> {
/// let mut delivery = queue.take().await?;
/// let result = format!("{} bytes", delivery.data().len());
/// // The result is written, and the item removed, in one transaction.
/// delivery.done_with([zk.create("/results/r-", result).sequential().into()]).await?;
/// # Ok(()) }
/// ```
///
/// Dropping it gives the item back, in the background. The item is also given back when the session ends; a program that
/// was away for so long learns it by [`QueueError::NotHeld`], and changes nothing any more.
#[derive(Debug)]
#[must_use = "dropping it gives the item back"]
pub struct Delivery {
    held: HeldItem,
    data: Bytes,
    is_settled: bool,
}

/// The znodes of an item that is held.
#[derive(Debug, Clone)]
pub(super) struct HeldItem {
    pub(super) client: Client,
    pub(super) dirs: Arc<QueueDirs>,
    pub(super) item: String,
    pub(super) taken: String,
    pub(super) name: ItemName,
    /// The version of the item's data since it was taken.
    pub(super) version: i32,
}

impl Delivery {
    pub(super) fn new(held: HeldItem, data: Bytes) -> Self {
        Self { held, data, is_settled: false }
    }

    /// The data of the item.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// How often the item was delivered, this time included.
    pub fn deliveries(&self) -> u32 {
        self.held.deliveries()
    }

    /// The path of the item.
    pub fn path(&self) -> &str {
        &self.held.item
    }

    /// Removes the item, as it is dealt with.
    ///
    /// # Errors
    /// `NotHeld`, `Unknown`, `Client`.
    /// # Ordering and cancel safety
    /// Dropping the future does not recall what was sent; then the drop of the delivery gives back what is still there.
    pub async fn done(&mut self) -> Result<(), QueueError> {
        self.done_with([]).await
    }

    /// Removes the item and executes `writes`, in one transaction: exactly once for each item, however often it is delivered.
    ///
    /// # Errors
    /// `Refused` if one of `writes` is, and the item is still held; `NotHeld`, `Unknown`, `Client`.
    /// # Ordering and cancel safety
    /// As of [`done`](Delivery::done).
    pub async fn done_with(
        &mut self,
        writes: impl IntoIterator<Item = MultiWrite>,
    ) -> Result<(), QueueError> {
        self.settle(writes.into_iter().collect()).await
    }

    /// Gives the item back. It is delivered again at once, here or elsewhere.
    ///
    /// # Errors
    /// `NotHeld` if it was settled before; `Client`.
    /// # Ordering and cancel safety
    /// As of [`done`](Delivery::done).
    pub async fn nack(&mut self) -> Result<(), QueueError> {
        if self.is_settled {
            return Err(self.held.not_held());
        }
        self.held.give_back().await?;
        self.is_settled = true;
        Ok(())
    }

    /// Gives the item back, to be delivered again after this time by the clocks of the takers, at the end of its priority.
    ///
    /// # Errors
    /// `NotHeld`, `Unknown`, `Client`.
    /// # Ordering and cancel safety
    /// As of [`done`](Delivery::done).
    pub async fn nack_after(&mut self, delay: Duration) -> Result<(), QueueError> {
        let HeldItem { client, dirs, name, .. } = &self.held;
        let due = wall_millis(client.clock(), delay);
        let path = delayed_path(&dirs.delayed, due, name.priority, self.deliveries());
        self.move_to(path).await
    }

    /// Gives the item up: moves it to `<path>/dead`, from where it is not delivered.
    ///
    /// # Errors
    /// `NotHeld`, `Unknown`, `Client`.
    /// # Ordering and cancel safety
    /// As of [`done`](Delivery::done).
    pub async fn reject(&mut self) -> Result<(), QueueError> {
        let path = item_path(&self.held.dirs.dead, self.held.name.priority, self.deliveries());
        self.move_to(path).await
    }

    async fn move_to(&mut self, path: String) -> Result<(), QueueError> {
        let HeldItem { client, dirs, .. } = &self.held;
        let create = dirs.create(client, path, self.data.clone());
        self.settle(vec![create]).await
    }

    async fn settle(&mut self, writes: Vec<MultiWrite>) -> Result<(), QueueError> {
        if self.is_settled {
            return Err(self.held.not_held());
        }
        let settled = self.held.remove(writes).await;
        // Otherwise the drop gives it back, if it is there.
        self.is_settled = settled.is_ok();
        settled
    }
}

impl HeldItem {
    fn deliveries(&self) -> u32 {
        deliveries(self.name, self.version)
    }

    fn not_held(&self) -> QueueError {
        QueueError::NotHeld { item: self.item.clone() }
    }

    pub(super) fn retries(&self) -> RetryPolicy<'_, TicketError> {
        RetryPolicy::until_session_ends(&self.client, &self.dirs.root)
    }

    /// Deletes the item and its mark and executes `writes`, or nothing of that.
    async fn remove(&self, writes: Vec<MultiWrite>) -> Result<(), QueueError> {
        let multi = || {
            let held = self.client.multi().add(self.client.delete(&self.item).version(self.version));
            writes.iter().cloned().fold(held.delete(&self.taken), Multi::add)
        };
        let mut may_have_applied = false;
        let removed = self.retries().ask_write(&mut may_have_applied, multi).await;
        let Err(error) = removed else { return Ok(()) };
        match (error.failed_operation(), error.code()) {
            // As long as the session lives, nobody else may delete it.
            (Some(0), Some(ErrorCode::NoNode)) if may_have_applied => Ok(()),
            (Some(0 | 1), Some(ErrorCode::NoNode | ErrorCode::BadVersion)) => Err(self.not_held()),
            (Some(2..), _) => Err(QueueError::Refused { item: self.item.clone(), cause: error }),
            _ if error.is_session_over() && may_have_applied => {
                Err(QueueError::Unknown { item: self.item.clone(), cause: error })
            }
            _ if error.is_session_over() => Err(self.not_held()),
            _ => Err(QueueError::Client(error)),
        }
    }

    /// Deletes the mark, unless the item is held by another by now: the name of the mark is the same then.
    async fn give_back(&self) -> Result<(), Error> {
        let client = self.client.unlimited();
        let multi = || client.multi().check(&self.item, self.version).delete(&self.taken);
        match self.retries().ask(multi).await {
            Err(error) if error.is_session_over() => Ok(()),
            given_back => none_if(&[ErrorCode::NoNode, ErrorCode::BadVersion], given_back).map(drop),
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let held = self.held.clone();
        self.held.client.runtime().spawn(async move {
            if let Err(error) = held.give_back().await {
                let item = &held.item;
                tracing::warn!(%item, %error, "an item is not given back before the session ends");
            }
        });
    }
}

/// The deliveries of an item with this name and version: each raises the version.
pub(super) fn deliveries(name: ItemName, version: i32) -> u32 {
    name.deliveries.saturating_add(u32::try_from(version).unwrap_or(u32::MAX))
}
