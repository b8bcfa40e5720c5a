//! How sessions begin, move and end.

use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{SessionId, Xid};

use crate::machine::Core;
use crate::message::{ConnId, Message, Millis};
use crate::session::{password, password_matches};
use crate::txn::TxnOp;

impl Core {
    /// Answers a connect request; the order of the checks is `ZooKeeperServer.processConnectRequest`'s.
    pub(crate) fn connect(&mut self, now: Millis, conn: ConnId, request: &ConnectRequest) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        if link.session.is_some() || request.last_zxid_seen > self.tree.last_zxid() {
            // A client that has seen more than this server: it must look elsewhere, and gets no answer.
            tracing::debug!(%conn, seen = %request.last_zxid_seen, "connection is ahead of the server");
            return self.close(conn);
        }
        link.read_only = request.read_only;
        let timeout = self.config.negotiate(request.timeout);
        if request.session == SessionId(0) {
            self.open_session(now, conn, timeout);
        } else {
            self.resume_session(now, conn, timeout, request);
        }
    }

    fn open_session(&mut self, now: Millis, conn: ConnId, timeout: i32) {
        if self.config.max_sessions.is_some_and(|max| self.sessions.len() >= max) {
            tracing::debug!(%conn, "no room for another session");
            return self.close(conn);
        }
        let id = self.sessions.draw_id();
        self.sessions.insert(id, timeout, Some(conn), now);
        self.commit(now, id, Xid(0), TxnOp::CreateSession { timeout }, |_| {});
        tracing::debug!(session = %id, %conn, timeout, "session opened");
        self.welcome(conn, id, timeout);
    }

    fn resume_session(&mut self, now: Millis, conn: ConnId, timeout: i32, request: &ConnectRequest) {
        let id = request.session;
        // Before the password is looked at, as in a real server: whoever has it can come back at once.
        if let Some(old) = self.sessions.get(id).and_then(|session| session.conn) {
            self.close(old);
        }
        if self.sessions.get(id).is_some() && password_matches(id, request.password.as_ref()) {
            self.sessions.attach(id, timeout, conn, now);
            tracing::debug!(session = %id, %conn, timeout, "session resumed");
            self.welcome(conn, id, timeout);
        } else {
            tracing::debug!(session = %id, %conn, "session refused");
            let refusal = ConnectResponse::refusal(request.read_only.map(|_| false));
            self.send(conn, Message::Connected(refusal));
            self.close(conn);
        }
    }

    /// Attaches `conn` to its session and tells it so.
    pub(crate) fn welcome(&mut self, conn: ConnId, id: SessionId, timeout: i32) {
        let Some(asked) = self.link(conn, id) else { return };
        // A standalone server is never read-only; the byte is there if the client knows it.
        let response = welcome(id, timeout, asked.map(|_| false));
        self.send(conn, Message::Connected(response));
    }

    /// Attaches `conn` to its session. Gives the read-only byte of the connect request, if the connection is there.
    pub(crate) fn link(&mut self, conn: ConnId, id: SessionId) -> Option<Option<bool>> {
        let link = self.links.get_mut(&conn)?;
        link.session = Some(id);
        self.unattached.remove(&(link.idle_until, conn));
        Some(link.read_only)
    }

    /// Ends a session and deletes its ephemerals, all under one zxid.
    pub(crate) fn end_session(&mut self, now: Millis, id: SessionId, xid: Xid) {
        self.sessions.remove(id);
        let ephemerals = self.tree.ephemerals(id).cloned().collect();
        self.commit(now, id, xid, TxnOp::CloseSession { ephemerals }, |_| {});
    }

    /// Expires a session, whether its time is over or not; false if it does not live.
    pub fn expire(&mut self, now: Millis, id: SessionId) -> bool {
        let Some(session) = self.sessions.get(id) else { return false };
        tracing::debug!(session = %id, "session expired");
        self.end_session(now, id, Xid(0));
        if let Some(conn) = session.conn {
            self.close(conn);
        }
        true
    }
}

/// What a connection is told that has got its session.
pub(crate) fn welcome(session: SessionId, timeout: i32, read_only: Option<bool>) -> ConnectResponse {
    ConnectResponse { protocol_version: 0, timeout, session, password: password(session), read_only }
}
