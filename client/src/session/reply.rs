//! What a server sends on a connection that serves: replies, events, and what cannot be read.

use tokio::time::Instant;
use zoolet_proto::records::{RemoveWatches, SetWatches2, WatchedEvent};
use zoolet_proto::{ErrorCode, Jute, Reply, ReplyHeader, Request, WatcherType, Xid, Zxid, jute};

use super::flight::InFlight;
use super::{Broken, Session, answer};
use crate::context::ErrorContext;
use crate::error::Error;
use crate::state::SessionState;
use crate::watch::WatchEvent;

impl Session {
    pub(super) fn handle_reply(&mut self, now: Instant, frame: &[u8]) -> Result<(), Broken> {
        let mut body = frame;
        let header = ReplyHeader::decode(&mut body).map_err(|_| Broken("a frame without a header"))?;
        match header.xid {
            Xid::EVENT => return self.handle_event(header.zxid, body),
            Xid::PING => {
                if is_lost(header.error_code()) {
                    return Err(LOST);
                }
                if let Some(sent) = self.pings.answered() {
                    self.contacted(sent);
                }
                self.seen(&header);
                return Ok(());
            }
            _ => {}
        }
        let error = header.error_code();
        let Some(in_flight) = self.calls.answered(header.xid, error) else {
            return Err(Broken("a reply to a request whose turn it is not"));
        };
        if !is_lost(error) {
            self.seen(&header);
        }
        self.answer(now, in_flight, error, body)
    }

    /// The server is of use, and up to the zxid of this reply nothing is left to be told: not so while some watches are
    /// still to be set again, nor with an event, as those of one transaction come one by one and a connection may be lost
    /// between them.
    fn seen(&mut self, header: &ReplyHeader) {
        if self.calls.restores_watches() {
            return;
        }
        // What a connection begins with does not make it one that was of use: a server that goes each time behind that
        // would be dialed without a pause.
        if !matches!(header.xid, Xid::AUTH | Xid::SET_WATCHES) {
            self.failures = 0;
        }
        if header.zxid > self.last_zxid {
            self.last_zxid = header.zxid;
            self.shared.set_zxid(header.zxid);
        }
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
                self.end(SessionState::AuthFailed);
                self.fail(call, true, Error::AuthFailed);
                return Ok(());
            }
            Request::CloseSession => match error {
                None | Some(ErrorCode::SessionExpired) => {
                    self.end(SessionState::Closed);
                    return Ok(());
                }
                // It lives elsewhere, and is closed on the next connection.
                Some(ErrorCode::SessionMoved) => return Err(LOST),
                Some(code) => {
                    let context = ErrorContext::of(&call.request, true, &self.shared.chroot);
                    self.end_unclosed(&Error::Refused { context, code });
                    return Ok(());
                }
            },
            // To a server it is no sign of life.
            Request::Auth(_) => {}
            // Of a session that it does not have it has seen none.
            _ if is_lost(error) => {}
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
        match (&call.request, error) {
            (Request::RemoveWatches(remove), None) => self.forget(remove),
            (Request::Sync(_), None) => self.calls.synced(),
            (request, Some(_)) if !is_lost(error) => self.abandon(request),
            _ => {}
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
        if is_lost(error) { Err(LOST) } else { Ok(()) }
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

    /// If `request` was to set watches again it does not: their users learn that they are gone, instead of waiting for what
    /// is never told.
    pub(super) fn abandon(&mut self, request: &Request) {
        let lost: SetWatches2 = match request {
            Request::SetWatches(all) => all.clone().into(),
            Request::SetWatches2(all) => all.clone(),
            _ => return,
        };
        tracing::warn!("the server does not set watches again; whoever waits for them is told so");
        for (kind, paths) in [
            (WatcherType::Data, lost.data),
            (WatcherType::Data, lost.exist),
            (WatcherType::Children, lost.child),
            (WatcherType::Persistent, lost.persistent),
            (WatcherType::PersistentRecursive, lost.recursive),
        ] {
            paths.iter().for_each(|path| self.watches.removed(path, kind, self.shared.chroot.strip(path)));
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
        self.fail(call, true, |context| Error::ReplyTooLarge { context, size, max });
        Ok(())
    }
}

/// That the server says it.
const LOST: Broken = Broken("the server has lost the session");

/// Whether the server has no such session, or not here. The next handshake tells what has become of it.
fn is_lost(error: Option<ErrorCode>) -> bool {
    matches!(error, Some(ErrorCode::SessionExpired | ErrorCode::SessionMoved))
}
