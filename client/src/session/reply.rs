//! What a server sends on a connection that serves: replies, events, and what cannot be read.

use tokio::time::Instant;
use zoolet_proto::records::{RemoveWatches, WatchedEvent};
use zoolet_proto::{ErrorCode, Jute, Reply, ReplyHeader, Request, WatcherType, Xid, Zxid, jute};

use super::flight::InFlight;
use super::{Broken, Session, answer};
use crate::error::Error;
use crate::state::SessionState;
use crate::watch::WatchEvent;

impl Session {
    pub(super) fn handle_reply(&mut self, now: Instant, frame: &[u8]) -> Result<(), Broken> {
        let (body, header) = ReplyHeader::parse(frame).map_err(|_| Broken("a frame without a header"))?;
        if header.xid == Xid::EVENT {
            return self.handle_event(header.zxid, body);
        }
        if header.xid == Xid::SET_WATCHES {
            if header.err != 0 {
                return Err(Broken("the server does not set watches again"));
            }
            self.unrestored = self.unrestored.saturating_sub(1);
        }
        // Up to there nothing is left to be told: not so while some watches are still to be set again, nor with an event,
        // as those of one transaction come one by one, and a connection may be lost between them.
        if self.unrestored == 0 {
            self.failures = 0;
            if header.zxid > self.last_zxid {
                self.last_zxid = header.zxid;
                self.shared.set_zxid(header.zxid);
            }
        }
        if header.xid == Xid::PING {
            if let Some(sent) = self.ping_sent.take() {
                self.contacted(sent);
            }
            return Ok(());
        }
        let Some(in_flight) = self.calls.answered(header.xid, header.error_code()) else {
            return Err(Broken("a reply to a request whose turn it is not"));
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
        match &call.request {
            Request::Auth(_) if error.is_some() => {
                self.fail(call, true, Error::AuthFailed);
                self.end(SessionState::AuthFailed);
                return Ok(());
            }
            Request::CloseSession => {
                self.end(SessionState::Closed);
                return Ok(());
            }
            // To a server it is no sign of life.
            Request::Auth(_) => {}
            _ => self.contacted(sent),
        }
        let reply = match error {
            None => Reply::parse(call.request.op(), body),
            Some(_) => Ok(Reply::Empty),
        };
        let reply = match reply {
            Ok(reply) => reply,
            Err(flaw) => {
                self.fail(call, true, Error::Protocol);
                return Err(flaw.into());
            }
        };
        if let (Request::RemoveWatches(remove), None) = (&call.request, error) {
            self.forget(remove);
        }
        if call.reply_to.is_awaited() {
            let mut outcome = answer::outcome(&call.request, error, reply, &self.shared.chroot);
            if let (Ok(answer), Some((kind, path))) = (&mut outcome, answer::watch_of(&call.request)) {
                answer.watch = Some(Box::new(self.watches.open(kind, path, &self.commands)));
            }
            call.reply_to.send(outcome);
            self.answered += 1;
        }
        self.settle_watch(now, &call.request, error);
        match error {
            // The next handshake tells what has become of the session.
            Some(ErrorCode::SessionExpired | ErrorCode::SessionMoved) => {
                Err(Broken("the server has lost the session"))
            }
            _ => Ok(()),
        }
    }

    /// Enters what became of the watch of a request. If nobody wants it any more it is taken away again.
    fn settle_watch(&mut self, now: Instant, request: &Request, error: Option<ErrorCode>) {
        let Some((kind, path)) = answer::watch_of(request) else { return };
        if self.watches.answered(kind, path, answer::mark(request, error)) {
            self.unwatch(now, kind, path.to_owned());
        }
    }

    /// Watches are gone from the server because somebody asked for it.
    fn forget(&mut self, remove: &RemoveWatches) {
        if let (Some(path), Some(kind)) = (&remove.path, WatcherType::from_code(remove.kind)) {
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
    pub(crate) fn handle_oversize(&mut self, now: Instant, header: &[u8], size: usize) -> Result<(), Broken> {
        let max = self.settings.max_reply;
        let header: ReplyHeader = jute::parse(header)?;
        let Some(InFlight { call, .. }) = self.calls.answered(header.xid, header.error_code()) else {
            return Err(Broken("a frame larger than any reply"));
        };
        // A watch that it has set has nobody who would get it.
        self.settle_watch(now, &call.request, header.error_code());
        self.fail(call, true, |subject| Error::ReplyTooLarge { subject, size, max });
        Ok(())
    }
}
