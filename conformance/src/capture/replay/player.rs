//! [`Player`]: makes the steps of a plan.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zoolet_proto::records::{AuthPacket, ConnectRequest, ConnectResponse, Delete, DeleteContainer};
use zoolet_proto::{Incoming, OpCode, Request, SessionId, Xid, Zxid, frame};

use super::ids::{Ids, show_events};
use super::link::{Came, Link};
use super::plan::{Action, Awaited, Plan, Step};
use super::{Replay, ReplayDifference, Replayed};
use crate::error::CaptureError;
use crate::wire::connection::{Connection, NO_SESSION, SESSION_TIMEOUT, Silence};
use crate::wire::fields::{Fields, Value, of_connect, of_connected, show};
use crate::wire::requests::of_incoming;

pub(super) struct Player<'r> {
    pub(super) replay: &'r Replay,
    pub(super) plan: Plan,
    pub(super) ids: Ids,
    /// Asks the server how far it is.
    pub(super) observer: Connection,
    /// How far the server is, as far as is known.
    pub(super) zxid: i64,
    pub(super) links: HashMap<u32, Link>,
    /// Connections that were lost before their time.
    lost: HashSet<u32>,
    /// By the id of the capture.
    pub(super) sessions: HashMap<i64, Activity>,
    /// The record of the step that is made.
    pub(super) at: usize,
    pub(super) ticked: Instant,
    replayed: Replayed,
}

/// A session of the capture on the new server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Activity {
    pub(super) last: Instant,
    /// What the server has granted.
    pub(super) timeout: Duration,
    is_closed: bool,
}

impl<'r> Player<'r> {
    pub(super) async fn new(replay: &'r Replay, plan: Plan) -> Result<Self, CaptureError> {
        let connecting = Connection::with_session(&replay.server, replay.limit).await;
        let observer = connecting.map_err(|no| CaptureError::server(&replay.server, no.reason))?;
        let mut player = Self {
            replay,
            ids: Ids::new(plan.base, 0),
            observer,
            zxid: 0,
            links: HashMap::new(),
            lost: HashSet::new(),
            sessions: HashMap::new(),
            at: 0,
            ticked: Instant::now(),
            replayed: Replayed { pings: plan.pings, warning: plan.warning.clone(), ..Replayed::default() },
            plan,
        };
        player.observe().await?;
        player.ids = Ids::new(player.plan.base, player.zxid);
        Ok(player)
    }

    pub(super) async fn play(mut self) -> Result<Replayed, CaptureError> {
        for step in std::mem::take(&mut self.plan.steps) {
            self.at = step.at;
            self.tick().await;
            if self.lost.contains(&step.connection) {
                self.replayed.unsent += usize::from(matches!(step.action, Action::Request { .. }));
                continue;
            }
            self.step(&step).await?;
        }
        let mut open: Vec<_> = self.links.keys().copied().collect();
        open.sort_unstable();
        for connection in open {
            let step =
                Step { time: self.plan.duration, connection, at: usize::MAX, action: Action::Cut, after: 0 };
            self.cut(&step).await;
        }
        self.observer.close().await;
        Ok(self.replayed)
    }

    async fn step(&mut self, step: &Step) -> Result<(), CaptureError> {
        self.catch_up(step).await?;
        match &step.action {
            Action::Connect { request, response, silence } => {
                self.connect(step, request, response.as_ref(), *silence).await
            }
            Action::Request { payload, request, reply } => {
                self.request(step, payload, request, reply).await;
                Ok(())
            }
            Action::Bytes { bytes, is_answered } => self.bytes(step, bytes, *is_answered).await,
            Action::Cut => {
                self.cut(step).await;
                Ok(())
            }
            Action::Ended => {
                self.ended(step).await;
                Ok(())
            }
            Action::Expire { session } => self.end_session(step, *session).await,
            Action::Delete { path } => self.delete(step, path).await,
            Action::Refuse => self.refuse(step).await,
        }
    }

    async fn connect(
        &mut self,
        step: &Step,
        request: &ConnectRequest,
        response: Option<&ConnectResponse>,
        silence: Duration,
    ) -> Result<(), CaptureError> {
        let asked = request.session.0;
        let mut session = self.ids.session(asked);
        let is_refused = response.is_some_and(ConnectResponse::is_refusal);
        match (&mut session, self.sessions.get(&asked).copied()) {
            (Some((_, password)), Some(activity)) if is_refused && !activity.is_closed => {
                if silence >= activity.timeout {
                    self.expire(activity).await;
                } else {
                    // It cannot have expired, so the password was wrong.
                    *password = Bytes::from(vec![0xff; password.len()]);
                }
            }
            // One from before the capture.
            (none @ None, _) if asked != 0 && response.is_some() && !is_refused => *none = Some(NO_SESSION),
            _ => {}
        }
        let (id, password) = session.unwrap_or((asked, request.password.clone().unwrap_or_default()));
        let mut sent = request.clone();
        sent.session = SessionId(id);
        sent.last_zxid_seen = Zxid(self.ids.zxid(request.last_zxid_seen.0));
        if request.password.is_some() {
            sent.password = Some(password);
        }
        let mut bytes = BytesMut::new();
        sent.encode_frame(&mut bytes);
        let mut link = self.open().await?;
        link.send(&bytes[frame::PREFIX..]).await;
        self.links.insert(step.connection, link);
        self.replayed.connections += 1;
        let Some(response) = response else { return Ok(()) };
        let what = show(&of_connect(request));
        let captured = of_connected(response);
        let until = Instant::now() + self.replay.limit;
        let came = loop {
            match self.next(step.connection, until).await {
                Some(Came::Connected(came)) => break came,
                Some(Came::Ended) => {
                    return self.lose(step, &what, &show(&captured), "the server has ended the connection");
                }
                None => return self.lose(step, &what, &show(&captured), "no answer"),
                Some(_) => {}
            }
        };
        if came.is_refusal() != response.is_refusal() {
            let came = show(&self.ids.normal(&of_connected(&came)));
            return self.lose(step, &what, &show(&captured), &came);
        }
        if !came.is_refusal() {
            let captured = response.session.0;
            // A session of its own has taken a zxid that the captured one had not.
            self.ids.offset += i64::from(id == 0 && asked != 0);
            self.ids.opened(captured, came.session.0, came.password.clone());
            let timeout = Duration::from_millis(u64::try_from(came.timeout).unwrap_or(0));
            self.sessions.insert(captured, Activity { last: Instant::now(), timeout, is_closed: false });
            if let Some(link) = self.links.get_mut(&step.connection) {
                link.session = Some(captured);
            }
        }
        self.compare(step, &what, &captured, &of_connected(&came));
        Ok(())
    }

    async fn request(&mut self, step: &Step, payload: &[u8], request: &Incoming, awaited: &Awaited) {
        let what = show(&of_incoming(request, payload));
        let payload = self.mapped(payload, request);
        let Some(link) = self.links.get_mut(&step.connection) else { return };
        let number = link.ask(&payload).await;
        let session = link.session;
        self.replayed.requests += 1;
        if let Some(activity) = session.and_then(|session| self.sessions.get_mut(&session)) {
            activity.last = Instant::now();
            activity.is_closed |= request.op == OpCode::CloseSession.code();
        }
        if matches!(awaited, Awaited::Nothing) {
            return;
        }
        let until = Instant::now() + self.replay.limit;
        let (fields, zxid) = loop {
            let missing = match self.next(step.connection, until).await {
                Some(Came::Reply { number: answered, fields, zxid }) if answered == number => {
                    break (fields, zxid);
                }
                Some(Came::Ended) => "the server has ended the connection",
                None => "no reply",
                Some(_) => continue,
            };
            if let Awaited::Reply { fields, .. } = awaited {
                let captured = show(&self.ids.normal_captured(fields));
                let _ = self.lose(step, &what, &captured, missing);
            }
            return;
        };
        self.zxid = self.zxid.max(zxid);
        let Awaited::Reply { fields: captured, events, transaction } = awaited else { return };
        self.events(step, &format!("before the reply to {what}"), *events);
        self.compare(step, &what, captured, &fields);
        if let Some(transaction) = transaction.filter(|_| zxid > 0) {
            // A difference is reported once.
            self.ids.offset = zxid - transaction;
        }
    }

    /// The bytes of a request for the new server: with its zxids, and with credentials.
    fn mapped(&mut self, payload: &[u8], request: &Incoming) -> Bytes {
        let mut request_there = match &request.body {
            Ok(body @ (Request::SetWatches(_) | Request::SetWatches2(_) | Request::Auth(_))) => body.clone(),
            Ok(Request::Sasl(_)) => {
                self.replayed.masked_sasl += 1;
                return Bytes::copy_from_slice(payload);
            }
            _ => return Bytes::copy_from_slice(payload),
        };
        match &mut request_there {
            Request::SetWatches(set) => set.relative_zxid = Zxid(self.ids.zxid(set.relative_zxid.0)),
            Request::SetWatches2(set) => set.relative_zxid = Zxid(self.ids.zxid(set.relative_zxid.0)),
            Request::Auth(AuthPacket { scheme: Some(scheme), auth: Some(auth), .. }) if !auth.is_empty() => {
                match self.replay.credentials(scheme, auth) {
                    Some(credentials) => *auth = credentials.clone(),
                    None => self.replayed.masked_auth += 1,
                }
            }
            _ => {}
        }
        let mut bytes = BytesMut::new();
        request_there.encode_frame(Xid(request.xid.0), &mut bytes);
        bytes.freeze().slice(frame::PREFIX..)
    }

    async fn bytes(&mut self, step: &Step, bytes: &[u8], is_answered: bool) -> Result<(), CaptureError> {
        if !self.links.contains_key(&step.connection) {
            let link = self.open().await?;
            self.links.insert(step.connection, link);
            self.replayed.connections += 1;
        }
        if let Some(link) = self.links.get_mut(&step.connection) {
            link.send_bytes(bytes).await;
        }
        let until = Instant::now() + self.replay.limit;
        if is_answered && !matches!(self.next(step.connection, until).await, Some(Came::Other)) {
            let what = show(&[("bytes", Value::Data(Some(Bytes::copy_from_slice(bytes))))]);
            return self.lose(step, &what, "an answer", "no answer");
        }
        Ok(())
    }

    /// Ends a connection, after the events that the client still got.
    async fn cut(&mut self, step: &Step) {
        let missing = |player: &Self| {
            let all = player.plan.events.get(&step.connection).map_or(0, Vec::len);
            let link = player.links.get(&step.connection);
            link.map_or(0, |link| (all - link.compared).saturating_sub(link.events.len()))
        };
        let until = Instant::now() + self.timer_limit();
        while missing(self) > 0 {
            if let Some(Came::Ended) | None = self.next(step.connection, until).await {
                break;
            }
        }
        let all = self.plan.events.get(&step.connection).map_or(0, Vec::len);
        if let Some(link) = self.links.get_mut(&step.connection) {
            // Of what came while it went away, the capture may have less.
            link.events.truncate(all - link.compared);
        }
        self.events(step, "before the client ended the connection", all);
        self.links.remove(&step.connection);
    }

    /// Waits until the server has ended a connection.
    async fn ended(&mut self, step: &Step) {
        let until = Instant::now() + self.timer_limit();
        let has_ended = loop {
            match self.next(step.connection, until).await {
                Some(Came::Ended) => break true,
                None => break false,
                Some(_) => {}
            }
        };
        let all = self.plan.events.get(&step.connection).map_or(0, Vec::len);
        self.events(step, "before the server ended the connection", all);
        if !has_ended {
            self.differ(
                step,
                "nothing was asked",
                "the server has ended the connection".to_owned(),
                "it has not".to_owned(),
            );
        }
        self.links.remove(&step.connection);
    }

    /// Ends a session that had expired at this point of the capture. To everybody else it is the same.
    async fn end_session(&mut self, step: &Step, captured: i64) -> Result<(), CaptureError> {
        let Some((session, password)) = self.ids.session(captured) else { return Ok(()) };
        let connecting = Connection::to(&self.replay.server, self.replay.limit).await;
        let mut connection = connecting
            .map_err(|error| CaptureError::server(&self.replay.server, format!("cannot connect: {error}")))?;
        let closed = match connection.open((session, password), 0, SESSION_TIMEOUT).await {
            Ok((response, _)) if !response.is_refusal() => connection.ask(&Request::CloseSession).await.ok(),
            _ => None,
        };
        match closed {
            Some((_, zxid, _)) => self.zxid = self.zxid.max(zxid.0),
            None => self.differ(
                step,
                "nothing was asked",
                format!("session {captured:#x} has expired"),
                "it had expired before".to_owned(),
            ),
        }
        if let Some(activity) = self.sessions.get_mut(&captured) {
            activity.is_closed = true;
        }
        Ok(())
    }

    /// Deletes what a timer of the captured server had deleted at this point. To everybody else it is the same.
    async fn delete(&mut self, step: &Step, path: &str) -> Result<(), CaptureError> {
        let delete = Request::DeleteContainer(DeleteContainer { path: path.to_owned() });
        let gone = |silence: Silence| CaptureError::server(&self.replay.server, silence.to_string());
        let (error, zxid, _) = self.observer.ask(&delete).await.map_err(gone)?;
        self.zxid = self.zxid.max(zxid.0);
        if let Some(error) = error {
            let captured = format!("the server deletes {path} by itself");
            self.differ(step, "nothing was asked", captured, error.to_string());
        }
        Ok(())
    }

    /// Takes a zxid and changes nothing, as the captured server has done by itself at this point.
    async fn refuse(&mut self, step: &Step) -> Result<(), CaptureError> {
        let delete = Delete { path: "/zookeeper/no-such-znode".to_owned(), version: -1 };
        let gone = |silence: Silence| CaptureError::server(&self.replay.server, silence.to_string());
        let (error, zxid, _) = self.observer.ask(&Request::Delete(delete)).await.map_err(gone)?;
        self.zxid = self.zxid.max(zxid.0);
        self.replayed.unexplained += 1;
        if error.is_none() {
            let captured = "a transaction of the server that changes nothing".to_owned();
            self.differ(step, "nothing was asked", captured, "a znode was deleted".to_owned());
        }
        Ok(())
    }

    async fn open(&self) -> Result<Link, CaptureError> {
        let opening = Link::open(&self.replay.server, self.replay.limit).await;
        opening.map_err(|error| CaptureError::server(&self.replay.server, format!("cannot connect: {error}")))
    }

    /// Compares the events since the last time with those up to this number.
    fn events(&mut self, step: &Step, when: &str, up_to: usize) {
        let Some(link) = self.links.get_mut(&step.connection) else { return };
        let came = std::mem::take(&mut link.events);
        let all = self.plan.events.get(&step.connection).map_or(&[][..], |events| &events[..]);
        let captured = &all[link.compared.min(up_to)..up_to];
        link.compared = up_to;
        self.replayed.events += came.len();
        let captured: Vec<_> = captured.iter().map(|event| self.ids.normal_captured(event)).collect();
        let came: Vec<_> = came.iter().map(|event| self.ids.normal(event)).collect();
        let (captured, came) = (show_events(&captured), show_events(&came));
        if captured != came {
            self.differ(step, when, captured, came);
        }
    }

    fn compare(&mut self, step: &Step, what: &str, captured: &Fields, came: &Fields) {
        let (captured, came) = (self.ids.normal_captured(captured), self.ids.normal(came));
        if captured != came {
            self.differ(step, what, show(&captured), show(&came));
        }
    }

    /// Reports that a connection is not what it was.
    fn lose(&mut self, step: &Step, what: &str, captured: &str, replayed: &str) -> Result<(), CaptureError> {
        self.differ(step, what, captured.to_owned(), replayed.to_owned());
        self.links.remove(&step.connection);
        self.lost.insert(step.connection);
        Ok(())
    }

    pub(super) fn differ(&mut self, step: &Step, request: &str, captured: String, replayed: String) {
        let (time, connection, request) = (step.time, step.connection, request.to_owned());
        self.replayed.differences.push(ReplayDifference { time, connection, request, captured, replayed });
    }
}
