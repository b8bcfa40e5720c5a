//! From entries to operations: which reply belongs to which request, and everything that the order of arrival alone
//! tells about rules.

use std::collections::{HashSet, VecDeque};
use std::mem;

use zoolet_proto::records::WatchedEvent;
use zoolet_proto::{
    DecodeError, ErrorCode, Incoming, OpCode, Reply, ReplyHeader, Request, SessionId, Xid, Zxid,
};

use super::violation::{CheckError, Operation, Rule, Violation};
use crate::testing::history::{Conn, HistoryEntry, HistoryEvent, Side};
use crate::testing::model::{Model, Outcome};

/// All operations of a history.
#[derive(Default)]
pub(super) struct Operations<'h> {
    pub(super) lines: Vec<Line<'h>>,
    pub(super) ops: Vec<Op<'h>>,
    /// The highest zxid that was seen.
    latest: Option<Sight>,
    /// Sessions that were opened.
    opened: HashSet<SessionId>,
    pub(super) lossy: bool,
}

/// A connection.
#[derive(Default)]
pub(super) struct Line<'h> {
    pub(super) session: Option<SessionId>,
    /// Whether it opened a session, and took up none.
    pub(super) opened: bool,
    pub(super) ended: bool,
    refused: bool,
    /// Its requests in order.
    pub(super) ops: Vec<usize>,
    /// Its events in order, save those of watches set again.
    pub(super) events: Vec<Told<'h>>,
    /// The highest zxid of a reply, and of an event.
    pub(super) replied: Option<Sight>,
    pub(super) told: Option<Sight>,
    hello: Option<SessionId>,
    pending: VecDeque<usize>,
    catch_up: Vec<&'h WatchedEvent>,
}

/// A request with what came of it.
pub(super) struct Op<'h> {
    pub(super) line: usize,
    pub(super) xid: Xid,
    pub(super) opcode: i32,
    pub(super) request: Option<&'h Request>,
    /// The highest zxid anybody had seen when it began.
    pub(super) floor: Option<Sight>,
    pub(super) answer: Option<Answer<'h>>,
    /// The events of watches set again that came right before its reply.
    pub(super) catch_up: Vec<&'h WatchedEvent>,
    /// Whether it cannot have been executed, though it has no answer.
    pub(super) void: bool,
    /// Of a write: its zxid, from its answer or, where there is none, from the server's transactions.
    pub(super) zxid: Option<Zxid>,
}

pub(super) struct Answer<'h> {
    pub(super) zxid: Zxid,
    pub(super) outcome: Result<&'h Reply, ErrorCode>,
}

pub(super) struct Told<'h> {
    pub(super) zxid: Zxid,
    pub(super) event: &'h WatchedEvent,
}

/// A zxid, and where it was seen.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    pub(super) zxid: Zxid,
    by: Witness,
}

#[derive(Clone, Copy)]
enum Witness {
    Reply { op: usize },
    Event { line: usize, at: usize },
}

impl Line<'_> {
    /// The highest zxid that was seen on it.
    pub(super) fn latest(&self) -> Zxid {
        let sights = self.replied.into_iter().chain(self.told);
        sights.map(|sight| sight.zxid).max().unwrap_or_default()
    }
}

impl Op<'_> {
    /// Whether it has a zxid of its own.
    pub(super) fn is_write(&self) -> bool {
        self.request.is_some_and(Model::takes_zxid)
    }

    /// Whether a reply to it may stand out of turn and without a zxid.
    fn is_apart(&self) -> bool {
        match OpCode::from_code(self.opcode) {
            Some(op) => matches!(op, OpCode::Auth | OpCode::Sasl | OpCode::Check),
            None => true,
        }
    }

    fn is_answered_by(&self, xid: Xid) -> bool {
        // A ping is answered under the number of pings, whatever its own.
        xid == if self.opcode == OpCode::Ping.code() { Xid::PING } else { self.xid }
    }

    fn sets_watches(&self) -> bool {
        matches!(self.request, Some(Request::SetWatches(_) | Request::SetWatches2(_)))
    }
}

impl<'h> Operations<'h> {
    /// Reads a history.
    ///
    /// # Errors
    /// The first rule that the order of its entries breaks.
    pub(super) fn of(entries: &'h [HistoryEntry], lossy: bool) -> Result<Self, CheckError> {
        let mut all = Self { lossy, ..Self::default() };
        for HistoryEntry { conn: Conn(line), what, .. } in entries {
            if all.lines.len() <= *line {
                all.lines.resize_with(line + 1, Line::default);
            }
            all.enter(*line, what)?;
        }
        all.finish()?;
        Ok(all)
    }

    /// The highest zxid that was seen.
    pub(super) fn last_zxid(&self) -> Zxid {
        self.latest.map_or(Zxid(0), |sight| sight.zxid)
    }

    pub(super) fn session_of(&self, op: usize) -> SessionId {
        self.lines[self.ops[op].line].session.unwrap_or_default()
    }

    /// How a violation names an operation.
    pub(super) fn name(&self, op: usize) -> Operation {
        let Op { line, xid, opcode, request, answer, zxid, .. } = &self.ops[op];
        let what = match request {
            Some(request) => format!("{request:?}"),
            None => format!("opcode {opcode}, undecodable"),
        };
        Operation {
            conn: Some(Conn(*line)),
            session: self.lines[*line].session,
            xid: Some(*xid),
            zxid: answer.as_ref().map(|answer| answer.zxid).or(*zxid),
            what,
        }
    }

    /// How a violation names an event.
    pub(super) fn name_event(&self, line: usize, zxid: Zxid, event: &WatchedEvent) -> Operation {
        let what = format!("event {:?} {}", event.kind, event.path);
        let session = self.lines[line].session;
        Operation { conn: Some(Conn(line)), session, xid: None, zxid: Some(zxid), what }
    }

    pub(super) fn name_sight(&self, sight: Sight) -> Operation {
        match sight.by {
            Witness::Reply { op } => self.name(op),
            Witness::Event { line, at } => {
                let Told { zxid, event } = self.lines[line].events[at];
                self.name_event(line, zxid, event)
            }
        }
    }

    fn enter(&mut self, line: usize, what: &'h HistoryEvent) -> Result<(), CheckError> {
        match what {
            HistoryEvent::Opened | HistoryEvent::Unreadable { from: Side::Client, .. } => Ok(()),
            HistoryEvent::Ended => {
                self.lines[line].ended = true;
                Ok(())
            }
            HistoryEvent::Hello { session, .. } => {
                self.lines[line].hello = Some(*session);
                Ok(())
            }
            HistoryEvent::Welcome { session } => self.welcome(line, *session),
            HistoryEvent::Request(incoming) => {
                self.request(line, incoming);
                Ok(())
            }
            HistoryEvent::Reply(header, body) => self.reply(line, *header, body),
            HistoryEvent::Event(zxid, event) => self.event(line, *zxid, event),
            HistoryEvent::Unreadable { from: Side::Server, why } => {
                let operation = self.name_line(line, "a message of the server");
                Err(broken(Rule::ReadableFrames, operation, None, "a frame of the protocol", why))
            }
        }
    }

    fn name_line(&self, line: usize, what: &str) -> Operation {
        let session = self.lines[line].session;
        Operation { conn: Some(Conn(line)), session, xid: None, zxid: None, what: what.to_owned() }
    }

    fn welcome(&mut self, line: usize, session: SessionId) -> Result<(), CheckError> {
        let asked = self.lines[line].hello.unwrap_or_default();
        let opened = asked == SessionId(0);
        if session == SessionId(0) {
            self.lines[line].refused = true;
            return Ok(());
        }
        let expected = match opened {
            true if self.opened.insert(session) => None,
            true => Some("a session of its own".to_owned()),
            false => (asked != session).then(|| format!("session {asked}, or none")),
        };
        if let Some(expected) = expected {
            let operation = self.name_line(line, "the answer to a connect request");
            return Err(broken(Rule::Handshake, operation, None, &expected, &format!("session {session}")));
        }
        let line = &mut self.lines[line];
        (line.session, line.opened) = (Some(session), opened);
        Ok(())
    }

    fn request(&mut self, line: usize, incoming: &'h Incoming) {
        let Incoming { xid, op, body } = incoming;
        let number = self.ops.len();
        self.lines[line].ops.push(number);
        self.lines[line].pending.push_back(number);
        self.ops.push(Op {
            line,
            xid: *xid,
            opcode: *op,
            request: body.as_ref().ok(),
            floor: self.latest,
            answer: None,
            catch_up: Vec::new(),
            void: false,
            zxid: None,
        });
    }

    fn reply(
        &mut self,
        line: usize,
        header: ReplyHeader,
        body: &'h Result<Reply, DecodeError>,
    ) -> Result<(), CheckError> {
        let op = self.asked(line, header)?;
        let body = body.as_ref().map_err(|flaw| {
            let seen = format!("bytes that do not decode: {flaw:?}");
            broken(Rule::ReadableFrames, self.name(op), None, "a reply", &seen)
        })?;
        let outcome = header.error_code().map_or(Ok(body), Err);
        self.ops[op].answer = Some(Answer { zxid: header.zxid, outcome });
        self.ops[op].catch_up = mem::take(&mut self.lines[line].catch_up);
        if let (Some(event), false) = (self.ops[op].catch_up.first(), self.ops[op].sets_watches()) {
            let event = self.name_event(line, Zxid(-1), event);
            let expected = "no event without a zxid, as no watch was set again";
            return Err(broken(Rule::CatchUp, event, Some(self.name(op)), expected, "one"));
        }
        if header.zxid.0 <= 0 && self.ops[op].is_apart() {
            return Ok(());
        }
        self.in_order(op, header.zxid)?;
        let sight = Sight { zxid: header.zxid, by: Witness::Reply { op } };
        self.lines[line].replied = Some(sight);
        self.see(sight);
        Ok(())
    }

    /// The request that a reply answers.
    fn asked(&mut self, line: usize, header: ReplyHeader) -> Result<usize, CheckError> {
        let answered = |&op: &usize| self.ops[op].is_answered_by(header.xid);
        let pending = &self.lines[line].pending;
        let Some(at) = pending.iter().position(answered) else {
            let operation = Operation {
                xid: Some(header.xid),
                zxid: Some(header.zxid),
                ..self.name_line(line, "a reply")
            };
            let other = pending.front().map(|op| self.name(*op));
            let expected = "a request that it answers";
            return Err(broken(Rule::RequestOrder, operation, other, expected, "none under way"));
        };
        let op = pending[at];
        if at > 0 && !self.ops[op].is_apart() {
            if !self.lossy {
                let first = self.name(pending[0]);
                let expected = format!("the reply to xid {}", self.ops[pending[0]].xid);
                let seen = format!("the reply to xid {}", self.ops[op].xid);
                return Err(broken(Rule::RequestOrder, self.name(op), Some(first), &expected, &seen));
            }
            let skipped: Vec<usize> = self.lines[line].pending.drain(..at).collect();
            self.lines[line].pending.pop_front();
            // The events of a setWatches arrive, though its reply does not.
            for request in skipped.iter().filter_map(|op| self.ops[*op].request) {
                self.lines[line].catch_up.retain(|event| !set_again(request).any(|path| *path == event.path));
            }
        } else {
            self.lines[line].pending.remove(at);
        }
        Ok(op)
    }

    /// Holds the zxid of a reply against what was seen before on its connection, and by anybody before it was asked.
    fn in_order(&self, op: usize, zxid: Zxid) -> Result<(), CheckError> {
        let Op { line, floor, .. } = self.ops[op];
        let Line { replied, told, .. } = &self.lines[line];
        let write = self.ops[op].is_write();
        let new = |sight: &Sight| if write { zxid > sight.zxid } else { zxid >= sight.zxid };
        // The event of a write has the zxid of its reply.
        let fallen = replied.filter(|sight| !new(sight)).or(told.filter(|sight| zxid < sight.zxid));
        if let Some(sight) = fallen.or(floor.filter(|sight| !new(sight))) {
            let rule = if fallen.is_some() { Rule::ZxidsNeverFall } else { Rule::RealTime };
            return Err(self.too_low(rule, op, zxid, sight));
        }
        if zxid.0 <= 0 {
            let expected = "the zxid of a transaction";
            return Err(broken(Rule::ZxidsNeverFall, self.name(op), None, expected, &format!("zxid {zxid}")));
        }
        Ok(())
    }

    /// The violation of an operation whose zxid is too low beside what was seen before it.
    pub(super) fn too_low(&self, rule: Rule, op: usize, zxid: Zxid, sight: Sight) -> CheckError {
        let more = if self.ops[op].is_write() { "more than" } else { "at least" };
        let expected = format!("zxid {more} {}", sight.zxid);
        broken(rule, self.name(op), Some(self.name_sight(sight)), &expected, &format!("zxid {zxid}"))
    }

    /// Holds the zxids of writes without a reply against those around them, and against what was seen before them.
    pub(super) fn in_request_order(&self) -> Result<(), CheckError> {
        for line in &self.lines {
            let mut before: Option<Sight> = None;
            for op in &line.ops {
                let it = &self.ops[*op];
                let Some(zxid) = it.answer.as_ref().map(|answer| answer.zxid).or(it.zxid) else { continue };
                if zxid.0 <= 0 {
                    continue;
                }
                let new = |sight: &Sight| if it.is_write() { zxid > sight.zxid } else { zxid >= sight.zxid };
                if let Some(sight) = before.filter(|sight| !new(sight)) {
                    return Err(self.too_low(Rule::ZxidsNeverFall, *op, zxid, sight));
                }
                if let Some(sight) = it.floor.filter(|sight| !new(sight)) {
                    return Err(self.too_low(Rule::RealTime, *op, zxid, sight));
                }
                before = Some(Sight { zxid, by: Witness::Reply { op: *op } });
            }
        }
        Ok(())
    }

    fn event(&mut self, line: usize, zxid: Zxid, event: &'h WatchedEvent) -> Result<(), CheckError> {
        if zxid.0 <= 0 {
            self.lines[line].catch_up.push(event);
            return Ok(());
        }
        let Line { replied, told, .. } = &self.lines[line];
        let late = replied.filter(|sight| sight.zxid >= zxid);
        if let Some(sight) = late.or(told.filter(|sight| sight.zxid > zxid)) {
            let rule = if late.is_some() { Rule::EventBeforeReply } else { Rule::ZxidsNeverFall };
            let (operation, other) = (self.name_event(line, zxid, event), Some(self.name_sight(sight)));
            let expected = format!("it before anything of zxid {} and later", sight.zxid);
            return Err(broken(rule, operation, other, &expected, "it behind that"));
        }
        let at = self.lines[line].events.len();
        self.lines[line].events.push(Told { zxid, event });
        let sight = Sight { zxid, by: Witness::Event { line, at } };
        self.lines[line].told = Some(sight);
        self.see(sight);
        Ok(())
    }

    fn see(&mut self, sight: Sight) {
        if sight.zxid > self.last_zxid() {
            self.latest = Some(sight);
        }
    }

    /// What is left when a connection has said all that is recorded.
    fn finish(&mut self) -> Result<(), CheckError> {
        for (number, line) in self.lines.iter().enumerate() {
            let asked = |path: &String| {
                let pending = line.pending.iter().filter_map(|op| self.ops[*op].request);
                pending.into_iter().any(|request| set_again(request).any(|wanted| wanted == path))
            };
            if let Some(event) = line.catch_up.iter().find(|event| !asked(&event.path)) {
                let event = self.name_event(number, Zxid(-1), event);
                let expected = "no event without a zxid, as this watch was not set again";
                return Err(broken(Rule::CatchUp, event, None, expected, "one"));
            }
            // What stands behind the end of a session is dropped, and what never had one.
            let mut ended = line.refused;
            for op in &line.ops {
                let op = &mut self.ops[*op];
                op.void = ended && op.answer.is_none();
                ended |= op.opcode == OpCode::CloseSession.code() && op.answer.is_some();
            }
        }
        Ok(())
    }
}

/// The paths of a setWatches.
fn set_again(request: &Request) -> impl Iterator<Item = &String> {
    let (data, exist, child) = match request {
        Request::SetWatches(set) => (&set.data[..], &set.exist[..], &set.child[..]),
        Request::SetWatches2(set) => (&set.data[..], &set.exist[..], &set.child[..]),
        _ => (&[][..], &[][..], &[][..]),
    };
    data.iter().chain(exist).chain(child)
}

/// What the model and the server call the same must be: shown in a violation.
pub(super) fn shown(outcome: &Outcome) -> String {
    match outcome {
        Ok(reply) => format!("{reply:?}"),
        Err(code) => format!("{code:?}"),
    }
}

pub(super) fn broken(
    rule: Rule,
    operation: Operation,
    other: Option<Operation>,
    expected: &str,
    seen: &str,
) -> CheckError {
    Violation { rule, operation, other, expected: expected.to_owned(), seen: seen.to_owned() }.into()
}
