//! Deletes the records of old tickets.

use std::collections::HashSet;
use std::time::Duration;

use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Error, ErrorCode, Multi};

use super::error::TicketError;
use super::record::{self, Partition};
use super::scope::{Scope, Tickets};
use crate::path::child;
use crate::retry::RetryPolicy;

/// How many bytes of paths one multi of deletes may hold: far below the limit of any server.
const CHUNK: usize = 64 * 1024;

/// The result of a collection; from [`Tickets::collect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Older tickets are refused unless there still is a record, in seconds since the Unix epoch.
    pub watermark: u64,
    /// How many records were deleted.
    pub deleted: usize,
    /// How many records below the watermark are left because they are begun and not finished. They can still be
    /// finished, and are collected after that.
    pub pending: usize,
}

impl Tickets {
    /// Forgets the tickets that were generated longer ago than `older_than`, by this client's clock or the server's,
    /// whichever is slower, rounded to ten minutes: from now on they are refused, and their records are deleted.
    ///
    /// Choose an age that is longer than anybody may keep retrying, with a margin for clocks that differ. Call it from time
    /// to time, from anywhere; concurrent calls are harmless.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(tickets: zoolet_recipes::Tickets) -> Result<(), zoolet_recipes::TicketError> {
    /// let collected = tickets.collect(Duration::from_secs(7 * 24 * 3600)).await?;
    /// println!("{} deleted, {} pending", collected.deleted, collected.pending);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`TicketError::Foreign`], [`TicketError::NoAuth`], [`TicketError::SessionOver`], [`TicketError::Client`]. The next
    /// call deletes what is left then.
    /// # Ordering and cancel safety
    /// First the watermark is raised, in one transaction: no ticket below it is executed later. Then records are deleted,
    /// some hundreds at a time. If it is dropped or crashes anywhere, the next call continues.
    pub async fn collect(&self, older_than: Duration) -> Result<Collected, TicketError> {
        let mut retries = self.retries();
        let watermark = self.raise_watermark(older_than, &mut retries).await?;
        let below = |partition: &Partition| *partition < watermark;

        // No ticket below the watermark can be begun any more, so this list is complete.
        let pending = self.pending_tickets(&mut retries).await?.into_iter();
        let kept: HashSet<String> =
            pending.filter(|ticket| below(&Partition::of(ticket))).map(|ticket| ticket.to_string()).collect();
        let names = retries.ask(|| self.client.get_children(&self.scope)).await;
        let (names, _) = names.map_err(|error| self.error(error))?;
        let mut deleted = 0;
        for partition in names.iter().filter_map(|name| Partition::of_name(name)).filter(below) {
            deleted += self.empty(partition, &kept).await?;
        }
        Ok(Collected { watermark: watermark.0, deleted, pending: kept.len() })
    }

    /// Raises the watermark so far that older tickets are below it, and returns it.
    async fn raise_watermark(
        &self,
        older_than: Duration,
        retries: &mut RetryPolicy<'_, TicketError>,
    ) -> Result<Partition, TicketError> {
        let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let watermark_at = |now: i64| Partition::at(u64::try_from(now.saturating_sub(age)).unwrap_or(0));
        let mut wanted = watermark_at(self.client.clock().wall_millis());
        let mut bounded = false;
        loop {
            let Scope { watermark, version } = self.load_scope(retries).await?;
            if watermark >= wanted {
                return Ok(watermark);
            }
            // The first write changes nothing but returns the server's time. The watermark never falls, so a client whose
            // clock is fast would otherwise have all tickets refused until that time.
            let data = record::scope(if bounded { wanted } else { watermark });
            match self.client.set_data(&self.scope, data).version(version).await {
                Ok(stat) => {
                    wanted = wanted.min(watermark_at(stat.mtime));
                    bounded = true;
                    self.forget_scope();
                }
                Err(error) => {
                    retries.retry_also(error, &[ErrorCode::BadVersion]).await?;
                }
            }
        }
    }

    /// Deletes the records of a partition except `kept`, and the partition if none is left.
    async fn empty(&self, partition: Partition, kept: &HashSet<String>) -> Result<usize, TicketError> {
        let path = self.partition_path(partition);
        let mut retries = self.retries();
        let mut deleted = 0;
        loop {
            let listed = retries.ask_if_exists(|| self.client.get_children(&path)).await?;
            let Some((names, _)) = listed else { return Ok(deleted) };
            let old: Vec<_> = names.iter().filter(|name| !kept.contains(*name)).collect();
            let outcome = match old.is_empty() {
                true if !names.is_empty() => return Ok(deleted),
                true => self.client.delete(&path).await,
                false => self.delete_all(&path, &old, &mut deleted, &mut retries).await,
            };
            if let Err(error) = outcome {
                // NoNode and NotEmpty: another collection is deleting too.
                retries.retry_also(error, &[ErrorCode::NoNode, ErrorCode::NotEmpty]).await?;
            }
        }
    }

    async fn delete_all(
        &self,
        partition: &str,
        names: &[&String],
        deleted: &mut usize,
        retries: &mut RetryPolicy<'_, TicketError>,
    ) -> Result<(), Error> {
        let longest = names.iter().map(|name| name.len()).max().unwrap_or(0);
        for chunk in names.chunks((CHUNK / (partition.len() + longest + 32)).max(1)) {
            let deletes = chunk.iter().map(|name| child(partition, name));
            deletes.fold(self.client.multi(), Multi::delete).commit().await?;
            *deleted += chunk.len();
            retries.reset();
        }
        Ok(())
    }
}
