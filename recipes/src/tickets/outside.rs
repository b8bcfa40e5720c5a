//! Tickets with effects outside ZooKeeper: the ticket is begun, the effect is executed, the ticket is finished.

use bytes::Bytes;
use zoolet_client::{Error, ErrorCode, Multi};

use super::call::{CommitFailure, RunNotes, TicketCall};
use super::error::TicketError;
use super::record::{RecordState, TicketRecord};
use super::scope::Tickets;
use super::ticket::Ticket;
use super::txn::{TicketDecision, TicketOutcome};
use crate::guard::Guard;
use crate::path::child;
use crate::retry::RetryPolicy;
use crate::state::FencingToken;

/// The state of a ticket whose effect is outside ZooKeeper; from [`Tickets::begin`].
#[derive(Debug)]
#[must_use = "it shows whether there is something to do"]
pub enum Started<'g> {
    /// It was settled before. There is nothing to do.
    Settled(TicketOutcome),
    /// It is new, and nobody can have executed its effect. Execute it, and [`finish`](InProgress::finish).
    New(InProgress<'g>),
    /// Somebody began it and did not finish. Whether the effect was executed is unknown here:
    ///
    /// - Ask the store by the ticket. If the effect is there, `finish`; if not, execute it and `finish`. That is **exactly
    ///   once**, if the store keeps the ticket in the same transaction as the effect and rejects lower tokens.
    /// - If the store does not know tickets, choose. Execute the effect again and `finish`: **at least once**. Or
    ///   [`refuse`](InProgress::refuse) and let a person look: **at most once**.
    Unfinished(InProgress<'g>),
}

/// A ticket whose effect outside ZooKeeper may be executed now, by the holder of the guard alone; from [`Tickets::begin`],
/// which has an example.
///
/// Dropping it leaves the ticket pending.
#[derive(Debug)]
#[must_use = "the ticket stays pending until it is finished"]
pub struct InProgress<'g> {
    tickets: Tickets,
    guard: &'g Guard,
    /// The record as it is now.
    record: TicketRecord,
    version: i32,
    ticket: Ticket,
}

/// A ticket that is begun and not finished; from [`Tickets::pending`].
///
/// ```no_run
/// # use zoolet_recipes::{Guard, TicketError, Tickets};
/// # async fn example(tickets: Tickets, guard: Guard) -> Result<(), TicketError> {
/// for pending in tickets.pending().await? {
///     let started = tickets.begin(&guard, &pending.ticket, &pending.params).await?;
/// #   drop(started);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingTicket {
    /// The ticket.
    pub ticket: Ticket,
    /// The parameters, which [`Tickets::begin`] needs to continue.
    pub params: Bytes,
    /// The fencing token of the latest call that began it.
    pub token: u64,
}

impl Tickets {
    /// Begins a ticket whose effect is outside ZooKeeper, or continues one that was begun: under the lock of what it
    /// changes, by one call at a time.
    ///
    /// It ensures that nobody repeats the effect without knowing: the intent is recorded before the effect, and a caller
    /// that finds it without an outcome gets [`Unfinished`](Started::Unfinished). `params` are kept until the ticket is
    /// finished, for the caller that has to continue.
    ///
    /// ```no_run
    /// # use zoolet_recipes::{Guard, Started, Ticket, TicketError, Tickets};
    /// # struct Gateway;
    /// # impl Gateway {
    /// #     async fn pay(&self, _: &str, _: &Ticket, _: u64) -> String { String::new() }
    /// #     async fn find(&self, _: &Ticket) -> Option<String> { None }
    /// # }
    /// # async fn example(tickets: Tickets, guard: Guard, ticket: Ticket, gateway: Gateway) -> Result<(), TicketError> {
    /// let order = "pay 30 to ann";
    /// let outcome = match tickets.begin(&guard, &ticket, order).await? {
    ///     Started::Settled(outcome) => outcome,
    ///     Started::New(payment) => {
    ///         // The gateway keeps the ticket with the payment, and rejects tokens lower than it has seen.
    ///         let receipt = gateway.pay(order, &ticket, payment.token().get()).await;
    ///         payment.finish(receipt).await?
    ///     }
    ///     Started::Unfinished(payment) => {
    ///         let receipt = match gateway.find(&ticket).await {
    ///             Some(receipt) => receipt,
    ///             None => gateway.pay(order, &ticket, payment.token().get()).await,
    ///         };
    ///         payment.finish(receipt).await?
    ///     }
    /// };
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`TicketError::NotHeld`] if the lock was lost; nothing was begun then. [`TicketError::Unknown`]: begin again.
    /// Others as of [`run`](Tickets::run), except `Work`.
    /// # Ordering and cancel safety
    /// When it returns, the record names this guard's holder as the owner of the ticket, and the former owner cannot finish
    /// it any more. After a dropped future the ticket may be pending: begin it again.
    pub async fn begin<'g>(
        &self,
        guard: &'g Guard,
        ticket: &Ticket,
        params: impl AsRef<[u8]>,
    ) -> Result<Started<'g>, TicketError> {
        let (ticket, params) = (*ticket, Bytes::copy_from_slice(params.as_ref()));
        let mut notes = RunNotes::default();
        let mut call = TicketCall::new(self, ticket, &params, Some(guard), &mut notes);
        let index = self.client.create(self.index_path(&ticket), params).acl(self.acl.clone());
        let index = TicketDecision::of(vec![index.into()]);
        let pending = call.record(RecordState::Pending);
        let in_progress = |version| {
            let record = pending.clone();
            InProgress { tickets: self.clone(), guard, record, version, ticket }
        };
        let started = async {
            loop {
                let scope = self.scope(&mut call.retries).await?;
                let failure = match call.look(scope).await? {
                    // Our own, whose reply was lost: version 0 if we created it, else we took it over.
                    Some((record, version)) if record == pending => {
                        let started = if version == 0 { Started::New } else { Started::Unfinished };
                        return Ok(started(in_progress(version)));
                    }
                    Some((record, version)) if record.state == RecordState::Pending => {
                        match call.take_over(version).await {
                            Ok(()) => return Ok(Started::Unfinished(in_progress(version + 1))),
                            Err(failure) => failure,
                        }
                    }
                    Some((record, _)) => {
                        return TicketOutcome::of(ticket, record, None).map(Started::Settled);
                    }
                    None => match call.commit(scope, RecordState::Pending, &index).await {
                        Ok(()) => return Ok(Started::New(in_progress(0))),
                        Err(failure) => failure,
                    },
                };
                call.recover(failure, scope).await?;
            }
        };
        started.await.map_err(|error: TicketError| error.or_unknown(ticket, call.lost_reply))
    }

    /// The tickets that are begun and not finished, oldest first: after a crash, acquire the lock of each and
    /// [`begin`](Tickets::begin) it again with its parameters. Some of them may still be in progress elsewhere.
    ///
    /// # Errors
    /// [`TicketError::Foreign`], [`TicketError::NoAuth`], [`TicketError::SessionOver`], [`TicketError::Client`].
    /// # Ordering and cancel safety
    /// Shows what was begun before this call, by this client or any other. Dropping the future leaves nothing behind.
    pub async fn pending(&self) -> Result<Vec<PendingTicket>, TicketError> {
        let mut retries = self.retries();
        self.sync(&mut retries).await?;
        let mut pending = Vec::new();
        for ticket in self.pending_tickets(&mut retries).await? {
            let path = self.index_path(&ticket);
            let read = retries.ask_if_exists(|| self.client.get_data(&path)).await?;
            // If it does not exist, it was finished meanwhile.
            let Some((params, _)) = read else { continue };
            let record = self.read(&ticket, &mut retries).await?;
            if let Some((TicketRecord { state: RecordState::Pending, token, .. }, _)) = record {
                pending.push(PendingTicket { ticket, params, token });
            }
        }
        Ok(pending)
    }

    /// The tickets in the index of pending ones, oldest first.
    pub(super) async fn pending_tickets(
        &self,
        retries: &mut RetryPolicy<'_, TicketError>,
    ) -> Result<Vec<Ticket>, TicketError> {
        let listed = retries.ask_if_exists(|| self.client.get_children(self.pending_path())).await?;
        let Some((names, _)) = listed else { return Ok(Vec::new()) };
        let mut tickets: Vec<Ticket> = names.iter().filter_map(|name| name.parse().ok()).collect();
        tickets.sort_unstable();
        Ok(tickets)
    }

    fn index_path(&self, ticket: &Ticket) -> String {
        child(&self.pending_path(), &ticket.to_string())
    }

    /// A multi that writes `record`, if its version is still this one and the lock is held.
    fn replace<'f>(
        &self,
        ticket: &Ticket,
        fence: impl Iterator<Item = (&'f str, Option<i32>)>,
        record: &TicketRecord,
        version: i32,
    ) -> Multi<'_> {
        let multi = fence.fold(self.client.multi(), |multi, (path, version)| multi.check(path, version));
        multi.add(self.client.set_data(self.record_path(ticket), record.encode()).version(version))
    }
}

impl TicketCall<'_> {
    /// Makes a pending record of this version ours, so that its former owner cannot finish it.
    async fn take_over(&self, version: i32) -> Result<(), CommitFailure> {
        let (tickets, ticket) = (self.tickets, self.ticket);
        let multi = tickets.replace(&ticket, self.fence(), &self.record(RecordState::Pending), version);
        multi.commit().await.map(drop).map_err(|error| match error.failed_operation() {
            Some(index) if index < self.fence().count() && check_failed(&error) => {
                CommitFailure::Fatal(TicketError::NotHeld { ticket })
            }
            // Finished or taken over meanwhile, perhaps by ourselves.
            Some(_) if check_failed(&error) => CommitFailure::Recorded,
            _ if error.is_retryable() => CommitFailure::Retryable(error),
            _ => CommitFailure::Fatal(tickets.error(error)),
        })
    }
}

/// Whether a znode that was checked is gone or has changed.
fn check_failed(error: &Error) -> bool {
    matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::BadVersion))
}

impl InProgress<'_> {
    /// The ticket, which the store keeps with the effect.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The fencing token, with which the store rejects lower ones.
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// Records that the effect was executed, and its outcome.
    ///
    /// # Errors
    /// [`TicketError::NotHeld`] if the lock was lost or another holder has taken the ticket over. The effect may
    /// nevertheless have been executed, and the ticket is pending or was finished by another: acquire the lock and
    /// [`begin`](Tickets::begin) it again. Likewise after [`TicketError::Unknown`]. [`TicketError::TooLarge`],
    /// [`TicketError::NoAuth`], [`TicketError::SessionOver`], [`TicketError::Client`].
    /// # Ordering and cancel safety
    /// Executed only while the lock is held. Dropping the future does not recall the request.
    pub async fn finish(self, value: impl Into<Bytes>) -> Result<TicketOutcome, TicketError> {
        self.settle(Ok(value.into())).await
    }

    /// Records that the effect was not executed and must not be, or that it is unknown and must not be tried again.
    ///
    /// # Errors
    /// The same as for [`finish`](InProgress::finish).
    /// # Ordering and cancel safety
    /// The same as for `finish`.
    pub async fn refuse(self, reason: impl Into<Bytes>) -> Result<TicketOutcome, TicketError> {
        self.settle(Err(reason.into())).await
    }

    async fn settle(self, value: Result<Bytes, Bytes>) -> Result<TicketOutcome, TicketError> {
        let Self { tickets, guard, mut record, version, ticket } = self;
        record.state = RecordState::Settled(value.clone());
        let checks = guard.checks().count();
        let mut retries = tickets.retries();
        let mut indexed = true;
        // Why it is unknown whether the outcome is written, as long as nothing shows it.
        let mut lost_reply = None;
        let settled = async {
            loop {
                let mut multi = tickets.replace(&ticket, guard.checks(), &record, version);
                if indexed {
                    multi = multi.delete(tickets.index_path(&ticket));
                }
                let error = match multi.commit().await {
                    Ok(_) => return Ok(TicketOutcome { first_time: true, value }),
                    Err(error) => error,
                };
                match error.failed_operation().filter(|_| check_failed(&error)) {
                    // Somebody has deleted the index entry by hand.
                    Some(index) if index > checks => indexed = false,
                    // The lock is lost, or the record has changed: by ourselves, if a reply was lost.
                    Some(index) => {
                        if index < checks {
                            guard.note_eviction();
                        }
                        let found = match &lost_reply {
                            Some(_) => tickets.read(&ticket, &mut retries).await?,
                            None => None,
                        };
                        return match found {
                            Some((found, _)) if found == record => {
                                Ok(TicketOutcome { first_time: true, value })
                            }
                            _ => Err(TicketError::NotHeld { ticket }),
                        };
                    }
                    None if !error.is_retryable() => return Err(tickets.error(error)),
                    None if error.may_have_applied() => lost_reply = Some(error.clone()),
                    None => {}
                }
                retries.or_give_up(tickets.error(error)).await?;
            }
        };
        settled.await.map_err(|error: TicketError| error.or_unknown(ticket, lost_reply))
    }
}
