//! [`Reading`]: the records of a capture, one after the other, as drafts of steps and what their order follows from.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::{ConnectResponse, WatchedEvent};
use zoolet_proto::{DecodeError, OpCode, Reply, ReplyHeader, Zxid};

use super::expiry::Expiries;
use super::order::certainly_takes_zxid;
use super::step::{Action, Awaited, Moment};
use super::timeline::{Sighting, Timeline};
use crate::capture::format::{OBSERVER, Record, RecordKind};
use crate::history::Side;
use crate::wire::conversation::{Conversation, FromClient, FromServer};
use crate::wire::encoding::framed;
use crate::wire::fields::{Fields, Value, of_event, reply_fields};

/// What has been read.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) drafts: Vec<Draft>,
    pub(super) connections: HashMap<u32, CapturedConnection>,
    pub(super) timeline: Timeline,
    pub(super) expiries: Expiries,
    /// What the observer saw deleted, by the zxids.
    pub(super) deletions: BTreeMap<i64, Vec<(Sighting, String)>>,
    /// The zxids of changes that replies show.
    pub(super) changed: BTreeSet<i64>,
    /// The zxid of the captured server when the capture began, as far as the first reply with a zxid shows it.
    pub(super) base: Option<i64>,
    pub(super) pings: usize,
    /// How long the capture took.
    pub(super) duration: Duration,
    /// The number of the next record.
    next: usize,
    /// The largest zxid that a client has got.
    largest_zxid: i64,
    /// How many sessions were opened that are new, as far as is known: each has taken a zxid.
    opened: i64,
}

/// What becomes a step, and what its place follows from.
pub(super) struct Draft {
    pub(super) moment: Moment,
    pub(super) action: Action,
    /// The largest zxid that a client had got before it.
    pub(super) seen: i64,
    /// The zxid of its reply.
    pub(super) zxid: Option<i64>,
    /// The record by which it was done: that of its reply, or of the end of its connection.
    pub(super) done: Option<usize>,
}

/// A connection of the capture.
#[derive(Debug, Default)]
pub(super) struct CapturedConnection {
    conversation: Conversation,
    /// The draft of its handshake, that of its last bytes that are not frames, and that of each request; none for a ping.
    connect: Option<usize>,
    bytes: Option<usize>,
    requests: Vec<Option<usize>>,
    /// Which end has ended it, and the record of that.
    pub(super) ended: Option<(Side, usize)>,
    pub(super) session: Option<i64>,
    /// The events that its client got.
    pub(super) events: Vec<Fields>,
    /// The record with its client's last sign of life.
    pub(super) last_sign: usize,
}

impl Reading {
    pub(super) fn add(&mut self, record: Record) {
        let Record { time, connection, kind, content } = record;
        let moment = Moment { time, connection, at: self.next };
        self.next += 1;
        self.duration = time;
        if connection == OBSERVER {
            return self.observed(&content, moment);
        }
        let is_over = self.connection(moment).ended.is_some();
        match kind {
            RecordKind::Opened | RecordKind::Finished => {}
            // The server has not got it any more.
            RecordKind::Bytes(Side::Client) | RecordKind::Frame(Side::Client) if is_over => {}
            RecordKind::Bytes(Side::Client) => self.client_bytes(content, moment),
            RecordKind::Bytes(Side::Server) => {
                let asked = self.connection(moment).bytes.map(|draft| &mut self.drafts[draft].action);
                if let Some(Action::Bytes { is_answered, .. }) = asked {
                    *is_answered = true;
                }
            }
            RecordKind::Frame(Side::Client) => self.client_frame(content, moment),
            RecordKind::Frame(Side::Server) => self.server_frame(&content, moment),
            RecordKind::Ended(end) => {
                let action = if end == Side::Client { Action::Cut } else { Action::Ended };
                let connection = self.connection(moment);
                connection.ended = Some((end, moment.at));
                // One that has said nothing is not opened.
                if connection.connect.is_some() || connection.bytes.is_some() {
                    self.draft(moment, action);
                }
            }
        }
    }

    fn connection(&mut self, moment: Moment) -> &mut CapturedConnection {
        self.connections.entry(moment.connection).or_default()
    }

    /// Adds a draft, and returns its number.
    fn draft(&mut self, moment: Moment, action: Action) -> usize {
        self.drafts.push(Draft { moment, action, seen: self.largest_zxid, zxid: None, done: None });
        self.drafts.len() - 1
    }

    fn client_bytes(&mut self, bytes: Bytes, moment: Moment) {
        let draft = self.draft(moment, Action::Bytes { bytes, is_answered: false });
        self.connection(moment).bytes = Some(draft);
    }

    fn client_frame(&mut self, payload: Bytes, moment: Moment) {
        let connection = self.connection(moment);
        connection.last_sign = moment.at;
        let (session, message) = (connection.session, connection.conversation.from_client(&payload));
        if let Some(session) = self.expiries.session_mut(session) {
            session.heard = moment.time;
        }
        match message {
            Ok(FromClient::Connect(request)) => {
                let silence = self.expiries.silence(request.session.0, moment.time);
                let draft = self.draft(moment, Action::Connect { request, response: None, silence });
                self.connection(moment).connect = Some(draft);
            }
            // They are a matter of time, which a replay does not repeat.
            Ok(FromClient::Request(request)) if request.op == OpCode::Ping.code() => {
                self.pings += 1;
                self.connection(moment).requests.push(None);
            }
            Ok(FromClient::Request(request)) => {
                if let Some(session) = self.expiries.session_mut(session) {
                    session.is_closed |= request.op == OpCode::CloseSession.code();
                }
                let draft = self.draft(moment, Action::Request { payload, request, reply: Awaited::Lost });
                self.connection(moment).requests.push(Some(draft));
            }
            Err(_) => self.client_bytes(framed(&payload), moment),
        }
    }

    /// Notes a deletion of which the capture itself got an event. It does not raise `largest_zxid`: the order in which clients were
    /// answered is known better from their own replies.
    fn observed(&mut self, payload: &[u8], moment: Moment) {
        let Ok(FromServer::Event(zxid, event)) = Conversation::established().from_server(payload) else {
            return;
        };
        self.expiries.happened(zxid.0, &event);
        self.changed.insert(zxid.0);
        let sighting = self.add_sighting(zxid.0, moment);
        // Servers before 3.9 do not tell the zxid, which is −1 then.
        if zxid.0 > 0 {
            self.deletions.entry(zxid.0).or_default().push((sighting, event.path));
        }
    }

    fn add_sighting(&mut self, zxid: i64, moment: Moment) -> Sighting {
        let sighting = Sighting { zxid, time: moment.time, at: moment.at };
        self.timeline.add(sighting);
        sighting
    }

    fn server_frame(&mut self, payload: &[u8], moment: Moment) {
        let zxid = match self.connection(moment).conversation.from_server(payload) {
            Ok(FromServer::Connected(response)) => return self.connected(response, moment),
            Ok(FromServer::Event(zxid, event)) => self.event(zxid, &event, moment),
            Ok(FromServer::Reply { header, number, reply, .. }) => self.reply(header, number, &reply, moment),
            Err(_) => return,
        };
        self.add_sighting(zxid, moment);
        self.largest_zxid = self.largest_zxid.max(zxid);
    }

    fn connected(&mut self, connected: ConnectResponse, moment: Moment) {
        let is_accepted = !connected.is_refusal();
        if is_accepted {
            self.connection(moment).session = Some(connected.session.0);
            self.expiries.opened(connected.session.0, connected.timeout, moment.time);
            self.opened += 1;
        }
        let Some(connect) = self.connection(moment).connect else { return };
        let draft = &mut self.drafts[connect];
        if let Action::Connect { response, request, .. } = &mut draft.action {
            // One that is resumed takes no zxid. If the request does not decode, it is taken for a new one.
            self.opened -= i64::from(is_accepted && request.session.0 != 0);
            (*response, draft.done) = (Some(connected), Some(moment.at));
        }
    }

    fn event(&mut self, zxid: Zxid, event: &WatchedEvent, moment: Moment) -> i64 {
        self.expiries.happened(zxid.0, event);
        let connection = self.connection(moment);
        // Its write may come after the end of the connection in the replay, which would wait for it in vain.
        if connection.ended.is_none() {
            connection.events.push(of_event(zxid, event));
        }
        zxid.0
    }

    fn reply(
        &mut self,
        header: ReplyHeader,
        number: Option<usize>,
        reply: &Result<Reply, DecodeError>,
        moment: Moment,
    ) -> i64 {
        let zxid = header.zxid.0;
        let connection = self.connections.entry(moment.connection).or_default();
        let draft = number.and_then(|number| connection.requests[number]);
        let Some(draft) = draft.and_then(|draft| self.drafts.get_mut(draft)) else { return zxid };
        if let Action::Request { request, reply: awaited, .. } = &mut draft.action {
            // A server that refuses a write without a transaction, as a read-only one does, names the last zxid before it.
            let is_transaction = certainly_takes_zxid(request) && zxid > draft.seen;
            let fields = reply_fields(header.err, header.zxid, reply);
            self.changed.extend(fields.iter().filter_map(|(name, value)| match value {
                Value::Int(zxid) if ["czxid", "mzxid", "pzxid"].contains(name) => Some(*zxid),
                _ => None,
            }));
            if let (Some(session), Ok(request)) = (connection.session, &request.body) {
                self.expiries.replied(session, request, &fields);
            }
            let (events, transaction) = (connection.events.len(), is_transaction.then_some(zxid));
            *awaited = Awaited::Reply { fields, events, transaction };
            if zxid > 0 {
                // Before it there were the sessions of which the capture has shown the begin, at least.
                self.base.get_or_insert(zxid - i64::from(is_transaction) - self.opened);
            }
        }
        (draft.zxid, draft.done) = (Some(zxid).filter(|zxid| *zxid > 0), Some(moment.at));
        zxid
    }
}
