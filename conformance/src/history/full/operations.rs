//! Turns entries into operations: matches replies to requests, and checks the rules that depend only on the order of arrival.

use std::collections::{HashSet, VecDeque};
use std::mem;

use zoolet_proto::records::WatchedEvent;
use zoolet_proto::{
    DecodeError, ErrorCode, Incoming, OpCode, Reply, ReplyHeader, Request, SessionId, WatchKind, Xid, Zxid,
};

use crate::history::entry::{Conn, HistoryEntry, HistoryEvent, Side};
use crate::history::model::{Model, Outcome};
use crate::history::verdict::{CheckError, Operation, Rule, broken};
use crate::wire::conversation::reply_xid;
use crate::wire::requests::watches_restored;

/// All operations of a history.
#[derive(Default)]
pub(super) struct Operations<'h> {
    pub(super) conns: Vec<Connection<'h>>,
    pub(super) ops: Vec<CheckedOp<'h>>,
    /// The highest zxid so far.
    latest: Option<ObservedZxid>,
    /// Sessions that were opened.
    opened: HashSet<SessionId>,
    pub(super) lossy: bool,
}

/// A connection.
#[derive(Default)]
pub(super) struct Connection<'h> {
    pub(super) session: Option<SessionId>,
    /// Whether it opened a session instead of resuming one.
    pub(super) opened: bool,
    pub(super) ended: bool,
    refused: bool,
    /// Its requests in order.
    pub(super) ops: Vec<usize>,
    /// Its events in order, except those of restored watches.
    pub(super) events: Vec<ReceivedEvent<'h>>,
    /// The highest zxid of a reply and of an event.
    pub(super) replied: Option<ObservedZxid>,
    pub(super) notified: Option<ObservedZxid>,
    /// 0 for a new one.
    requested_session: SessionId,
    pending: VecDeque<usize>,
    catch_up: Vec<&'h WatchedEvent>,
}

/// A request and its outcome.
pub(super) struct CheckedOp<'h> {
    pub(super) conn: usize,
    pub(super) xid: Xid,
    pub(super) opcode: i32,
    pub(super) request: Option<&'h Request>,
    /// The highest zxid that any client had seen when it began.
    pub(super) floor: Option<ObservedZxid>,
    pub(super) answer: Option<Answer<'h>>,
    /// The events of restored watches that came directly before its reply.
    pub(super) catch_up: Vec<&'h WatchedEvent>,
    /// Whether it cannot have been executed, although it has no reply.
    pub(super) cannot_apply: bool,
    /// The zxid of a write: from its reply or else from the server's transactions.
    pub(super) zxid: Option<Zxid>,
}

pub(super) struct Answer<'h> {
    pub(super) zxid: Zxid,
    pub(super) outcome: Result<&'h Reply, ErrorCode>,
}

pub(super) struct ReceivedEvent<'h> {
    pub(super) zxid: Zxid,
    pub(super) event: &'h WatchedEvent,
}

/// A zxid and the message that shows it.
#[derive(Clone, Copy)]
pub(super) struct ObservedZxid {
    pub(super) zxid: Zxid,
    by: Observation,
}

#[derive(Clone, Copy)]
enum Observation {
    Reply { op: usize },
    Event { conn: usize, at: usize },
}

impl Connection<'_> {
    /// The highest zxid seen on it.
    pub(super) fn latest(&self) -> Zxid {
        let all_observed = self.replied.into_iter().chain(self.notified);
        all_observed.map(|observed| observed.zxid).max().unwrap_or_default()
    }
}

impl CheckedOp<'_> {
    /// Whether it takes a zxid.
    pub(super) fn is_write(&self) -> bool {
        self.request.is_some_and(Model::takes_zxid)
    }

    /// Its zxid: from its reply or else from the server's transactions.
    fn zxid(&self) -> Option<Zxid> {
        self.answer.as_ref().map(|answer| answer.zxid).or(self.zxid)
    }

    /// Whether it can have this zxid after another operation: a write has one of its own.
    fn may_follow(&self, observed: &ObservedZxid, zxid: Zxid) -> bool {
        if self.is_write() { zxid > observed.zxid } else { zxid >= observed.zxid }
    }

    /// Whether its reply may be out of order and without a zxid.
    fn is_out_of_band(&self) -> bool {
        matches!(OpCode::from_code(self.opcode), None | Some(OpCode::Auth | OpCode::Sasl | OpCode::Check))
    }

    fn is_answered_by(&self, xid: Xid) -> bool {
        xid == reply_xid(self.opcode, self.xid)
    }

    fn sets_watches(&self) -> bool {
        matches!(self.request, Some(Request::SetWatches(_) | Request::SetWatches2(_)))
    }
}

impl<'h> Operations<'h> {
    /// Builds the operations of a history.
    ///
    /// # Errors
    /// The first rule that the order of its entries breaks.
    pub(super) fn of(entries: &'h [HistoryEntry], lossy: bool) -> Result<Self, CheckError> {
        let mut all = Self { lossy, ..Self::default() };
        for HistoryEntry { conn: Conn(conn), event, .. } in entries {
            if all.conns.len() <= *conn {
                all.conns.resize_with(conn + 1, Connection::default);
            }
            all.enter(*conn, event)?;
        }
        all.finish()?;
        Ok(all)
    }

    /// The highest zxid seen.
    pub(super) fn last_zxid(&self) -> Zxid {
        self.latest.map_or(Zxid(0), |observed| observed.zxid)
    }

    pub(super) fn session_of(&self, op: usize) -> SessionId {
        self.conns[self.ops[op].conn].session.unwrap_or_default()
    }

    /// An operation as a violation names it.
    pub(super) fn name(&self, op: usize) -> Operation {
        let CheckedOp { conn, xid, opcode, request, .. } = &self.ops[op];
        let description = match request {
            Some(request) => format!("{request:?}"),
            None => format!("opcode {opcode}, undecodable"),
        };
        let zxid = self.ops[op].zxid();
        Operation { xid: Some(*xid), zxid, ..self.name_conn(*conn, &description) }
    }

    /// An event as a violation names it.
    pub(super) fn name_event(&self, conn: usize, zxid: Zxid, event: &WatchedEvent) -> Operation {
        let description = format!("event {:?} {}", event.kind, event.path);
        Operation { zxid: Some(zxid), ..self.name_conn(conn, &description) }
    }

    pub(super) fn name_observed(&self, observed: ObservedZxid) -> Operation {
        match observed.by {
            Observation::Reply { op } => self.name(op),
            Observation::Event { conn, at } => {
                let ReceivedEvent { zxid, event } = self.conns[conn].events[at];
                self.name_event(conn, zxid, event)
            }
        }
    }

    fn enter(&mut self, conn: usize, event: &'h HistoryEvent) -> Result<(), CheckError> {
        match event {
            HistoryEvent::Opened | HistoryEvent::Unreadable { from: Side::Client, .. } => {}
            HistoryEvent::Ended => self.conns[conn].ended = true,
            HistoryEvent::ConnectRequest { session, .. } => {
                self.conns[conn].requested_session = *session;
            }
            HistoryEvent::ConnectResponse { session } => self.connect_response(conn, *session)?,
            HistoryEvent::Request(incoming) => self.request(conn, incoming),
            HistoryEvent::Reply(header, body) => self.reply(conn, *header, body)?,
            HistoryEvent::Event(zxid, event) => self.event(conn, *zxid, event)?,
            HistoryEvent::Unreadable { from: Side::Server, why } => {
                let operation = self.name_conn(conn, "a message of the server");
                return Err(broken(Rule::ReadableFrames, operation, None, "a valid frame", why));
            }
        }
        Ok(())
    }

    fn name_conn(&self, conn: usize, description: &str) -> Operation {
        let session = self.conns[conn].session;
        Operation { conn: Some(Conn(conn)), session, ..Operation::unidentified(description) }
    }

    fn connect_response(&mut self, conn: usize, session: SessionId) -> Result<(), CheckError> {
        let asked = self.conns[conn].requested_session;
        let opened = asked == SessionId(0);
        if session == SessionId(0) {
            self.conns[conn].refused = true;
            return Ok(());
        }
        let expected = match opened {
            true if self.opened.insert(session) => None,
            true => Some("a new session".to_owned()),
            false => (asked != session).then(|| format!("session {asked} or a refusal")),
        };
        if let Some(expected) = expected {
            let operation = self.name_conn(conn, "the connect response");
            return Err(broken(Rule::Handshake, operation, None, &expected, &format!("session {session}")));
        }
        let conn = &mut self.conns[conn];
        (conn.session, conn.opened) = (Some(session), opened);
        Ok(())
    }

    fn request(&mut self, conn: usize, incoming: &'h Incoming) {
        let Incoming { xid, op, body } = incoming;
        let number = self.ops.len();
        self.conns[conn].ops.push(number);
        self.conns[conn].pending.push_back(number);
        self.ops.push(CheckedOp {
            conn,
            xid: *xid,
            opcode: *op,
            request: body.as_ref().ok(),
            floor: self.latest,
            answer: None,
            catch_up: Vec::new(),
            cannot_apply: false,
            zxid: None,
        });
    }

    fn reply(
        &mut self,
        conn: usize,
        header: ReplyHeader,
        body: &'h Result<Reply, DecodeError>,
    ) -> Result<(), CheckError> {
        let op = self.request_of(conn, header)?;
        let body = body.as_ref().map_err(|error| {
            let seen = format!("bytes that do not decode: {error:?}");
            broken(Rule::ReadableFrames, self.name(op), None, "a reply", &seen)
        })?;
        let outcome = header.error_code().map_or(Ok(body), Err);
        self.ops[op].answer = Some(Answer { zxid: header.zxid, outcome });
        // A reply out of order may come between the events of restored watches and their reply.
        if !self.ops[op].is_out_of_band() {
            self.ops[op].catch_up = mem::take(&mut self.conns[conn].catch_up);
        }
        if let (Some(event), false) = (self.ops[op].catch_up.first(), self.ops[op].sets_watches()) {
            let event = self.name_event(conn, Zxid(-1), event);
            let expected = "no event without a zxid, as no watch was restored";
            return Err(broken(Rule::CatchUp, event, Some(self.name(op)), expected, "one"));
        }
        if header.zxid.0 <= 0 && self.ops[op].is_out_of_band() {
            return Ok(());
        }
        self.check_zxid(op, header.zxid)?;
        let observed = ObservedZxid { zxid: header.zxid, by: Observation::Reply { op } };
        self.conns[conn].replied = Some(observed);
        self.observe(observed);
        Ok(())
    }

    /// The request of a reply.
    fn request_of(&mut self, conn: usize, header: ReplyHeader) -> Result<usize, CheckError> {
        let answered = |&op: &usize| self.ops[op].is_answered_by(header.xid);
        let pending = &self.conns[conn].pending;
        let Some(at) = pending.iter().position(answered) else {
            let operation = Operation {
                xid: Some(header.xid),
                zxid: Some(header.zxid),
                ..self.name_conn(conn, "a reply")
            };
            let other = pending.front().map(|op| self.name(*op));
            let expected = "a request in flight";
            return Err(broken(Rule::RequestOrder, operation, other, expected, "none"));
        };
        let op = pending[at];
        if at > 0 && !self.ops[op].is_out_of_band() {
            if !self.lossy {
                let first = self.name(pending[0]);
                let expected = format!("the reply to xid {}", self.ops[pending[0]].xid);
                let seen = format!("the reply to xid {}", self.ops[op].xid);
                return Err(broken(Rule::RequestOrder, self.name(op), Some(first), &expected, &seen));
            }
            let skipped: Vec<usize> = self.conns[conn].pending.drain(..at).collect();
            self.conns[conn].pending.pop_front();
            // The events of a setWatches arrive although its reply does not.
            for request in skipped.iter().filter_map(|op| self.ops[*op].request) {
                self.conns[conn].catch_up.retain(|event| !may_be_missed_by(request, &event.path));
            }
        } else {
            self.conns[conn].pending.remove(at);
        }
        Ok(op)
    }

    /// Checks that the zxid of a reply is no lower than those seen before on its connection, and by any client before the
    /// request.
    fn check_zxid(&self, op: usize, zxid: Zxid) -> Result<(), CheckError> {
        let it = &self.ops[op];
        let Connection { replied, notified, .. } = &self.conns[it.conn];
        let new = |observed: &ObservedZxid| it.may_follow(observed, zxid);
        // The event of a write has the zxid of its reply.
        let fallen =
            replied.filter(|observed| !new(observed)).or(notified.filter(|observed| zxid < observed.zxid));
        if let Some(observed) = fallen.or(it.floor.filter(|observed| !new(observed))) {
            let rule = if fallen.is_some() { Rule::ZxidsNeverFall } else { Rule::RealTime };
            return Err(self.too_low(rule, op, zxid, observed));
        }
        if zxid.0 <= 0 {
            let expected = "the zxid of a transaction";
            return Err(broken(Rule::ZxidsNeverFall, self.name(op), None, expected, &format!("zxid {zxid}")));
        }
        Ok(())
    }

    /// The violation of an operation whose zxid is lower than one seen before it.
    pub(super) fn too_low(&self, rule: Rule, op: usize, zxid: Zxid, observed: ObservedZxid) -> CheckError {
        let more = if self.ops[op].is_write() { "more than" } else { "at least" };
        let expected = format!("zxid {more} {}", observed.zxid);
        broken(rule, self.name(op), Some(self.name_observed(observed)), &expected, &format!("zxid {zxid}"))
    }

    /// Checks the zxids of writes without a reply against their neighbours, and against those seen before them.
    pub(super) fn check_request_order(&self) -> Result<(), CheckError> {
        for conn in &self.conns {
            let mut before: Option<ObservedZxid> = None;
            for op in &conn.ops {
                let it = &self.ops[*op];
                let Some(zxid) = it.zxid().filter(|zxid| zxid.0 > 0) else { continue };
                if let Some(observed) = before.filter(|observed| !it.may_follow(observed, zxid)) {
                    return Err(self.too_low(Rule::ZxidsNeverFall, *op, zxid, observed));
                }
                if let Some(observed) = it.floor.filter(|observed| !it.may_follow(observed, zxid)) {
                    return Err(self.too_low(Rule::RealTime, *op, zxid, observed));
                }
                before = Some(ObservedZxid { zxid, by: Observation::Reply { op: *op } });
            }
        }
        Ok(())
    }

    fn event(&mut self, conn: usize, zxid: Zxid, event: &'h WatchedEvent) -> Result<(), CheckError> {
        if zxid.0 <= 0 {
            self.conns[conn].catch_up.push(event);
            return Ok(());
        }
        let Connection { replied, notified, .. } = &self.conns[conn];
        let late = replied.filter(|observed| observed.zxid >= zxid);
        if let Some(observed) = late.or(notified.filter(|observed| observed.zxid > zxid)) {
            let rule = if late.is_some() { Rule::EventBeforeReply } else { Rule::ZxidsNeverFall };
            let (operation, other) = (self.name_event(conn, zxid, event), Some(self.name_observed(observed)));
            let expected = format!("it before any message of zxid {} or later", observed.zxid);
            return Err(broken(rule, operation, other, &expected, "it after that message"));
        }
        let at = self.conns[conn].events.len();
        self.conns[conn].events.push(ReceivedEvent { zxid, event });
        let observed = ObservedZxid { zxid, by: Observation::Event { conn, at } };
        self.conns[conn].notified = Some(observed);
        self.observe(observed);
        Ok(())
    }

    fn observe(&mut self, observed: ObservedZxid) {
        if observed.zxid > self.last_zxid() {
            self.latest = Some(observed);
        }
    }

    /// Checks what remains at the end of the history.
    fn finish(&mut self) -> Result<(), CheckError> {
        for (number, conn) in self.conns.iter().enumerate() {
            let asked = |path: &str| {
                let mut pending = conn.pending.iter().filter_map(|op| self.ops[*op].request);
                pending.any(|request| may_be_missed_by(request, path))
            };
            if let Some(event) = conn.catch_up.iter().find(|event| !asked(&event.path)) {
                let event = self.name_event(number, Zxid(-1), event);
                let expected = "no event without a zxid, as this watch was not restored";
                return Err(broken(Rule::CatchUp, event, None, expected, "one"));
            }
            // The server drops requests after the end of a session, and those that never had one.
            let mut ended = conn.refused;
            for op in &conn.ops {
                let op = &mut self.ops[*op];
                op.cannot_apply = ended && op.answer.is_none();
                ended |= op.opcode == OpCode::CloseSession.code() && op.answer.is_some();
            }
        }
        Ok(())
    }
}

/// Whether a setWatches restores a watch of this path that may have missed an event.
fn may_be_missed_by(request: &Request, path: &str) -> bool {
    watches_restored(request)
        .any(|watch| watch.path == path && matches!(watch.kind, WatchKind::Data | WatchKind::Child))
}

/// An outcome as a violation shows it.
pub(super) fn shown(outcome: &Outcome) -> String {
    match outcome {
        Ok(reply) => format!("{reply:?}"),
        Err(code) => format!("{code:?}"),
    }
}
