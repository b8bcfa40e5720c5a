//! [`TicketCall`]: one call for one ticket, its look at the record and the multi that writes it.

use std::mem;

use zoolet_client::{Error, ErrorCode};

use super::error::TicketError;
use super::record::{ParamsHash, Partition, RecordState, TicketRecord};
use super::scope::{Scope, Tickets};
use super::ticket::Ticket;
use super::txn::TicketDecision;
use crate::guard::Guard;
use crate::retry::RetryPolicy;
use crate::unique::unique_number;

/// The operations before the checks of the lock: the create of the record and the check of the scope.
const FIRST: usize = 2;

#[derive(Debug)]
pub(super) struct TicketCall<'t> {
    pub(super) tickets: &'t Tickets,
    pub(super) ticket: Ticket,
    pub(super) hash: ParamsHash,
    /// By this the call recognises its own record.
    pub(super) attempt: u128,
    pub(super) notes: &'t mut RunNotes,
    pub(super) retries: RetryPolicy<'t, TicketError>,
    /// Why it is unknown whether the record was written, as long as nothing shows it.
    pub(super) lost_reply: Option<Error>,
    /// Whether a multi was refused because there is a record, or may have been one.
    was_recorded: bool,
    guard: Option<&'t Guard>,
}

/// What a caller that draws its own tickets knows of one, and learns in a run.
#[derive(Debug, Default)]
pub(crate) struct RunNotes {
    /// No other call has the ticket. Without a lost reply there is no record then, so none is looked for.
    pub(crate) is_new: bool,
    /// Tickets whose records the multi deletes as well.
    pub(crate) spent: Vec<Ticket>,
    /// The error in place of the reply to a copy of the multi, which may be executed late.
    pub(crate) late_copy: Option<Error>,
}

impl RunNotes {
    /// Whether nobody can have written a record.
    fn is_unused(&self) -> bool {
        self.is_new && self.late_copy.is_none()
    }
}

/// Why a multi did not write the record.
#[derive(Debug)]
pub(super) enum CommitFailure {
    /// There is a record, or may have been one.
    Recorded,
    /// The partition of the ticket does not exist.
    NoPartition,
    /// The scope has changed since it was read.
    ScopeChanged,
    /// Something that the work has read has changed.
    Conflict,
    /// The record of this spent ticket, by its index, has been deleted by somebody else.
    Spent(usize),
    /// The same multi may be sent again.
    Retryable(Error),
    /// A retry does not help.
    Fatal(TicketError),
}

impl<'t> TicketCall<'t> {
    pub(super) fn new(
        tickets: &'t Tickets,
        ticket: Ticket,
        params: &[u8],
        guard: Option<&'t Guard>,
        notes: &'t mut RunNotes,
    ) -> Self {
        Self {
            tickets,
            ticket,
            hash: ParamsHash::of(params),
            attempt: unique_number(&tickets.client),
            notes,
            retries: tickets.retries(),
            lost_reply: None,
            was_recorded: false,
            guard,
        }
    }

    pub(super) fn record(&self, state: RecordState) -> TicketRecord {
        let token = self.guard.map_or(0, |guard| guard.token().get());
        TicketRecord { state, hash: self.hash.clone(), token, attempt: self.attempt }
    }

    /// The paths and versions that show that the lock is held.
    pub(super) fn fence(&self) -> impl Iterator<Item = (&str, Option<i32>)> {
        self.guard.into_iter().flat_map(Guard::checks)
    }

    /// The record and its version, if there is one. If there is none, the ticket is not below the watermark.
    pub(super) async fn look(&mut self, scope: Scope) -> Result<Option<(TicketRecord, i32)>, TicketError> {
        let (tickets, ticket) = (self.tickets, self.ticket);
        let below = Partition::of(&ticket) < scope.watermark;
        if self.notes.is_unused() && !below {
            return Ok(None);
        }
        let mut found = tickets.read(&ticket, &mut self.retries).await?;
        if found.is_none() && below {
            // There may be a record that this client's server has not seen yet.
            tickets.sync(&mut self.retries).await?;
            found = tickets.read(&ticket, &mut self.retries).await?;
        }
        match found {
            Some((record, _)) if record.hash != self.hash => Err(TicketError::OtherParameters { ticket }),
            None if below => Err(TicketError::Collected { ticket, watermark: scope.watermark.0 }),
            found => Ok(found),
        }
    }

    /// Writes the record and executes the decision, or neither.
    pub(super) async fn commit(
        &mut self,
        scope: Scope,
        state: RecordState,
        decision: &TicketDecision,
    ) -> Result<(), CommitFailure> {
        let tickets = self.tickets;
        if Partition::of(&self.ticket) < scope.watermark {
            // The watermark was raised since the last look, and another task has read it. There may have been a record.
            return Err(CommitFailure::Recorded);
        }
        let client = &tickets.client;
        let data = self.record(state).encode();
        // First of all: so the second of two copies fails by it, whatever else has changed meanwhile.
        let create = client.create(tickets.record_path(&self.ticket), data).acl(tickets.acl.clone());
        let mut multi = client.multi().add(create).check(&tickets.scope, scope.version);
        let read = decision.checks.iter().map(|(path, version)| (path.as_str(), *version));
        for (path, version) in self.fence().chain(read) {
            multi = multi.check(path, version);
        }
        for write in &decision.writes {
            multi = multi.add(write.clone());
        }
        for ticket in &self.notes.spent {
            multi = multi.delete(tickets.record_path(ticket));
        }
        let Err(error) = multi.commit().await else { return Ok(()) };
        if error.may_have_applied() {
            self.notes.late_copy.get_or_insert_with(|| error.clone());
        }
        Err(self.failure(error, decision))
    }

    fn failure(&self, error: Error, decision: &TicketDecision) -> CommitFailure {
        use ErrorCode::{BadVersion, NoNode, NodeExists};
        let ticket = self.ticket;
        let checks = FIRST + self.fence().count();
        let writes = checks + decision.checks.len();
        let spent = writes + decision.writes.len();
        let Some((index, code)) = error.failed_operation().zip(error.code()) else {
            return match error.is_retryable() {
                true => CommitFailure::Retryable(error),
                false => CommitFailure::Fatal(self.tickets.error(error)),
            };
        };
        match (index, code) {
            (0, NodeExists) => CommitFailure::Recorded,
            (0, NoNode) => CommitFailure::NoPartition,
            (1, BadVersion | NoNode) => CommitFailure::ScopeChanged,
            (2.., BadVersion | NoNode) if index < checks => {
                CommitFailure::Fatal(TicketError::NotHeld { ticket })
            }
            (_, BadVersion | NoNode) if (checks..writes).contains(&index) => CommitFailure::Conflict,
            (_, NoNode) if index >= spent => CommitFailure::Spent(index - spent),
            // It was absent when it was read.
            (_, NodeExists) if index >= writes && was_absent(&error, decision) => CommitFailure::Conflict,
            _ if error.is_retryable() => CommitFailure::Retryable(error),
            _ if index >= writes => CommitFailure::Fatal(TicketError::Refused { ticket, cause: error }),
            _ => CommitFailure::Fatal(self.tickets.error(error)),
        }
    }

    /// Removes the cause of a failure, so that the multi may succeed when it is sent again.
    pub(super) async fn recover(&mut self, failure: CommitFailure, scope: Scope) -> Result<(), TicketError> {
        let (tickets, ticket) = (self.tickets, self.ticket);
        // The error to report if this was the last attempt.
        let last = match failure {
            // The next look shows whose the record is, and what became of the ticket, also after the last attempt.
            CommitFailure::Recorded if !mem::replace(&mut self.was_recorded, true) => return Ok(()),
            CommitFailure::Recorded => TicketError::Pending { ticket },
            CommitFailure::Conflict => {
                // A multi fails here only if there is no record.
                self.lost_reply = None;
                TicketError::Contended { ticket }
            }
            CommitFailure::Spent(index) => {
                self.lost_reply = None;
                self.notes.spent.remove(index);
                return Ok(());
            }
            CommitFailure::ScopeChanged => {
                self.lost_reply = None;
                tickets.forget_scope();
                TicketError::Contended { ticket }
            }
            CommitFailure::NoPartition => {
                self.lost_reply = None;
                match tickets.create_partition(&ticket, scope).await {
                    Ok(()) => TicketError::Contended { ticket },
                    Err(error) if error.is_retryable() => tickets.error(error),
                    Err(error) => return Err(tickets.error(error)),
                }
            }
            // The first copy may have been executed: the second then fails by the record, and the next look shows whose it is.
            CommitFailure::Retryable(error) => {
                if error.may_have_applied() {
                    self.lost_reply = Some(error.clone());
                }
                tickets.error(error)
            }
            CommitFailure::Fatal(error) => {
                if let (TicketError::NotHeld { .. }, Some(guard)) = (&error, self.guard) {
                    guard.note_eviction();
                }
                return Err(error);
            }
        };
        let unknown = |cause| TicketError::Unknown { ticket, cause };
        self.retries.or_give_up(()).await.map_err(|()| self.lost_reply.take().map_or(last, unknown))
    }
}

fn was_absent(error: &Error, decision: &TicketDecision) -> bool {
    error.context().is_some_and(|context| decision.absent.iter().any(|path| path == context.path()))
}
