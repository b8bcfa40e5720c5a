//! One call about one ticket: its look at the record, and the multi that writes it.

use bytes::Bytes;
use zoolet_client::{Error, ErrorCode};

use super::error::TicketError;
use super::record::{Bucket, Hash, Record, State};
use super::run::{Decision, Outcome};
use super::scope::{Scope, Tickets};
use super::ticket::{Ticket, unique};
use crate::guard::Guard;
use crate::patience::Patience;

/// The operations in front of those of the lock: the create of the record and the check of the scope.
const FIRST: usize = 2;

#[derive(Debug)]
pub(super) struct Call<'t> {
    pub(super) tickets: &'t Tickets,
    pub(super) ticket: Ticket,
    pub(super) hash: Hash,
    pub(super) token: u64,
    /// What must be there, and in which version, as long as the lock is held.
    pub(super) fence: Vec<(String, Option<i32>)>,
    /// By which this call knows what it has written itself.
    pub(super) attempt: u128,
    guard: Option<&'t Guard>,
}

/// Why a multi did not write the record.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is a record, or may have been.
    Recorded,
    /// There is no bucket to put it into.
    NoBucket,
    /// The scope is not as it was seen.
    ScopeChanged,
    /// What the work has read is not as it was.
    Conflict,
    /// It may be sent again, as it is.
    Again(Error),
    /// The end.
    Fatal(TicketError),
}

impl<'t> Call<'t> {
    pub(super) fn new(tickets: &'t Tickets, ticket: Ticket, params: &[u8], guard: Option<&'t Guard>) -> Self {
        Self {
            tickets,
            ticket,
            hash: Hash::of(params),
            token: guard.map_or(0, |guard| guard.token().get()),
            fence: guard.map(fence).unwrap_or_default(),
            attempt: unique(&tickets.client),
            guard,
        }
    }

    pub(super) fn record(&self, state: State) -> Record {
        Record { state, hash: self.hash, token: self.token, attempt: self.attempt }
    }

    /// What the caller is told of a record, `mine` being the attempt that asks.
    pub(super) fn outcome_of(
        ticket: Ticket,
        record: Record,
        mine: Option<u128>,
    ) -> Result<Outcome, TicketError> {
        match record.state {
            State::Pending => Err(TicketError::Pending { ticket }),
            State::Settled(value) => Ok(Outcome { first_time: mine == Some(record.attempt), value }),
        }
    }

    /// The record with its version, if there is one. If there is none, the ticket is not below the floor.
    pub(super) async fn look(
        &self,
        scope: Scope,
        patience: &mut Patience<'_>,
    ) -> Result<Option<(Record, i32)>, TicketError> {
        let (tickets, ticket) = (self.tickets, self.ticket);
        let mut found = tickets.read(&ticket, patience).await?;
        let below = Bucket::of(&ticket) < scope.floor;
        if found.is_none() && below {
            // Its record may be there still, and not yet known to this client's server.
            let synced = patience.ask(|| tickets.client.sync(&tickets.scope).send()).await;
            synced.map_err(|error| tickets.error(error))?;
            found = tickets.read(&ticket, patience).await?;
        }
        match found {
            Some((record, _)) if record.hash != self.hash => Err(TicketError::OtherParameters { ticket }),
            None if below => Err(TicketError::Collected { ticket, floor: scope.floor.0 }),
            found => Ok(found),
        }
    }

    /// Writes the record and what was decided, or neither.
    pub(super) async fn commit(
        &self,
        scope: Scope,
        state: State,
        decision: &Decision,
    ) -> Result<(), Failure> {
        let tickets = self.tickets;
        if Bucket::of(&self.ticket) < scope.floor {
            // The floor was raised since the last look, and what another task has seen of it is used here. There may
            // have been a record.
            return Err(Failure::Recorded);
        }
        let client = &tickets.client;
        let data = self.record(state).encode();
        // First of all: so of two copies the second fails by it, whatever else has changed meanwhile.
        let create = client.create(tickets.record_path(&self.ticket), data).acl(tickets.acl.clone());
        let mut multi = client.multi().add(create).check(&tickets.scope, scope.version);
        for (path, version) in self.fence.iter().chain(&decision.checks) {
            multi = multi.check(path, *version);
        }
        for write in &decision.writes {
            multi = multi.add(write.clone());
        }
        multi.commit().await.map(drop).map_err(|error| self.failure(error, decision))
    }

    fn failure(&self, error: Error, decision: &Decision) -> Failure {
        use ErrorCode::{BadVersion, NoNode, NodeExists};
        let ticket = self.ticket;
        let (checks, writes) = (FIRST + self.fence.len(), FIRST + self.fence.len() + decision.checks.len());
        let Some((index, code)) = error.failed_operation().zip(error.code()) else {
            let again = error.is_retryable();
            return if again { Failure::Again(error) } else { Failure::Fatal(self.tickets.error(error)) };
        };
        match (index, code) {
            (0, NodeExists) => Failure::Recorded,
            (0, NoNode) => Failure::NoBucket,
            (1, BadVersion | NoNode) => Failure::ScopeChanged,
            (2.., BadVersion | NoNode) if index < checks => Failure::Fatal(TicketError::NotHeld { ticket }),
            (_, BadVersion | NoNode) if (checks..writes).contains(&index) => Failure::Conflict,
            // What was not there when it was read is there now.
            (_, NodeExists) if index >= writes && self.was_absent(&error, decision) => Failure::Conflict,
            _ if error.is_retryable() => Failure::Again(error),
            _ if index >= writes => Failure::Fatal(TicketError::Refused { ticket, cause: error }),
            _ => Failure::Fatal(self.tickets.error(error)),
        }
    }

    fn was_absent(&self, error: &Error, decision: &Decision) -> bool {
        error.context().is_some_and(|context| decision.absent.iter().any(|path| path == context.path()))
    }

    /// Sees to it that a multi that failed like this may succeed when it is sent again. `doubt` is what leaves it open
    /// whether one that was sent before did.
    pub(super) async fn mend(
        &self,
        failure: Failure,
        scope: Scope,
        doubt: &mut Option<Error>,
        patience: &mut Patience<'_>,
    ) -> Result<(), TicketError> {
        let (tickets, ticket) = (self.tickets, self.ticket);
        let last = match failure {
            // Whether the record is our own is for the next look to tell.
            Failure::Recorded => TicketError::Pending { ticket },
            Failure::Conflict => {
                // A multi gets so far only if there is no record.
                *doubt = None;
                TicketError::Contended { ticket }
            }
            Failure::ScopeChanged => {
                *doubt = None;
                tickets.forget_scope();
                TicketError::Contended { ticket }
            }
            Failure::NoBucket => {
                *doubt = None;
                match tickets.make_bucket(&ticket, scope).await {
                    Ok(()) => TicketError::Contended { ticket },
                    Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                        tickets.forget_scope();
                        tickets.error(error)
                    }
                    Err(error) if error.is_retryable() => tickets.error(error),
                    Err(error) => return Err(tickets.error(error)),
                }
            }
            Failure::Again(error) => {
                if error.may_have_applied() {
                    *doubt = Some(error.clone());
                }
                tickets.error(error)
            }
            Failure::Fatal(error) => {
                if let (TicketError::NotHeld { .. }, Some(guard)) = (&error, self.guard) {
                    guard.note_eviction();
                }
                return Err(error);
            }
        };
        match patience.lasts().await {
            true => Ok(()),
            false => Err(doubt.take().map_or(last, |cause| TicketError::Unknown { ticket, cause })),
        }
    }
}

/// What a multi checks to be sure that the lock is held when it is executed.
pub(super) fn fence(guard: &Guard) -> Vec<(String, Option<i32>)> {
    guard.checks().map(|(path, version)| (path.to_owned(), version)).collect()
}

impl Decision {
    /// Nothing but one write.
    pub(super) fn only(write: zoolet_client::MultiWrite) -> Self {
        Self { checks: Vec::new(), absent: Vec::new(), writes: vec![write], value: Ok(Bytes::new()) }
    }
}
