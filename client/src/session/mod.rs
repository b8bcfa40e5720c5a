//! The session as a state machine without I/O: bytes, commands and instants in, bytes and outcomes out.
//!
//! `handle_*` takes an input, `next_timeout` and `link` say what it waits for, `out` is what it wants written. The
//! driver owns it, so everything here happens in one order.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::mpsc;
use tokio::time::Instant;
use zoolet_clock::Hold;
use zoolet_proto::records::{AuthPacket, PASSWORD_LEN, RemoveWatches};
use zoolet_proto::{Jute, OpCode, Request, SessionId, Xid, Zxid, frame, jute};

use crate::call::{Command, ReplyTo, Submission};
use crate::context::ErrorContext;
use crate::error::Error;
use crate::state::{SessionState, Shared};
use crate::watch::{WatchKind, WatchTable};

mod answer;
mod connection;
mod flight;
mod pings;
mod reply;
mod search;
#[cfg(test)]
mod tests;

use flight::{Calls, Lapse};
use pings::Pings;
use search::Search;

/// The longest first pause between two rounds of attempts; it doubles from there.
const BACKOFF: Duration = Duration::from_millis(50);
/// What an attempt is given at least, however short the session timeout or many the hosts.
const LEAST_PATIENCE: Duration = Duration::from_millis(100);
/// What an attempt is given while there is no session, however short the time to connect in.
const LEAST_FIRST_PATIENCE: Duration = Duration::from_secs(1);

/// What a session is to be like.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
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

impl From<jute::DecodeError> for Broken {
    fn from(_: jute::DecodeError) -> Self {
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
    /// Connections and attempts that failed since a server was last of use.
    failures: usize,
    rng: StdRng,
    id: SessionId,
    password: Bytes,
    /// Whether a server with a say has ever known this session; a read-only one invents sessions of its own.
    established: bool,
    /// Whether the server of this connection is a read-only one.
    read_only: bool,
    /// The look for one that is none.
    search: Search,
    timeout: Duration,
    last_zxid: Zxid,
    auths: Vec<AuthPacket>,
    calls: Calls,
    watches: WatchTable,
    out: BytesMut,
    last_sent: Instant,
    last_heard: Instant,
    pings: Pings,
    answered: usize,
    closing: Option<Closing>,
}

/// A close under way.
struct Closing {
    /// When to stop waiting for the server's word.
    until: Instant,
    /// Everybody who has asked for it.
    reply_to: Vec<ReplyTo>,
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
            read_only: false,
            search: Search::default(),
            last_zxid: Zxid(0),
            calls: Calls::new(),
            watches: WatchTable::default(),
            out: BytesMut::new(),
            last_sent: now,
            last_heard: now,
            pings: Pings::default(),
            answered: 0,
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

    /// How many callers were given a reply since this was last asked.
    pub(crate) fn take_answered(&mut self) -> usize {
        std::mem::take(&mut self.answered)
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
        [self.calls.next_timeout(), closing, self.search_due()]
            .into_iter()
            .flatten()
            .fold(phase, Instant::min)
            .into()
    }

    /// Whatever was sent keeps the session alive, so this counts from the last request of any kind.
    fn ping_due(&self) -> Instant {
        self.last_sent + self.timeout / 3
    }

    fn silence_ends(&self) -> Instant {
        self.last_heard + self.timeout * 2 / 3
    }

    /// How long one attempt may take, from dialing to the session: a share of the time in which one is wanted, so that a host
    /// that is silent leaves some for the others and for a second attempt.
    fn patience(&self) -> Duration {
        let shares = u32::try_from(self.settings.hosts + 1).unwrap_or(u32::MAX);
        let patience = (self.timeout / shares).max(LEAST_PATIENCE);
        match self.id {
            SessionId(0) => patience.min((self.settings.connect_timeout / shares).max(LEAST_FIRST_PATIENCE)),
            _ => patience,
        }
    }

    /// The server had a sign of life at `sent` or later. One that is cut off from its ensemble keeps no session alive.
    fn contacted(&self, sent: Instant) {
        if !self.read_only {
            self.shared.set_contact(sent);
        }
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

    /// Closes the session behind everything submitted so far. Nothing can be submitted after it but another close, which
    /// waits for the same outcome.
    pub(crate) fn handle_close(&mut self, now: Instant, mut reply_to: ReplyTo) {
        if self.phase == Phase::Over {
            return reply_to.send(Ok(answer::empty()));
        }
        if let Some(closing) = &mut self.closing {
            return closing.reply_to.push(reply_to);
        }
        self.closing = Some(Closing { until: now + self.timeout * 2 / 3, reply_to: vec![reply_to] });
        self.shared.set_state(SessionState::Closing);
        match self.phase {
            Phase::Serving => self.transmit(now, Submission::internal(Request::CloseSession)),
            // A session that may exist must be taken up to be closed; see `resume`.
            Phase::Greeting { .. } => {}
            _ if self.id == SessionId(0) => self.end(SessionState::Closed),
            _ => {}
        }
    }

    fn submit(&mut self, now: Instant, mut call: Submission) {
        call.hold = Hold::default();
        if self.closing.is_some() || self.phase == Phase::Over {
            let end = match self.shared.state() {
                state if state.is_final() => state,
                _ => SessionState::Closed,
            };
            return self.fail(call, false, |context| end.error(context));
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
            self.abandon(&call.request);
            return self.fail(call, false, |context| Error::RequestTooLarge { context, size, max });
        }
        if let Some((kind, path)) = answer::watch_of(&call.request) {
            self.watches.arming(kind, path);
        }
        if let Request::Auth(auth) = &call.request {
            // To a server it is no sign of life. Kept from here on, so that it outlives its connection and its caller.
            if !self.auths.contains(auth) {
                self.auths.push(auth.clone());
            }
        } else {
            self.last_sent = now;
        }
        self.calls.sent(xid, now, call);
    }

    fn unwatch(&mut self, now: Instant, kind: WatchKind, path: String) {
        // Nothing may follow a close: a server that has closed its end by then refuses the write, and the replies that are
        // on their way would be lost with the connection.
        if self.closing.is_some() {
            return;
        }
        let remove = RemoveWatches { path: Some(path), kind: kind.watcher_type().code() };
        self.transmit(now, Submission::internal(Request::RemoveWatches(remove)));
    }

    fn fail(&self, mut call: Submission, sent: bool, error: impl FnOnce(ErrorContext) -> Error) {
        if call.reply_to.is_awaited() {
            call.reply_to.send(Err(error(ErrorContext::of(&call.request, sent, &self.shared.chroot))));
        }
    }

    // Time.

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let chroot = &self.shared.chroot;
        self.calls.handle_timeout(now, |call, lapse| {
            let error = match lapse {
                Lapse::InFlight => Error::Timeout(ErrorContext::of(&call.request, true, chroot)),
                Lapse::Unsent => Error::Timeout(ErrorContext::of(&call.request, false, chroot)),
                Lapse::NoConnection => Error::ConnectionLoss(ErrorContext::of(&call.request, false, chroot)),
            };
            call.reply_to.send(Err(error));
        });
        if self.closing.as_ref().is_some_and(|closing| closing.until <= now) {
            return self.give_up();
        }
        if self.search_due().is_some_and(|due| due <= now) {
            self.handle_search_timeout(now);
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
                self.pings.sent(now);
            }
            _ => {}
        }
    }

    /// Ends the session without a word of the server's, unless it is over.
    pub(crate) fn give_up(&mut self) {
        self.end_unclosed(&Error::ConnectionLoss(ErrorContext::local("closeSession", "")));
    }

    /// Ends with a session that may live on: whoever was closing it is told why.
    fn end_unclosed(&mut self, error: &Error) {
        let closing = self.closing.take();
        self.end(SessionState::Closed);
        for mut reply_to in closing.into_iter().flat_map(|closing| closing.reply_to) {
            reply_to.send(Err(error.clone()));
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
            self.fail(call, true, |context| end.error(context));
        }
        for call in waiting {
            self.fail(call, false, |context| end.error(context));
        }
        if let Some(closing) = self.closing.take() {
            let closed = || match end {
                // It lives until it times out.
                SessionState::AuthFailed => Err(end.error(ErrorContext::local("closeSession", ""))),
                _ => Ok(answer::empty()),
            };
            closing.reply_to.into_iter().for_each(|mut reply_to| reply_to.send(closed()));
        }
    }
}
