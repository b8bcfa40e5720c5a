//! The end of a session: by a close, by the server, or because its driver is dropped.

use std::mem;

use tokio::time::Instant;
use zoolet_proto::{Request, SessionId};

use super::{Phase, Session, answer};
use crate::command::{ReplyTo, Submission};
use crate::context::{ErrorContext, ErrorDetail};
use crate::error::Error;
use crate::state::SessionState;

/// A close in progress.
pub(super) struct Closing {
    /// When to stop waiting for the server to confirm it.
    pub(super) until: Instant,
    /// Every caller of close.
    reply_to: Vec<ReplyTo>,
}

impl Session {
    /// Closes the session after everything submitted so far. Only another close can follow, and it gets the same outcome.
    pub(crate) fn handle_close(&mut self, now: Instant, mut reply_to: ReplyTo) {
        if self.phase == Phase::Over {
            return reply_to.send(Ok(answer::empty()));
        }
        if let Some(closing) = &mut self.closing {
            return closing.reply_to.push(reply_to);
        }
        self.closing = Some(Closing { until: now + self.timeout * 2 / 3, reply_to: vec![reply_to] });
        let is_ours = !self.is_to_be_resumed();
        self.shared.set_state(SessionState::Closing);
        match self.phase {
            _ if !is_ours => self.end(SessionState::Closed, None),
            Phase::Serving => self.transmit_close(now),
            // A session that may exist must be resumed to be closed; see `resume`.
            Phase::Handshaking { .. } | Phase::Authenticating { .. } => {}
            _ if self.id == SessionId(0) => self.end(SessionState::Closed, None),
            _ => {}
        }
    }

    /// Encodes a close, unless there is one already, because the driver is about to be dropped. Only if a server serves the
    /// session: no other reads it.
    pub(crate) fn encode_last_close(&mut self, now: Instant) {
        let is_attached = self.phase == Phase::Serving || self.is_authenticating();
        if is_attached && self.closing.is_none() && !self.is_to_be_resumed() {
            self.transmit_close(now);
        }
    }

    /// Calls that were to wait for another server are sent to this one instead, because the close must not overtake them.
    fn transmit_close(&mut self, now: Instant) {
        if mem::take(&mut self.leaving) {
            for call in self.calls.take_waiting() {
                self.transmit(now, call);
            }
        }
        self.transmit(now, Submission::internal(Request::CloseSession));
    }

    /// Ends the session without the server's confirmation, unless it is over. `reason` is for later callers, if it was not
    /// closed by one.
    pub(crate) fn give_up(&mut self, reason: Option<&'static str>) {
        let context = ErrorContext::local("closeSession", "").because_of(self.connection_error());
        self.end_unclosed(&Error::ConnectionLoss(context), reason);
    }

    /// Ends although the server may keep the session. Callers of close get `error`.
    pub(super) fn end_unclosed(&mut self, error: &Error, reason: Option<&'static str>) {
        let closing = self.closing.take();
        let reason = reason.filter(|_| closing.is_none());
        self.end(SessionState::Closed, reason.map(|reason| ErrorDetail::Hint(reason.into())));
        for mut reply_to in closing.into_iter().flat_map(|closing| closing.reply_to) {
            reply_to.send(Err(error.clone()));
        }
    }

    /// The session is over, for the reason in `detail` as far as that is known. Everything that waits for it fails.
    pub(super) fn end(&mut self, end: SessionState, detail: Option<ErrorDetail>) {
        if self.phase == Phase::Over {
            return;
        }
        match end {
            SessionState::Closed => tracing::info!(session = %self.id, ?end, "session over"),
            _ => tracing::warn!(session = %self.id, ?end, "session over"),
        }
        self.phase = Phase::Over;
        self.leaving = false;
        self.generation += 1;
        self.out.clear();
        self.shared.set_state_because(end, detail);
        self.watches.end(|context| self.shared.end_error(context));
        self.feeds.end(|context| self.shared.end_error(context));
        self.shared.counters.in_flight.set(0);
        for (mut call, sent) in self.calls.end() {
            call.fail(sent, |context| self.shared.end_error(context));
        }
        if let Some(closing) = self.closing.take() {
            let closed = || match end {
                // The server keeps it until it times out.
                SessionState::AuthFailed => {
                    Err(self.shared.end_error(ErrorContext::local("closeSession", "")))
                }
                _ => Ok(answer::empty()),
            };
            closing.reply_to.into_iter().for_each(|mut reply_to| reply_to.send(closed()));
        }
    }
}
