//! [`Player`]: makes the steps of a plan.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use bytes::Bytes;
use zoolet_proto::records::{AuthPacket, ConnectRequest, ConnectResponse, Delete, DeleteContainer};
use zoolet_proto::{ErrorCode, Incoming, OpCode, Request, SessionId, Zxid};

use super::ids::{Ids, show_events};
use super::link::Link;
use super::plan::Plan;
use super::step::{Action, Awaited, Moment, Step};
use super::waiting::why_missing;
use super::{Replay, ReplayDifference, Replayed};
use crate::error::CaptureError;
use crate::wire::connection::{Connection, NO_SESSION, ReceiveError, SESSION_TIMEOUT};
use crate::wire::conversation::FromServer;
use crate::wire::encoding;
use crate::wire::fields::{Fields, Value, of_connect, of_connected, reply_fields, show};
use crate::wire::requests::of_incoming;

pub(super) struct Player<'r> {
    pub(super) replay: &'r Replay,
    pub(super) plan: Plan,
    pub(super) ids: Ids,
    /// The session of the replay itself, which asks the server how far it is.
    pub(super) own_session: Connection,
    /// How far the new server is, as far as is known.
    pub(super) new_zxid: i64,
    pub(super) links: HashMap<u32, Link>,
    /// Connections that were lost before their time.
    lost: HashSet<u32>,
    /// The record of the step that is made.
    pub(super) at: usize,
    pub(super) ticked: Instant,
    replayed: Replayed,
}

impl<'r> Player<'r> {
    pub(super) async fn new(replay: &'r Replay, plan: Plan) -> Result<Self, CaptureError> {
        let mut own_session = Connection::with_session(&replay.server, replay.limit).await?;
        let answer = own_session.ask(&Request::Ping).await;
        let (_, zxid, _) = answer.map_err(|error| CaptureError::server(&replay.server, error.to_string()))?;
        Ok(Self {
            replay,
            ids: Ids::new(plan.base, zxid.0),
            own_session,
            new_zxid: zxid.0,
            links: HashMap::new(),
            lost: HashSet::new(),
            at: 0,
            ticked: Instant::now(),
            replayed: Replayed { pings: plan.pings, warning: plan.warning.clone(), ..Replayed::default() },
            plan,
        })
    }

    /// Makes all steps. On an error, the replay's own session is not closed, and expires.
    pub(super) async fn play(mut self) -> Result<Replayed, CaptureError> {
        for step in std::mem::take(&mut self.plan.steps) {
            self.at = step.moment.at;
            self.tick().await;
            if self.lost.contains(&step.moment.connection) {
                self.replayed.unsent += usize::from(matches!(step.action, Action::Request { .. }));
                continue;
            }
            self.catch_up(&step).await?;
            self.step(&step).await?;
        }
        // The capture ended before these connections did.
        let mut open: Vec<_> = self.links.keys().copied().collect();
        open.sort_unstable();
        for connection in open {
            let moment = Moment { time: self.plan.duration, connection, at: usize::MAX };
            self.cut(&Step { moment, action: Action::Cut, after: 0 }).await;
        }
        self.own_session.close().await;
        Ok(self.replayed)
    }

    async fn step(&mut self, step: &Step) -> Result<(), CaptureError> {
        match &step.action {
            Action::Connect { request, response, .. } => {
                self.connect(step, request, response.as_ref()).await?;
            }
            Action::Request { payload, request, reply } => self.request(step, payload, request, reply).await,
            Action::Bytes { bytes, is_answered } => self.bytes(step, bytes, *is_answered).await?,
            Action::Cut => self.cut(step).await,
            Action::Ended => self.ended(step).await,
            Action::Expire { session } => self.end_session(step, *session).await?,
            Action::Delete { path } => self.delete(step, path).await?,
            Action::Refuse => self.refuse(step).await?,
        }
        Ok(())
    }

    async fn connect(
        &mut self,
        step: &Step,
        request: &ConnectRequest,
        response: Option<&ConnectResponse>,
    ) -> Result<(), CaptureError> {
        let connection = step.moment.connection;
        let (id, password) = self.session_to_ask_for(step, request, response).await;
        let mut sent = request.clone();
        sent.session = SessionId(id);
        sent.last_zxid_seen = Zxid(self.ids.new_zxid(request.last_zxid_seen.0));
        sent.password = request.password.as_ref().map(|_| password);
        self.open(connection).await?.send(&encoding::payload(|out| sent.encode_frame(out))).await;
        let Some(response) = response else { return Ok(()) };

        let (what, captured) = (show(&of_connect(request)), of_connected(response));
        let wanted = |message| match message {
            Ok(FromServer::Connected(response)) => Some(response),
            _ => None,
        };
        let came = match self.wait_for(connection, self.replay.limit, wanted).await {
            Ok(came) => came,
            Err(missing) => {
                self.lose(step, &what, &show(&captured), &why_missing(&missing));
                return Ok(());
            }
        };
        if came.is_refusal() != response.is_refusal() {
            let came = show(&self.ids.normal(&of_connected(&came)));
            self.lose(step, &what, &show(&captured), &came);
            return Ok(());
        }
        if !came.is_refusal() {
            let session = response.session.0;
            // One that was opened in place of one from before the capture has taken a zxid, which the captured one had not.
            self.ids.offset += i64::from(id == 0 && request.session.0 != 0);
            self.ids.opened(session, &came);
            if let Some(link) = self.links.get_mut(&connection) {
                link.session = Some(session);
            }
        }
        self.compare_fields(step, &what, &captured, &of_connected(&came));
        Ok(())
    }

    /// The session and password with which the server does what the captured one did.
    async fn session_to_ask_for(
        &mut self,
        step: &Step,
        request: &ConnectRequest,
        response: Option<&ConnectResponse>,
    ) -> (i64, Bytes) {
        let asked = request.session.0;
        let is_refused = response.is_some_and(ConnectResponse::is_refusal);
        let own = (asked, request.password.clone().unwrap_or_default());
        let Some(session) = self.ids.session(asked).cloned() else {
            // One from before the capture that was resumed cannot be resumed here.
            return if asked != 0 && response.is_some() && !is_refused { NO_SESSION } else { own };
        };
        let silence = match step.action {
            Action::Connect { silence, .. } if is_refused && !session.is_closed => silence,
            _ => return (session.id, session.password),
        };
        if silence < session.timeout {
            // It cannot have expired, so the password was wrong.
            return (session.id, Bytes::from(vec![0xff; session.password.len()]));
        }
        self.wait_for_expiry(&session).await;
        (session.id, session.password)
    }

    async fn request(&mut self, step: &Step, payload: &[u8], request: &Incoming, awaited: &Awaited) {
        let connection = step.moment.connection;
        let what = show(&of_incoming(request, payload));
        let payload = self.mapped(payload, request);
        // It is there: the first step of a connection opens it, its end is the last one, and `play` leaves out lost ones.
        let Some(link) = self.links.get_mut(&connection) else { return };
        let number = link.ask(&payload).await;
        self.replayed.requests += 1;
        if let Some(session) = self.ids.session_mut(link.session) {
            session.heard = Instant::now();
            session.is_closed |= request.op == OpCode::CloseSession.code();
        }
        if matches!(awaited, Awaited::Nothing) {
            return;
        }
        let wanted = |message| match message {
            Ok(FromServer::Reply { header, number: answered, reply, .. }) if answered == Some(number) => {
                Some((reply_fields(header.err, header.zxid, &reply), header.zxid.0))
            }
            _ => None,
        };
        let came = self.wait_for(connection, self.replay.limit, wanted).await;
        if let Ok((_, zxid)) = came {
            self.new_zxid = self.new_zxid.max(zxid);
        }
        // A reply that the client has not got shows nothing but how far the server is.
        let Awaited::Reply { fields: captured, events, transaction } = awaited else { return };
        match came {
            Ok((fields, zxid)) => {
                self.compare_events(step, &format!("before the reply to {what}"), *events);
                self.compare_fields(step, &what, captured, &fields);
                if let Some(transaction) = transaction.filter(|_| zxid > 0) {
                    // A difference is reported once.
                    self.ids.offset = zxid - transaction;
                }
            }
            Err(missing) => {
                let captured = show(&self.ids.normal_captured(captured));
                self.lose(step, &what, &captured, &why_missing(&missing));
            }
        }
    }

    /// The bytes of a request for the new server: with its zxids, and with credentials.
    fn mapped(&mut self, payload: &[u8], request: &Incoming) -> Bytes {
        let unchanged = || Bytes::copy_from_slice(payload);
        let Ok(mut body) = request.body.clone() else { return unchanged() };
        match &mut body {
            Request::SetWatches(set) => set.relative_zxid = Zxid(self.ids.new_zxid(set.relative_zxid.0)),
            Request::SetWatches2(set) => set.relative_zxid = Zxid(self.ids.new_zxid(set.relative_zxid.0)),
            Request::Auth(AuthPacket { scheme: Some(scheme), auth: Some(auth), .. }) if !auth.is_empty() => {
                match self.replay.credentials(scheme, auth) {
                    Some(credentials) => *auth = credentials.clone(),
                    None => self.replayed.masked_auth += 1,
                }
            }
            Request::Sasl(_) => {
                self.replayed.masked_sasl += 1;
                return unchanged();
            }
            _ => return unchanged(),
        }
        encoding::payload(|out| body.encode_frame(request.xid, out))
    }

    async fn bytes(&mut self, step: &Step, bytes: &[u8], is_answered: bool) -> Result<(), CaptureError> {
        let connection = step.moment.connection;
        let link = match self.links.get_mut(&connection) {
            Some(link) => link,
            None => self.open(connection).await?,
        };
        link.send_bytes(bytes).await;
        if is_answered {
            // A text may look like a reply to nothing.
            let is_text = |message| {
                matches!(message, Err(_) | Ok(FromServer::Reply { number: None, .. })).then_some(())
            };
            if self.wait_for(connection, self.replay.limit, is_text).await.is_err() {
                let what = show(&[("bytes", Value::Data(Some(Bytes::copy_from_slice(bytes))))]);
                self.lose(step, &what, "an answer", "no answer");
            }
        }
        Ok(())
    }

    /// Ends a connection, after the events that the client still got.
    async fn cut(&mut self, step: &Step) {
        let connection = step.moment.connection;
        let Some(link) = self.links.get(&connection) else { return };
        let all = self.captured_events(connection).len();
        let missing = (all - link.compared_events).saturating_sub(link.events.len());
        for _ in 0..missing {
            let is_event = |message| matches!(message, Ok(FromServer::Event(..))).then_some(());
            if self.wait_for(connection, self.timer_limit(), is_event).await.is_err() {
                break;
            }
        }
        if let Some(link) = self.links.get_mut(&connection) {
            // Of what came while it went away, the capture may have less.
            link.events.truncate(all - link.compared_events);
        }
        self.compare_events(step, "before the client ended the connection", all);
        self.links.remove(&connection);
    }

    /// Waits until the server has ended a connection.
    async fn ended(&mut self, step: &Step) {
        let connection = step.moment.connection;
        let waited = self.wait_for(connection, self.timer_limit(), |_| None::<()>).await;
        let all = self.captured_events(connection).len();
        self.compare_events(step, "before the server ended the connection", all);
        if !matches!(waited, Err(ReceiveError::Ended)) {
            self.unasked_difference(step, "the server has ended the connection", "it has not");
        }
        self.links.remove(&connection);
    }

    /// Ends a session that had expired at this point of the capture. To everybody else it is the same: it is resumed on a new
    /// connection, so the server ends the old one if there is one, for which [`ended`](Self::ended) waits afterwards.
    async fn end_session(&mut self, step: &Step, captured: i64) -> Result<(), CaptureError> {
        let Some(session) = self.ids.session_mut(Some(captured)) else { return Ok(()) };
        session.is_closed = true;
        let held = (session.id, session.password.clone());
        let connecting = Connection::to(&self.replay.server, self.replay.limit).await;
        let mut connection = connecting.map_err(|error| self.unreachable(&error))?;
        let closed = match connection.open(held, 0, SESSION_TIMEOUT).await {
            Ok((response, _)) if !response.is_refusal() => connection.ask(&Request::CloseSession).await.ok(),
            _ => None,
        };
        match closed {
            Some((_, zxid, _)) => self.new_zxid = self.new_zxid.max(zxid.0),
            None => {
                let expired = format!("session {captured:#x} has expired");
                self.unasked_difference(step, &expired, "it had expired before");
            }
        }
        Ok(())
    }

    /// Deletes what a timer of the captured server had deleted at this point. To everybody else it is the same.
    async fn delete(&mut self, step: &Step, path: &str) -> Result<(), CaptureError> {
        let delete = Request::DeleteContainer(DeleteContainer { path: path.to_owned() });
        if let Some(error) = self.ask(&delete).await? {
            let captured = format!("the server deletes {path} by itself");
            self.unasked_difference(step, &captured, &error.to_string());
        }
        Ok(())
    }

    /// Takes a zxid and changes nothing, as the captured server has done by itself at this point.
    async fn refuse(&mut self, step: &Step) -> Result<(), CaptureError> {
        let delete = Delete { path: "/zookeeper/no-such-znode".to_owned(), version: -1 };
        self.replayed.unexplained += 1;
        if self.ask(&Request::Delete(delete)).await?.is_none() {
            let captured = "a transaction of the server that changes nothing";
            self.unasked_difference(step, captured, "a znode was deleted");
        }
        Ok(())
    }

    /// Asks the server something by the session of the replay itself.
    pub(super) async fn ask(&mut self, request: &Request) -> Result<Option<ErrorCode>, CaptureError> {
        let answer = self.own_session.ask(request).await;
        let gone = |error: ReceiveError| CaptureError::server(&self.replay.server, error.to_string());
        let (error, zxid, _) = answer.map_err(gone)?;
        self.new_zxid = self.new_zxid.max(zxid.0);
        Ok(error)
    }

    async fn open(&mut self, connection: u32) -> Result<&mut Link, CaptureError> {
        let opening = Link::open(&self.replay.server, self.replay.limit).await;
        let link = opening.map_err(|error| self.unreachable(&error))?;
        self.replayed.connections += 1;
        Ok(self.links.entry(connection).insert_entry(link).into_mut())
    }

    fn unreachable(&self, error: &std::io::Error) -> CaptureError {
        CaptureError::server(&self.replay.server, format!("cannot connect: {error}"))
    }

    fn captured_events(&self, connection: u32) -> &[Fields] {
        self.plan.connections.get(&connection).map_or(&[], |connection| &connection.events)
    }

    /// Compares the events since the last time with those up to this number.
    fn compare_events(&mut self, step: &Step, when: &str, up_to: usize) {
        let connection = step.moment.connection;
        let Some(link) = self.links.get_mut(&connection) else { return };
        let came = std::mem::take(&mut link.events);
        let from = link.compared_events;
        // The reply to an auth, which comes out of order, may stand among events that are compared already.
        let to = from.max(up_to);
        link.compared_events = to;
        self.replayed.events += came.len();
        let captured = &self.captured_events(connection)[from..to];
        let captured: Vec<_> = captured.iter().map(|event| self.ids.normal_captured(event)).collect();
        let came: Vec<_> = came.iter().map(|event| self.ids.normal(event)).collect();
        let (captured, came) = (show_events(&captured), show_events(&came));
        if captured != came {
            self.differ(step, when, &captured, &came);
        }
    }

    fn compare_fields(&mut self, step: &Step, what: &str, captured: &Fields, came: &Fields) {
        let (captured, came) = (self.ids.normal_captured(captured), self.ids.normal(came));
        if captured != came {
            self.differ(step, what, &show(&captured), &show(&came));
        }
    }

    /// Reports that a connection is not what it was. What its client sends later is not sent.
    fn lose(&mut self, step: &Step, what: &str, captured: &str, replayed: &str) {
        self.differ(step, what, captured, replayed);
        self.links.remove(&step.moment.connection);
        self.lost.insert(step.moment.connection);
    }

    /// Reports that the server has not done what it did by itself.
    pub(super) fn unasked_difference(&mut self, step: &Step, captured: &str, replayed: &str) {
        self.differ(step, "nothing was asked", captured, replayed);
    }

    fn differ(&mut self, step: &Step, request: &str, captured: &str, replayed: &str) {
        let Moment { time, connection, .. } = step.moment;
        let (request, captured, replayed) = (request.to_owned(), captured.to_owned(), replayed.to_owned());
        self.replayed.differences.push(ReplayDifference { time, connection, request, captured, replayed });
    }
}

#[cfg(test)]
mod tests;
