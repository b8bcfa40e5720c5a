//! The transaction of a ticket: [`TicketTxn`] for its work, the [`TicketDecision`] that the work returns, and the [`TicketOutcome`].

use bytes::Bytes;
use zoolet_client::{Client, Error, MultiWrite, Stat};

use super::error::TicketError;
use super::record::{RecordState, TicketRecord};
use super::ticket::Ticket;
use crate::requests::if_exists;

/// The outcome of a ticket: the same for every caller, at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TicketOutcome {
    /// Whether this call executed it; `false` if it was executed before, or by another caller at the same time.
    pub first_time: bool,
    /// The value given to [`TicketTxn::done`], or as the error the reason given to [`TicketTxn::refuse`].
    pub value: Result<Bytes, Bytes>,
}

impl TicketOutcome {
    /// The outcome in a record. `attempt` is that of the caller.
    pub(super) fn of(
        ticket: Ticket,
        record: TicketRecord,
        attempt: Option<u128>,
    ) -> Result<Self, TicketError> {
        match record.state {
            RecordState::Pending => Err(TicketError::Pending { ticket }),
            RecordState::Settled(value) => Ok(Self { first_time: attempt == Some(record.attempt), value }),
        }
    }
}

/// The reads and writes of a ticket's work; passed to it by [`Tickets::run`](crate::Tickets::run), which has an example.
///
/// Nothing is written before the work has decided, by [`done`](TicketTxn::done) or [`refuse`](TicketTxn::refuse). Then all
/// of it is written in one transaction, and only if nothing that was read here has changed since. If something has, the
/// work is run again.
#[derive(Debug)]
#[must_use = "the work ends with `done` or `refuse`"]
pub struct TicketTxn {
    client: Client,
    ticket: Ticket,
    /// So far, and without its outcome.
    decision: TicketDecision,
}

/// The decision of a ticket's work; from [`TicketTxn::done`] or [`TicketTxn::refuse`].
#[derive(Debug, Clone)]
#[must_use = "the work returns it"]
pub struct TicketDecision {
    pub(super) checks: Vec<(String, Option<i32>)>,
    /// Paths that were read and absent, which a multi can only check by creating them.
    pub(super) absent: Vec<String>,
    pub(super) writes: Vec<MultiWrite>,
    pub(super) value: Result<Bytes, Bytes>,
}

impl TicketTxn {
    pub(super) fn new(client: &Client, ticket: Ticket) -> Self {
        Self { client: client.clone(), ticket, decision: TicketDecision::of(Vec::new()) }
    }

    /// The ticket that is run.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The client, for writes with options of their own.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Reads data: `None` if there is no such znode. The version that was read is checked when the work's writes are
    /// executed. That a znode was absent is checked only if the work creates it.
    ///
    /// Several reads may show different moments. A decision that rests on such a mixture is not executed.
    ///
    /// # Errors
    /// The same as for [`Client::get_data`], except `NoNode`. Return them: after a retryable error the work is run again.
    pub async fn get_data(&mut self, path: impl Into<String>) -> Result<Option<(Bytes, Stat)>, Error> {
        let path = path.into();
        let found = if_exists(self.client.get_data(&path).await)?;
        match &found {
            Some((_, stat)) => self.decision.checks.push((path, Some(stat.version))),
            None => self.decision.absent.push(path),
        }
        Ok(found)
    }

    /// Creates a persistent znode that is open to everybody. For any other, [`add`](TicketTxn::add) a create.
    pub fn create(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        let create: MultiWrite = self.client.create(path, data).into();
        self.add(create)
    }

    /// Replaces data. If it was read here, only if it has not changed since.
    pub fn set_data(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        let set: MultiWrite = self.client.set_data(path, data).into();
        self.add(set)
    }

    /// Deletes a znode. If it was read here, only if it has not changed since.
    pub fn delete(self, path: impl Into<String>) -> Self {
        let delete: MultiWrite = self.client.delete(path).into();
        self.add(delete)
    }

    /// Requires that the data of the znode has this version (`None`: that the znode exists); otherwise the work is run
    /// again.
    pub fn check(mut self, path: impl Into<String>, version: impl Into<Option<i32>>) -> Self {
        self.decision.checks.push((path.into(), version.into()));
        self
    }

    /// Adds a create, delete or setData with options of its own. A version that it requires itself is not compared with
    /// what was read: if it does not match, the ticket is [refused](TicketError::Refused).
    #[expect(clippy::should_implement_trait, reason = "adds to a list, not a sum")]
    pub fn add(mut self, write: impl Into<MultiWrite>) -> Self {
        self.decision.writes.push(write.into());
        self
    }

    /// Decides to execute the writes, and that `value` is the outcome of the ticket from now on. Keep it small: it stays in
    /// the server's memory until it is collected.
    pub fn done(self, value: impl Into<Bytes>) -> TicketDecision {
        TicketDecision { value: Ok(value.into()), ..self.decision }
    }

    /// Decides to do nothing, and that this is the outcome of the ticket from now on: every later run is refused too, even
    /// if it could succeed by then. The writes are dropped.
    pub fn refuse(self, reason: impl Into<Bytes>) -> TicketDecision {
        TicketDecision { writes: Vec::new(), value: Err(reason.into()), ..self.decision }
    }
}

impl TicketDecision {
    /// These writes, without a condition.
    pub(super) fn of(writes: Vec<MultiWrite>) -> Self {
        Self { checks: Vec::new(), absent: Vec::new(), writes, value: Ok(Bytes::new()) }
    }
}
