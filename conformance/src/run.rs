//! [`Runner`]: runs cases on a server.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use thiserror::Error;

use crate::case::{Action, Case, Step};
use crate::connection::{Connection, Frame, Silence};
use crate::fields::{Fields, Value, show};
use crate::pattern::{Names, Pattern, Patterns};
use crate::request::Draft;

/// The session timeout that is asked for, in milliseconds.
const TIMEOUT: i32 = 30_000;

const DELETE: i32 = 2;
const GET_CHILDREN: i32 = 8;
const CREATE: i32 = 1;
const PING: i32 = 11;
const CLOSE_SESSION: i32 = -11;

/// What has become of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything came as it must.
    Passed,
    /// Something else came.
    Failed(Failure),
}

/// What was sent, what was expected, and what came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The steps up to the one that failed, as the case writes them.
    pub steps: Vec<String>,
    /// What is wrong.
    pub reason: String,
    /// What came, as a case would write it; none if nothing did.
    pub came: Option<String>,
}

/// Nothing can be judged.
#[derive(Debug, Error)]
#[error("{address}: {reason}")]
pub struct RunError {
    address: String,
    reason: String,
}

/// Runs cases on a server. Each gets a subtree of its own, which is deleted afterwards.
#[derive(Debug)]
pub struct Runner {
    address: String,
    /// The parent of the subtrees.
    root: String,
}

impl Runner {
    /// Connects to a server, and creates a znode for all cases. `run` tells it from that of other runs on the same server.
    ///
    /// # Errors
    /// If the server cannot be reached, answers as no ZooKeeper does, or refuses the znode.
    pub async fn new(address: &str, run: u64) -> Result<Self, RunError> {
        let runner = Self { address: address.to_owned(), root: format!("/zoolet-conformance-{run:x}") };
        let mut owner = runner.owner().await?;
        runner.create(&mut owner, &runner.root).await?;
        runner.end(&mut owner).await;
        Ok(runner)
    }

    /// Runs a case to its end or to its first failure, and removes what it has left. Several can run at the same time.
    ///
    /// # Errors
    /// If the server cannot be reached, or the znode of the case cannot be created.
    pub async fn run(&self, case: &Case) -> Result<Outcome, RunError> {
        let root = format!("{}/{}", self.root, case.name.replace('/', "-"));
        let mut owner = self.owner().await?;
        self.create(&mut owner, &root).await?;
        let mut scene =
            Scene { address: &self.address, root: &root, names: Names::new(), connections: BTreeMap::new() };
        let mut outcome = Outcome::Passed;
        for (at, step) in case.steps.iter().enumerate() {
            if let Err(wrong) = scene.step(step).await {
                let steps = case.steps[..=at].iter().map(|step| step.text.clone()).collect();
                outcome = Outcome::Failed(Failure { steps, reason: wrong.reason, came: wrong.came });
                break;
            }
        }
        for (_, mut connection) in std::mem::take(&mut scene.connections) {
            let _ = connection.send(CLOSE_SESSION, None, &[]).await;
            while connection.next().await.is_ok() {}
        }
        self.remove(&mut owner, &root).await;
        self.end(&mut owner).await;
        Ok(outcome)
    }

    /// Removes the znode of all cases.
    pub async fn finish(self) {
        if let Ok(mut owner) = self.owner().await {
            self.remove(&mut owner, &self.root).await;
            self.end(&mut owner).await;
        }
    }

    /// A session to create and remove the subtrees with.
    async fn owner(&self) -> Result<Connection, RunError> {
        let mut connection = Connection::to(&self.address)
            .await
            .map_err(|error| self.fail(&format!("cannot connect: {error}")))?;
        match connection.open(none(), 0, TIMEOUT).await {
            Ok((response, _)) if response.is_refusal() => Err(self.fail("it refuses a new session")),
            Ok(_) => Ok(connection),
            Err(Silence::Ended) => {
                Err(self.fail("it ends the connection instead of opening a session; is it a ZooKeeper?"))
            }
            Err(Silence::Late) => {
                Err(self.fail("it does not open a session within 10 s; is it a ZooKeeper?"))
            }
            Err(Silence::Invalid(what)) => Err(self.fail(&format!("it is no ZooKeeper: it sends {what}"))),
        }
    }

    async fn create(&self, owner: &mut Connection, path: &str) -> Result<(), RunError> {
        // No data, everybody may do everything, no flags.
        let mut rest = vec![0; 4];
        rest.extend([0, 0, 0, 1, 0, 0, 0, 31]);
        rest.extend(path_and("world", &path_and("anyone", &[0; 4])));
        let body = path_and(path, &rest);
        let fields =
            self.ask(owner, CREATE, &body).await.map_err(|silence| self.fail(&silence.to_string()))?;
        match result(&fields) {
            "ok" => Ok(()),
            other => Err(self.fail(&format!("it answers {other} to `create {path}`"))),
        }
    }

    /// Removes a subtree as far as it can be.
    async fn remove(&self, owner: &mut Connection, root: &str) {
        let mut paths = vec![root.to_owned()];
        let mut at = 0;
        while let Some(path) = paths.get(at).cloned() {
            at += 1;
            if let Ok(fields) = self.ask(owner, GET_CHILDREN, &path_and(&path, &[0])).await {
                for (_, value) in fields {
                    if let Value::Set(names) = value {
                        paths.extend(names.iter().map(|name| format!("{path}/{name}")));
                    }
                }
            }
        }
        for path in paths.iter().rev() {
            let _ = self.ask(owner, DELETE, &path_and(path, &[255; 4])).await;
        }
    }

    async fn ask(&self, owner: &mut Connection, op: i32, body: &[u8]) -> Result<Fields, Silence> {
        owner.send(op, None, body).await?;
        loop {
            if let Frame::Reply(fields) = owner.next().await? {
                return Ok(fields);
            }
        }
    }

    async fn end(&self, owner: &mut Connection) {
        let _ = self.ask(owner, CLOSE_SESSION, &[]).await;
    }

    fn fail(&self, reason: &str) -> RunError {
        RunError { address: self.address.clone(), reason: reason.to_owned() }
    }
}

/// No session yet.
fn none() -> (i64, Bytes) {
    (0, Bytes::from_static(&[0; 16]))
}

fn path_and(path: &str, rest: &[u8]) -> Vec<u8> {
    let len = i32::try_from(path.len()).unwrap_or(i32::MAX);
    [&len.to_be_bytes()[..], path.as_bytes(), rest].concat()
}

fn result(fields: &Fields) -> &str {
    match fields.first() {
        Some(("result", Value::Text(result))) => result,
        _ => "nothing",
    }
}

/// A case that runs.
struct Scene<'r> {
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

impl Scene<'_> {
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
                self.connection(step.session).await?.send(PING, Some(-2), &[]).await?;
                self.expect(step.session, &Patterns::default(), Kind::Reply).await
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
            self.open(name, &[], &Patterns(vec![("result".to_owned(), Pattern::Word("ok".to_owned()))]))
                .await?;
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
            None => none().1,
            Some((_, Pattern::Text(text))) => Bytes::from(text.clone()),
            Some((_, Pattern::Named(name))) => match self.names.get(name) {
                Some(Value::Data(Some(data))) => data.clone(),
                _ => return Err(format!("no step before has named a password ${name}").into()),
            },
            Some((_, other)) => return Err(format!("{other:?} is no password").into()),
        };
        let timeout = number("timeout", TIMEOUT.into())?;
        let timeout = i32::try_from(timeout).map_err(|_| format!("{timeout} is no timeout"))?;
        let (session, last_zxid) = (number("session", 0)?, number("lastZxid", 0)?);
        let connecting = Connection::to(self.address).await;
        let mut connection = connecting.map_err(|error| format!("cannot connect: {error}"))?;
        let (_, fields) = connection.open((session, password), last_zxid, timeout).await?;
        self.connections.insert(name, connection);
        self.compare(expected, fields)
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
