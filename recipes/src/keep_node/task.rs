//! The task of a kept znode.
//!
//! One rule keeps it right: what was written is never remembered, but read. A write and a read of the znode, with a watch, are
//! sent in one flight. The read is executed after the write, so it shows whether that was executed, whatever became of its
//! reply, and it alone decides about the next write. That is sent only on the connection of the read, and after a reconnect
//! there is a read first, because a write that waits for a connection could meet another znode of the same version.

use std::convert::Infallible;
use std::future::{Future, IntoFuture as _};
use std::pin::Pin;

use bytes::Bytes;
use tokio::sync::watch;
use zoolet_client::internal::{ClientExt as _, MissingParents};
use zoolet_client::{
    Client, Error, ErrorCode, EventType, ReplyFuture, SessionId, Sessions, Stat, Watch, path,
};

use super::builder::KeepConfig;
use super::connection::Connection;
use super::state::{KeepError, KeepState, Progress};
use crate::config::ParentMode;
use crate::retry::BackOff;

/// The data that the znode is to have.
#[derive(Debug, Clone)]
pub(super) struct Desired {
    pub(super) data: Bytes,
    /// Counts the updates.
    pub(super) number: u64,
}

pub(super) struct Keeper {
    pub(super) sessions: Sessions,
    pub(super) config: KeepConfig,
    /// Closed when the handle is dropped.
    pub(super) desired: watch::Receiver<Desired>,
    pub(super) publish: watch::Sender<Progress>,
}

/// The write of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    /// None: only look.
    Nothing,
    Create,
    SetData {
        version: i32,
    },
    /// Delete the foreign znode with this version, and create ours.
    Replace {
        version: i32,
    },
}

/// Whether a write that was sent was refused, for a reason that the read does not show.
type Written = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// What a flight has found out.
enum Found {
    /// Ours, with the desired data.
    Present(Stat, Watch),
    Foreign(SessionId, Watch),
    /// The next write, without anything wrong.
    Next(Write),
    /// Something is wrong. Look again after a pause, and do this unless the look shows something else.
    Trouble(Error, Write),
    SessionOver,
}

/// What the service of a session needs.
struct KeepSession<'c> {
    client: &'c Client,
    connection: Connection<'c>,
    back_off: BackOff<'c>,
    parents: MissingParents<'c>,
}

/// What ends the service of a session.
enum Served {
    SessionOver,
    /// The handle was dropped.
    Dropped,
}

impl Keeper {
    pub(super) async fn run(mut self) {
        let mut number = 0;
        let end = loop {
            let term = tokio::select! {
                biased;
                () = dropped(&mut self.desired) => break KeepError::Closed,
                term = self.sessions.term_after(number) => match term {
                    Ok(term) => term,
                    Err(error) => break KeepError::SessionsEnded(error),
                },
            };
            number = term.number;
            // Two requests at most are in flight, and the second must not wait for room when the first is sent.
            let client = term.client.unlimited();
            let Err(served) = self.serve(&client).await;
            match served {
                Served::SessionOver => report(&self.publish, KeepState::Pending(None)),
                Served::Dropped => {
                    // If nobody else has the sessions, they end now, and the znode with them.
                    drop(self.sessions);
                    break leave(&client, &self.config.path).await;
                }
            }
        };
        report(&self.publish, KeepState::Ended(end));
    }

    /// Keeps the znode during one session.
    async fn serve(&mut self, client: &Client) -> Result<Infallible, Served> {
        let (connection, back_off) = (Connection::new(client), BackOff::new(client));
        let parents = self.config.parent.creator(client, &self.config.acl);
        let mut session = KeepSession { client, connection, back_off, parents };
        let mut next = Write::Create;
        // Until the reply is there, so that the watch that our own write fires is not removed before.
        let mut watched = None;
        loop {
            let desired = self.desired.borrow_and_update().clone();
            let sent = if session.connection.is_same() { next } else { Write::Nothing };
            let found = self.fly(&mut session, sent, &desired.data).await;
            drop(watched.take());
            next = match found {
                Found::SessionOver => return Err(Served::SessionOver),
                // What was read is new: no pause between that and the write.
                Found::Next(write) if sent == Write::Nothing && write != Write::Nothing => write,
                Found::Next(write) => self.pause(&mut session, write).await?,
                Found::Trouble(error, write) => {
                    self.report_trouble(error);
                    self.pause(&mut session, write).await?
                }
                Found::Foreign(owner, mut watch) => {
                    report(&self.publish, KeepState::Foreign { owner });
                    self.wait(&mut session, &mut watch, Write::Nothing).await?
                }
                Found::Present(stat, watch) => {
                    session.parents = self.config.parent.creator(client, &self.config.acl);
                    self.report_present(&stat, desired.number);
                    let update = Write::SetData { version: stat.version };
                    self.wait(&mut session, watched.insert(watch), update).await?
                }
            };
        }
    }

    /// Sends a write, and the read that shows what came of it.
    async fn fly(&self, session: &mut KeepSession<'_>, write: Write, data: &Bytes) -> Found {
        let (path, client) = (&self.config.path, session.client);
        let created_parents = match write {
            Write::Create => session.parents.send(path::parent(path), Bytes::new()),
            _ => Vec::new(),
        };
        let written = self.send(client, write, data);
        let read = client.get_data(path).watch().into_future();
        session.parents.receive(created_parents).await;
        let written = written.await;
        self.judge(session, written, read.await, data)
    }

    fn send(&self, client: &Client, write: Write, data: &Bytes) -> Written {
        let path = &self.config.path;
        let create = || client.create(path, data.clone()).ephemeral().acl(self.config.acl.clone());
        match write {
            Write::Nothing => Box::pin(async { Ok(()) }),
            Write::Create => refusal(create().into_future(), &[ErrorCode::NodeExists]),
            Write::SetData { version } => {
                let set = client.set_data(path, data.clone()).version(version);
                refusal(set.into_future(), &[ErrorCode::NoNode, ErrorCode::BadVersion])
            }
            Write::Replace { version } => {
                let replace = client.multi().add(client.delete(path).version(version)).add(create());
                // Never the version of the znode that is replaced: its owner may be about to delete it by that.
                let replace = if version == 0 { replace.set_data(path, data.clone()) } else { replace };
                refusal(replace.into_future(), &[ErrorCode::NoNode, ErrorCode::BadVersion])
            }
        }
    }

    /// What the replies of a flight mean.
    fn judge(
        &self,
        session: &mut KeepSession<'_>,
        written: Result<(), Error>,
        read: Result<(Bytes, Stat, Watch), Error>,
        data: &Bytes,
    ) -> Found {
        let next = match read {
            Ok((found, stat, watch)) if stat.ephemeral_owner == session.client.session_id() => {
                if found == *data {
                    return Found::Present(stat, watch);
                }
                Write::SetData { version: stat.version }
            }
            Ok((_, stat, watch)) if !self.config.takeover => {
                return Found::Foreign(stat.ephemeral_owner, watch);
            }
            Ok((_, stat, _)) => Write::Replace { version: stat.version },
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Write::Create,
            Err(error) if error.is_session_over() => return Found::SessionOver,
            Err(error) if is_lost(&error) => return Found::Next(Write::Nothing),
            Err(error) => return Found::Trouble(error, Write::Nothing),
        };
        match (written, next) {
            (Ok(()), next) => Found::Next(next),
            (Err(error), _) if error.code() == Some(ErrorCode::NoNode) => self.without_parent(session, error),
            (Err(error), next) => Found::Trouble(error, next),
        }
    }

    /// The create was refused for want of a parent.
    fn without_parent(&self, session: &mut KeepSession<'_>, error: Error) -> Found {
        let retried = match self.config.parent {
            ParentMode::MustExist => Err(error),
            ParentMode::Container | ParentMode::Persistent => session.parents.retry(error),
        };
        retried.map_or_else(|error| Found::Trouble(error, Write::Create), |()| Found::Next(Write::Create))
    }

    /// Waits until the znode changes, or is to change, which is by `update`. Returns what to do then.
    async fn wait(
        &mut self,
        session: &mut KeepSession<'_>,
        watch: &mut Watch,
        update: Write,
    ) -> Result<Write, Served> {
        let clock = session.client.clock();
        let since = clock.now();
        let event = tokio::select! {
            biased;
            changed = self.desired.changed() => return due_or_dropped(changed, update),
            event = watch => event,
            () = session.connection.renewed() => return Ok(Write::Nothing),
        };
        let write = match event {
            Ok(event) if event.kind == EventType::NodeDeleted => {
                report(&self.publish, KeepState::Pending(None));
                Write::Create
            }
            Err(error) if error.is_session_over() => return Err(Served::SessionOver),
            _ => Write::Nothing,
        };
        if clock.now() - since >= BackOff::LONGEST {
            session.back_off.reset();
        }
        self.pause(session, write).await
    }

    /// Pauses before the next flight if need be. Then there may be another znode of the same version, so the next flight only
    /// looks; without a pause it writes.
    async fn pause(&mut self, session: &mut KeepSession<'_>, write: Write) -> Result<Write, Served> {
        let Some(pause) = session.back_off.next_pause() else { return Ok(write) };
        tokio::select! {
            biased;
            changed = self.desired.changed() => due_or_dropped(changed, Write::Nothing),
            _ = session.client.ended() => Err(Served::SessionOver),
            () = session.client.clock().sleep(pause) => Ok(Write::Nothing),
        }
    }

    fn report_trouble(&self, cause: Error) {
        // Once, however often it is tried.
        if !matches!(self.publish.borrow().state, KeepState::Pending(Some(_))) {
            tracing::warn!(path = self.config.path, error = %cause, "a znode cannot be kept; trying again");
        }
        let refused = KeepError::Refused { path: self.config.path.clone(), cause };
        report(&self.publish, KeepState::Pending(Some(refused)));
    }

    fn report_present(&self, stat: &Stat, number: u64) {
        let (czxid, session) = (stat.czxid, stat.ephemeral_owner);
        self.publish.send_modify(|progress| {
            progress.written = Some(number);
            if !matches!(progress.state, KeepState::Present { czxid: known, .. } if known == czxid) {
                progress.state = KeepState::Present { czxid, session };
                progress.step += 1;
            }
        });
    }
}

fn report(publish: &watch::Sender<Progress>, state: KeepState) {
    publish.send_modify(|progress| {
        progress.state = state;
        progress.step += 1;
    });
}

/// What to do when there is new data, or when the handle was dropped.
fn due_or_dropped(changed: Result<(), watch::error::RecvError>, write: Write) -> Result<Write, Served> {
    changed.map(|()| write).map_err(|_| Served::Dropped)
}

/// Waits for a write; `raced` are the refusals which say that somebody else was faster.
fn refusal<T: 'static>(reply: ReplyFuture<T>, raced: &'static [ErrorCode]) -> Written {
    Box::pin(async move {
        match reply.await {
            Err(error) if is_lost(&error) || error.code().is_some_and(|code| raced.contains(&code)) => Ok(()),
            outcome => outcome.map(drop),
        }
    })
}

/// Whether a request was lost, and not refused.
fn is_lost(error: &Error) -> bool {
    error.is_retryable() && !matches!(error, Error::Refused { .. } | Error::MultiRefused { .. })
}

/// Completes when the handle was dropped.
async fn dropped(desired: &mut watch::Receiver<Desired>) {
    while desired.changed().await.is_ok() {}
}

/// Deletes the znode if it is ours.
async fn leave(client: &Client, path: &str) -> KeepError {
    let (mut back_off, mut connection) = (BackOff::new(client), Connection::new(client));
    loop {
        let error = match client.exists(path).await {
            Ok(Some(_)) if !connection.is_same() => continue,
            Ok(Some(stat)) if stat.ephemeral_owner == client.session_id() => {
                match client.delete(path).version(stat.version).await {
                    Ok(()) => return KeepError::Closed,
                    Err(error) => error,
                }
            }
            Ok(_) => return KeepError::Closed,
            Err(error) => error,
        };
        match error.code() {
            _ if error.is_session_over() => return KeepError::Closed,
            Some(ErrorCode::BadVersion | ErrorCode::NoNode) => {}
            _ if error.is_retryable() => {}
            _ => {
                tracing::warn!(path, %error, "a znode that is kept no longer remains until its session ends");
                return KeepError::Refused { path: path.to_owned(), cause: error };
            }
        }
        let pause = back_off.next_pause().unwrap_or_default();
        if client.clock().timeout(pause, client.ended()).await.is_ok() {
            return KeepError::Closed;
        }
    }
}
