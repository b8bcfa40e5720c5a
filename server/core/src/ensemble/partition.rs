//! An endpoint that has lost the leader and serves who is content with reading (`ReadOnlyZooKeeperServer`).

use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{ErrorCode, Incoming, OpCode, Reply, ReplyHeader, SessionId};

use crate::ensemble::Ensemble;
use crate::ensemble::endpoint::Endpoint;
use crate::handshake::connect_response;
use crate::message::{ConnId, Input, Message};
use crate::session::password_matches;

impl Ensemble {
    /// Answers a connect request at an endpoint that is cut off. The order of the checks is the same as elsewhere.
    pub(super) fn connect_read_only(&mut self, at: usize, conn: ConnId, request: &ConnectRequest) {
        let now = self.now;
        let Endpoint { core, local, .. } = &mut self.endpoints[at];
        let again = core.session_of(conn).is_some();
        let ahead = request.last_zxid_seen > core.tree().last_zxid();
        // The leader may have given its session to another server by now.
        let elsewhere = core.sessions().get(request.session).is_some();
        if again || request.read_only != Some(true) || ahead || elsewhere {
            tracing::debug!(%conn, at, again, ahead, elsewhere, "not taken by a read-only endpoint");
            return self.cut(conn);
        }
        let timeout = core.config().negotiate(request.timeout);
        let id = if request.session == SessionId(0) {
            let id = local.allocate_id();
            local.insert(id, timeout, Some(conn), now);
            id
        } else {
            let known = local.get(request.session);
            self.replace(known.and_then(|session| session.conn));
            if known.is_none() || !password_matches(request.session, request.password.as_ref()) {
                self.send(conn, Message::Connected(ConnectResponse::refusal(Some(true))));
                return self.cut(conn);
            }
            self.endpoints[at].local.attach(request.session, timeout, conn, now);
            request.session
        };
        self.endpoints[at].core.bind_session(conn, id);
        self.send(conn, Message::Connected(connect_response(id, timeout, Some(true))));
    }

    fn replace(&mut self, old: Option<ConnId>) {
        old.into_iter().for_each(|old| self.cut(old));
    }

    /// Answers a request at an endpoint that is cut off. Nothing waits there, as nothing changes.
    pub(super) fn request_read_only(&mut self, at: usize, conn: ConnId, incoming: Incoming) {
        let (now, zxid) = (self.now, self.endpoints[at].zxid());
        let Endpoint { core, local, .. } = &mut self.endpoints[at];
        let Some(session) = core.session_of(conn) else { return self.cut(conn) };
        let op = OpCode::from_code(incoming.op);
        if !matches!(op, Some(OpCode::Auth | OpCode::Sasl)) {
            local.touch(session, now);
        }
        match op {
            Some(OpCode::CloseSession) => {
                local.remove(session);
                self.send(conn, Message::Reply(ReplyHeader::ok(incoming.xid, zxid), Reply::Empty));
                self.send(conn, Message::Close { asked: true });
                self.forget(conn);
            }
            Some(op) if op.takes_zxid() || op == OpCode::Sync => {
                let header = ReplyHeader::error(incoming.xid, zxid, ErrorCode::NotReadOnly);
                self.send(conn, Message::Reply(header, Reply::Empty));
            }
            _ => {
                core.handle(now, conn, Input::Request(incoming));
                self.collect(at);
            }
        }
    }

    /// Expires what only this endpoint knows, if it is cut off.
    pub(super) fn expire_local(&mut self, at: usize) {
        if !self.endpoints[at].read_only {
            return;
        }
        while let Some(id) = self.endpoints[at].local.expired(self.now) {
            let conn = self.endpoints[at].local.get(id).and_then(|session| session.conn);
            self.endpoints[at].local.remove(id);
            self.replace(conn);
        }
        self.endpoints[at].core.close_sessionless(self.now);
        self.collect(at);
    }
}
