//! The session as a state machine without I/O: bytes, commands and instants in, bytes and outcomes out.
//!
//! `handle_*` takes an input, `next_timeout` and `wanted_link` return what it waits for, `out` returns what it wants
//! written. The driver owns it, so everything here happens in one order.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::mpsc;
use tokio::time::Instant;
use zoolet_clock::ActivityGuard;
use zoolet_proto::records::{AuthPacket, PASSWORD_LEN, RemoveWatches};
use zoolet_proto::{ErrorCode, Jute, OpCode, Reply, Request, SessionId, Xid, Zxid, frame, jute};

use crate::command::{DriverCommand, Submission};
use crate::connection_error::ConnectionError;
use crate::context::{ErrorContext, ErrorDetail};
use crate::error::Error;
use crate::feed::{FeedSink, Feeds};
use crate::session_password::SessionPassword;
use crate::state::{SessionState, SharedState};
use crate::watch::{WatchKind, WatchTable};

pub(crate) mod answer;
mod before_3_5;
mod closing;
mod connection;
mod flight;
mod pings;
mod probe;
mod reply;
mod sasl;
#[cfg(test)]
mod tests;

use closing::Closing;
use flight::Calls;
use pings::Pings;
use probe::ReadWriteProbe;
pub(crate) use sasl::SaslCredentials;
use sasl::SaslExchange;

/// The longest back-off after the first round of failed attempts; it doubles each round.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
/// The least time for one attempt, however short the session timeout or many the hosts.
const MIN_ATTEMPT: Duration = Duration::from_millis(100);
/// The least time for one attempt before there is a session, however short the connect timeout.
const MIN_FIRST_ATTEMPT: Duration = Duration::from_secs(1);

/// The configuration of a session; see [`ConnectOptions`](crate::ConnectOptions).
#[derive(Debug, Clone)]
pub(crate) struct SessionSettings {
    pub(crate) session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) read_only: bool,
    pub(crate) max_request: usize,
    pub(crate) max_reply: usize,
    pub(crate) auths: Vec<AuthPacket>,
    /// The user who authenticates on every connection before anything else is sent.
    pub(crate) sasl: Option<SaslCredentials>,
    /// The session to resume, instead of a new one.
    pub(crate) resume: Option<(SessionId, SessionPassword)>,
    pub(crate) expire_locally: bool,
    /// What the session has seen before it begins.
    pub(crate) last_zxid: Zxid,
    pub(crate) seed: u64,
}

/// The connection that the session wants the driver to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WantedLink {
    /// None: it waits for the next attempt.
    Down,
    /// A new one.
    Dialing,
    /// The present one.
    Up,
    /// None, ever again.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waiting for the next attempt.
    Backoff { until: Instant },
    /// The driver is connecting.
    Dialing { until: Instant },
    /// The connect request is sent and not answered.
    Handshaking { until: Instant, sent: Instant },
    /// The session is attached to this connection, and the SASL exchange is in progress.
    Authenticating { until: Instant },
    /// The session is attached to this connection.
    Serving,
    /// The session is over.
    Over,
}

/// Why a connection cannot continue: the server broke the protocol, or has lost the session.
#[derive(Debug)]
pub(crate) struct ProtocolViolation(pub(crate) &'static str);

impl From<jute::DecodeError> for ProtocolViolation {
    fn from(_: jute::DecodeError) -> Self {
        Self("malformed frame")
    }
}

/// One session, from its first attempt to its end.
pub(crate) struct Session {
    settings: SessionSettings,
    shared: Arc<SharedState>,
    /// For the watches that it hands out.
    commands: mpsc::WeakUnboundedSender<DriverCommand>,
    phase: Phase,
    /// Counts connections, so that the driver notices when its own is outdated.
    generation: u64,
    /// The host of the connection, or of the attempt at one; `None` for a closure.
    host: Option<Arc<str>>,
    /// Connections and attempts that failed since a server last answered a request.
    failures: usize,
    rng: StdRng,
    id: SessionId,
    password: Bytes,
    /// Whether a server that takes writes has confirmed this session; a read-only one makes up sessions of its own.
    established: bool,
    /// Whether the server of this connection is read-only.
    read_only: bool,
    /// Whether the server of this connection knows create2, if it is known.
    has_create2: Option<bool>,
    /// `None` if the server takes writes.
    probe: Option<ReadWriteProbe>,
    timeout: Duration,
    auths: Vec<AuthPacket>,
    sasl: SaslExchange,
    calls: Calls,
    watches: WatchTable,
    feeds: Feeds,
    out: BytesMut,
    last_sent: Instant,
    last_heard: Instant,
    pings: Pings,
    answered: usize,
    /// Whether the connection is to be given up as soon as nothing is in flight on it.
    leaving: bool,
    closing: Option<Closing>,
}

impl Session {
    pub(crate) fn new(
        settings: SessionSettings,
        shared: Arc<SharedState>,
        commands: mpsc::WeakUnboundedSender<DriverCommand>,
        now: Instant,
    ) -> Self {
        let new = || (SessionId(0), Bytes::from_static(&[0; PASSWORD_LEN]));
        let (id, password) =
            settings.resume.clone().map_or_else(new, |(id, SessionPassword(password))| (id, password));
        Self {
            rng: StdRng::seed_from_u64(settings.seed),
            auths: settings.auths.clone(),
            timeout: settings.session_timeout,
            settings,
            shared,
            commands,
            phase: Phase::Backoff { until: now },
            generation: 0,
            host: None,
            failures: 0,
            id,
            password,
            established: id != SessionId(0),
            read_only: false,
            has_create2: None,
            probe: None,
            sasl: SaslExchange::default(),
            calls: Calls::default(),
            watches: WatchTable::default(),
            feeds: Feeds::default(),
            out: BytesMut::new(),
            last_sent: now,
            last_heard: now,
            pings: Pings::default(),
            answered: 0,
            leaving: false,
            closing: None,
        }
    }

    // What it waits for.

    pub(crate) fn wanted_link(&self) -> WantedLink {
        match self.phase {
            Phase::Backoff { .. } => WantedLink::Down,
            Phase::Dialing { .. } => WantedLink::Dialing,
            Phase::Handshaking { .. } | Phase::Authenticating { .. } | Phase::Serving => WantedLink::Up,
            Phase::Over => WantedLink::Over,
        }
    }

    /// Changes whenever a connection, or an attempt at one, is given up.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The bytes to write next; the driver takes them from the front.
    pub(crate) fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// The number of callers that got a reply since the last call of this.
    pub(crate) fn take_answered(&mut self) -> usize {
        std::mem::take(&mut self.answered)
    }

    /// Whether the server has not yet answered the connect request.
    fn is_handshaking(&self) -> bool {
        matches!(self.phase, Phase::Handshaking { .. })
    }

    /// The longest reply that is read; `None` until the server has answered the connect request.
    pub(crate) fn max_reply(&self) -> Option<usize> {
        (!self.is_handshaking()).then_some(self.settings.max_reply)
    }

    /// When to call [`Session::handle_timeout`] if nothing happens before.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Backoff { until }
            | Phase::Dialing { until }
            | Phase::Handshaking { until, .. }
            | Phase::Authenticating { until } => until,
            Phase::Serving => self.ping_due().min(self.silence_ends()),
            Phase::Over => return None,
        };
        let closing = self.closing.as_ref().map(|closing| closing.until);
        [self.calls.next_timeout(), closing, self.probe_due(), self.expiry_due()]
            .into_iter()
            .flatten()
            .fold(phase, Instant::min)
            .into()
    }

    /// When the session is given up, if it is to be without a server's word.
    fn expiry_due(&self) -> Option<Instant> {
        let may_expire = self.phase != Phase::Serving && self.settings.expire_locally && self.established;
        (may_expire && !self.is_to_be_resumed()).then(|| self.shared.last_contact() + self.timeout)
    }

    /// Counted from the last request of any kind, because each keeps the session alive.
    fn ping_due(&self) -> Instant {
        self.last_sent + self.timeout / 3
    }

    /// When the connection is given up if the server stays silent.
    fn silence_ends(&self) -> Instant {
        self.last_heard + self.timeout * 2 / 3
    }

    /// The time for one attempt, from dialing to the session and the end of SASL: a share of the session or connect timeout, so that a silent
    /// host leaves time for the others and for a second attempt.
    fn attempt_timeout(&self) -> Duration {
        let shares = u32::try_from(self.shared.hosts() + 1).unwrap_or(u32::MAX);
        let timeout = (self.timeout / shares).max(MIN_ATTEMPT);
        match self.shared.session_id() {
            SessionId(0) => timeout.min((self.settings.connect_timeout / shares).max(MIN_FIRST_ATTEMPT)),
            _ => timeout,
        }
    }

    /// Whether no server has yet resumed the session of an earlier process, and accepted all identities. Until then
    /// `connect` may fail, and it is not ours to close.
    fn is_to_be_resumed(&self) -> bool {
        self.settings.resume.is_some() && self.shared.state() == SessionState::Connecting
    }

    /// The server noted a sign of life at `sent` or later. A read-only server keeps no session alive.
    fn contacted(&self, sent: Instant) {
        if !self.read_only {
            self.shared.set_contact(sent);
        }
    }

    // Commands.

    pub(crate) fn handle_command(&mut self, now: Instant, command: DriverCommand) {
        match command {
            DriverCommand::Submit(call) => self.submit(now, call),
            DriverCommand::Unwatch { kind, path, id } => {
                if self.watches.leave(kind, &path, id) {
                    self.unwatch(now, kind, path);
                }
            }
            DriverCommand::Close(reply_to) => self.handle_close(now, reply_to),
            DriverCommand::GiveUp(reason) => {
                self.end(SessionState::Expired, Some(ErrorDetail::Hint(reason.into())));
            }
            DriverCommand::LeaveServer => self.leave_server(now),
            DriverCommand::OpenFeed(feed) => self.open_feed(feed),
            DriverCommand::CloseFeed(feed) => {
                self.feeds.close(&feed);
                for (kind, path) in self.watches.leave_feed(&feed) {
                    self.unwatch(now, kind, path);
                }
            }
        }
    }

    fn open_feed(&mut self, feed: FeedSink) {
        self.feeds.open(feed, (self.phase == Phase::Serving).then_some(self.generation));
        if self.phase == Phase::Over {
            self.feeds.end(|context| self.shared.end_error(context));
        }
    }

    fn submit(&mut self, now: Instant, mut call: Box<Submission>) {
        call.activity = ActivityGuard::default();
        if self.closing.is_some() || self.phase == Phase::Over {
            return call.fail(false, |context| match self.shared.state().is_final() {
                true => self.shared.end_error(context),
                false => Error::Closed(context),
            });
        }
        // Of an earlier connection, or sent after the loss and before the feed has read of it.
        if call.reply_to.ticket().is_some_and(|ticket| {
            ticket.generation != self.generation || self.phase != Phase::Serving || self.leaving
        }) {
            return;
        }
        if self.phase == Phase::Serving && !self.leaving {
            self.transmit(now, call);
        } else {
            self.calls.wait(call, now + self.timeout);
        }
    }

    /// Encodes a request into `out` and registers it as sent.
    fn transmit(&mut self, now: Instant, mut call: Box<Submission>) {
        if self.has_create2 == Some(false) {
            if before_3_5::is_newer(&call.request) {
                return self.refuse_unsent(&mut call);
            }
            call.request = before_3_5::without_create2(call.request);
        }
        let op = call.request.op();
        let start = self.out.len();
        let xid = self.calls.next_xid(op);
        call.request.encode_frame(xid, &mut self.out);
        let (size, max) = (self.out.len() - start - frame::PREFIX, self.settings.max_request);
        if size > max {
            self.out.truncate(start);
            self.abandon(&call);
            return call.fail(false, |context| Error::RequestTooLarge { context, size, max });
        }
        if let Some((kind, path)) = answer::watch_of(&call.request) {
            self.watches.registering(kind, path);
        }
        if let Some(ticket) = call.reply_to.ticket() {
            self.watches.feed_asks(&call.request, &call.chroot, &ticket.feed);
        }
        if let Request::Auth(auth) = &call.request {
            // Servers do not count it as a sign of life. Kept for later connections, even if its caller is gone.
            if !self.auths.contains(auth) {
                self.auths.push(auth.clone());
            }
        } else {
            self.last_sent = now;
        }
        self.calls.sent(xid, now, call);
        let counters = &self.shared.counters;
        counters.requests.add(1);
        counters.bytes_sent.add((size + frame::PREFIX) as u64);
        counters.in_flight.set(self.calls.in_flight() as u64);
    }

    fn unwatch(&mut self, now: Instant, kind: WatchKind, path: String) {
        // Nothing may follow a close: if the server has closed its end, the write fails, and replies in flight are lost
        // with the connection.
        if self.closing.is_some() {
            return;
        }
        let remove = RemoveWatches { path: Some(path), kind: kind.watcher_type().code() };
        self.transmit(now, Submission::internal(Request::RemoveWatches(remove)));
    }

    /// Answers as the server would, which is known not to know the operation.
    fn refuse_unsent(&self, call: &mut Submission) {
        let code = Some(ErrorCode::Unimplemented);
        let outcome = answer::outcome(&call.request, code, Reply::Empty, &call.chroot, self.has_identity());
        call.reply_to.send(outcome);
    }

    fn has_identity(&self) -> bool {
        !self.auths.is_empty() || self.settings.sasl.is_some()
    }

    /// Why there is no connection, while there is none.
    fn connection_error(&self) -> Option<ConnectionError> {
        if self.phase == Phase::Serving { None } else { self.shared.last_failure() }
    }

    // Time.

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let cause = self.connection_error();
        self.calls.handle_timeout(now, |call, sent, error| {
            let context = ErrorContext::of(&call.request, sent, &call.chroot);
            call.reply_to.send(Err(error(context.because_of(cause.clone()))));
        });
        if self.closing.as_ref().is_some_and(|closing| closing.until <= now) {
            return self.give_up(None);
        }
        if self.expiry_due().is_some_and(|due| due <= now) {
            let closing = self.closing.is_some();
            let end = if closing { SessionState::Closed } else { SessionState::Expired };
            return self.end(end, self.connection_error().map(ErrorDetail::Connection));
        }
        if self.probe_due().is_some_and(|due| due <= now) {
            self.handle_probe_timeout(now);
        }
        match self.phase {
            // One attempt has this long, from here to the connect response and the end of SASL.
            Phase::Backoff { until } if until <= now => {
                self.phase = Phase::Dialing { until: now + self.attempt_timeout() };
            }
            Phase::Dialing { until } | Phase::Handshaking { until, .. } | Phase::Authenticating { until }
                if until <= now =>
            {
                let reason = match self.is_handshaking() || self.is_authenticating() {
                    true => "connected, but the server does not answer",
                    false => "no connection within the time for one attempt",
                };
                self.handle_loss(now, timed_out(reason));
            }
            // Before the ping, which would be sent into a connection that is given up.
            Phase::Serving if self.silence_ends() <= now => {
                let reason = "no data from the server for two thirds of the session timeout";
                self.handle_loss(now, timed_out(reason));
            }
            Phase::Serving if self.ping_due() <= now => {
                frame::put(&mut self.out, |out| {
                    Xid::PING.encode(out);
                    OpCode::Ping.encode(out);
                });
                self.last_sent = now;
                self.pings.sent(now);
                self.shared.counters.pings.add(1);
            }
            _ => {}
        }
    }
}

fn timed_out(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, reason)
}
