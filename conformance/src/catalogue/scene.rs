//! [`Scene`]: a case that runs, with its connections and the values that it has named.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{Jute as _, OpCode, SessionId, Xid, Zxid, frame};

use crate::catalogue::case::{Action, Case, Step};
use crate::catalogue::pattern::{Names, Pattern, Patterns};
use crate::catalogue::request::{Damage, Draft};
use crate::catalogue::run::{Failure, Runner};
use crate::wire::connection::{Connection, Frame, NO_SESSION, ReceiveError, SESSION_TIMEOUT};
use crate::wire::fields::{Fields, Value, show};

/// A case that runs.
pub(crate) struct Scene<'r> {
    runner: &'r Runner,
    root: &'r str,
    names: Names,
    connections: BTreeMap<char, Connection>,
    /// Why no connection could be opened, which says nothing of what the case is about.
    unreachable: Option<String>,
}

/// Why a step has failed.
struct StepFailure {
    reason: String,
    came: Option<String>,
}

impl From<ReceiveError> for StepFailure {
    fn from(error: ReceiveError) -> Self {
        Self { reason: error.to_string(), came: None }
    }
}

impl From<String> for StepFailure {
    fn from(reason: String) -> Self {
        Self { reason, came: None }
    }
}

impl<'r> Scene<'r> {
    pub(crate) fn new(runner: &'r Runner, root: &'r str) -> Self {
        let names = runner.named_credentials();
        Self { runner, root, names, connections: BTreeMap::new(), unreachable: None }
    }

    /// Runs a case to its end or to its first failure, and then ends its sessions. Something that no line expects is a failure, also
    /// after the last line.
    ///
    /// # Errors
    /// If a connection cannot be opened: why.
    pub(crate) async fn play(mut self, case: &Case) -> Result<Result<(), Failure>, String> {
        let mut outcome = Ok(());
        let mut steps = Vec::new();
        for step in &case.steps {
            steps.push(step.text.clone());
            outcome = self.step(step).await;
            if outcome.is_err() {
                break;
            }
        }
        if outcome.is_ok() {
            let names: Vec<_> = self.connections.keys().copied().collect();
            for name in names {
                outcome = self.quiet(name).await;
                if outcome.is_err() {
                    steps.push(format!("{name} quiet (after every case)"));
                    break;
                }
            }
        }
        for connection in self.connections.values_mut() {
            connection.close().await;
        }
        match self.unreachable {
            Some(reason) => Err(reason),
            None => Ok(outcome.map_err(|StepFailure { reason, came }| Failure { steps, reason, came })),
        }
    }

    async fn step(&mut self, step: &Step) -> Result<(), StepFailure> {
        match &step.action {
            Action::Open(fields, expected) => self.open(step.session, fields, expected).await,
            Action::Drop => {
                self.connections.remove(&step.session);
                Ok(())
            }
            Action::Send(draft, expected) => {
                self.send(step.session, draft).await?;
                match expected {
                    Some(expected) => self.expect(step.session, expected, Kind::Reply).await,
                    None => Ok(()),
                }
            }
            Action::Bytes(bytes) => {
                let connection = self.connection(step.session).await?;
                sent(connection.send_bytes(bytes).await)
            }
            Action::Reply(expected) => self.expect(step.session, expected, Kind::Reply).await,
            Action::Event(expected) => self.expect(step.session, expected, Kind::Event).await,
            Action::Quiet => self.quiet(step.session).await,
            Action::Ended => match self.connection(step.session).await?.next().await {
                Err(ReceiveError::Ended) => {
                    self.connections.remove(&step.session);
                    Ok(())
                }
                Err(error) => Err(error.into()),
                Ok(frame) => Err(StepFailure {
                    reason: "the server was to end the connection".to_owned(),
                    came: Some(self.shown(frame)),
                }),
            },
        }
    }

    /// What has come before the reply to a ping was expected by some line.
    async fn quiet(&mut self, name: char) -> Result<(), StepFailure> {
        self.connection(name).await?.send(OpCode::Ping.code(), Some(Xid::PING.0), &[]).await?;
        self.expect(name, &Patterns::ok(), Kind::Reply).await
    }

    /// The connection of that name, which opens a session with its first use.
    async fn connection(&mut self, name: char) -> Result<&mut Connection, StepFailure> {
        if !self.connections.contains_key(&name) {
            self.open(name, &[], &Patterns::ok()).await?;
        }
        self.connections.get_mut(&name).ok_or_else(|| StepFailure::from(format!("{name} is not connected")))
    }

    async fn open(
        &mut self,
        name: char,
        fields: &[(String, Pattern)],
        expected: &Patterns,
    ) -> Result<(), StepFailure> {
        let bytes = self.handshake(fields)?;
        let connecting = Connection::to(self.runner.address(), self.runner.limit()).await;
        let mut connection = connecting.map_err(|error| {
            let reason = format!("cannot connect: {error}");
            self.unreachable = Some(reason.clone());
            reason
        })?;
        match connection.handshake(&bytes).await {
            Ok((_, fields)) => {
                self.connections.insert(name, connection);
                self.compare(expected, fields)
            }
            Err(ReceiveError::Ended) => {
                self.compare(expected, vec![("result", Value::Text("ended".to_owned()))])
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The bytes to open a connection with.
    fn handshake(&self, fields: &[(String, Pattern)]) -> Result<BytesMut, String> {
        let given = |field: &str| fields.iter().find(|(known, _)| known == field).map(|(_, value)| value);
        let number = |field: &str, default: i64| match given(field) {
            None => Ok(default),
            Some(Pattern::Word(word)) => word.parse().map_err(|_| format!("`{word}` is not a number")),
            Some(Pattern::Named(name)) => match self.names.get(name) {
                Some(Value::Int(number)) => Ok(*number),
                _ => Err(format!("no step before has named a number ${name}")),
            },
            Some(other) => Err(format!("{other} is not a number")),
        };
        let short = |number| i32::try_from(number).map_err(|_| format!("{number} does not fit into 32 bits"));
        let is_null = |field: &str| matches!(given(field), Some(Pattern::Word(word)) if word == "null");
        let password = match given("password") {
            None => Some(NO_SESSION.1),
            _ if is_null("password") => None,
            Some(Pattern::Text(text)) => Some(Bytes::from(text.clone())),
            Some(Pattern::Named(name)) => match self.names.get(name) {
                Some(Value::Data(Some(data))) => Some(data.clone()),
                _ => return Err(format!("no step before has named a password ${name}")),
            },
            Some(other) => return Err(format!("{other} is not a password")),
        };
        if let Some(Pattern::Text(bytes)) = given("bytes") {
            return Ok(BytesMut::from(&bytes[..]));
        }
        let request = ConnectRequest {
            protocol_version: short(number("protocol", 0)?)?,
            last_zxid_seen: Zxid(number("lastZxid", 0)?),
            timeout: short(number("timeout", SESSION_TIMEOUT.into())?)?,
            session: SessionId(number("session", 0)?),
            password,
            read_only: if is_null("readOnly") { None } else { Some(number("readOnly", 0)? != 0) },
        };
        let mut record = BytesMut::new();
        request.encode(&mut record);
        for (name, value) in fields {
            match value {
                Pattern::Word(word) if Damage::NAMES.contains(&name.as_str()) => {
                    Damage::parse(name, word)?.apply(0, &mut record);
                }
                _ => {}
            }
        }
        let mut bytes = BytesMut::new();
        frame::put(&mut bytes, |out| out.extend_from_slice(&record));
        Ok(bytes)
    }

    async fn send(&mut self, name: char, draft: &Draft) -> Result<(), StepFailure> {
        let mut body = BytesMut::new();
        draft.encode(self.root, &self.names, &mut body)?;
        let connection = self.connection(name).await?;
        sent(connection.send(draft.code, draft.usual_xid(), &body).await)
    }

    async fn expect(&mut self, name: char, expected: &Patterns, kind: Kind) -> Result<(), StepFailure> {
        let frame = self.connection(name).await?.next().await?;
        match (kind, frame) {
            (Kind::Reply, Frame::Reply(fields)) | (Kind::Event, Frame::Event(fields)) => {
                self.compare(expected, fields)
            }
            (_, frame) => {
                let reason = match kind {
                    Kind::Reply => "an event where a reply is due",
                    Kind::Event => "a reply where an event is due",
                };
                Err(StepFailure { reason: reason.to_owned(), came: Some(self.shown(frame)) })
            }
        }
    }

    fn compare(&mut self, expected: &Patterns, mut fields: Fields) -> Result<(), StepFailure> {
        fields.iter_mut().for_each(|(_, value)| value.replace_root(self.root, "~"));
        let came = || Some(show(&fields));
        expected.check(&fields, &mut self.names).map_err(|reason| StepFailure { reason, came: came() })
    }

    fn shown(&self, frame: Frame) -> String {
        let (prefix, mut fields) = match frame {
            Frame::Reply(fields) => ("", fields),
            Frame::Event(fields) => ("event ", fields),
        };
        fields.iter_mut().for_each(|(_, value)| value.replace_root(self.root, "~"));
        format!("{prefix}{}", show(&fields))
    }
}

/// A server may end a connection in the middle of a request, which the next step on it finds.
fn sent(outcome: Result<(), ReceiveError>) -> Result<(), StepFailure> {
    match outcome {
        Ok(()) | Err(ReceiveError::Ended) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Reply,
    Event,
}
