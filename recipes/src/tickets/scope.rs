//! [`Tickets`]: the handle, and the znode of the scope.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use zoolet_client::{Acl, Client, Error, ErrorCode, parent_of};

use super::call::Call;
use super::error::TicketError;
use super::record::{self, Bucket, Record};
use super::run::Outcome;
use super::ticket::Ticket;
use crate::directory::create_all;
use crate::patience::Patience;

/// Executes things once, however often they are asked for: each has a [`Ticket`], which is drawn before the first attempt
/// and kept over retries, on this machine or another.
///
/// ```no_run
/// # use zoolet_client::Client;
/// # use zoolet_recipes::Tickets;
/// # async fn example(zk: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let tickets = Tickets::new(&zk, "/idem/withdrawals");
/// let ticket = tickets.draw();                        // store it with the order before anything is done
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
/// outside of it, and is as good as the store there: exactly once if that remembers tickets.
///
/// # The scope
/// The path is that of the scope: a persistent znode that is created when it is first needed, with all that is above it.
/// A ticket is one ticket within its scope; the same in another scope is another. Do not delete the scope, as the
/// records and the floor go with it; [`collect`](Tickets::collect) deletes what is old. Records are kept in the server's memory, a few
/// hundred bytes each.
#[derive(Clone)]
pub struct Tickets {
    pub(super) client: Client,
    pub(super) scope: String,
    pub(super) acl: Vec<Acl>,
    /// The scope as it was last seen. An old one is found out by the multi that relies on it.
    seen: Arc<Mutex<Option<Scope>>>,
}

/// Settings of [`Tickets`]; from [`Tickets::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct TicketsBuilder {
    tickets: Tickets,
}

/// What stands in the znode of a scope.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    pub(super) floor: Bucket,
    pub(super) version: i32,
}

impl Tickets {
    /// The tickets of the scope at `path`. Asks no server.
    pub fn new(client: &Client, path: impl Into<String>) -> Self {
        Self::builder(client, path).build()
    }

    /// Settings for the tickets of the scope at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> TicketsBuilder {
        let (client, scope) = (client.clone(), path.into());
        TicketsBuilder { tickets: Self { client, scope, acl: Acl::open(), seen: Arc::default() } }
    }

    /// A new ticket: asks no server, and is not known to any before it is run. The time in it is that of the client's clock.
    pub fn draw(&self) -> Ticket {
        Ticket::draw(&self.client)
    }

    /// What became of a ticket: `None` if it was not executed so far, or so long ago that its record was collected.
    ///
    /// # Errors
    /// [`TicketError::Pending`] if it is begun and not finished; [`TicketError::Foreign`], [`TicketError::NoAuth`],
    /// [`TicketError::SessionOver`], [`TicketError::Client`].
    /// # Ordering and cancel safety
    /// Shows what was done before it was asked for, by this client or any other. Dropping the future leaves nothing behind.
    pub async fn outcome(&self, ticket: &Ticket) -> Result<Option<Outcome>, TicketError> {
        let mut patience = Patience::new(&self.client);
        // Another client may have done it by another server.
        let synced = patience.ask(|| self.client.sync(&self.scope).send()).await;
        synced.map_err(|error| self.error(error))?;
        match self.read(ticket, &mut patience).await? {
            Some((record, _)) => Call::outcome_of(*ticket, record, None).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn path_of(&self, name: impl fmt::Display) -> String {
        format!("{}/{name}", self.scope.trim_end_matches('/'))
    }

    pub(super) fn record_path(&self, ticket: &Ticket) -> String {
        self.path_of(format_args!("{}/{ticket}", Bucket::of(ticket)))
    }

    pub(super) fn pending_path(&self) -> String {
        self.path_of("pending")
    }

    pub(super) fn error(&self, error: Error) -> TicketError {
        TicketError::of(&self.scope, error)
    }

    /// The record of a ticket and its version, as far as this client's server knows.
    pub(super) async fn read(
        &self,
        ticket: &Ticket,
        patience: &mut Patience<'_>,
    ) -> Result<Option<(Record, i32)>, TicketError> {
        let path = self.record_path(ticket);
        match patience.ask(|| self.client.get_data(&path).send()).await {
            Ok((data, stat)) => match Record::decode(&data) {
                Some(record) => Ok(Some((record, stat.version))),
                None => Err(TicketError::Foreign { path }),
            },
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
            Err(error) => Err(self.error(error)),
        }
    }

    /// The scope as it was last seen, or as it is.
    pub(super) async fn scope(&self, patience: &mut Patience<'_>) -> Result<Scope, TicketError> {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen {
            Some(scope) => Ok(scope),
            None => self.load_scope(patience).await,
        }
    }

    /// What was seen of the scope is out of date.
    pub(super) fn forget_scope(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The scope as it is; created if it is not there.
    pub(super) async fn load_scope(&self, patience: &mut Patience<'_>) -> Result<Scope, TicketError> {
        let scope = loop {
            let begun = match patience.ask(|| self.client.get_data(&self.scope).send()).await {
                // Created by somebody who only meant to prepare the place.
                Ok((data, stat)) if data.is_empty() => self.begin_scope(Some(stat.version)).await,
                Ok((data, stat)) => match record::read_scope(&data) {
                    Some(floor) => break Scope { floor, version: stat.version },
                    None => return Err(TicketError::Foreign { path: self.scope.clone() }),
                },
                Err(error) if error.code() == Some(ErrorCode::NoNode) => self.begin_scope(None).await,
                Err(error) => return Err(self.error(error)),
            };
            match begun {
                Ok(scope) => break scope,
                Err(error) => {
                    // Somebody else was quicker, or the reply to our own was lost.
                    let code = error.code();
                    let beaten = [ErrorCode::NodeExists, ErrorCode::BadVersion, ErrorCode::NoNode]
                        .map(Some)
                        .contains(&code);
                    if !(beaten || error.is_retryable()) || !patience.lasts().await {
                        return Err(self.error(error));
                    }
                }
            }
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(scope);
        Ok(scope)
    }

    /// Writes the first floor, into the znode of this version or into a new one.
    async fn begin_scope(&self, version: Option<i32>) -> Result<Scope, Error> {
        let (client, floor) = (&self.client, Bucket(0));
        let data = record::scope(floor);
        let pending = client.create(self.pending_path(), Bytes::new()).acl(self.acl.clone());
        if let Some(version) = version {
            // First, as a scope with a floor is taken for complete. Whoever prepared the place may have made it too.
            match pending.await {
                Err(error) if error.code() != Some(ErrorCode::NodeExists) => return Err(error),
                _ => {}
            }
            let stat = client.set_data(&self.scope, data).version(version).await?;
            return Ok(Scope { floor, version: stat.version });
        }
        create_all(client, parent_of(&self.scope), &self.acl, false).await?;
        let scope = client.create(&self.scope, data).acl(self.acl.clone());
        client.multi().add(scope).add(pending).commit().await?;
        Ok(Scope { floor, version: 0 })
    }

    /// Creates the bucket of a ticket, if the scope is still as it was seen: else the ticket may be below the floor.
    pub(super) async fn make_bucket(&self, ticket: &Ticket, scope: Scope) -> Result<(), Error> {
        let bucket = self.client.create(self.path_of(Bucket::of(ticket)), Bytes::new()).acl(self.acl.clone());
        match self.client.multi().check(&self.scope, scope.version).add(bucket).commit().await {
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            Err(error) if error.failed_operation() == Some(0) => {
                self.forget_scope();
                Ok(())
            }
            made => made.map(drop),
        }
    }
}

impl TicketsBuilder {
    /// The ACL of the scope and of everything in it. Whoever may write there may execute tickets and forget them.
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
