//! [`Judge`]: sees every frame that a client sends and every frame that it gets, and knows which mistakes they show.
//!
//! It has no clock and no socket. What a client may not have processed when it gave up a connection is not held against it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::frame::DEFAULT_MAX_FRAME;
use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{Incoming, OpCode, ReplyHeader, Request, SessionId, Xid, Zxid};

use crate::client::evidence::{Evidence, Mistake, short};
use crate::client::rule::ClientRule;
use crate::client::session::Session;
use crate::client::xids::Xids;
use crate::wire::conversation::{FromClient, FromServer, reply_xid};
use crate::wire::requests::relative_zxid;

/// How long a client may take until its watches are set again.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// What came that long before a client gave up a connection may be unknown to it.
const UNCERTAIN: Duration = Duration::from_secs(1);

/// How much later than it was sent a frame may be noticed.
const SLACK: Duration = Duration::from_millis(100);

/// Why a connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The client has closed it.
    Client,
    /// The server or the proxy has, and the client could read all that was sent before.
    Peer,
}

#[derive(Default)]
pub(crate) struct Judge {
    connections: Vec<Connection>,
    sessions: BTreeMap<SessionId, Session>,
    /// The largest zxid that was delivered.
    pub(crate) seen: Zxid,
    mistakes: Vec<Mistake>,
}

#[derive(Default)]
struct Connection {
    asked: Option<ConnectRequest>,
    answered: Option<Duration>,
    /// The session that it has been granted.
    session: Option<SessionId>,
    resumes: bool,
    /// When the client has last sent what keeps its session alive.
    last_sent: Duration,
    last_frame: Option<Evidence>,
    /// What the client had seen before the handshake.
    seen_before: Zxid,
    xids: Xids,
    in_flight: VecDeque<(Xid, Request)>,
    /// What was sent before the handshake was answered.
    early: Vec<Request>,
    /// When replies have come, and their zxids.
    replies: Vec<(Duration, Zxid)>,
    restores: Restores,
}

/// Whether a connection has shown that watches are set again.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Restores {
    #[default]
    NoWatch,
    Owed,
    Judged,
}

impl Judge {
    /// A new connection, by its number.
    pub(crate) fn open(&mut self) -> usize {
        self.connections.push(Connection::default());
        self.connections.len()
    }

    /// The client has sent a frame.
    pub(crate) fn client_sent(
        &mut self,
        number: usize,
        at: Duration,
        payload: &Bytes,
        message: &Result<FromClient, String>,
    ) {
        let evidence = Evidence::new(number, at, payload, message);
        if payload.len() > DEFAULT_MAX_FRAME {
            let reason = format!("{} bytes, where servers accept {DEFAULT_MAX_FRAME}", payload.len());
            self.report(ClientRule::Oversized, reason, &evidence);
        }
        match message {
            Err(error) => {
                self.report(ClientRule::Undecodable, format!("it does not decode: {error}"), &evidence)
            }
            Ok(FromClient::Connect(connect)) => self.connects(number, at, connect, &evidence),
            Ok(FromClient::Request(incoming)) => self.requests(number, at, incoming, &evidence),
        }
        self.connection(number).last_frame = Some(evidence);
    }

    /// Bytes of the client that begin no frame.
    pub(crate) fn no_frame(&mut self, number: usize, at: Duration, bytes: &Bytes, error: String) {
        let evidence = Evidence::new(number, at, bytes, &Err(error.clone()));
        self.report(ClientRule::Undecodable, error, &evidence);
    }

    /// The client has been sent a frame.
    pub(crate) fn server_sent(&mut self, number: usize, at: Duration, message: &FromServer) {
        match message {
            FromServer::Connected(response) => self.connected(number, at, response),
            FromServer::Reply { header, .. } => self.replied(number, at, header),
            FromServer::Event(zxid, event) => {
                self.seen = self.seen.max(*zxid);
                if let Some(session) = self.session_of(number) {
                    session.watches.fired(event);
                }
            }
        }
    }

    /// The connection has ended.
    pub(crate) fn ended(&mut self, number: usize, at: Duration, end: End) {
        let connection = self.connection(number);
        let silence = at.saturating_sub(connection.last_sent);
        let is_all_answered = connection.in_flight.is_empty();
        let last_frame = connection.last_frame.clone();
        let Some(session) = self.session_of(number) else { return };
        let limit = session.timeout * 2 / 3 + SLACK;
        // A program that has ended may do so. A client that comes back had no reason.
        let is_needless = end == End::Client && is_all_answered && silence >= session.timeout / 2;
        session.gave_up = last_frame.clone().filter(|_| is_needless).map(|frame| (silence, frame));
        self.detach(number, at, end);
        if let Some(frame) = last_frame.filter(|_| end == End::Peer && silence > limit) {
            let reason = format!("after it nothing came for {}", seconds(silence));
            self.report(ClientRule::PingTooLate, reason, &frame);
        }
    }

    /// The program is over: all mistakes, in the order of their frames.
    pub(crate) fn finish(mut self, at: Duration) -> Vec<Mistake> {
        let mut abandoned = Vec::new();
        for (id, session) in &mut self.sessions {
            let is_away = session.away_since.is_some_and(|since| at.saturating_sub(since) > GRACE);
            abandoned.extend(session.successor.take().filter(|_| is_away).map(|frame| (*id, frame)));
        }
        for (id, frame) in abandoned {
            let reason = format!("it asks for a new session, while {id} was alive and is never resumed");
            self.report(ClientRule::SessionAbandoned, reason, &frame);
        }
        self.mistakes.sort_by_key(|mistake| (mistake.frame.at, mistake.frame.connection));
        self.mistakes
    }

    /// The session of a connection, if it has one.
    pub(crate) fn session(&self, number: usize) -> Option<&Session> {
        self.sessions.get(&self.connections.get(number.checked_sub(1)?)?.session?)
    }

    /// Whether it has shown on a connection that it sets its watches again, or that it does not.
    pub(crate) fn has_judged_watches(&self, number: usize) -> bool {
        self.connections[number - 1].restores == Restores::Judged
    }

    /// Whether a rule was broken.
    pub(crate) fn has_shown(&self, rule: ClientRule) -> bool {
        self.mistakes.iter().any(|mistake| mistake.rule == rule)
    }

    fn connects(&mut self, number: usize, at: Duration, connect: &ConnectRequest, evidence: &Evidence) {
        let seen = self.seen;
        let connection = self.connection(number);
        connection.asked = Some(connect.clone());
        connection.seen_before = seen;
        if connect.session == SessionId(0) {
            for session in self.sessions.values_mut().filter(|session| !session.has_ended) {
                let could_resume = |since: Duration| at.saturating_sub(since) < session.timeout / 2;
                if session.successor.is_none() && session.away_since.is_some_and(could_resume) {
                    session.successor = Some(evidence.clone());
                }
            }
            return;
        }
        let Some(session) = self.sessions.get_mut(&connect.session) else {
            let reason = format!("no server has given the session {}", connect.session);
            return self.report(ClientRule::WrongSession, reason, evidence);
        };
        let (known, has_ended, gave_up) = (session.known, session.has_ended, session.gave_up.take());
        let is_password = connect.password.as_ref() == Some(&session.password);
        if has_ended {
            let reason = format!("the session {} has ended, and the client was told so", connect.session);
            return self.report(ClientRule::AfterExpiry, reason, evidence);
        }
        if let Some((silence, frame)) = gave_up {
            let silence = seconds(silence);
            let reason =
                format!("after it nothing came for {silence}, until the client gave up the connection");
            self.report(ClientRule::PingTooLate, reason, &frame);
        }
        if !is_password {
            let reason = format!("it is not the password of the session {}", connect.session);
            self.report(ClientRule::WrongSession, reason, evidence);
        }
        self.judge_zxid("lastZxidSeen", connect.last_zxid_seen, (known, seen), evidence);
    }

    fn requests(&mut self, number: usize, at: Duration, incoming: &Incoming, evidence: &Evidence) {
        let op = OpCode::from_code(incoming.op);
        if let Err(error) = &incoming.body {
            let reason = match op {
                Some(_) => error.to_string(),
                None => format!("{} is the opcode of no operation", incoming.op),
            };
            self.report(ClientRule::Undecodable, reason, evidence);
        }
        if let Some((rule, reason)) = self.connection(number).xids.note(incoming.xid, op) {
            self.report(rule, reason, evidence);
        }
        let connection = self.connection(number);
        if let Ok(request) = &incoming.body {
            connection.in_flight.push_back((incoming.xid, request.clone()));
        }
        let Some(answered) = connection.answered else {
            // A server executes it after the handshake, if it grants the session.
            connection.early.extend(incoming.body.clone());
            let reason = "the connect request has no answer yet".to_owned();
            return self.report(ClientRule::HandshakeFirst, reason, evidence);
        };
        let silence = at.saturating_sub(connection.last_sent);
        // A server does not count these as a sign of life.
        if !matches!(op, Some(OpCode::Auth | OpCode::Sasl)) {
            connection.last_sent = at;
        }
        let (resumes, seen_before) = (connection.resumes, connection.seen_before);
        let Some(session) = self.session_of(number) else { return };
        let timeout = session.timeout;
        let known = session.known;
        session.is_closing |= op == Some(OpCode::CloseSession);
        if silence > timeout * 2 / 3 + SLACK {
            let reason = format!(
                "it comes {} after the frame before, with a session timeout of {}",
                seconds(silence),
                seconds(timeout)
            );
            self.report(ClientRule::PingTooLate, reason, evidence);
        }
        let Ok(request) = &incoming.body else { return };
        let relative = relative_zxid(request);
        if let Some(relative) = relative.filter(|_| resumes) {
            self.judge_zxid("relativeZxid", relative, (known, seen_before), evidence);
        }
        if let Some(session) = self.session_of(number) {
            session.requested(request);
        }
        self.judge_auth(number, request, evidence);
        if relative.is_none() && at >= answered + GRACE {
            self.judge_watches(number, evidence);
        }
    }

    /// `known` is what the client must have seen, and `seen` what it can have seen.
    fn judge_zxid(&mut self, field: &str, zxid: Zxid, (known, seen): (Zxid, Zxid), evidence: &Evidence) {
        let reason = if zxid < known {
            format!("{field} is {zxid}, where a reply has had {known}")
        } else if zxid > seen {
            format!("{field} is {zxid}, where nothing before has had more than {seen}")
        } else {
            return;
        };
        self.report(ClientRule::WrongLastZxid, reason, evidence);
    }

    fn judge_auth(&mut self, number: usize, request: &Request, evidence: &Evidence) {
        let needs_no_auth = matches!(
            request.op(),
            OpCode::Ping
                | OpCode::Auth
                | OpCode::Sasl
                | OpCode::CloseSession
                | OpCode::SetWatches
                | OpCode::SetWatches2
        );
        let Some(session) = self.session_of(number) else { return };
        if let Some(scheme) = session.owed_auth().filter(|_| !needs_no_auth) {
            let reason =
                format!("the {scheme} credentials of an earlier connection have not been sent on this one");
            self.report(ClientRule::AuthNotRestored, reason, evidence);
        }
    }

    fn judge_watches(&mut self, number: usize, evidence: &Evidence) {
        let connection = self.connection(number);
        if connection.restores != Restores::Owed {
            return;
        }
        connection.restores = Restores::Judged;
        let Some(session) = self.session_of(number) else { return };
        let owed: Vec<_> =
            session.watches.owed().map(|(kind, path)| format!("{kind} {}", short(path))).collect();
        session.watches.drop_owed();
        if let Some(first) = owed.first() {
            let more = if owed.len() > 1 { format!(" and {} more", owed.len() - 1) } else { String::new() };
            let reason =
                format!("{} after the handshake, a watch is not set again: {first}{more}", seconds(GRACE));
            self.report(ClientRule::WatchesNotRestored, reason, evidence);
        }
    }

    fn connected(&mut self, number: usize, at: Duration, response: &ConnectResponse) {
        let connection = self.connection(number);
        let asked = connection.asked.as_ref().map_or(SessionId(0), |asked| asked.session);
        connection.answered = Some(at);
        connection.last_sent = at;
        if response.is_refusal() {
            if let Some(session) = self.sessions.get_mut(&asked) {
                session.has_ended = true;
                session.away_since = None;
            }
            return;
        }
        connection.session = Some(response.session);
        connection.resumes = asked == response.session;
        // A client may present its session elsewhere before it closes the old connection.
        if let Some(old) = self.sessions.get(&response.session).and_then(|session| session.connection) {
            self.detach(old, at, End::Client);
        }
        let session = self.sessions.entry(response.session).or_default();
        (session.id, session.password) = (response.session, response.password.clone());
        session.timeout = Duration::from_millis(u64::try_from(response.timeout).unwrap_or_default());
        session.connection = Some(number);
        (session.away_since, session.successor) = (None, None);
        let connection = &mut self.connections[number - 1];
        if !session.watches.is_empty() {
            connection.restores = Restores::Owed;
        }
        connection.early.drain(..).for_each(|request| session.requested(&request));
    }

    fn replied(&mut self, number: usize, at: Duration, header: &ReplyHeader) {
        self.seen = self.seen.max(header.zxid);
        let connection = self.connection(number);
        let is_answered =
            |(xid, request): &(Xid, Request)| header.xid == reply_xid(request.op().code(), *xid);
        let Some(position) = connection.in_flight.iter().position(is_answered) else { return };
        let Some((_, request)) = connection.in_flight.remove(position) else { return };
        // Clients may handle these apart from the others, without a look at the zxid.
        if !matches!(request.op(), OpCode::Ping | OpCode::Auth | OpCode::SetWatches | OpCode::SetWatches2) {
            connection.replies.push((at, header.zxid));
        }
        let Some(session) = self.session_of(number) else { return };
        session.replied(&request, header.error_code(), at);
    }

    /// The session of the connection has it no longer.
    fn detach(&mut self, number: usize, at: Duration, end: End) {
        let certain = match end {
            End::Client => at.saturating_sub(UNCERTAIN),
            End::Peer => at,
        };
        let replies = std::mem::take(&mut self.connection(number).replies);
        let Some(session) = self.session_of(number) else { return };
        let known = replies.iter().filter(|(came, _)| *came <= certain).map(|(_, zxid)| *zxid).max();
        session.disconnected(certain, known);
        let by_peer = end == End::Peer && !session.has_ended && !session.is_closing;
        session.away_since = Some(at).filter(|_| by_peer);
    }

    /// Reports the first frame that shows a mistake, and counts the others.
    fn report(&mut self, rule: ClientRule, reason: String, frame: &Evidence) {
        match self.mistakes.iter_mut().find(|mistake| mistake.rule == rule) {
            Some(mistake) => mistake.again += 1,
            None => self.mistakes.push(Mistake { rule, reason, frame: frame.clone(), again: 0 }),
        }
    }

    fn connection(&mut self, number: usize) -> &mut Connection {
        &mut self.connections[number - 1]
    }

    /// The session that is attached to a connection.
    fn session_of(&mut self, number: usize) -> Option<&mut Session> {
        let id = self.connections[number - 1].session?;
        self.sessions.get_mut(&id).filter(|session| session.connection == Some(number))
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
#[path = "judge_tests/mod.rs"]
mod tests;
