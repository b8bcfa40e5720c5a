//! The session as a state machine without I/O: bytes, commands and instants in, bytes and outcomes out.
//!
//! `handle_*` takes an input, `next_timeout` and `link` say what it waits for, `out` is what it wants written. The
//! driver owns it, so everything here happens in one order.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::mpsc;
use tokio::time::Instant;
use zoolet_proto::records::{
    AuthPacket, ConnectRequest, ConnectResponse, PASSWORD_LEN, RemoveWatches, WatchedEvent,
};
use zoolet_proto::{ErrorCode, Jute, OpCode, Reply, ReplyHeader, Request, SessionId, Xid, Zxid, frame, jute};

use crate::answer;
use crate::call::{Command, ReplyTo, Submission};
use crate::error::Error;
use crate::flight::{Calls, InFlight, Lapse};
use crate::state::{SessionState, Shared};
use crate::subject::Subject;
use crate::watch::{self, WatchEvent, WatchKind, WatchTable};

/// First pause between two rounds of attempts; it doubles from there.
const BACKOFF: Duration = Duration::from_millis(50);

/// What a session is to be like.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) session_timeout: Duration,
    pub(crate) read_only: bool,
    pub(crate) max_request: usize,
    pub(crate) max_reply: usize,
    pub(crate) auths: Vec<AuthPacket>,
    pub(crate) hosts: usize,
    pub(crate) seed: u64,
}

/// What the driver is to have for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// No connection.
    Down,
    /// A connection, to be made.
    Dialing,
    /// The connection that was made.
    Up,
    /// Nothing any more.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waiting for the time of the next attempt.
    Resting { until: Instant },
    /// The driver is connecting.
    Dialing { until: Instant },
    /// Connected; the handshake is under way.
    Greeting { until: Instant, sent: Instant },
    /// The session is attached to this connection.
    Serving,
    /// The end.
    Over,
}

/// A connection that cannot go on, and why.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) &'static str);

impl From<jute::Flaw> for Broken {
    fn from(_: jute::Flaw) -> Self {
        Self("a frame that does not decode")
    }
}

/// One session, from its first attempt to its end.
pub(crate) struct Session {
    settings: Settings,
    shared: Arc<Shared>,
    /// For the watches it hands out.
    commands: mpsc::WeakUnboundedSender<Command>,
    phase: Phase,
    /// Counts connections, so that the driver notices when its own is no longer the one meant.
    epoch: u64,
    /// Attempts that failed since a connection last served.
    failures: usize,
    rng: StdRng,
    id: SessionId,
    password: Bytes,
    /// Whether a server with a say has ever known this session; a read-only one invents sessions of its own.
    established: bool,
    timeout: Duration,
    last_zxid: Zxid,
    auths: Vec<AuthPacket>,
    calls: Calls,
    watches: WatchTable,
    out: BytesMut,
    last_sent: Instant,
    last_heard: Instant,
    ping_sent: Option<Instant>,
    closing: Option<Closing>,
}

/// A close under way.
struct Closing {
    /// When to stop waiting for the server's word.
    until: Instant,
    reply_to: ReplyTo,
}

impl Session {
    pub(crate) fn new(
        settings: Settings,
        shared: Arc<Shared>,
        commands: mpsc::WeakUnboundedSender<Command>,
        now: Instant,
    ) -> Self {
        Self {
            rng: StdRng::seed_from_u64(settings.seed),
            auths: settings.auths.clone(),
            timeout: settings.session_timeout,
            settings,
            shared,
            commands,
            phase: Phase::Resting { until: now },
            epoch: 0,
            failures: 0,
            id: SessionId(0),
            password: Bytes::from_static(&[0; PASSWORD_LEN]),
            established: false,
            last_zxid: Zxid(0),
            calls: Calls::new(),
            watches: WatchTable::default(),
            out: BytesMut::new(),
            last_sent: now,
            last_heard: now,
            ping_sent: None,
            closing: None,
        }
    }

    // What it waits for.

    pub(crate) fn link(&self) -> Link {
        match self.phase {
            Phase::Resting { .. } => Link::Down,
            Phase::Dialing { .. } => Link::Dialing,
            Phase::Greeting { .. } | Phase::Serving => Link::Up,
            Phase::Over => Link::Over,
        }
    }

    /// Changes whenever a connection, or an attempt at one, is given up.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What is to be written next; the driver takes from its front.
    pub(crate) fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// The longest reply that is read.
    pub(crate) fn max_reply(&self) -> usize {
        self.settings.max_reply
    }

    /// When to call [`Session::handle_timeout`] if nothing happens before.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Resting { until } | Phase::Dialing { until } | Phase::Greeting { until, .. } => until,
            Phase::Serving => self.ping_due().min(self.silence_ends()),
            Phase::Over => return None,
        };
        let closing = self.closing.as_ref().map(|closing| closing.until);
        [self.calls.next_timeout(), closing].into_iter().flatten().fold(phase, Instant::min).into()
    }

    /// Whatever was sent keeps the session alive, so this counts from the last request of any kind.
    fn ping_due(&self) -> Instant {
        self.last_sent + self.timeout / 3
    }

    fn silence_ends(&self) -> Instant {
        self.last_heard + self.timeout * 2 / 3
    }

    /// How long one attempt may take, from dialing to the session.
    fn patience(&self) -> Duration {
        self.timeout / u32::try_from(self.settings.hosts + 1).unwrap_or(u32::MAX)
    }

    // Commands.

    pub(crate) fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Submit(call) => self.submit(now, call),
            Command::Unwatch { kind, path, id } => {
                if self.watches.leave(kind, &path, id) {
                    self.unwatch(now, kind, path);
                }
            }
            Command::Close(reply_to) => self.handle_close(now, reply_to),
        }
    }

    /// Closes the session behind everything submitted so far. Nothing can be submitted after it.
    pub(crate) fn handle_close(&mut self, now: Instant, mut reply_to: ReplyTo) {
        if self.closing.is_some() || self.phase == Phase::Over {
            return reply_to.send(Ok(answer::empty()));
        }
        self.closing = Some(Closing { until: now + self.timeout * 2 / 3, reply_to });
        match self.phase {
            Phase::Serving => self.transmit(now, Submission::internal(Request::CloseSession)),
            // A session that may exist must be taken up to be closed; see `resume`.
            Phase::Greeting { .. } => {}
            _ if self.id == SessionId(0) => self.end(SessionState::Closed),
            _ => {}
        }
    }

    fn submit(&mut self, now: Instant, call: Submission) {
        if self.closing.is_some() || self.phase == Phase::Over {
            let end = match self.shared.state() {
                state if state.is_final() => state,
                _ => SessionState::Closed,
            };
            return self.fail(call, false, |subject| end.error(subject));
        }
        if self.phase == Phase::Serving {
            self.transmit(now, call);
        } else {
            self.calls.wait(call, now + self.timeout);
        }
    }

    /// Puts a request on the wire.
    fn transmit(&mut self, now: Instant, call: Submission) {
        let op = call.request.op();
        let start = self.out.len();
        let xid = self.calls.next_xid(op);
        call.request.encode_frame(xid, &mut self.out);
        let (size, max) = (self.out.len() - start - frame::PREFIX, self.settings.max_request);
        if size > max {
            self.out.truncate(start);
            return self.fail(call, false, |subject| Error::RequestTooLarge { subject, size, max });
        }
        if let Some((kind, path)) = answer::watch_of(&call.request) {
            self.watches.arming(kind, path);
        }
        // A server does not count an auth packet as a sign of life.
        if op != OpCode::Auth {
            self.last_sent = now;
        }
        self.calls.sent(xid, now, call);
    }

    fn unwatch(&mut self, now: Instant, kind: WatchKind, path: String) {
        let remove = RemoveWatches { path: Some(path), kind: kind.watcher_type().code() };
        self.transmit(now, Submission::internal(Request::RemoveWatches(remove)));
    }

    fn fail(&self, mut call: Submission, sent: bool, error: impl FnOnce(Subject) -> Error) {
        if call.reply_to.is_awaited() {
            call.reply_to.send(Err(error(Subject::of(&call.request, sent, &self.shared.chroot))));
        }
    }

    // Connections.

    /// There is a stream; the handshake begins.
    pub(crate) fn handle_connected(&mut self, now: Instant) {
        let Phase::Dialing { until } = self.phase else { return };
        self.phase = Phase::Greeting { until, sent: now };
        self.last_heard = now;
        let timeout = self.settings.session_timeout.as_millis();
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout: i32::try_from(timeout).unwrap_or(i32::MAX),
            session: if self.established { self.id } else { SessionId(0) },
            password: Some(self.password.clone()),
            read_only: Some(self.settings.read_only),
        }
        .encode_frame(&mut self.out);
    }

    /// Bytes have come in.
    pub(crate) fn handle_heard(&mut self, now: Instant) {
        self.last_heard = now;
    }

    /// A frame has come in. On error the connection is of no use any more.
    pub(crate) fn handle_frame(&mut self, now: Instant, frame: &[u8]) -> Result<(), Broken> {
        match self.phase {
            Phase::Greeting { sent, .. } => self.handle_greeting(now, sent, jute::parse(frame)?),
            Phase::Serving => self.handle_reply(now, frame),
            Phase::Resting { .. } | Phase::Dialing { .. } | Phase::Over => Ok(()),
        }
    }

    fn handle_greeting(
        &mut self,
        now: Instant,
        sent: Instant,
        response: ConnectResponse,
    ) -> Result<(), Broken> {
        if response.is_refusal() {
            if !self.established {
                return Err(Broken("the server refused a new session"));
            }
            // Whoever was closing has what it wanted.
            let closing = self.closing.is_some();
            self.end(if closing { SessionState::Closed } else { SessionState::Expired });
            return Ok(());
        }
        let read_only = response.read_only.unwrap_or(false);
        self.id = response.session;
        self.password = response.password;
        self.timeout = Duration::from_millis(u64::from(response.timeout.unsigned_abs()));
        self.established |= !read_only;
        self.phase = Phase::Serving;
        self.failures = 0;
        self.last_sent = sent;
        self.shared.set_session(self.id, self.timeout);
        self.shared.set_contact(sent);
        tracing::debug!(session = %self.id, timeout = ?self.timeout, read_only, "connected");
        self.resume(now);
        let state = if read_only { SessionState::ConnectedReadOnly } else { SessionState::Connected };
        self.shared.set_state(state);
        Ok(())
    }

    /// Makes a new connection what the old one was: identities, watches, then what has waited.
    fn resume(&mut self, now: Instant) {
        for auth in self.auths.clone() {
            self.transmit(now, Submission::internal(Request::Auth(auth)));
        }
        for request in watch::restore(&self.watches, self.last_zxid) {
            self.transmit(now, Submission::internal(request));
        }
        self.watches.restored();
        for call in self.calls.take_waiting() {
            self.transmit(now, call);
        }
        if self.closing.is_some() {
            self.transmit(now, Submission::internal(Request::CloseSession));
        }
    }

    /// The connection, or the attempt at one, has failed.
    pub(crate) fn handle_loss(&mut self, now: Instant, error: io::Error) {
        if self.phase == Phase::Over {
            return;
        }
        tracing::debug!(%error, "connection lost");
        self.shared.set_failure(error);
        let pause = if self.phase == Phase::Serving {
            self.shared.set_state(SessionState::Disconnected);
            // Short, and not the same for everybody whom a restarting server has lost.
            self.rng.random_range(Duration::ZERO..BACKOFF)
        } else {
            self.failures += 1;
            self.backoff()
        };
        self.epoch += 1;
        self.out.clear();
        self.ping_sent = None;
        self.watches.lose_connection();
        for call in self.calls.lose_connection(now + self.timeout) {
            self.fail(call, true, Error::ConnectionLoss);
        }
        self.phase = Phase::Resting { until: now + pause };
        if self.closing.is_some() && !self.established {
            self.end(SessionState::Closed);
        }
    }

    /// No pause until every host had its turn, then one that doubles from round to round, up to a sixth of the
    /// session timeout; at least half of it is waited.
    fn backoff(&mut self) -> Duration {
        let hosts = self.settings.hosts.max(1);
        if self.failures % hosts != 0 {
            return Duration::ZERO;
        }
        let doublings = u32::try_from(self.failures / hosts - 1).unwrap_or(u32::MAX).min(16);
        let most = (BACKOFF * 2u32.pow(doublings)).min(self.timeout / 6).max(Duration::from_millis(1));
        self.rng.random_range(most / 2..=most)
    }

    // Replies.

    fn handle_reply(&mut self, now: Instant, frame: &[u8]) -> Result<(), Broken> {
        let (body, header) = ReplyHeader::parse(frame).map_err(|_| Broken("a frame without a header"))?;
        if header.xid == Xid::EVENT {
            return self.handle_event(header.zxid, body);
        }
        // Not for events: those of one transaction come one by one, and a connection may be lost between them.
        if header.zxid > self.last_zxid {
            self.last_zxid = header.zxid;
            self.shared.set_zxid(header.zxid);
        }
        if header.xid == Xid::PING {
            if let Some(sent) = self.ping_sent.take() {
                self.shared.set_contact(sent);
            }
            return Ok(());
        }
        let Some(in_flight) = self.calls.answered(header.xid) else {
            return Err(Broken("a reply to a request that was not sent"));
        };
        self.answer(now, in_flight, header.error_code(), body)
    }

    fn answer(
        &mut self,
        now: Instant,
        InFlight { sent, mut call, .. }: InFlight,
        error: Option<ErrorCode>,
        body: &[u8],
    ) -> Result<(), Broken> {
        match (&call.request, error) {
            (Request::Auth(_), Some(_)) => {
                self.fail(call, true, Error::AuthFailed);
                self.end(SessionState::AuthFailed);
                return Ok(());
            }
            (Request::Auth(auth), None) if !self.auths.contains(auth) => self.auths.push(auth.clone()),
            (Request::Auth(_), None) => {}
            (Request::CloseSession, _) => {
                self.end(SessionState::Closed);
                return Ok(());
            }
            _ => self.shared.set_contact(sent),
        }
        let watch = answer::watch_of(&call.request).map(|(kind, path)| (kind, path.to_owned()));
        let mark = answer::mark(&call.request, error);
        let parsed = match error {
            None => Reply::parse(call.request.op(), body),
            Some(_) => Ok(Reply::Empty),
        };
        let reply = match parsed {
            Ok(reply) => reply,
            Err(flaw) => {
                self.fail(call, true, Error::Protocol);
                return Err(flaw.into());
            }
        };
        if let (Request::RemoveWatches(remove), None, true) =
            (&call.request, error, call.reply_to.is_awaited())
        {
            self.forget(remove);
        }
        if call.reply_to.is_awaited() {
            let chroot = &self.shared.chroot;
            let outcome = match answer::outcome(&call.request, error, reply, chroot) {
                Ok(mut answer) => {
                    if let (Some((kind, path)), watch::Mark::Set { .. }) = (&watch, mark) {
                        answer.watch = Some(Box::new(self.watches.open(*kind, path, &self.commands)));
                    }
                    Ok(answer)
                }
                Err(error) => Err(error),
            };
            call.reply_to.send(outcome);
        }
        if let Some((kind, path)) = watch {
            if self.watches.answered(kind, &path, mark) {
                self.unwatch(now, kind, path);
            }
        }
        match error {
            // The next handshake tells what has become of the session.
            Some(ErrorCode::SessionExpired | ErrorCode::SessionMoved) => {
                Err(Broken("the server has lost the session"))
            }
            _ => Ok(()),
        }
    }

    fn forget(&mut self, remove: &RemoveWatches) {
        let Some(path) = &remove.path else { return };
        if let Some(kind) = zoolet_proto::WatcherType::from_code(remove.kind) {
            self.watches.removed(path, kind, self.shared.chroot.strip(path));
        }
    }

    fn handle_event(&mut self, zxid: Zxid, body: &[u8]) -> Result<(), Broken> {
        let WatchedEvent { kind, path, .. } = jute::parse(body)?;
        let shown = self.shared.chroot.strip(&path).to_owned();
        let event = WatchEvent { kind, path: shown, zxid: (zxid.0 > 0).then_some(zxid) };
        self.watches.fire(kind, &path, &event);
        Ok(())
    }

    /// A reply too large to be read has been announced by its header; the driver skips it.
    pub(crate) fn handle_oversize(&mut self, header: &[u8], size: usize) -> Result<(), Broken> {
        let max = self.settings.max_reply;
        let header: ReplyHeader = jute::parse(header)?;
        let Some(InFlight { call, .. }) = self.calls.answered(header.xid) else {
            return Err(Broken("a frame larger than any reply"));
        };
        // Without its caller the watch it has set is of no use; nothing is known of it but that.
        if let Some((kind, path)) =
            answer::watch_of(&call.request).map(|(kind, path)| (kind, path.to_owned()))
        {
            let mark = answer::mark(&call.request, header.error_code());
            if self.watches.answered(kind, &path, mark) {
                self.unwatch(self.last_heard, kind, path);
            }
        }
        self.fail(call, true, |subject| Error::ReplyTooLarge { subject, size, max });
        Ok(())
    }

    // Time.

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let chroot = &self.shared.chroot;
        self.calls.handle_timeout(now, |call, lapse| {
            let error = match lapse {
                Lapse::InFlight => Error::Timeout(Subject::of(&call.request, true, chroot)),
                Lapse::Unsent => Error::Timeout(Subject::of(&call.request, false, chroot)),
                Lapse::NoConnection => Error::ConnectionLoss(Subject::of(&call.request, false, chroot)),
            };
            call.reply_to.send(Err(error));
        });
        if let Some(mut closing) = self.closing.take_if(|closing| closing.until <= now) {
            closing.reply_to.send(Err(Error::ConnectionLoss(Subject::local("closeSession", ""))));
            return self.end(SessionState::Closed);
        }
        match self.phase {
            Phase::Resting { until } if until <= now => {
                self.phase = Phase::Dialing { until: now + self.patience() };
            }
            Phase::Dialing { until } | Phase::Greeting { until, .. } if until <= now => {
                self.handle_loss(now, io::Error::new(io::ErrorKind::TimedOut, "no session in time"));
            }
            Phase::Serving if self.silence_ends() <= now => {
                self.handle_loss(now, io::Error::new(io::ErrorKind::TimedOut, "the server is silent"));
            }
            Phase::Serving if self.ping_due() <= now => {
                frame::put(&mut self.out, |out| {
                    Xid::PING.encode(out);
                    OpCode::Ping.encode(out);
                });
                self.last_sent = now;
                self.ping_sent.get_or_insert(now);
            }
            _ => {}
        }
    }

    /// The session is over. Whoever waits for anything learns it.
    fn end(&mut self, end: SessionState) {
        if self.phase == Phase::Over {
            return;
        }
        tracing::debug!(session = %self.id, ?end, "session over");
        self.phase = Phase::Over;
        self.epoch += 1;
        self.out.clear();
        self.shared.set_state(end);
        let chroot = &self.shared.chroot;
        self.watches.end(end, |path| chroot.strip(path).to_owned());
        let (sent, waiting) = self.calls.end();
        for call in sent {
            self.fail(call, true, |subject| end.error(subject));
        }
        for call in waiting {
            self.fail(call, false, |subject| end.error(subject));
        }
        if let Some(mut closing) = self.closing.take() {
            closing.reply_to.send(Ok(answer::empty()));
        }
    }
}
