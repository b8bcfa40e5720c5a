//! The form for effects outside of ZooKeeper: the ticket is begun, the effect is brought about, the ticket is finished.

use bytes::Bytes;
use zoolet_client::{Error, ErrorCode};

use super::call::{Call, Failure, fence};
use super::error::TicketError;
use super::record::{Record, State};
use super::run::{Decision, Outcome};
use super::scope::Tickets;
use super::ticket::Ticket;
use crate::guard::{FencingToken, Guard};
use crate::patience::Patience;

/// Where a ticket stands whose effect is outside of ZooKeeper; from [`Tickets::begin`].
#[derive(Debug)]
#[must_use = "it says whether there is something to do"]
pub enum Begun<'g> {
    /// It was settled before. Nothing is to be done.
    Settled(Outcome),
    /// It is new, and nobody can have brought its effect about. Do it, and [`finish`](Running::finish).
    Started(Running<'g>),
    /// Somebody began it and did not finish. Whether the effect has happened is not known here:
    ///
    /// - Ask the store by the ticket. If the effect is there, `finish`; if not, do it and `finish`. That is **exactly
    ///   once**, if the store keeps the ticket in the same transaction as the effect and refuses lower tokens.
    /// - If the store knows nothing of tickets, choose. Do it again and `finish`: **at least once**. Or
    ///   [`refuse`](Running::refuse) and let a person look: **at most once**.
    Unfinished(Running<'g>),
}

/// A ticket whose effect outside of ZooKeeper may be brought about now, by the holder of the guard alone; from
/// [`Tickets::begin`].
///
/// Dropping it leaves the ticket pending.
#[derive(Debug)]
#[must_use = "the ticket stays pending until it is finished"]
pub struct Running<'g> {
    tickets: Tickets,
    guard: &'g Guard,
    /// The record as it stands.
    record: Record,
    version: i32,
    ticket: Ticket,
}

/// A ticket that is begun and not finished; from [`Tickets::pending`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pending {
    /// Which.
    pub ticket: Ticket,
    /// What it was begun with: what [`Tickets::begin`] needs to go on.
    pub params: Bytes,
    /// The fencing token of whoever had it last.
    pub token: u64,
}

impl Tickets {
    /// Begins a ticket whose effect is outside of ZooKeeper, or goes on with one that was begun: under the lock of what it
    /// changes, by one call at a time.
    ///
    /// It makes sure that nobody does it twice without knowing: the intent is on record before the effect, and who finds
    /// it there and no outcome is told that it is [`Unfinished`](Begun::Unfinished). `params` are kept until the ticket is
    /// finished, for whoever has to go on with it.
    ///
    /// ```no_run
    /// # use zoolet_recipes::{Begun, Guard, Ticket, TicketError, Tickets};
    /// # struct Gateway;
    /// # impl Gateway {
    /// #     async fn pay(&self, _: &str, _: &Ticket, _: u64) -> String { String::new() }
    /// #     async fn find(&self, _: &Ticket) -> Option<String> { None }
    /// # }
    /// # async fn example(tickets: Tickets, guard: Guard, ticket: Ticket, gateway: Gateway) -> Result<(), TicketError> {
    /// let order = "pay 30 to ann";
    /// let outcome = match tickets.begin(&guard, &ticket, order).await? {
    ///     Begun::Settled(outcome) => outcome,
    ///     Begun::Started(running) => {
    ///         // The gateway keeps the ticket with the payment, and refuses tokens lower than it has seen.
    ///         let receipt = gateway.pay(order, &ticket, running.token().get()).await;
    ///         running.finish(receipt).await?
    ///     }
    ///     Begun::Unfinished(running) => {
    ///         let receipt = match gateway.find(&ticket).await {
    ///             Some(receipt) => receipt,
    ///             None => gateway.pay(order, &ticket, running.token().get()).await,
    ///         };
    ///         running.finish(receipt).await?
    ///     }
    /// };
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`TicketError::NotHeld`] if the lock was lost; nothing was begun then. [`TicketError::Unknown`]: begin again.
    /// Others as of [`run`](Tickets::run), but for `Contended`, `Work` and `Pending`.
    /// # Ordering and cancel safety
    /// When it returns, the record says that this guard's holder has the ticket, and whoever had it before cannot finish
    /// it any more. After a dropped future the ticket may be pending: begin it again.
    pub async fn begin<'g>(
        &self,
        guard: &'g Guard,
        ticket: &Ticket,
        params: impl AsRef<[u8]>,
    ) -> Result<Begun<'g>, TicketError> {
        let (ticket, params) = (*ticket, Bytes::copy_from_slice(params.as_ref()));
        let call = Call::new(self, ticket, &params, Some(guard));
        let index = self.client.create(self.index_path(&ticket), params).acl(self.acl.clone());
        let mut doubt = None;
        let begun = self.put_on_record(&call, guard, Decision::only(index.into()), &mut doubt).await;
        begun.map_err(|error| error.in_doubt(ticket, doubt))
    }

    /// As long as nothing is known, `doubt` is what leaves it open whether the record is there.
    async fn put_on_record<'g>(
        &self,
        call: &Call<'_>,
        guard: &'g Guard,
        index: Decision,
        doubt: &mut Option<Error>,
    ) -> Result<Begun<'g>, TicketError> {
        let ticket = call.ticket;
        let mut patience = Patience::new(&self.client);
        let running = |version| {
            let record = call.record(State::Pending);
            Running { tickets: self.clone(), guard, record, version, ticket }
        };
        loop {
            let scope = self.scope(&mut patience).await?;
            let failure = match call.look(scope, &mut patience).await? {
                Some((record, version)) if record.state == State::Pending => {
                    if record.attempt == call.attempt {
                        // Ours, whose reply was lost. It was created by us, or taken over.
                        let started = version == 0;
                        let running = running(version);
                        return Ok(if started {
                            Begun::Started(running)
                        } else {
                            Begun::Unfinished(running)
                        });
                    }
                    match call.take_over(version).await {
                        Ok(()) => return Ok(Begun::Unfinished(running(version + 1))),
                        Err(failure) => failure,
                    }
                }
                Some((record, _)) => {
                    return Call::outcome_of(ticket, record, None).map(Begun::Settled);
                }
                None => match call.commit(scope, State::Pending, &index).await {
                    Ok(()) => return Ok(Begun::Started(running(0))),
                    Err(failure) => failure,
                },
            };
            call.mend(failure, scope, doubt, &mut patience).await?;
        }
    }

    /// The tickets that are begun and not finished, oldest first: after a crash, acquire the lock of each and
    /// [`begin`](Tickets::begin) it again with its parameters. Some of them may well be at work.
    ///
    /// # Errors
    /// [`TicketError::Foreign`], [`TicketError::NoAuth`], [`TicketError::SessionOver`], [`TicketError::Client`].
    /// # Ordering and cancel safety
    /// Shows what was begun before it was asked for, by this client or any other. Dropping the future leaves nothing behind.
    pub async fn pending(&self) -> Result<Vec<Pending>, TicketError> {
        let mut patience = Patience::new(&self.client);
        let synced = patience.ask(|| self.client.sync(&self.scope).send()).await;
        synced.map_err(|error| self.error(error))?;
        let mut pending = Vec::new();
        for ticket in self.pending_tickets(&mut patience).await? {
            let path = self.index_path(&ticket);
            let params = match patience.ask(|| self.client.get_data(&path).send()).await {
                Ok((params, _)) => params,
                // Finished meanwhile.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => continue,
                Err(error) => return Err(self.error(error)),
            };
            let record = self.read(&ticket, &mut patience).await?;
            if let Some((Record { state: State::Pending, token, .. }, _)) = record {
                pending.push(Pending { ticket, params, token });
            }
        }
        Ok(pending)
    }

    /// Those that are listed as pending, oldest first.
    pub(super) async fn pending_tickets(
        &self,
        patience: &mut Patience<'_>,
    ) -> Result<Vec<Ticket>, TicketError> {
        match patience.ask(|| self.client.get_children(self.pending_path()).send()).await {
            Ok((names, _)) => {
                let mut tickets: Vec<Ticket> = names.iter().filter_map(|name| name.parse().ok()).collect();
                tickets.sort_unstable();
                Ok(tickets)
            }
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(Vec::new()),
            Err(error) => Err(self.error(error)),
        }
    }

    fn index_path(&self, ticket: &Ticket) -> String {
        format!("{}/{ticket}", self.pending_path())
    }
}

impl Call<'_> {
    /// Makes a pending record of this version ours, so that its former owner cannot finish it.
    async fn take_over(&self, version: i32) -> Result<(), Failure> {
        let (client, ticket) = (&self.tickets.client, self.ticket);
        let mut multi = client.multi();
        for (path, version) in &self.fence {
            multi = multi.check(path, *version);
        }
        let record = self.record(State::Pending).encode();
        let set = client.set_data(self.tickets.record_path(&ticket), record).version(version);
        multi.add(set).commit().await.map(drop).map_err(|error| match error.failed_operation() {
            Some(index) if index < self.fence.len() && lost(&error) => {
                Failure::Fatal(TicketError::NotHeld { ticket })
            }
            // Finished or taken over meanwhile, perhaps by ourselves.
            Some(_) if lost(&error) => Failure::Recorded,
            _ if error.is_retryable() => Failure::Again(error),
            _ => Failure::Fatal(self.tickets.error(error)),
        })
    }
}

/// Whether a check says that something is gone or was changed.
fn lost(error: &Error) -> bool {
    matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::BadVersion))
}

impl Running<'_> {
    /// The ticket, for the store to keep with the effect.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The fencing token, for the store to refuse lower ones.
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// Records that the effect has happened, and its outcome.
    ///
    /// # Errors
    /// [`TicketError::NotHeld`] if the lock was lost or another holder has taken the ticket over; the effect may have
    /// happened all the same, and the ticket is pending or was finished by another: acquire the lock and
    /// [`begin`](Tickets::begin) it again. So after [`TicketError::Unknown`]. [`TicketError::TooLarge`],
    /// [`TicketError::NoAuth`], [`TicketError::SessionOver`], [`TicketError::Client`].
    /// # Ordering and cancel safety
    /// Happens only while the lock is held. Dropping the future does not recall the request.
    pub async fn finish(self, value: impl Into<Bytes>) -> Result<Outcome, TicketError> {
        self.settle(Ok(value.into())).await
    }

    /// Records that the effect has not happened and is not to, or that it is not known and nobody is to try again.
    ///
    /// # Errors
    /// As of [`finish`](Running::finish).
    /// # Ordering and cancel safety
    /// As of `finish`.
    pub async fn refuse(self, reason: impl Into<Bytes>) -> Result<Outcome, TicketError> {
        self.settle(Err(reason.into())).await
    }

    async fn settle(self, value: Result<Bytes, Bytes>) -> Result<Outcome, TicketError> {
        let (ticket, mut doubt) = (self.ticket, None);
        let settled = self.write_outcome(value, &mut doubt).await;
        settled.map_err(|error| error.in_doubt(ticket, doubt))
    }

    /// As long as nothing is known, `doubt` is what leaves it open whether it is written.
    async fn write_outcome(
        self,
        value: Result<Bytes, Bytes>,
        doubt: &mut Option<Error>,
    ) -> Result<Outcome, TicketError> {
        let Self { tickets, guard, mut record, version, ticket } = self;
        record.state = State::Settled(value.clone());
        let (client, fence) = (&tickets.client, fence(guard));
        let mut patience = Patience::new(client);
        let mut indexed = true;
        loop {
            let mut multi = client.multi();
            for (path, version) in &fence {
                multi = multi.check(path, *version);
            }
            let set = client.set_data(tickets.record_path(&ticket), record.encode()).version(version);
            multi = multi.add(set);
            if indexed {
                multi = multi.delete(tickets.index_path(&ticket));
            }
            let last = match multi.commit().await {
                Ok(_) => return Ok(Outcome { first_time: true, value }),
                Err(error) if lost(&error) => match error.failed_operation() {
                    // Somebody has tidied up by hand.
                    Some(index) if index > fence.len() => {
                        indexed = false;
                        tickets.error(error)
                    }
                    // The lock is gone, or the record was changed: by ourselves, if a reply was lost.
                    _ if doubt.is_none() => return Err(TicketError::NotHeld { ticket }),
                    _ => {
                        let found = tickets.read(&ticket, &mut patience).await?;
                        return match found {
                            Some((found, _)) if found == record => Ok(Outcome { first_time: true, value }),
                            _ => Err(TicketError::NotHeld { ticket }),
                        };
                    }
                },
                Err(error) if error.is_retryable() => {
                    if error.may_have_applied() {
                        *doubt = Some(error.clone());
                    }
                    tickets.error(error)
                }
                Err(error) => return Err(tickets.error(error)),
            };
            if !patience.lasts().await {
                return Err(last);
            }
        }
    }
}
