//! [`Tickets`]: the handle, and the znode of the scope.

use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use zoolet_client::internal::{ClientExt as _, locked};
use zoolet_client::{Acl, Client, Error, ErrorCode, path};

use super::error::TicketError;
use super::record::{self, Partition, TicketRecord};
use super::ticket::Ticket;
use super::txn::TicketOutcome;
use crate::path::child;
use crate::requests::none_if;
use crate::retry::{RecipeError as _, RetryPolicy};

/// Idempotency keys: executes things once, however often they are tried. Each has a [`Ticket`], which is generated before
/// the first attempt and kept over retries, on this machine or another.
///
/// ```no_run
/// # use zoolet_client::Client;
/// # use zoolet_recipes::Tickets;
/// # async fn example(zk: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let tickets = Tickets::new(&zk, "/idem/withdrawals");
/// let ticket = tickets.generate();                    // store it with the order before anything is done
///
/// let outcome = tickets
///     .run(&ticket, "withdraw 30 from ann", |mut txn| async move {
///         let Some((data, _)) = txn.get_data("/accounts/ann").await? else {
///             return Ok(txn.refuse("no such account"));
///         };
///         let balance: u64 = std::str::from_utf8(&data)?.parse()?;
///         if balance < 30 {
///             return Ok(txn.refuse("too little money"));
///         }
///         let left = (balance - 30).to_string();
///         Ok(txn.set_data("/accounts/ann", left.clone()).done(left))
///     })
///     .await?;                                        // failed? run the same ticket again, here or elsewhere
/// match outcome.value {
///     Ok(left) => println!("{left:?} left; done just now: {}", outcome.first_time),
///     Err(reason) => println!("refused: {reason:?}"),
/// }
/// # Ok(()) }
/// ```
///
/// # Which form
/// [`run`](Tickets::run) is for effects inside this ZooKeeper, and is exactly once. [`begin`](Tickets::begin) is for effects
/// outside it, and is as good as the store there: exactly once if the store remembers tickets.
///
/// # The scope
/// The path is that of the scope: a persistent znode that is created when it is first needed, together with missing
/// parents. A ticket is unique within its scope; the same ticket in another scope is another one. Do not delete the scope,
/// because the records and the watermark are removed with it; [`collect`](Tickets::collect) deletes old records. Records
/// stay in the server's memory, a few hundred bytes each.
#[derive(Clone)]
pub struct Tickets {
    pub(super) client: Client,
    pub(super) scope: String,
    pub(super) acl: Vec<Acl>,
    /// The scope as it was last read. The multi that relies on an old one is refused.
    seen: Arc<Mutex<Option<Scope>>>,
}

/// Settings of [`Tickets`]; from [`Tickets::builder`].
///
/// ```no_run
/// # use zoolet_client::{Acl, Client};
/// # fn example(zk: &Client) {
/// let tickets = zoolet_recipes::Tickets::builder(zk, "/idem/orders").acl(Acl::creator_all()).build();
/// # drop(tickets) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct TicketsBuilder {
    tickets: Tickets,
}

/// The content of a scope's znode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    /// No ticket of an earlier partition is executed.
    pub(super) watermark: Partition,
    pub(super) version: i32,
}

impl Tickets {
    /// The tickets of the scope at `path`. Sends no request.
    pub fn new(client: &Client, path: impl Into<String>) -> Self {
        Self::builder(client, path).build()
    }

    /// Settings for the tickets of the scope at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> TicketsBuilder {
        let (client, scope) = (client.clone(), path.into());
        TicketsBuilder { tickets: Self { client, scope, acl: Acl::open(), seen: Arc::default() } }
    }

    /// A new ticket. Sends no request: no server knows the ticket before it is run. Its time is that of the client's clock.
    pub fn generate(&self) -> Ticket {
        Ticket::generate(&self.client)
    }

    /// The outcome of a ticket: `None` if it was not executed so far, or so long ago that its record was collected.
    ///
    /// # Errors
    /// [`TicketError::Pending`] if it is begun and not finished; [`TicketError::Foreign`], [`TicketError::NoAuth`],
    /// [`TicketError::SessionOver`], [`TicketError::Client`].
    /// # Ordering and cancel safety
    /// Shows what was executed before this call, by this client or any other. Dropping the future leaves nothing behind.
    pub async fn outcome(&self, ticket: &Ticket) -> Result<Option<TicketOutcome>, TicketError> {
        let mut retries = self.retries();
        // Another client may have executed it at another server.
        self.sync(&mut retries).await?;
        let read = self.read(ticket, &mut retries).await?;
        read.map(|(record, _)| TicketOutcome::of(*ticket, record, None)).transpose()
    }

    pub(crate) fn partition_path(&self, partition: Partition) -> String {
        child(&self.scope, &partition.0.to_string())
    }

    pub(crate) fn record_path(&self, ticket: &Ticket) -> String {
        child(&self.partition_path(Partition::of(ticket)), &ticket.to_string())
    }

    /// Deletes a znode of the scope if it is there and empty. Nobody waits for the reply.
    pub(crate) fn delete_quietly(&self, path: String) {
        drop(self.client.unlimited().delete(path).send());
    }

    pub(super) fn pending_path(&self) -> String {
        child(&self.scope, "pending")
    }

    pub(super) fn error(&self, error: Error) -> TicketError {
        TicketError::of(&self.scope, error)
    }

    pub(super) fn retries(&self) -> RetryPolicy<'_, TicketError> {
        RetryPolicy::limited(&self.client, &self.scope)
    }

    /// Brings this client's server up to date.
    pub(super) async fn sync(&self, retries: &mut RetryPolicy<'_, TicketError>) -> Result<(), TicketError> {
        retries.ask(|| self.client.sync(&self.scope)).await.map_err(|error| self.error(error))
    }

    /// The record of a ticket and its version, as far as this client's server knows.
    pub(super) async fn read(
        &self,
        ticket: &Ticket,
        retries: &mut RetryPolicy<'_, TicketError>,
    ) -> Result<Option<(TicketRecord, i32)>, TicketError> {
        let path = self.record_path(ticket);
        let read = retries.ask_if_exists(|| self.client.get_data(&path)).await?;
        let Some((data, stat)) = read else { return Ok(None) };
        let record = TicketRecord::decode(&data).ok_or(TicketError::Foreign { path })?;
        Ok(Some((record, stat.version)))
    }

    /// The scope as it was last read, or as it is.
    pub(super) async fn scope(
        &self,
        retries: &mut RetryPolicy<'_, TicketError>,
    ) -> Result<Scope, TicketError> {
        let seen = *locked(&self.seen);
        match seen {
            Some(scope) => Ok(scope),
            None => self.load_scope(retries).await,
        }
    }

    /// Forgets the scope, because it has changed.
    pub(super) fn forget_scope(&self) {
        *locked(&self.seen) = None;
    }

    /// The scope as it is; created if it does not exist.
    pub(super) async fn load_scope(
        &self,
        retries: &mut RetryPolicy<'_, TicketError>,
    ) -> Result<Scope, TicketError> {
        use ErrorCode::{BadVersion, NoNode, NodeExists};
        let scope = loop {
            let created = match retries.ask(|| self.client.get_data(&self.scope)).await {
                // Created in advance, for example by an operator.
                Ok((data, stat)) if data.is_empty() => self.init_scope(stat.version).await,
                Ok((data, stat)) => match record::read_scope(&data) {
                    Some(watermark) => break Scope { watermark, version: stat.version },
                    None => return Err(TicketError::Foreign { path: self.scope.clone() }),
                },
                Err(error) if error.code() == Some(NoNode) => self.create_scope().await,
                Err(error) => return Err(self.error(error)),
            };
            match created {
                Ok(scope) => break scope,
                Err(error) => {
                    retries.retry_also(error, &[NodeExists, BadVersion, NoNode]).await?;
                }
            }
        };
        *locked(&self.seen) = Some(scope);
        Ok(scope)
    }

    /// Creates the scope, with missing parents.
    async fn create_scope(&self) -> Result<Scope, Error> {
        let (client, watermark) = (&self.client, Partition(0));
        let create = |path: &str, data: Bytes| client.create(path, data).acl(self.acl.clone());
        let parent = path::parent(&self.scope);
        if parent != "/" {
            none_if(&[ErrorCode::NodeExists], create(parent, Bytes::new()).parents().await)?;
        }
        let scope = create(&self.scope, record::scope(watermark));
        client.multi().add(scope).add(create(&self.pending_path(), Bytes::new())).commit().await?;
        Ok(Scope { watermark, version: 0 })
    }

    /// Writes the first watermark into an empty znode of this version.
    async fn init_scope(&self, version: i32) -> Result<Scope, Error> {
        let (client, watermark) = (&self.client, Partition(0));
        // First, because a scope with a watermark counts as complete. It may have been created in advance too.
        let created = client.create(self.pending_path(), Bytes::new()).acl(self.acl.clone()).await;
        none_if(&[ErrorCode::NodeExists], created)?;
        let stat = client.set_data(&self.scope, record::scope(watermark)).version(version).await?;
        Ok(Scope { watermark, version: stat.version })
    }

    /// Creates the partition of a ticket, if the scope has not changed: otherwise the ticket may be below the watermark.
    pub(super) async fn create_partition(&self, ticket: &Ticket, scope: Scope) -> Result<(), Error> {
        let path = self.partition_path(Partition::of(ticket));
        let partition = self.client.create(path, Bytes::new()).acl(self.acl.clone());
        match self.client.multi().check(&self.scope, scope.version).add(partition).commit().await {
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            Err(error) if error.failed_operation() == Some(0) => {
                self.forget_scope();
                Ok(())
            }
            created => created.map(drop),
        }
    }
}

impl TicketsBuilder {
    /// The ACL of the scope and of everything in it. Everybody who may write there may execute tickets and forget them.
    /// Default: open to everybody.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.tickets.acl = acl;
        self
    }

    /// The tickets.
    pub fn build(self) -> Tickets {
        self.tickets
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("scope", &self.scope).finish_non_exhaustive()
    }
}
