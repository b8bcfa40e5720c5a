//! Tickets with effects inside ZooKeeper: one multi that holds the record and the effect.

use std::future::Future;
use std::sync::Arc;

use zoolet_client::Error;

use super::call::{CommitFailure, RunNotes, TicketCall};
use super::error::{TicketError, WorkError};
use super::record::RecordState;
use super::scope::Tickets;
use super::ticket::Ticket;
use super::txn::{TicketDecision, TicketOutcome, TicketTxn};
use crate::guard::Guard;

impl Tickets {
    /// Executes `work` once for this ticket, and returns its outcome now and on every later call.
    ///
    /// `params` describe what the work does, in any form that is the same each time: with other parameters the ticket is
    /// refused. `work` reads, decides and returns what is to be written. It may be run several times, and not at all if the
    /// ticket was executed before, so it must have no other effect. See [`Tickets`] for an example.
    ///
    /// It costs a read, the reads of the work, and one multi that holds the record and the effect; two more writes for the
    /// first ticket of ten minutes.
    ///
    /// # Errors
    /// Each variant of [`TicketError`] says what to do. After [`Unknown`](TicketError::Unknown),
    /// [`SessionOver`](TicketError::SessionOver) and a dropped future it may have been executed: run the ticket again.
    /// # Ordering and cancel safety
    /// The effect and the record are one transaction. Dropping the future does not recall a request that was sent.
    pub async fn run<W, F>(
        &self,
        ticket: &Ticket,
        params: impl AsRef<[u8]>,
        work: W,
    ) -> Result<TicketOutcome, TicketError>
    where
        W: FnMut(TicketTxn) -> F,
        F: Future<Output = Result<TicketDecision, WorkError>>,
    {
        let mut notes = RunNotes::default();
        self.execute(TicketCall::new(self, *ticket, params.as_ref(), None, &mut notes), work).await
    }

    /// As [`run`](Tickets::run), for a caller that knows more of the ticket and wants to know more of the run.
    pub(crate) async fn run_noted<F: Future<Output = Result<TicketDecision, WorkError>>>(
        &self,
        ticket: &Ticket,
        params: &[u8],
        notes: &mut RunNotes,
        work: impl FnMut(TicketTxn) -> F,
    ) -> Result<TicketOutcome, TicketError> {
        self.execute(TicketCall::new(self, *ticket, params, None, notes), work).await
    }

    /// As [`run`](Tickets::run), and only while the lock is held. The lock prevents others from changing what the work
    /// reads, so that it need not be run again; the ticket makes it run once. The guard must be of a client with the
    /// same ensemble and chroot.
    ///
    /// # Errors
    /// The errors of `run`, and [`TicketError::NotHeld`] if the lock was lost and the ticket was not executed before.
    /// # Ordering and cancel safety
    /// The same as for `run`.
    pub async fn run_under<W, F>(
        &self,
        guard: &Guard,
        ticket: &Ticket,
        params: impl AsRef<[u8]>,
        work: W,
    ) -> Result<TicketOutcome, TicketError>
    where
        W: FnMut(TicketTxn) -> F,
        F: Future<Output = Result<TicketDecision, WorkError>>,
    {
        let mut notes = RunNotes::default();
        self.execute(TicketCall::new(self, *ticket, params.as_ref(), Some(guard), &mut notes), work).await
    }

    async fn execute<F: Future<Output = Result<TicketDecision, WorkError>>>(
        &self,
        mut call: TicketCall<'_>,
        mut work: impl FnMut(TicketTxn) -> F,
    ) -> Result<TicketOutcome, TicketError> {
        let ticket = call.ticket;
        // A decision that may have been executed is repeated as it is, because two runs of the work could differ.
        let mut decided: Option<TicketDecision> = None;
        let executed = async {
            loop {
                let scope = self.scope(&mut call.retries).await?;
                if decided.is_none() {
                    if let Some((record, _)) = call.look(scope).await? {
                        return TicketOutcome::of(ticket, record, Some(call.attempt));
                    }
                }
                let decision = match decided.take() {
                    Some(decision) => decision,
                    None => match work(TicketTxn::new(&self.client, ticket)).await {
                        Ok(decision) => decision,
                        Err(cause) => {
                            call.retries.or_give_up(self.work_error(ticket, cause)?).await?;
                            continue;
                        }
                    },
                };
                match call.commit(scope, RecordState::Settled(decision.value.clone()), &decision).await {
                    Ok(()) => return Ok(TicketOutcome { first_time: true, value: decision.value }),
                    Err(failure) => {
                        use CommitFailure::{NoPartition, Retryable, Spent};
                        let repeat = matches!(failure, NoPartition | Spent(_) | Retryable(_));
                        call.recover(failure, scope).await?;
                        decided = repeat.then_some(decision);
                    }
                }
            }
        };
        executed.await.map_err(|error: TicketError| error.or_unknown(ticket, call.lost_reply))
    }

    /// `Ok` with the error to report in the end, if the work may succeed later.
    fn work_error(&self, ticket: Ticket, cause: WorkError) -> Result<TicketError, TicketError> {
        match cause.downcast_ref::<Error>() {
            Some(error) if error.is_session_over() => Err(self.error(error.clone())),
            Some(error) if error.is_retryable() => Ok(TicketError::Client(error.clone())),
            _ => Err(TicketError::Work { ticket, cause: Arc::from(cause) }),
        }
    }
}
