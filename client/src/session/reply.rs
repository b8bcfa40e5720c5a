//! What a server sends after the handshake: replies, events, and replies too large to read.

use tokio::time::Instant;
use zoolet_proto::frame::PREFIX;
use zoolet_proto::records::{RemoveWatches, WatchedEvent};
use zoolet_proto::{ErrorCode, Jute, OpCode, Reply, ReplyHeader, Request, WatcherType, Xid, Zxid, jute};

use super::flight::InFlight;
use super::{ProtocolViolation, Session, answer, before_3_5};
use crate::command::{AnsweredCall, Submission, shown_zxid};
use crate::context::{ErrorContext, ErrorDetail};
use crate::error::Error;
use crate::features::ServerFeature;
use crate::feed::FeedReply;
use crate::state::SessionState;
use crate::watch::{WatchEvent, WatchReply, restored_watches};

impl Session {
    pub(super) fn handle_reply(&mut self, now: Instant, frame: &[u8]) -> Result<(), ProtocolViolation> {
        let mut body = frame;
        let header = ReplyHeader::decode(&mut body)
            .map_err(|_| ProtocolViolation("a frame without a reply header"))?;
        match header.xid {
            Xid::EVENT => return self.handle_event(header.zxid, body),
            Xid::PING => {
                unserved(header.error_code())?;
                if let Some(sent) = self.pings.answered() {
                    self.contacted(sent);
                }
                self.seen(&header);
                if !self.calls.restores_watches() {
                    self.feeds.reached(header.zxid);
                }
                return Ok(());
            }
            _ => {}
        }
        let Some((at, in_flight)) = self.answered(now, &header) else {
            return Err(ProtocolViolation("a reply out of order"));
        };
        if before_3_5::lacks_create2(&in_flight.call.request, header.error_code(), self.has_create2) {
            self.contacted(in_flight.sent);
            self.shared.note_feature(ServerFeature::Create2, false);
            self.calls.put_back((at, in_flight));
            // The server closes it anyway, or it would answer a later request before this one.
            return Err(NO_CREATE2);
        }
        self.answer(now, in_flight, &header, body)?;
        self.leave_if_idle(now);
        Ok(())
    }

    /// The call that a reply belongs to, with its place, after noting what the header says.
    fn answered(&mut self, now: Instant, header: &ReplyHeader) -> Option<(usize, InFlight)> {
        let error = header.error_code();
        let (at, in_flight) = self.calls.answered(header.xid, error)?;
        if unserved(error).is_ok() {
            self.seen(header);
        }
        let counters = &self.shared.counters;
        counters.reply(in_flight.call.request.op(), error, now.saturating_duration_since(in_flight.sent));
        counters.in_flight.set(self.calls.in_flight() as u64);
        Some((at, in_flight))
    }

    /// The server is useful, and every event up to the zxid of this reply has arrived. The second is not so while watches
    /// are being restored. Nor is it after an event: those of one transaction arrive one by one, and the connection may be
    /// lost between them.
    fn seen(&mut self, header: &ReplyHeader) {
        if self.calls.restores_watches() {
            return;
        }
        // A server that answers only what a connection begins with, and then closes it, is not useful: it must not be
        // dialed without a pause.
        if !matches!(header.xid, Xid::AUTH | Xid::SET_WATCHES) {
            self.failures = 0;
        }
        if header.zxid > self.shared.last_zxid() {
            self.shared.set_zxid(header.zxid);
        }
    }

    fn answer(
        &mut self,
        now: Instant,
        InFlight { sent, mut call, .. }: InFlight,
        header: &ReplyHeader,
        body: &[u8],
    ) -> Result<(), ProtocolViolation> {
        let error = header.error_code();
        match &call.request {
            Request::Auth(auth) if error.is_some() => {
                let scheme = auth.scheme.as_deref().unwrap_or_default();
                let unusual = match scheme {
                    "digest" | "ip" | "sasl" | "x509" | "ensemble" => "",
                    _ => ", which it perhaps does not know",
                };
                let hint = format!("the server refused the identity of scheme {scheme:?}{unusual}");
                self.end(SessionState::AuthFailed, Some(ErrorDetail::Hint(hint.into())));
                call.fail(true, |context| self.shared.end_error(context));
                return Ok(());
            }
            Request::CloseSession => match error {
                None | Some(ErrorCode::SessionExpired) => {
                    self.end(SessionState::Closed, None);
                    return Ok(());
                }
                // Another server has it; the close is sent again on the next connection.
                Some(ErrorCode::SessionMoved) => return Err(LOST),
                Some(code) => {
                    let context = ErrorContext::of(&call.request, true, &call.chroot);
                    self.end_unclosed(&Error::Refused { context, code }, None);
                    return Ok(());
                }
            },
            // Servers do not count it as a sign of life.
            Request::Auth(_) => {
                if self.shared.state() == SessionState::Connecting {
                    self.publish_connected();
                }
            }
            _ if unserved(error).is_err() => {}
            _ => {
                self.contacted(sent);
                self.note_feature(call.request.op(), error);
            }
        }
        // The body of an error is empty, or means nothing to a client.
        let reply = match error {
            None => Reply::parse(call.request.op(), body),
            Some(_) => Ok(Reply::Empty),
        };
        let reply = match (reply, &call.request) {
            (Ok(Reply::Created(path)), Request::Create(create)) => {
                before_3_5::created(create, path, header.zxid, self.id)
            }
            (Ok(reply), _) => reply,
            (Err(error), _) => {
                call.fail(true, Error::Protocol);
                return Err(error.into());
            }
        };
        match (&call.request, error) {
            (Request::RemoveWatches(remove), None) => self.forget(remove),
            (Request::Sync(_), None) => self.calls.synced(),
            (_, Some(_)) if unserved(error).is_ok() => self.abandon(&call),
            _ => {}
        }
        if let Some(ticket) = call.reply_to.ticket() {
            if ticket.feed.is_read() {
                if answer::watch_reply(&call.request, error) != WatchReply::Unset {
                    self.watches.feed_answered(&call.request, &call.chroot, &ticket.feed);
                }
                let context = || ErrorContext::of(&call.request, true, &call.chroot);
                let outcome =
                    error.map_or(Ok(reply), |code| Err(Error::Refused { context: context(), code }));
                ticket.feed.reply(FeedReply { tag: ticket.tag, zxid: shown_zxid(header.zxid), outcome });
                self.answered += 1;
            }
        } else if call.reply_to.is_awaited() {
            // Opened before the reply is sent: the caller has the watch before the next frame is looked at, which may be its event.
            let mut outcome = answer::outcome(&call.request, error, reply, &call.chroot, self.has_identity());
            if let (Ok(answer), Some((kind, path))) = (&mut outcome, answer::watch_of(&call.request)) {
                let watch = self.watches.open(kind, path, &call.chroot, &self.commands);
                answer.extra = Some(Box::new(watch));
            }
            call.reply_to.send(AnsweredCall { outcome, zxid: header.zxid });
            self.answered += 1;
        }
        // Not before the caller is a user of the watch: a watch without users is removed.
        self.settle_watch(now, &call.request, error);
        unserved(error)
    }

    /// Notes what the answer says about the server. Of create2, which is frequent, the first answer of a connection says all.
    fn note_feature(&mut self, op: OpCode, error: Option<ErrorCode>) {
        let Some(feature) = ServerFeature::of(op) else { return };
        let has = error != Some(ErrorCode::Unimplemented);
        if feature == ServerFeature::Create2 && self.has_create2.replace(has) == Some(has) {
            return;
        }
        // Servers that know the others know create2, whatever a multi has said.
        if has && self.has_create2 == Some(false) {
            self.has_create2 = Some(true);
            self.shared.note_feature(ServerFeature::Create2, true);
        }
        self.shared.note_feature(feature, has);
    }

    /// Registers the outcome of the watch of a request. A watch that has no users is removed again.
    fn settle_watch(&mut self, now: Instant, request: &Request, error: Option<ErrorCode>) {
        let Some((kind, path)) = answer::watch_of(request) else { return };
        if self.watches.answered(kind, path, answer::watch_reply(request, error)) {
            self.unwatch(now, kind, path.to_owned());
        }
    }

    /// A removeWatches has removed these watches from the server.
    fn forget(&mut self, remove: &RemoveWatches) {
        if let (Some(path), Some(kind)) = (&remove.path, WatcherType::from_code(remove.kind)) {
            self.watches.removed(path, kind);
        }
    }

    /// If `call` was to restore watches, it has failed. Their users get an error instead of waiting for ever. A feed, whose
    /// request is about its own watches, learns it by the reply.
    pub(super) fn abandon(&mut self, call: &Submission) {
        let mut lost =
            restored_watches(&call.request).filter(|_| call.reply_to.ticket().is_none()).peekable();
        if lost.peek().is_some() {
            tracing::warn!("the server does not restore watches; they end with WatchRemoved");
        }
        lost.for_each(|(kind, _, path)| self.watches.removed(path, kind.watcher_type()));
    }

    fn handle_event(&mut self, zxid: Zxid, body: &[u8]) -> Result<(), ProtocolViolation> {
        let WatchedEvent { kind, path, .. } = jute::parse(body)?;
        self.shared.counters.event();
        self.watches.fire(&WatchEvent { kind, path, zxid: (zxid.0 > 0).then_some(zxid) });
        Ok(())
    }

    /// The header of a reply that is too large has arrived. The driver skips the rest.
    pub(crate) fn handle_oversize(
        &mut self,
        now: Instant,
        header: &[u8],
        size: usize,
    ) -> Result<(), ProtocolViolation> {
        self.shared.counters.bytes_received.add((size + PREFIX) as u64);
        let max = self.settings.max_reply;
        let header: ReplyHeader = jute::parse(header)?;
        let Some((_, InFlight { sent, mut call, .. })) = self.answered(now, &header) else {
            return Err(ProtocolViolation("a frame that is larger than max_reply and no reply"));
        };
        if header.error_code().is_none() {
            self.contacted(sent);
        }
        // The watch it has set has no user.
        self.settle_watch(now, &call.request, header.error_code());
        call.fail(true, |context| Error::ReplyTooLarge { context, size, max });
        self.leave_if_idle(now);
        Ok(())
    }
}

/// The server has replied so.
pub(super) const LOST: ProtocolViolation = ProtocolViolation("the server has lost the session");

const NO_CREATE2: ProtocolViolation =
    ProtocolViolation("the server does not know create2; the next connection does without it");

const UNAUTHENTICATED: ProtocolViolation =
    ProtocolViolation("the server serves only clients that have authenticated");

/// The error of a connection whose server has not served this session, nor counted a request as a sign of life. It closes the
/// connection.
fn unserved(error: Option<ErrorCode>) -> Result<(), ProtocolViolation> {
    match error {
        error if is_lost(error) => Err(LOST),
        Some(ErrorCode::SessionClosedRequireSaslAuth) => Err(UNAUTHENTICATED),
        _ => Ok(()),
    }
}

/// Whether the server does not have this session. The next handshake shows whether another one does.
pub(super) fn is_lost(error: Option<ErrorCode>) -> bool {
    matches!(error, Some(ErrorCode::SessionExpired | ErrorCode::SessionMoved))
}
