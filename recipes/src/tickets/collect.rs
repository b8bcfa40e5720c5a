//! Deletes the records of old tickets.

use std::collections::HashSet;
use std::time::Duration;

use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Error, ErrorCode};

use super::error::TicketError;
use super::record::{self, Bucket};
use super::scope::{Scope, Tickets};
use crate::patience::Patience;

/// How many bytes of paths one multi of deletes may hold: far below what any server takes.
const CHUNK: usize = 64 * 1024;

/// What a collection came to; from [`Tickets::collect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Tickets drawn before this are refused unless their record is still there, in seconds since the Unix epoch.
    pub floor: u64,
    /// How many records were deleted.
    pub deleted: usize,
    /// How many are left below the floor because they are begun and not finished. They can be still; and then they are
    /// collected.
    pub pending: usize,
}

impl Tickets {
    /// Forgets the tickets that were drawn longer ago than `older_than`, by this client's clock or the server's, whichever
    /// is behind, and to ten minutes: from now on they are refused, and their records are deleted.
    ///
    /// Choose it longer than anybody may go on retrying, with some room for clocks that differ. Call it now and then, from
    /// anywhere; two at a time do no harm.
    ///
    /// # Errors
    /// [`TicketError::Foreign`], [`TicketError::NoAuth`], [`TicketError::SessionOver`], [`TicketError::Client`]. What is not
    /// deleted then is by the next call.
    /// # Ordering and cancel safety
    /// First the floor is raised, in one transaction: no ticket below it is executed later. Then records are deleted, some
    /// hundreds at a time. Dropped or crashed anywhere, the next call goes on.
    pub async fn collect(&self, older_than: Duration) -> Result<Collected, TicketError> {
        let mut patience = Patience::new(&self.client);
        let floor = self.raise_floor(older_than, &mut patience).await?;

        // None can be begun below the floor any more, so this list is complete.
        let pending = self.pending_tickets(&mut patience).await?;
        let kept: HashSet<String> =
            pending.iter().filter(|ticket| Bucket::of(ticket) < floor).map(ToString::to_string).collect();
        let names = patience.ask(|| self.client.get_children(&self.scope).send()).await;
        let (names, _) = names.map_err(|error| self.error(error))?;
        let mut deleted = 0;
        for bucket in names.iter().filter_map(|name| Bucket::of_name(name)).filter(|bucket| *bucket < floor) {
            deleted += self.empty(bucket, &kept).await?;
        }
        Ok(Collected { floor: floor.0, deleted, pending: kept.len() })
    }

    /// Sees to it that the floor is above what is older than this, and says where it is.
    async fn raise_floor(
        &self,
        older_than: Duration,
        patience: &mut Patience<'_>,
    ) -> Result<Bucket, TicketError> {
        let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let floor_at = |now: i64| Bucket::at(u64::try_from(now.saturating_sub(age)).unwrap_or(0));
        let mut wanted = floor_at(self.client.clock().unix_millis());
        let mut bounded = false;
        loop {
            let Scope { floor, version } = self.load_scope(patience).await?;
            if floor >= wanted {
                return Ok(floor);
            }
            // First as it is, for the time that the server puts to it. The floor never falls, so a client whose clock is
            // ahead would have all tickets refused until the time has come.
            let data = record::scope(if bounded { wanted } else { floor });
            match self.client.set_data(&self.scope, data).version(version).await {
                Ok(stat) => {
                    wanted = wanted.min(floor_at(stat.mtime));
                    bounded = true;
                    self.forget_scope();
                }
                Err(error) if error.is_retryable() || error.code() == Some(ErrorCode::BadVersion) => {
                    patience.outlasts(error).await.map_err(|error| self.error(error))?;
                }
                Err(error) => return Err(self.error(error)),
            }
        }
    }

    /// Deletes the records of a bucket but for `kept`, and the bucket if none is left.
    async fn empty(&self, bucket: Bucket, kept: &HashSet<String>) -> Result<usize, TicketError> {
        let path = self.path_of(bucket);
        let mut patience = Patience::new(&self.client);
        let mut deleted = 0;
        loop {
            let names = match patience.ask(|| self.client.get_children(&path).send()).await {
                Ok((names, _)) => names,
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(deleted),
                Err(error) => return Err(self.error(error)),
            };
            let old: Vec<_> = names.iter().filter(|name| !kept.contains(*name)).collect();
            let outcome = match old.is_empty() {
                true if !names.is_empty() => return Ok(deleted),
                true => self.client.delete(&path).await,
                false => self.delete_all(&path, &old, &mut deleted, &mut patience).await,
            };
            match outcome {
                Ok(()) => {}
                // Another collector is at it too.
                Err(error) if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::NotEmpty)) => {
                    patience.outlasts(error).await.map_err(|error| self.error(error))?;
                }
                Err(error) if error.is_retryable() => {
                    patience.outlasts(error).await.map_err(|error| self.error(error))?;
                }
                Err(error) => return Err(self.error(error)),
            }
        }
    }

    async fn delete_all(
        &self,
        bucket: &str,
        mut names: &[&String],
        deleted: &mut usize,
        patience: &mut Patience<'_>,
    ) -> Result<(), Error> {
        while !names.is_empty() {
            let mut room = CHUNK;
            let mut multi = self.client.multi();
            let mut count = 0;
            for name in names {
                room = room.saturating_sub(bucket.len() + name.len() + 32);
                multi = multi.delete(format!("{bucket}/{name}"));
                count += 1;
                if room == 0 {
                    break;
                }
            }
            multi.commit().await?;
            *deleted += count;
            names = &names[count..];
            patience.renew();
        }
        Ok(())
    }
}
