//! [`Plan`]: what a replay does, in the order in which the server did it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{Incoming, OpCode};

use super::deletions::{Deletion, Deletions};
use super::expiry::{Expiries, Expiry, Session};
use super::order::{Key, Order, takes_zxid};
use crate::capture::format::OBSERVER;
use crate::capture::format::{RecordKind, Records};
use crate::error::CaptureError;
use crate::wire::conversation::{Conversation, FromClient, FromServer};
use crate::wire::fields::{Fields, Value, of_event, reply_fields};

/// What a replay does.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// The events of each connection.
    pub(super) events: HashMap<u32, Vec<Fields>>,
    /// The record with the last sign of life of each connection's client.
    pub(super) last_sign: HashMap<u32, usize>,
    /// The zxid of the server when the capture began.
    pub(super) base: i64,
    pub(super) pings: usize,
    /// How long the capture took.
    pub(super) duration: Duration,
    pub(super) warning: Option<String>,
}

/// Something that a client has done, or the end of a connection.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) time: Duration,
    pub(super) connection: u32,
    /// The number of its record.
    pub(super) at: usize,
    pub(super) action: Action,
    /// Up to here the server must have come before.
    pub(super) after: i64,
}

#[derive(Debug)]
pub(super) enum Action {
    /// The handshake. Without a response, the server has ended the connection instead. The time is how long nothing was heard
    /// of the session that is to be resumed.
    Connect {
        request: ConnectRequest,
        response: Option<ConnectResponse>,
        silence: Duration,
    },
    Request {
        payload: Bytes,
        request: Incoming,
        reply: Awaited,
    },
    /// Bytes that are no frames, such as a four-letter word, and whether there was an answer.
    Bytes {
        bytes: Bytes,
        is_answered: bool,
    },
    /// The client ends the connection.
    Cut,
    /// The server ends the connection.
    Ended,
    /// The server ends a session that has expired.
    Expire {
        session: i64,
    },
    /// The server deletes a container, or a znode whose TTL is over.
    Delete {
        path: String,
    },
    /// A transaction of the server that changes nothing: it was about to delete a container, which had got a child.
    Refuse,
}

/// What follows a request.
#[derive(Debug)]
pub(super) enum Awaited {
    /// A reply, after so many events of the connection. The zxid is given if the request was a transaction.
    Reply { fields: Fields, events: usize, transaction: Option<i64> },
    /// A reply that the client has not got.
    Lost,
    /// The end of the connection.
    Nothing,
}

impl Plan {
    /// Reads a capture.
    pub(super) fn read(mut records: Records) -> Result<Self, CaptureError> {
        let mut reading = Reading::default();
        while let Some(record) = records.next()? {
            reading.add(record.time, record.connection, record.kind, record.content);
        }
        let mut plan = reading.finish();
        plan.warning = records.warning();
        Ok(plan)
    }
}

#[derive(Default)]
struct Reading {
    plan: Plan,
    drafts: Vec<Draft>,
    connections: HashMap<u32, Reader>,
    expiries: Expiries,
    deletions: Deletions,
    /// The zxids of changes that replies show.
    changed: BTreeSet<i64>,
    /// The number of the next record.
    at: usize,
    /// The largest zxid so far.
    seen: i64,
    /// The first zxid that was seen, whether a transaction has it, and how many sessions there were before.
    first: Option<(i64, bool, i64)>,
    opened: i64,
}

/// A step, and what its place follows from.
pub(super) struct Draft {
    pub(super) step: Step,
    /// The largest zxid that was seen before it.
    pub(super) seen: i64,
    /// The zxid of its reply.
    pub(super) zxid: Option<i64>,
    /// The record after which it was done: that of its reply, or of the end of its connection.
    pub(super) done: Option<usize>,
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    connect: Option<usize>,
    session: Option<i64>,
    /// The draft of each request; none for a ping.
    requests: Vec<Option<usize>>,
    bytes: Option<usize>,
    ended: Option<(RecordKind, usize)>,
}

impl Reading {
    fn add(&mut self, time: Duration, number: u32, kind: RecordKind, content: Bytes) {
        let at = self.at;
        self.at += 1;
        self.plan.duration = time;
        if number == OBSERVER {
            return self.observed(&content, at, time);
        }
        let connection = self.connections.entry(number).or_default();
        let seen = self.seen;
        let draft = |action| {
            let step = Step { time, connection: number, at, action, after: seen };
            Draft { step, seen, zxid: None, done: None }
        };
        match kind {
            RecordKind::Opened | RecordKind::Finished => {}
            RecordKind::ClientBytes | RecordKind::ClientFrame if connection.ended.is_some() => {}
            RecordKind::ClientBytes => {
                connection.bytes = Some(self.drafts.len());
                self.drafts.push(draft(Action::Bytes { bytes: content, is_answered: false }));
            }
            RecordKind::ServerBytes => {
                let asked = connection.bytes.and_then(|asked| self.drafts.get_mut(asked));
                if let Some(Draft { step: Step { action: Action::Bytes { is_answered, .. }, .. }, .. }) =
                    asked
                {
                    *is_answered = true;
                }
            }
            RecordKind::ClientFrame => {
                self.plan.last_sign.insert(number, at);
                let session = connection.session.and_then(|id| self.expiries.sessions.get_mut(&id));
                if let Some(session) = session {
                    session.heard = time;
                }
                match connection.conversation.from_client(&content) {
                    Ok(FromClient::Connect(request)) => {
                        connection.connect = Some(self.drafts.len());
                        let heard =
                            self.expiries.sessions.get(&request.session.0).map(|session| session.heard);
                        let silence = heard.map_or(Duration::ZERO, |heard| time.saturating_sub(heard));
                        self.drafts.push(draft(Action::Connect { request, response: None, silence }));
                    }
                    Ok(FromClient::Request(request)) if request.op == OpCode::Ping.code() => {
                        self.plan.pings += 1;
                        connection.requests.push(None);
                    }
                    Ok(FromClient::Request(request)) => {
                        if request.op == OpCode::CloseSession.code() {
                            self.expiries.closed(connection.session);
                        }
                        connection.requests.push(Some(self.drafts.len()));
                        let action = Action::Request { payload: content, request, reply: Awaited::Lost };
                        self.drafts.push(draft(action));
                    }
                    Err(_) => {
                        let mut bytes = (content.len() as u32).to_be_bytes().to_vec();
                        bytes.extend_from_slice(&content);
                        self.drafts.push(draft(Action::Bytes { bytes: bytes.into(), is_answered: false }));
                    }
                }
            }
            RecordKind::ServerFrame => self.answer(number, &content, at, time),
            RecordKind::EndedByClient | RecordKind::EndedByServer => {
                connection.ended = Some((kind, at));
                let action = if kind == RecordKind::EndedByClient { Action::Cut } else { Action::Ended };
                // One that has said nothing is not opened.
                if connection.connect.is_some() || connection.bytes.is_some() {
                    self.drafts.push(draft(action));
                }
            }
        }
    }

    /// Notes a deletion. The order in which clients were answered is known better from their own replies.
    fn observed(&mut self, content: &[u8], at: usize, time: Duration) {
        let Ok(FromServer::Event(zxid, event)) = Conversation::established().from_server(content) else {
            return;
        };
        self.expiries.happened(zxid.0, &event);
        self.expiries.saw(zxid.0, time, at);
        self.changed.insert(zxid.0);
        self.deletions.add(zxid.0, Deletion { path: event.path, time, at });
    }

    fn answer(&mut self, number: u32, content: &[u8], at: usize, time: Duration) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let events = self.plan.events.entry(number).or_default();
        let zxid = match connection.conversation.from_server(content) {
            Ok(FromServer::Connected(connected)) => {
                if !connected.is_refusal() {
                    connection.session = Some(connected.session.0);
                    let timeout = Duration::from_millis(u64::try_from(connected.timeout).unwrap_or(0));
                    let session = Session { timeout, heard: time, is_closed: false };
                    self.expiries.sessions.insert(connected.session.0, session);
                    self.opened += 1;
                }
                let connect = connection.connect.and_then(|connect| self.drafts.get_mut(connect));
                if let Some(Draft {
                    step: Step { action: Action::Connect { response, request, .. }, .. },
                    done,
                    ..
                }) = connect
                {
                    self.opened -= i64::from(!connected.is_refusal() && request.session.0 != 0);
                    (*response, *done) = (Some(connected), Some(at));
                }
                return;
            }
            Ok(FromServer::Event(zxid, event)) => {
                self.expiries.happened(zxid.0, &event);
                // Of a write that comes after the end, there is none to wait for.
                if connection.ended.is_none() {
                    events.push(of_event(zxid, &event));
                }
                zxid.0
            }
            Ok(FromServer::Reply { header, reply, .. }) => {
                let draft = connection.conversation.answered().and_then(|number| connection.requests[number]);
                if let Some(draft) = draft.and_then(|draft| self.drafts.get_mut(draft)) {
                    if let Action::Request { request, reply: awaited, .. } = &mut draft.step.action {
                        let is_transaction = takes_zxid(request) && header.zxid.0 > draft.seen;
                        let fields = reply_fields(header.err, header.zxid, &reply);
                        let change = |(name, value): &(&str, Value)| match value {
                            Value::Int(zxid) if ["czxid", "mzxid", "pzxid"].contains(name) => Some(*zxid),
                            _ => None,
                        };
                        self.changed.extend(fields.iter().filter_map(change));
                        if let (Some(session), Ok(request)) = (connection.session, &request.body) {
                            self.expiries.replied(session, request, &fields);
                        }
                        *awaited = Awaited::Reply {
                            fields,
                            events: events.len(),
                            transaction: is_transaction.then_some(header.zxid.0),
                        };
                        if self.first.is_none() && header.zxid.0 > 0 {
                            self.first = Some((header.zxid.0, is_transaction, self.opened));
                        }
                    }
                    (draft.zxid, draft.done) = (Some(header.zxid.0).filter(|zxid| *zxid > 0), Some(at));
                }
                header.zxid.0
            }
            Err(_) => return,
        };
        self.expiries.saw(zxid, time, at);
        self.seen = self.seen.max(zxid);
    }

    fn finish(mut self) -> Plan {
        self.plan.base =
            self.first.map_or(0, |(zxid, is_transaction, opened)| zxid - i64::from(is_transaction) - opened);
        for draft in &mut self.drafts {
            draft.seen = draft.seen.max(self.plan.base);
            let ended = self.connections.get(&draft.step.connection).and_then(|connection| connection.ended);
            if draft.done.is_none() {
                draft.done = ended.map(|(_, at)| at);
            }
            if let Action::Request { reply: reply @ Awaited::Lost, .. } = &mut draft.step.action {
                if let Some((RecordKind::EndedByServer, _)) = ended {
                    *reply = Awaited::Nothing;
                }
            }
        }
        let mut order = Order::of(&self.drafts, &self.changed);
        let mut last: HashMap<u32, Key> = HashMap::new();
        let mut keyed = Vec::new();
        for mut draft in self.drafts {
            let Some((key, after)) = order.place(&draft) else { continue };
            draft.step.after = after;
            let last = last.entry(draft.step.connection).or_default();
            *last = key.max(*last);
            keyed.push((*last, draft.step));
        }
        let is_observed = self.deletions.is_observed();
        let is_ephemeral = |path: &str| self.expiries.is_ephemeral(path);
        let deletions = self.deletions.of_server(self.plan.base, order.known(), is_ephemeral);
        let mut known = order.known().clone();
        known.extend(deletions.keys());
        for (zxid, Deletion { path, time, at }) in deletions {
            let step =
                Step { time, connection: OBSERVER, at, action: Action::Delete { path }, after: zxid - 1 };
            keyed.push(((zxid, false, at), step));
        }
        for Expiry { session, zxid, time, at } in self.expiries.find(self.plan.base, &known) {
            known.insert(zxid);
            let after = ((zxid, true, at), zxid - 1);
            for (key, step) in &mut keyed {
                let of = self.connections.get(&step.connection).and_then(|connection| connection.session);
                if matches!(step.action, Action::Ended) && of == Some(session) {
                    *key = after.0.max(*key);
                }
            }
            let action = Action::Expire { session };
            keyed.push(((zxid, false, at), Step { time, connection: OBSERVER, at, action, after: after.1 }));
        }
        // What had deleted something would have been seen.
        let left = if is_observed { self.expiries.unexplained(self.plan.base, &known) } else { Vec::new() };
        for (zxid, time, at) in left {
            let step = Step { time, connection: OBSERVER, at, action: Action::Refuse, after: zxid - 1 };
            keyed.push(((zxid, false, at), step));
        }
        keyed.sort_by_key(|(key, _)| *key);
        self.plan.steps = keyed.into_iter().map(|(_, step)| step).collect();
        self.plan
    }
}

#[cfg(test)]
mod tests;
