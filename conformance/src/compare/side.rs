//! [`Side`]: one of the two servers, and what it sends, so that it can be compared with the other.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use zoolet_proto::OpCode;

use super::generate::{Move, What};
use crate::catalogue::run::Runner;
use crate::error::RunError;
use crate::wire::connection::{Connection, Frame, NO_SESSION, ReceiveError, SESSION_TIMEOUT};
use crate::wire::fields::{Fields, Value, field, show};
use crate::wire::normal::normal;

/// What a connection has got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) session: char,
    pub(super) seen: Seen,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// The answer to a handshake.
    Opened(Fields),
    Reply(Fields),
    Event(Fields),
    /// The reply to the ping after the move.
    Pong(Fields),
    /// No further frame, and why.
    Over(String),
}

impl Seen {
    /// The words for it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Opened(fields) => format!("handshake: {}", show(fields)),
            Self::Reply(fields) => format!("reply: {}", show(fields)),
            Self::Event(fields) => format!("event: {}", show(fields)),
            Self::Pong(fields) => format!("reply to a ping: {}", show(fields)),
            Self::Over(why) => why.clone(),
        }
    }
}

/// A server in a run.
pub(super) struct Side<'r> {
    runner: &'r Runner,
    root: String,
    /// The zxid that counts as 0.
    base: i64,
    /// The largest zxid so far.
    last: i64,
    connections: BTreeMap<char, Connection>,
    /// The session of each connection: its id and password.
    held: BTreeMap<char, (i64, Bytes)>,
    /// All sessions, in the order in which they were opened.
    sessions: Vec<i64>,
    /// Why no connection could be opened.
    pub(super) unreachable: Option<String>,
    /// Why the last move has no answer, if it has none.
    pub(super) late: Option<String>,
}

impl<'r> Side<'r> {
    /// Creates the znode of the run. Its zxid counts as 0.
    pub(super) async fn new(runner: &'r Runner, name: &str) -> Result<Self, RunError> {
        let mut owner = runner.owner().await?;
        let root = runner.subtree(name);
        if let Some(reason) = runner.create_quota(&mut owner, &root).await? {
            return Err(runner.fail(&reason));
        }
        let base = runner.create(&mut owner, &root).await?.0;
        // It is idle for as long as the run takes, and must not expire in the middle.
        runner.end(&mut owner).await;
        Ok(Self {
            runner,
            root,
            base,
            last: base,
            connections: BTreeMap::new(),
            held: BTreeMap::new(),
            sessions: Vec::new(),
            unreachable: None,
            late: None,
        })
    }

    /// Ends all sessions, and removes the znode as far as it can be.
    pub(super) async fn finish(mut self) {
        for (session, _) in self.held.clone() {
            if !self.connections.contains_key(&session) {
                self.open(session, true, &mut Vec::new()).await;
            }
        }
        for connection in self.connections.values_mut() {
            connection.close().await;
        }
        if let Ok(mut owner) = self.runner.owner().await {
            // Whether something is left is found out at the end of all runs.
            let _ = self.runner.remove(&mut owner, &self.root, true).await;
            self.runner.end(&mut owner).await;
        }
    }

    /// Makes a move, and returns all that has come on all connections.
    pub(super) async fn play(&mut self, step: &Move) -> Vec<Observed> {
        let (session, mut out) = (step.session, Vec::new());
        if !self.connections.contains_key(&session) {
            self.open(session, self.held.contains_key(&session), &mut out).await;
        }
        match &step.what {
            What::Ask { requests, since } => {
                let mut names = self.runner.named_credentials();
                names.insert("since".to_owned(), Value::Int((self.last - since).max(self.base)));
                let mut sent = 0;
                for (_, draft) in requests {
                    let mut body = BytesMut::new();
                    if draft.encode(&self.root, &names, &mut body).is_err() {
                        continue;
                    }
                    let Some(connection) = self.connections.get_mut(&session) else { break };
                    // If it fails, reading the reply tells why.
                    let _ = connection.send(draft.code, draft.usual_xid(), &body).await;
                    sent += 1;
                }
                self.replies(session, sent, &mut out).await;
                if requests.iter().any(|(_, draft)| draft.code == OpCode::CloseSession.code()) {
                    let closed = self.connections.remove(&session);
                    self.end(session, closed, &mut out).await;
                    self.held.remove(&session);
                    // Its ephemerals are deleted in no order that means anything.
                    self.barrier(&mut out).await;
                    out.sort_by_key(|observed| (observed.session, observed.seen.text()));
                    return out;
                }
            }
            What::Resume => {
                // An Apache ZooKeeper that has not noticed yet that a connection has ended can forget the next one of the
                // session, and then does not end that one when the session moves.
                if let Some(connection) = self.connections.remove(&session) {
                    connection.leave().await;
                }
                self.open(session, true, &mut out).await;
            }
            What::Move => {
                let old = self.connections.remove(&session);
                self.open(session, true, &mut out).await;
                self.end(session, old, &mut out).await;
            }
            What::Intrude => self.intrude(session, 0, Some(Bytes::from_static(&[7; 16])), &mut out).await,
            What::Ahead => self.intrude(session, i64::MAX, None, &mut out).await,
        }
        self.barrier(&mut out).await;
        out
    }

    /// Opens a session or takes up that which is held.
    async fn open(&mut self, session: char, resume: bool, out: &mut Vec<Observed>) {
        let held = self.held.get(&session).filter(|_| resume).cloned();
        let asked = held.clone().unwrap_or(NO_SESSION);
        let last = if held.is_some() { self.last } else { 0 };
        match self.handshake(asked, last).await {
            Ok((connection, opened, fields)) => {
                if let Some(opened) = opened {
                    if !self.sessions.contains(&opened.0) {
                        self.sessions.push(opened.0);
                    }
                    self.held.insert(session, opened);
                    self.connections.insert(session, connection);
                } else {
                    self.held.remove(&session);
                }
                out.push(Observed { session, seen: Seen::Opened(self.normal(fields)) });
            }
            Err(error) => self.over(session, &error, out),
        }
    }

    /// A handshake for a session of somebody else, as it were, which does not get it. Afterwards the server may have ended
    /// the connection of its owner.
    async fn intrude(&mut self, session: char, last: i64, password: Option<Bytes>, out: &mut Vec<Observed>) {
        let Some((id, own)) = self.held.get(&session).cloned() else { return };
        match self.handshake((id, password.clone().unwrap_or(own)), last).await {
            Ok((_, _, fields)) => out.push(Observed { session, seen: Seen::Opened(self.normal(fields)) }),
            Err(error) => self.over(session, &error, out),
        }
        if password.is_some() {
            let owner = self.connections.remove(&session);
            self.end(session, owner, out).await;
        }
    }

    async fn handshake(
        &mut self,
        asked: (i64, Bytes),
        last: i64,
    ) -> Result<(Connection, Option<(i64, Bytes)>, Fields), ReceiveError> {
        let connecting = Connection::to(&self.runner.address, self.runner.limit).await;
        let mut connection = connecting.map_err(|error| ReceiveError::Unreachable(error.to_string()))?;
        let (response, fields) = connection.open(asked, last, SESSION_TIMEOUT).await?;
        let opened = (!response.is_refusal()).then(|| (response.session.0, response.password.clone()));
        Ok((connection, opened, fields))
    }

    /// Waits until the server has ended a connection.
    async fn end(&mut self, session: char, connection: Option<Connection>, out: &mut Vec<Observed>) {
        let Some(mut connection) = connection else { return };
        let deadline = connection.deadline();
        loop {
            match connection.next_until(deadline).await {
                Ok(frame) => self.observe(session, frame, out),
                Err(error) => return self.over(session, &error, out),
            }
        }
    }

    /// Reads `missing` replies, and the events among them. If the last one ends the connection, that is waited for.
    async fn replies(&mut self, session: char, mut missing: usize, out: &mut Vec<Observed>) {
        let Some(mut connection) = self.connections.remove(&session) else { return };
        let deadline = connection.deadline();
        while missing > 0 {
            match connection.next_until(deadline).await {
                Ok(frame) => {
                    missing -= usize::from(matches!(frame, Frame::Reply(_)));
                    let ends = ends_connection(&frame);
                    self.observe(session, frame, out);
                    if ends {
                        return self.end(session, Some(connection), out).await;
                    }
                }
                Err(error) => return self.over(session, &error, out),
            }
        }
        self.connections.insert(session, connection);
    }

    /// Pings every connection, and reads what comes up to the reply.
    async fn barrier(&mut self, out: &mut Vec<Observed>) {
        for connection in self.connections.values_mut() {
            // If it fails, the next read tells.
            let _ = connection.ping().await;
        }
        for (session, mut connection) in std::mem::take(&mut self.connections) {
            let deadline = connection.deadline();
            loop {
                match connection.next_until(deadline).await {
                    Ok(Frame::Reply(fields)) => {
                        out.push(Observed { session, seen: Seen::Pong(self.normal(fields)) });
                        self.connections.insert(session, connection);
                        break;
                    }
                    Ok(frame) => self.observe(session, frame, out),
                    Err(error) => {
                        self.over(session, &error, out);
                        break;
                    }
                }
            }
        }
    }

    fn over(&mut self, session: char, error: &ReceiveError, out: &mut Vec<Observed>) {
        let why = error.to_string();
        match error {
            ReceiveError::Late(_) => self.late = Some(why.clone()),
            ReceiveError::Unreachable(_) => self.unreachable = Some(why.clone()),
            ReceiveError::Ended | ReceiveError::Invalid(_) => {}
        }
        out.push(Observed { session, seen: Seen::Over(why) });
    }

    fn observe(&mut self, session: char, frame: Frame, out: &mut Vec<Observed>) {
        let seen = match frame {
            Frame::Reply(fields) => Seen::Reply(self.normal(fields)),
            Frame::Event(fields) => Seen::Event(self.normal(fields)),
        };
        out.push(Observed { session, seen });
    }

    /// The fields of a frame without what must differ.
    fn normal(&mut self, mut fields: Fields) -> Fields {
        for (name, value) in &mut fields {
            value.replace_root(&self.root, "~");
            if let ("zxid", Value::Int(zxid)) = (*name, value) {
                self.last = self.last.max(*zxid);
            }
        }
        let zxid = |zxid| match zxid - self.base {
            since @ 1.. => format!("$z{since}"),
            _ => "$older".to_owned(),
        };
        let number = |session| self.sessions.iter().position(|known| *known == session);
        normal(&fields, &zxid, &|session| number(session).map(|at| format!("$s{}", at + 1)))
    }
}

/// Whether a server that sends this closes the connection: after a failed auth and an unknown opcode, whose reply has
/// the zxid −1.
fn ends_connection(frame: &Frame) -> bool {
    let Frame::Reply(fields) = frame else { return false };
    let failed = |code: &str| field(fields, "result") == Some(&Value::Text(code.to_owned()));
    failed("AuthFailed") || failed("Unimplemented") && field(fields, "zxid") == Some(&Value::Int(-1))
}
