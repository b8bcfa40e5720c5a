//! [`Scene`]: a case that runs, with its connections and the values that it has named.

use std::collections::BTreeMap;

use bytes::BytesMut;

use crate::catalogue::case::{Action, Case, Step};
use crate::catalogue::lex::Cursor;
use crate::catalogue::pattern::{Names, Patterns};
use crate::catalogue::request::Draft;
use crate::catalogue::run::{CaseOutcome, Failure, Runner};
use crate::wire::connection::{Connection, Frame, ReceiveError};
use crate::wire::encoding::framed;
use crate::wire::fields::{Fields, named, show};

/// A case that runs.
pub(crate) struct Scene<'r> {
    runner: &'r Runner,
    root: &'r str,
    names: Names,
    connections: BTreeMap<char, Connection>,
}

/// Why a step has failed.
enum StepFailure {
    /// Something is wrong with what has come, if anything has.
    Wrong { reason: String, came: Option<String> },
    /// No connection could be opened, which says nothing of what the case is about.
    Unreachable(String),
}

impl From<String> for StepFailure {
    fn from(reason: String) -> Self {
        Self::Wrong { reason, came: None }
    }
}

impl From<ReceiveError> for StepFailure {
    fn from(error: ReceiveError) -> Self {
        error.to_string().into()
    }
}

impl<'r> Scene<'r> {
    pub(crate) fn new(runner: &'r Runner, root: &'r str) -> Self {
        let names = runner.named_credentials();
        Self { runner, root, names, connections: BTreeMap::new() }
    }

    /// Runs a case to its end or to its first failure, and then ends its sessions. Something that no line expects is a failure, also
    /// after the last line.
    ///
    /// # Errors
    /// If a connection cannot be opened: why.
    pub(crate) async fn play(mut self, case: &Case) -> Result<CaseOutcome, String> {
        let mut steps = Vec::new();
        let outcome = self.steps(case, &mut steps).await;
        for connection in self.connections.values_mut() {
            connection.close().await;
        }
        match outcome {
            Ok(()) => Ok(CaseOutcome::Passed),
            Err(StepFailure::Wrong { reason, came }) => {
                Ok(CaseOutcome::Failed(Failure { steps, reason, came }))
            }
            Err(StepFailure::Unreachable(reason)) => Err(reason),
        }
    }

    /// Makes the steps of a case. `done` gets their texts, up to the one that fails.
    async fn steps(&mut self, case: &Case, done: &mut Vec<String>) -> Result<(), StepFailure> {
        for step in &case.steps {
            done.push(step.text.clone());
            self.step(step).await?;
        }
        let names: Vec<_> = self.connections.keys().copied().collect();
        for name in names {
            let quiet = self.quiet(name).await;
            quiet.inspect_err(|_| done.push(format!("{name} quiet (after every case)")))?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), StepFailure> {
        match &step.action {
            Action::Open(draft, expected) => self.open(step.session, draft, expected).await,
            Action::Drop => {
                self.connections.remove(&step.session);
                Ok(())
            }
            Action::Send(draft, expected) => {
                self.send(step.session, draft).await?;
                match expected {
                    Some(expected) => self.reply(step.session, expected).await,
                    None => Ok(()),
                }
            }
            Action::Bytes(bytes) => {
                let connection = self.connection(step.session).await?;
                sent(connection.send_bytes(bytes).await)
            }
            Action::Reply(expected) => self.reply(step.session, expected).await,
            Action::Event(expected) => match self.connection(step.session).await?.next().await? {
                Frame::Event(fields) => self.compare(expected, fields),
                frame => Err(self.unexpected("a reply where an event is due", frame)),
            },
            Action::Quiet => self.quiet(step.session).await,
            Action::Ended => match self.connection(step.session).await?.next().await {
                Err(ReceiveError::Ended) => {
                    self.connections.remove(&step.session);
                    Ok(())
                }
                Err(error) => Err(error.into()),
                Ok(frame) => Err(self.unexpected("the server was to end the connection", frame)),
            },
        }
    }

    /// What has come before the reply to a ping was expected by some line.
    async fn quiet(&mut self, name: char) -> Result<(), StepFailure> {
        self.connection(name).await?.ping().await?;
        self.reply(name, &Patterns::ok()).await
    }

    /// The connection of that name, which opens a session with its first use.
    async fn connection(&mut self, name: char) -> Result<&mut Connection, StepFailure> {
        if !self.connections.contains_key(&name) {
            let draft = Draft::handshake(&mut Cursor::new("")?)?;
            self.open(name, &draft, &Patterns::ok()).await?;
        }
        self.connections.get_mut(&name).ok_or_else(|| StepFailure::from(format!("{name} is not connected")))
    }

    async fn open(&mut self, name: char, draft: &Draft, expected: &Patterns) -> Result<(), StepFailure> {
        let mut record = BytesMut::new();
        draft.encode(self.root, &self.names, &mut record)?;
        let bytes = if draft.is_raw() { record.freeze() } else { framed(&record) };
        let connecting = Connection::to(&self.runner.address, self.runner.limit).await;
        let mut connection =
            connecting.map_err(|error| StepFailure::Unreachable(format!("cannot connect: {error}")))?;
        match connection.handshake(&bytes).await {
            Ok((_, fields)) => {
                self.connections.insert(name, connection);
                self.compare(expected, fields)
            }
            Err(ReceiveError::Ended) => self.compare(expected, named("ended")),
            Err(error) => Err(error.into()),
        }
    }

    async fn send(&mut self, name: char, draft: &Draft) -> Result<(), StepFailure> {
        let mut body = BytesMut::new();
        draft.encode(self.root, &self.names, &mut body)?;
        let connection = self.connection(name).await?;
        sent(connection.send(draft.code, draft.usual_xid(), &body).await)
    }

    async fn reply(&mut self, name: char, expected: &Patterns) -> Result<(), StepFailure> {
        match self.connection(name).await?.next().await? {
            Frame::Reply(fields) => self.compare(expected, fields),
            frame => Err(self.unexpected("an event where a reply is due", frame)),
        }
    }

    fn compare(&mut self, expected: &Patterns, mut fields: Fields) -> Result<(), StepFailure> {
        fields.iter_mut().for_each(|(_, value)| value.replace_root(self.root, "~"));
        let came = || Some(show(&fields));
        expected.check(&fields, &mut self.names).map_err(|reason| StepFailure::Wrong { reason, came: came() })
    }

    fn unexpected(&self, reason: &str, frame: Frame) -> StepFailure {
        let (prefix, mut fields) = match frame {
            Frame::Reply(fields) => ("", fields),
            Frame::Event(fields) => ("event ", fields),
        };
        fields.iter_mut().for_each(|(_, value)| value.replace_root(self.root, "~"));
        StepFailure::Wrong { reason: reason.to_owned(), came: Some(format!("{prefix}{}", show(&fields))) }
    }
}

/// A server may end a connection in the middle of a request, which the next step on it finds.
fn sent(outcome: Result<(), ReceiveError>) -> Result<(), StepFailure> {
    match outcome {
        Ok(()) | Err(ReceiveError::Ended) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
