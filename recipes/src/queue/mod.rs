//! [`Queue`]: items that are handed out, and none is lost or done twice.

mod delivery;
mod error;
mod foreign;
mod names;
mod put;
mod take;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use zoolet_client::internal::SessionsExt as _;
use zoolet_client::{Acl, Client, Clock, Error, ErrorCode, Sessions};

pub use delivery::Delivery;
pub use error::QueueError;
pub use foreign::{Drained, QueueLayout, UndecodableItem};
pub use put::QueuePut;

use crate::once::Once;
use crate::requests::none_if;
use crate::tickets::{Collected, Ticket};
use names::QueueDirs;
use take::Taker;

/// Items in an order of priority and age, put and taken by any number of programs.
///
/// ```no_run
/// use zoolet_client::{Client, Sessions};
/// use zoolet_recipes::Queue;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = Sessions::open(Client::options(), "zk1:2181,zk2:2181")?;
/// let jobs = Queue::builder(&sessions, "/jobs").max_deliveries(5).open().await?;
/// jobs.put("mail 17").priority(10).await?;
///
/// let mut delivery = jobs.take().await?;                  // waits for one
/// println!("{:?}, delivered {} times", delivery.data(), delivery.deliveries());
/// delivery.done().await?;                                 // or nack(), nack_after(..), or drop it
/// # Ok(()) }
/// ```
///
/// # What it promises
/// - A [`put`](Queue::put) puts one item, whatever is lost: the reply, the connection or the session.
/// - An item is held by one program at a time, while its session lives. It is delivered until somebody says that it is
///   [done](Delivery::done), or until it was delivered too often ([`max_deliveries`](QueueBuilder::max_deliveries)). So the
///   work is done at least once.
/// - Writes into the same ensemble that come with [`done_with`](Delivery::done_with) are executed exactly once for each item,
///   in the transaction that removes it. A program that was paused for longer than its session timeout, and whose item was
///   given to another, cannot execute them any more.
/// - A program or a future that is dropped anywhere leaves no item stuck.
///
/// # Order
/// The lowest priority number first, and the oldest of those; an item that comes back at once keeps its place. Takers that
/// collide choose among the first items, so the order is strict only if one program takes.
///
/// # Limits
/// Each put, take and done is a write of a quorum, and each take lists the names of all items. This is for coordination: some
/// thousands of items at a time, and of operations a second, and data of some kilobytes. The listing must fit one reply (64 MiB
/// for ours, 1 MiB by default for clients in Java: 20,000 names). A directory takes 2,147,483,647 sequential creates.
/// A delay is judged by the clock of the taker.
#[derive(Clone)]
pub struct Queue(Arc<QueueHandle>);

pub(super) struct QueueHandle {
    once: Once,
    dirs: Arc<QueueDirs>,
    max_deliveries: Option<u32>,
    /// Among how many of the first items to choose: doubled after a collision with another taker, halved after none.
    width: AtomicUsize,
}

/// Settings of a [`Queue`]; from [`Queue::builder`].
#[derive(Debug, Clone)]
#[must_use = "a queue is opened by `.open()`"]
pub struct QueueBuilder {
    sessions: Sessions,
    path: String,
    acl: Vec<Acl>,
    max_deliveries: Option<u32>,
}

/// How many items a queue has; from [`Queue::counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCounts {
    /// Those that can be taken, or are.
    pub items: usize,
    /// Those of them that are held.
    pub taken: usize,
    /// Those that are delayed.
    pub delayed: usize,
    /// Those that were given up.
    pub dead: usize,
}

impl QueueBuilder {
    /// How often an item is delivered before it is moved to `<path>/dead`. Default: until it is done.
    ///
    /// It is moved by the program that finds it after that, so each program should set the same number.
    pub fn max_deliveries(mut self, most: u32) -> Self {
        self.max_deliveries = Some(most.max(1));
        self
    }

    /// The ACL of everything that is created. Default: open to everybody.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    /// Creates the directories of the queue, unless they exist, and missing parents.
    ///
    /// # Errors
    /// Those of [`Client::create`](zoolet_client::Client::create). Without a connection it waits.
    /// # Ordering and cancel safety
    /// After a dropped future some of the directories may exist; the next call creates the rest.
    pub async fn open(self) -> Result<Queue, QueueError> {
        let Self { sessions, path, acl, max_deliveries } = self;
        let dirs = QueueDirs::of(path, acl);
        let once = Once::new(&sessions, dirs.tickets.clone(), dirs.acl.clone());
        // The last that is created.
        let (last, acl) = (&*dirs.dead, &dirs.acl);
        if once.ask(|client| async move { client.exists(last).await }).await?.is_none() {
            for dir in [&dirs.items, &dirs.taken, &dirs.delayed, &dirs.dead] {
                let create = |client: Client| async move {
                    let created = client.create(dir, "").acl(acl.to_vec()).parents().await;
                    none_if(&[ErrorCode::NodeExists], created)
                };
                once.ask(create).await?;
            }
        }
        let width = AtomicUsize::new(1);
        Ok(Queue(Arc::new(QueueHandle { once, dirs: Arc::new(dirs), max_deliveries, width })))
    }
}

impl Queue {
    /// Begins to configure the queue at `path`.
    pub fn builder(sessions: &Sessions, path: impl Into<String>) -> QueueBuilder {
        QueueBuilder { sessions: sessions.clone(), path: path.into(), acl: Acl::open(), max_deliveries: None }
    }

    /// Takes the next item; waits for one.
    ///
    /// # Errors
    /// `Client`, when there will be no other session, or a request was refused. Without a connection it waits, and a session
    /// that is lost meanwhile is not an error.
    /// # Ordering and cancel safety
    /// Dropping the future gives back what it has taken.
    pub async fn take(&self) -> Result<Delivery, QueueError> {
        loop {
            if let Some(delivery) = self.take_if(true).await? {
                return Ok(delivery);
            }
        }
    }

    /// Takes the next item, if there is one that nobody holds.
    ///
    /// # Errors
    /// As of [`take`](Queue::take).
    /// # Ordering and cancel safety
    /// As of `take`.
    pub async fn try_take(&self) -> Result<Option<Delivery>, QueueError> {
        self.take_if(false).await
    }

    async fn take_if(&self, waits: bool) -> Result<Option<Delivery>, QueueError> {
        let queue = &*self.0;
        let take = |client: Client| async move { Taker { queue, client: &client }.take(waits).await };
        Ok(queue.once.ask(take).await?)
    }

    /// How many items there are, about: four reads in one flight.
    ///
    /// # Errors
    /// `Client`.
    /// # Ordering and cancel safety
    /// Dropping the future has no effect.
    pub async fn counts(&self) -> Result<QueueCounts, QueueError> {
        let QueueDirs { items, taken, delayed, dead, .. } = &*self.0.dirs;
        let (items, taken, delayed, dead) =
            tokio::try_join!(self.count(items), self.count(taken), self.count(delayed), self.count(dead))?;
        Ok(QueueCounts { items, taken, delayed, dead })
    }

    async fn count(&self, dir: &str) -> Result<usize, Error> {
        let stat = self.0.once.ask(|client| async move { client.exists(dir).await }).await?;
        Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
    }

    /// A new ticket for [`QueuePut::once`]. Sends no request; waits for a session, whose clock dates it.
    ///
    /// # Errors
    /// `Client` when there will be no session.
    pub async fn ticket(&self) -> Result<Ticket, QueueError> {
        Ok(self.0.once.ticket().await?)
    }

    /// Removes the records of puts longer ago than `older_than`; see [`Counter::collect`](crate::Counter::collect).
    ///
    /// # Errors
    /// As of [`Tickets::collect`](crate::Tickets::collect).
    /// # Ordering and cancel safety
    /// May be dropped anywhere; the next call continues.
    pub async fn collect(&self, older_than: Duration) -> Result<Collected, QueueError> {
        Ok(self.0.once.collect(older_than).await?)
    }

    fn clock(&self) -> &Clock {
        self.0.once.sessions().clock()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&self.0.dirs.root).finish()
    }
}

/// This long after now, in milliseconds since the Unix epoch.
fn wall_millis(clock: &Clock, after: Duration) -> u64 {
    let now = u64::try_from(clock.wall_millis()).unwrap_or(0);
    now.saturating_add(u64::try_from(after.as_millis()).unwrap_or(u64::MAX))
}
