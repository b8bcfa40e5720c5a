//! [`Counter`]: a number that is changed exactly once by each call.

mod error;
mod layout;

use std::str;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_client::{Acl, Sessions};

pub use error::CounterError;
pub use layout::CounterLayout;

use crate::cache::{Cache, CacheBuilder};
use crate::once::Once;
use crate::tickets::{Collected, Ticket, TicketError, TicketTxn};

/// A number in a znode that several programs change. Every call counts exactly once, whatever is lost: the reply, the
/// connection or the session.
///
/// ```no_run
/// use zoolet_client::{Client, Sessions};
/// use zoolet_recipes::{Counter, CounterLayout};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = Sessions::open(Client::options(), "zk1:2181,zk2:2181")?;
/// let orders = Counter::new(&sessions, "/counters/orders", CounterLayout::CuratorI64);
/// let added = orders.add(1).await?;
/// println!("order number {}", added.after);
/// # Ok(()) }
/// ```
///
/// The znode is in the layout of Curator or kazoo, so that programs in other languages can read it and count in it. It is
/// created by the first change, with missing parents; an absent znode is 0.
///
/// # How
/// A change is one multi of the number, under the version that was read, and of a record with the outcome
/// ([`Tickets`](crate::Tickets)). After a lost reply the same change is tried again, on the next session if need be, and
/// the record shows that it was executed. The next change of the same handle deletes the record. Records are in
/// `<path>.tickets`; those that a crash or a lost reply leaves are removed by [`collect`](Counter::collect).
///
/// In the steady state a change costs one read and one multi. Programs that change one counter at the same time repeat both
/// until one of them was alone, as with Curator.
///
/// # Limits
/// A version says nothing of a znode that took the place of another. If the znode is deleted and created again between the
/// read and the write of a change, and has the same version, its new number is overwritten. Set a counter to 0 instead.
#[derive(Debug, Clone)]
pub struct Counter {
    path: Arc<str>,
    layout: CounterLayout,
    once: Once,
}

/// What [`Counter::add`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// The number before.
    pub before: i64,
    /// The number after.
    pub after: i64,
}

impl Counter {
    /// The counter at `path`. Sends no request.
    pub fn new(sessions: &Sessions, path: impl Into<String>, layout: CounterLayout) -> Self {
        Self::with_acl(sessions, path, layout, Acl::open())
    }

    /// As [`new`](Counter::new), with an ACL for what is created: the counter, missing parents and the records.
    pub fn with_acl(
        sessions: &Sessions,
        path: impl Into<String>,
        layout: CounterLayout,
        acl: Vec<Acl>,
    ) -> Self {
        let path = path.into();
        let once = Once::new(sessions, format!("{path}.tickets"), acl);
        Self { path: path.into(), layout, once }
    }

    /// The number, as the server of the present session has it; 0 if there is none.
    ///
    /// # Errors
    /// `Undecodable` and `Client`. Without a connection it waits.
    /// # Ordering and cancel safety
    /// Shows at least what this handle has changed before. Dropping the future has no effect.
    pub async fn get(&self) -> Result<i64, CounterError> {
        let found = self.once.get_data(&self.path).await?;
        found.map_or(Ok(0), |(data, _)| self.decode(&data))
    }

    /// Adds `delta`, which may be negative, exactly once.
    ///
    /// # Errors
    /// `Overflow` and `Undecodable`: nothing was written. `Ticket`: see [`TicketError`]. Without a connection it waits.
    /// # Ordering and cancel safety
    /// Dropping the future does not recall what was sent: it then counts once or not at all. A caller that must know, even
    /// after a crash, uses [`add_once`](Counter::add_once).
    pub async fn add(&self, delta: i64) -> Result<Added, CounterError> {
        self.add_by(None, delta).await
    }

    /// As [`add`](Counter::add), once for this ticket: for a caller that stores the ticket before, and calls again with it
    /// and the same `delta` after a crash. Returns what the first call did.
    ///
    /// ```no_run
    /// # async fn example(hits: zoolet_recipes::Counter) -> Result<(), Box<dyn std::error::Error>> {
    /// let ticket = hits.ticket().await?;              // store it, and then
    /// let added = hits.add_once(&ticket, 5).await?;   // as often as it takes
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As of `add`. The ticket stays refused after an `Overflow`. [`TicketError::Collected`] if its record may have been
    /// [collected](Counter::collect), and [`TicketError::OtherParameters`] with another `delta`.
    /// # Ordering and cancel safety
    /// The record stays until it is collected. After a dropped future, call again.
    pub async fn add_once(&self, ticket: &Ticket, delta: i64) -> Result<Added, CounterError> {
        self.add_by(Some(ticket), delta).await
    }

    /// A new ticket for [`add_once`](Counter::add_once). Sends no request; waits for a session, whose clock dates it.
    ///
    /// # Errors
    /// `Client` when there will be no session.
    pub async fn ticket(&self) -> Result<Ticket, CounterError> {
        Ok(self.once.ticket().await?)
    }

    /// Replaces the number, exactly once, and returns the one before.
    ///
    /// # Errors
    /// As of [`add`](Counter::add).
    /// # Ordering and cancel safety
    /// As of `add`.
    pub async fn set(&self, value: i64) -> Result<i64, CounterError> {
        match self.change(None, "set", |_| Some(value.into())).await? {
            Ok(changed) => Ok(changed.before),
            Err(from) => Err(self.overflow(from, value.into())),
        }
    }

    /// Replaces the number by `new` if it is `expected`. `Ok(Err(present))` if it is another one, as of
    /// [`AtomicI64::compare_exchange`](std::sync::atomic::AtomicI64::compare_exchange).
    ///
    /// Either is true at one transaction: a lost reply does not make it fail by its own write.
    ///
    /// # Errors
    /// As of [`add`](Counter::add).
    /// # Ordering and cancel safety
    /// As of `add`.
    pub async fn compare_and_set(&self, expected: i64, new: i64) -> Result<Result<Added, i64>, CounterError> {
        let target = |present| (present == expected).then_some(new.into());
        match self.change(None, "compare and set", target).await? {
            Err(from) if from == expected => Err(self.overflow(from, new.into())),
            decided => Ok(decided),
        }
    }

    /// A [`Cache`] of this one znode, not yet open: for the number in memory, and for a stream of its changes that goes on
    /// after the znode was deleted, and after a lost session.
    pub fn cache(&self) -> CacheBuilder<i64> {
        let layout = self.layout;
        Cache::builder(self.once.sessions(), &*self.path)
            .max_depth(0)
            .decode(move |_, data| Ok(layout.decode(data)?))
    }

    /// Removes the records of calls longer ago than `older_than`; see [`Tickets::collect`](crate::Tickets::collect). One
    /// program does so from time to time. It must be longer than anybody may wait for a call, or keep a ticket.
    ///
    /// # Errors
    /// As of `Tickets::collect`.
    /// # Ordering and cancel safety
    /// May be dropped anywhere; the next call continues.
    pub async fn collect(&self, older_than: Duration) -> Result<Collected, CounterError> {
        Ok(self.once.collect(older_than).await?)
    }

    async fn add_by(&self, ticket: Option<&Ticket>, delta: i64) -> Result<Added, CounterError> {
        let sum = |present| i128::from(present) + i128::from(delta);
        match self.change(ticket, &format!("add {delta}"), |present| Some(sum(present))).await? {
            Ok(added) => Ok(added),
            Err(from) => Err(self.overflow(from, sum(from))),
        }
    }

    /// Replaces the number by its `target`, and returns both; `Err` with the number if it has none, or one that does not fit.
    async fn change(
        &self,
        ticket: Option<&Ticket>,
        params: &str,
        target: impl Fn(i64) -> Option<i128>,
    ) -> Result<Result<Added, i64>, CounterError> {
        let target = &target;
        let outcome = self.once.run(ticket, params.as_bytes(), |mut txn: TicketTxn| async move {
            let found = txn.get_data(&*self.path).await?;
            let before = found.as_ref().map_or(Ok(0), |(data, _)| self.decode(data))?;
            // Refused by a record and not by an error: an earlier copy of this may be executed meanwhile.
            let Some(data) = target(before).and_then(|after| self.layout.encode(after)) else {
                return Ok(txn.refuse(before.to_string()));
            };
            let after = self.decode(&data)?;
            let written = self.once.write(txn, &self.path, found.is_some(), data);
            Ok(written.done(format!("{before} {after}")))
        });
        let outcome = outcome.await.map_err(|error| self.error(error))?;
        let (recorded, done) = match outcome.value {
            Ok(recorded) => (recorded, true),
            Err(recorded) => (recorded, false),
        };
        let foreign = || TicketError::Foreign { path: format!("{}.tickets", self.path) };
        let numbers = numbers(&recorded).ok_or_else(foreign)?;
        match (done, &numbers[..]) {
            (true, &[before, after]) => Ok(Ok(Added { before, after })),
            (false, &[from]) => Ok(Err(from)),
            _ => Err(foreign().into()),
        }
    }

    fn overflow(&self, from: i64, to: i128) -> CounterError {
        CounterError::Overflow { path: self.path.to_string(), from, to, bits: self.layout.bits() }
    }

    fn decode(&self, data: &[u8]) -> Result<i64, CounterError> {
        self.layout.decode(data).map_err(|reason| CounterError::Undecodable {
            path: self.path.to_string(),
            bytes: data.len(),
            reason,
        })
    }

    /// An error of the work, if that is what it is.
    fn error(&self, error: TicketError) -> CounterError {
        match &error {
            TicketError::Work { cause, .. } => {
                cause.downcast_ref().cloned().unwrap_or(CounterError::Ticket(error))
            }
            _ => CounterError::Ticket(error),
        }
    }
}

/// The numbers of an outcome.
fn numbers(recorded: &Bytes) -> Option<Vec<i64>> {
    str::from_utf8(recorded).ok()?.split(' ').map(|number| number.parse().ok()).collect()
}
