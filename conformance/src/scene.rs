//! [`Scene`]: a case that runs, with its connections and the values that it has named.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use zoolet_proto::{OpCode, Xid};

use crate::case::{Action, Case, Step};
use crate::connection::{Connection, Frame, NO_SESSION, SESSION_TIMEOUT, Silence};
use crate::fields::{Fields, Value, show};
use crate::pattern::{Names, Pattern, Patterns};
use crate::request::Draft;
use crate::run::Failure;

/// A case that runs.
pub(crate) struct Scene<'r> {
    address: &'r str,
    root: &'r str,
    names: Names,
    connections: BTreeMap<char, Connection>,
}

/// Why a step has failed.
struct Wrong {
    reason: String,
    came: Option<String>,
}

impl From<Silence> for Wrong {
    fn from(silence: Silence) -> Self {
        Self { reason: silence.to_string(), came: None }
    }
}

impl From<String> for Wrong {
    fn from(reason: String) -> Self {
        Self { reason, came: None }
    }
}

impl<'r> Scene<'r> {
    /// `names` are the values that have one before the case begins.
    pub(crate) fn new(address: &'r str, root: &'r str, names: Names) -> Self {
        Self { address, root, names, connections: BTreeMap::new() }
    }

    /// Runs a case to its end or to its first failure, and then ends its sessions.
    pub(crate) async fn play(mut self, case: &Case) -> Result<(), Failure> {
        let mut outcome = Ok(());
        for (at, step) in case.steps.iter().enumerate() {
            if let Err(Wrong { reason, came }) = self.step(step).await {
                let steps = case.steps[..=at].iter().map(|step| step.text.clone()).collect();
                outcome = Err(Failure { steps, reason, came });
                break;
            }
        }
        for connection in self.connections.values_mut() {
            let _ = connection.send(OpCode::CloseSession.code(), None, &[]).await;
            while connection.next().await.is_ok() {}
        }
        outcome
    }

    async fn step(&mut self, step: &Step) -> Result<(), Wrong> {
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
            Action::Reply(expected) => self.expect(step.session, expected, Kind::Reply).await,
            Action::Event(expected) => self.expect(step.session, expected, Kind::Event).await,
            Action::Quiet => {
                self.connection(step.session)
                    .await?
                    .send(OpCode::Ping.code(), Some(Xid::PING.0), &[])
                    .await?;
                self.expect(step.session, &Patterns::ok(), Kind::Reply).await
            }
            Action::Ended => match self.connection(step.session).await?.next().await {
                Err(Silence::Ended) => {
                    self.connections.remove(&step.session);
                    Ok(())
                }
                Err(silence) => Err(silence.into()),
                Ok(frame) => Err(Wrong {
                    reason: "the server was to end the connection".to_owned(),
                    came: Some(self.shown(frame)),
                }),
            },
        }
    }

    /// The connection of that name, which opens a session with its first use.
    async fn connection(&mut self, name: char) -> Result<&mut Connection, Wrong> {
        if !self.connections.contains_key(&name) {
            self.open(name, &[], &Patterns::ok()).await?;
        }
        self.connections.get_mut(&name).ok_or_else(|| Wrong::from(format!("{name} is not connected")))
    }

    async fn open(
        &mut self,
        name: char,
        fields: &[(String, Pattern)],
        expected: &Patterns,
    ) -> Result<(), Wrong> {
        let number = |field: &str, default: i64| match fields.iter().find(|(known, _)| known == field) {
            None => Ok(default),
            Some((_, Pattern::Word(word))) => word.parse().map_err(|_| format!("`{word}` is no number")),
            Some((_, Pattern::Named(name))) => match self.names.get(name) {
                Some(Value::Int(number)) => Ok(*number),
                _ => Err(format!("no step before has named a number ${name}")),
            },
            Some((_, other)) => Err(format!("{other:?} is no number")),
        };
        let password = match fields.iter().find(|(known, _)| known == "password") {
            None => NO_SESSION.1,
            Some((_, Pattern::Text(text))) => Bytes::from(text.clone()),
            Some((_, Pattern::Named(name))) => match self.names.get(name) {
                Some(Value::Data(Some(data))) => data.clone(),
                _ => return Err(format!("no step before has named a password ${name}").into()),
            },
            Some((_, other)) => return Err(format!("{other:?} is no password").into()),
        };
        let timeout = number("timeout", SESSION_TIMEOUT.into())?;
        let timeout = i32::try_from(timeout).map_err(|_| format!("{timeout} is no timeout"))?;
        let (session, last_zxid) = (number("session", 0)?, number("lastZxid", 0)?);
        let connecting = Connection::to(self.address).await;
        let mut connection = connecting.map_err(|error| format!("cannot connect: {error}"))?;
        match connection.open((session, password), last_zxid, timeout).await {
            Ok((_, fields)) => {
                self.connections.insert(name, connection);
                self.compare(expected, fields)
            }
            Err(Silence::Ended) => self.compare(expected, vec![("result", Value::Text("ended".to_owned()))]),
            Err(silence) => Err(silence.into()),
        }
    }

    async fn send(&mut self, name: char, draft: &Draft) -> Result<(), Wrong> {
        let mut body = BytesMut::new();
        draft.encode(self.root, &self.names, &mut body)?;
        let connection = self.connection(name).await?;
        Ok(connection.send(draft.code, draft.usual_xid(), &body).await?)
    }

    async fn expect(&mut self, name: char, expected: &Patterns, kind: Kind) -> Result<(), Wrong> {
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
                Err(Wrong { reason: reason.to_owned(), came: Some(self.shown(frame)) })
            }
        }
    }

    fn compare(&mut self, expected: &Patterns, mut fields: Fields) -> Result<(), Wrong> {
        fields.iter_mut().for_each(|(_, value)| value.replace_root(self.root, "~"));
        let came = || Some(show(&fields));
        expected.check(&fields, &mut self.names).map_err(|reason| Wrong { reason, came: came() })
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

#[derive(Clone, Copy)]
enum Kind {
    Reply,
    Event,
}
