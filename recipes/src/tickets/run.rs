//! The form for effects inside ZooKeeper: one multi that holds the record and the effect.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_client::{Client, Error, ErrorCode, MultiWrite, Stat};

use super::call::{Call, Failure};
use super::error::{TicketError, WorkError};
use super::record::State;
use super::scope::Tickets;
use super::ticket::Ticket;
use crate::guard::Guard;
use crate::patience::Patience;

/// What became of a ticket: the same for everybody who asks, whenever that is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Whether it was this call that did it; `false` if it had been done before, or by another at the same time.
    pub first_time: bool,
    /// What [`TicketTxn::done`] was given, or as the error what [`TicketTxn::refuse`] was given.
    pub value: Result<Bytes, Bytes>,
}

/// What the work of a ticket reads and means to write; handed to it by [`Tickets::run`].
///
/// Nothing is written before the work has decided, by [`done`](TicketTxn::done) or [`refuse`](TicketTxn::refuse). Then it is
/// written in one transaction, and only if nothing that was read here has changed since; if it has, the work is run
/// again.
#[derive(Debug)]
#[must_use = "the work ends with `done` or `refuse`"]
pub struct TicketTxn {
    client: Client,
    ticket: Ticket,
    checks: Vec<(String, Option<i32>)>,
    absent: Vec<String>,
    writes: Vec<MultiWrite>,
}

/// What the work of a ticket has decided; from [`TicketTxn::done`] or [`TicketTxn::refuse`].
#[derive(Debug, Clone)]
#[must_use = "it is what the work returns"]
pub struct Decision {
    pub(super) checks: Vec<(String, Option<i32>)>,
    /// What was read and not there, which a multi cannot check but by creating it.
    pub(super) absent: Vec<String>,
    pub(super) writes: Vec<MultiWrite>,
    pub(super) value: Result<Bytes, Bytes>,
}

impl TicketTxn {
    /// The ticket that is run.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Reads data: `None` if there is no such znode. What was read is checked when the work's writes are executed; that
    /// something was absent, by creating it alone.
    ///
    /// Several reads may show several moments. A decision that rests on a mixture of them is not executed.
    ///
    /// # Errors
    /// As of [`Client::get_data`], but for `NoNode`. To be passed on: after one that may pass, the work is run again.
    pub async fn get_data(&mut self, path: impl Into<String>) -> Result<Option<(Bytes, Stat)>, Error> {
        let path = path.into();
        match self.client.get_data(&path).await {
            Ok((data, stat)) => {
                self.checks.push((path, Some(stat.version)));
                Ok(Some((data, stat)))
            }
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                self.absent.push(path);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a persistent znode that is open to everybody. For any other, [`add`](TicketTxn::add) a create.
    pub fn create(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        let create: MultiWrite = self.client.create(path, data).into();
        self.add(create)
    }

    /// Replaces data. If it was read here, only if it is as it was.
    pub fn set_data(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        let set: MultiWrite = self.client.set_data(path, data).into();
        self.add(set)
    }

    /// Deletes a znode. If it was read here, only if it is as it was.
    pub fn delete(self, path: impl Into<String>) -> Self {
        let delete: MultiWrite = self.client.delete(path).into();
        self.add(delete)
    }

    /// Requires that the data of the znode has this version (`None`: that the znode exists); otherwise the work is run again.
    pub fn check(mut self, path: impl Into<String>, version: impl Into<Option<i32>>) -> Self {
        self.checks.push((path.into(), version.into()));
        self
    }

    /// Adds a create, delete or setData with all that can be chosen for it. A version that it states itself is not checked
    /// against what was read: if it does not fit, the ticket is [refused](TicketError::Refused).
    #[expect(clippy::should_implement_trait, reason = "it adds to a list, it is no sum")]
    pub fn add(mut self, write: impl Into<MultiWrite>) -> Self {
        self.writes.push(write.into());
        self
    }

    /// Decides to do what was written here, and that this is the outcome of the ticket from now on. Keep it small: it
    /// stays in the server's memory until it is collected.
    pub fn done(self, value: impl Into<Bytes>) -> Decision {
        let Self { checks, absent, writes, .. } = self;
        Decision { checks, absent, writes, value: Ok(value.into()) }
    }

    /// Decides to do nothing, and that this is the outcome of the ticket from now on: who runs it again is told the same,
    /// even if it could be done by then. What was written here is dropped.
    pub fn refuse(self, reason: impl Into<Bytes>) -> Decision {
        let Self { checks, absent, .. } = self;
        Decision { checks, absent, writes: Vec::new(), value: Err(reason.into()) }
    }
}

impl Tickets {
    /// Executes `work` once for this ticket, and gives its outcome now and ever after.
    ///
    /// `params` are what the work does, in any form that is the same each time: with others the ticket is refused. `work`
    /// reads, decides and says what is to be written; it may be run several times, and not at all if the ticket was
    /// executed before, so it must have no other effect. See [`Tickets`] for an example.
    ///
    /// It takes a read, those of the work, and one multi that holds the record and the effect; two writes more for the first
    /// ticket of ten minutes.
    ///
    /// # Errors
    /// Each variant of [`TicketError`] says what to do. After [`Unknown`](TicketError::Unknown),
    /// [`SessionOver`](TicketError::SessionOver) and a dropped future, it may have been executed: run the ticket again.
    /// # Ordering and cancel safety
    /// The effect and the record are one transaction. Dropping the future does not recall a request that was sent.
    pub async fn run<W, F>(
        &self,
        ticket: &Ticket,
        params: impl AsRef<[u8]>,
        work: W,
    ) -> Result<Outcome, TicketError>
    where
        W: FnMut(TicketTxn) -> F,
        F: Future<Output = Result<Decision, WorkError>>,
    {
        self.execute(Call::new(self, *ticket, params.as_ref(), None), work).await
    }

    /// As [`run`](Tickets::run), and only while the lock is held. The lock keeps others from changing what the work reads, so
    /// that it need not be run again; it is the ticket that makes it once. The guard must be of a client with the same
    /// ensemble and chroot.
    ///
    /// # Errors
    /// Those of `run`, and [`TicketError::NotHeld`] if the lock was lost and the ticket was not executed before.
    /// # Ordering and cancel safety
    /// As of `run`.
    pub async fn run_under<W, F>(
        &self,
        guard: &Guard,
        ticket: &Ticket,
        params: impl AsRef<[u8]>,
        work: W,
    ) -> Result<Outcome, TicketError>
    where
        W: FnMut(TicketTxn) -> F,
        F: Future<Output = Result<Decision, WorkError>>,
    {
        self.execute(Call::new(self, *ticket, params.as_ref(), Some(guard)), work).await
    }

    async fn execute<W, F>(&self, call: Call<'_>, work: W) -> Result<Outcome, TicketError>
    where
        W: FnMut(TicketTxn) -> F,
        F: Future<Output = Result<Decision, WorkError>>,
    {
        let mut doubt = None;
        let executed = self.attempt(&call, work, &mut doubt).await;
        executed.map_err(|error| error.in_doubt(call.ticket, doubt))
    }

    /// As long as nothing is known, `doubt` is what leaves it open whether it was executed.
    async fn attempt<W, F>(
        &self,
        call: &Call<'_>,
        mut work: W,
        doubt: &mut Option<Error>,
    ) -> Result<Outcome, TicketError>
    where
        W: FnMut(TicketTxn) -> F,
        F: Future<Output = Result<Decision, WorkError>>,
    {
        let ticket = call.ticket;
        let mut patience = Patience::new(&self.client);
        // What was decided and may have been done: to be sent again as it is, or two runs of the work could differ.
        let mut decided: Option<Decision> = None;
        loop {
            let scope = self.scope(&mut patience).await?;
            if decided.is_none() {
                if let Some((record, _)) = call.look(scope, &mut patience).await? {
                    return Call::outcome_of(ticket, record, Some(call.attempt));
                }
            }
            let decision = match decided.take() {
                Some(decision) => decision,
                None => match work(self.txn(ticket)).await {
                    Ok(decision) => decision,
                    Err(cause) => {
                        let error = self.work_error(ticket, cause)?;
                        patience.outlasts(error).await?;
                        continue;
                    }
                },
            };
            match call.commit(scope, State::Settled(decision.value.clone()), &decision).await {
                Ok(()) => return Ok(Outcome { first_time: true, value: decision.value }),
                Err(failure) => {
                    let as_it_is = matches!(failure, Failure::NoBucket | Failure::Again(_));
                    call.mend(failure, scope, doubt, &mut patience).await?;
                    decided = as_it_is.then_some(decision);
                }
            }
        }
    }

    fn txn(&self, ticket: Ticket) -> TicketTxn {
        let client = self.client.clone();
        TicketTxn { client, ticket, checks: Vec::new(), absent: Vec::new(), writes: Vec::new() }
    }

    /// `Ok` with what to say in the end, if the work may succeed later.
    fn work_error(&self, ticket: Ticket, cause: WorkError) -> Result<TicketError, TicketError> {
        match cause.downcast_ref::<Error>() {
            Some(error) if error.is_session_over() => Err(self.error(error.clone())),
            Some(error) if error.is_retryable() => Ok(TicketError::Client(error.clone())),
            _ => Err(TicketError::Work { ticket, cause: Arc::from(cause) }),
        }
    }
}
