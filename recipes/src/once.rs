//! [`Once`]: executes a decision once over sessions, by a ticket of its own.
//!
//! It differs from [`Tickets`] in two ways. It goes on after a session is over, with the same ticket on the next session.
//! And it deletes its records: the next multi of the same handle deletes the one before.
//!
//! A record keeps a second copy of its multi from being executed, so it may go only when no copy is on its way any more.
//! That is so if the reply to every copy came. If one was lost, the copy may be anywhere, and be executed late; its
//! record stays until [`collect`](Once::collect) raises the watermark, which refuses the copy for good.

use std::future::Future;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use zoolet_client::internal::locked;
use zoolet_client::{Acl, Client, Error, MultiWrite, Sessions, Stat};

use crate::requests::if_exists;
use crate::retry::{RecipeError as _, RetryPolicy};
use crate::tickets::{
    Collected, Partition, RunNotes, Ticket, TicketDecision, TicketError, TicketOutcome, TicketTxn, Tickets,
    WorkError,
};

/// The most records that one multi deletes.
const AT_ONCE: usize = 4;

/// The most records of which a handle knows that they may go. Others are left to `collect`.
const MAX_SPENT: usize = 256;

/// Executes things once over sessions. A handle is cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Once(Arc<OnceHandle>);

#[derive(Debug)]
struct OnceHandle {
    sessions: Sessions,
    scope: String,
    acl: Vec<Acl>,
    progress: Mutex<OnceProgress>,
}

#[derive(Debug, Default)]
struct OnceProgress {
    /// The tickets on the latest session, and its number.
    tickets: Option<(u64, Tickets)>,
    /// Tickets whose records may be deleted.
    spent: Vec<Ticket>,
}

/// One run. What it does not get to delete, another run deletes.
struct OnceRun<'o> {
    handle: &'o OnceHandle,
    notes: RunNotes,
}

impl Once {
    /// Sends no request.
    pub(crate) fn new(sessions: &Sessions, scope: String, acl: Vec<Acl>) -> Self {
        let (sessions, progress) = (sessions.clone(), Mutex::default());
        Self(Arc::new(OnceHandle { sessions, scope, acl, progress }))
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    pub(crate) fn acl(&self) -> &[Acl] {
        &self.0.acl
    }

    /// Executes the decision of `work` once, over sessions, until there is an outcome: with a new ticket, or with that of the
    /// caller. See [`Tickets::run`] for the work.
    ///
    /// # Errors
    /// Those of [`Tickets::run`], but for `Contended`; `SessionOver` only when there will be no other session.
    pub(crate) async fn run<F: Future<Output = Result<TicketDecision, WorkError>>>(
        &self,
        ticket: Option<&Ticket>,
        params: &[u8],
        mut work: impl FnMut(TicketTxn) -> F,
    ) -> Result<TicketOutcome, TicketError> {
        let is_new = ticket.is_none();
        let mut ticket = ticket.copied();
        let mut run = OnceRun::new(&self.0, is_new);
        let mut ended = 0;
        loop {
            let opened = self.0.tickets_after(ended).await;
            let (number, tickets) =
                opened.map_err(|error| run.error(ticket, TicketError::of(&self.0.scope, error)))?;
            let this = *ticket.get_or_insert_with(|| tickets.generate());
            match tickets.run_noted(&this, params, &mut run.notes, &mut work).await {
                Ok(outcome) => {
                    if is_new {
                        run.settle(&tickets, this);
                    }
                    return Ok(outcome);
                }
                Err(TicketError::SessionOver { .. }) => ended = number,
                // If a reply was lost, the next run begins with a look at the record.
                Err(TicketError::Unknown { .. } | TicketError::Contended { .. }) => {}
                Err(TicketError::Client(error)) if error.is_retryable() => {}
                Err(error) => return Err(run.error(ticket, error)),
            }
        }
    }

    /// Sends a read, or what else may be repeated, over sessions, until there is an outcome that no retry would change.
    pub(crate) async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        mut request: impl FnMut(Client) -> F,
    ) -> Result<T, Error> {
        let mut ended = 0;
        loop {
            let term = self.0.sessions.term_after(ended).await?;
            let mut retries = RetryPolicy::<TicketError>::until_session_ends(&term.client, &self.0.scope);
            match retries.ask(|| request(term.client.clone())).await {
                Err(error) if error.is_session_over() => ended = term.number,
                reply => return reply,
            }
        }
    }

    /// Reads a znode; `None` if it does not exist.
    pub(crate) async fn get_data(&self, path: &str) -> Result<Option<(Bytes, Stat)>, Error> {
        if_exists(self.ask(|client| async move { client.get_data(path).await }).await)
    }

    /// Adds the write of a znode: of its data, or, if it does not `exist`, its create.
    pub(crate) fn write(&self, txn: TicketTxn, path: &str, exists: bool, data: Bytes) -> TicketTxn {
        if exists {
            return txn.set_data(path, data);
        }
        let create = MultiWrite::from(txn.client().create(path, data).acl(self.acl().to_vec()));
        txn.add(create)
    }

    /// A new ticket, with the time of the present session's clock.
    pub(crate) async fn ticket(&self) -> Result<Ticket, Error> {
        Ok(self.0.tickets_after(0).await?.1.generate())
    }

    /// Forgets the tickets that are older; see [`Tickets::collect`].
    pub(crate) async fn collect(&self, older_than: Duration) -> Result<Collected, TicketError> {
        let mut ended = 0;
        loop {
            let tickets = self.0.tickets_after(ended).await;
            let (number, tickets) = tickets.map_err(|error| TicketError::of(&self.0.scope, error))?;
            match tickets.collect(older_than).await {
                Err(TicketError::SessionOver { .. }) => ended = number,
                collected => return collected,
            }
        }
    }
}

impl OnceHandle {
    /// The tickets on the first session after the one with this number that is not over.
    async fn tickets_after(&self, ended: u64) -> Result<(u64, Tickets), Error> {
        let term = self.sessions.term_after(ended).await?;
        let mut progress = locked(&self.progress);
        match &progress.tickets {
            Some((number, tickets)) if *number == term.number => Ok((*number, tickets.clone())),
            _ => {
                let tickets = Tickets::builder(&term.client, &self.scope).acl(self.acl.clone()).build();
                Ok(progress.tickets.insert((term.number, tickets)).clone())
            }
        }
    }
}

impl<'o> OnceRun<'o> {
    fn new(handle: &'o OnceHandle, is_new: bool) -> Self {
        let spent = &mut locked(&handle.progress).spent;
        let rest = spent.len().saturating_sub(AT_ONCE);
        Self { handle, notes: RunNotes { is_new, spent: spent.split_off(rest), late_copy: None } }
    }

    /// A new ticket has an outcome. If no reply was lost, it is of the multi that deleted the others, and of no other copy.
    fn settle(&mut self, tickets: &Tickets, ticket: Ticket) {
        if self.notes.late_copy.is_some() {
            return;
        }
        let present = Partition::of(&ticket);
        for deleted in mem::replace(&mut self.notes.spent, vec![ticket]) {
            // Partitions are of ten minutes. The last to leave one deletes it; before that it is not empty.
            if Partition::of(&deleted) != present {
                tickets.delete_quietly(tickets.partition_path(Partition::of(&deleted)));
            }
        }
    }

    /// What an error comes to after all runs: an earlier one may have been executed.
    fn error(&mut self, ticket: Option<Ticket>, error: TicketError) -> TicketError {
        match (ticket, self.notes.late_copy.take()) {
            (Some(ticket), Some(cause)) if matches!(error, TicketError::SessionOver { .. }) => {
                TicketError::Unknown { ticket, cause }
            }
            (Some(ticket), late_copy) => error.or_unknown(ticket, late_copy),
            (None, _) => error,
        }
    }
}

impl Drop for OnceRun<'_> {
    fn drop(&mut self) {
        let spent = &mut locked(&self.handle.progress).spent;
        spent.append(&mut self.notes.spent);
        spent.truncate(MAX_SPENT);
    }
}

impl Drop for OnceHandle {
    /// Deletes the last records, as far as there is a connection.
    fn drop(&mut self) {
        let progress = locked(&self.progress);
        let Some((_, tickets)) = &progress.tickets else { return };
        for ticket in &progress.spent {
            tickets.delete_quietly(tickets.record_path(ticket));
        }
        for ticket in &progress.spent {
            tickets.delete_quietly(tickets.partition_path(Partition::of(ticket)));
        }
    }
}
