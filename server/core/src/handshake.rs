//! How sessions are opened, resumed and ended.

use std::mem;

use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{SessionId, Xid};

use crate::core::Core;
use crate::message::{ConnId, Message, Millis};
use crate::txn::TxnOp;

impl Core {
    /// Answers a connect request; the order of the checks is `ZooKeeperServer.processConnectRequest`'s.
    pub(crate) fn connect(&mut self, now: Millis, conn: ConnId, request: &ConnectRequest) {
        let Some(state) = self.conns.get_mut(&conn) else { return };
        if state.session.is_some() || request.last_zxid_seen > self.tree.last_zxid() {
            // The client has seen more than this server has: it must try another one, and gets no answer.
            let (seen, here) = (request.last_zxid_seen, self.tree.last_zxid());
            if mem::replace(&mut self.warned.of_clients_ahead, true) {
                tracing::info!(%conn, peer = %state.peer, %seen, %here, "client is ahead of the server; refusing it");
            } else {
                tracing::warn!(
                    %conn, peer = %state.peer, %seen, %here,
                    "a client has seen a later zxid than this server has, as after a backup was restored or a directory wiped; \
                     clients like it are refused, and try again until they are restarted (later ones are logged at info)"
                );
            }
            return self.close_because(conn, "its client has seen a later zxid, or has a session already");
        }
        state.read_only = request.read_only;
        let timeout = self.config.negotiate(request.timeout);
        if request.session == SessionId(0) {
            self.open_session(now, conn, timeout);
        } else {
            self.resume_session(now, conn, timeout, request);
        }
    }

    fn open_session(&mut self, now: Millis, conn: ConnId, timeout: i32) {
        if self.config.max_sessions.is_some_and(|max| self.sessions.len() >= max) {
            return self.close_because(conn, "the limit of sessions is reached");
        }
        // Without a log no session outlives the server, wherever its client is.
        let in_process = self.config.logged && self.conns.get(&conn).is_some_and(|state| state.in_process);
        let id = if in_process {
            self.sessions.in_process_id(now, self.tree.last_zxid())
        } else {
            self.sessions.allocate_id()
        };
        self.sessions.insert(id, timeout, Some(conn), now);
        self.commit(now, id, Xid(0), TxnOp::CreateSession { timeout }, |_| {});
        tracing::info!(session = %id, %conn, peer = %self.peer(conn), timeout, "session opened");
        self.send_connect_response(conn, id, timeout);
    }

    fn resume_session(&mut self, now: Millis, conn: ConnId, timeout: i32, request: &ConnectRequest) {
        let id = request.session;
        // Before the password is checked, as in a real server. The rightful client can resume the session at once.
        if let Some(old) = self.sessions.get(id).and_then(|session| session.conn) {
            self.close_because(old, "its session was resumed on another connection");
        }
        let (exists, peer) = (self.sessions.get(id).is_some(), self.peer(conn));
        if exists && self.config.password_matches(id, request.password.as_ref()) {
            self.sessions.attach(id, timeout, conn, now);
            tracing::info!(session = %id, %conn, %peer, timeout, "session resumed");
            self.send_connect_response(conn, id, timeout);
        } else {
            if exists {
                tracing::info!(session = %id, %conn, %peer, "wrong session password; refusing the session");
            } else {
                // After a restart of a server in memory, this is every client of the one before.
                tracing::info!(session = %id, %conn, %peer, "unknown session; telling the client that it has expired");
            }
            let refusal = ConnectResponse::refusal(request.read_only.map(|_| false));
            self.send(conn, Message::Connected(refusal));
            self.close_because(conn, "its session has expired, or the password of the session is wrong");
        }
    }

    /// Attaches `conn` to its session and answers the connect request.
    pub(crate) fn send_connect_response(&mut self, conn: ConnId, id: SessionId, timeout: i32) {
        let Some(read_only) = self.bind_session(conn, id) else { return };
        // The response shows the session, and has no zxid that says so.
        self.raised(conn, self.tree.last_zxid());
        // A standalone server is never read-only; the byte is present if the request had it.
        let response = self.config.connect_response(id, timeout, read_only.map(|_| false));
        self.send(conn, Message::Connected(response));
    }

    /// Attaches an open connection to its session, which another table may have with its deadline. Returns the read-only byte
    /// of its connect request.
    pub fn bind_session(&mut self, conn: ConnId, id: SessionId) -> Option<Option<bool>> {
        let state = self.conns.get_mut(&conn)?;
        state.session = Some(id);
        self.sessionless.remove(&(state.idle_until, conn));
        Some(state.read_only)
    }

    /// Ends a session and deletes its ephemerals, all under one zxid.
    pub(crate) fn end_session(&mut self, now: Millis, id: SessionId, xid: Xid) {
        self.sessions.remove(id);
        let ephemerals: Vec<_> = self.tree.ephemerals(id).cloned().collect();
        self.audit_ephemerals(id, &ephemerals);
        self.commit(now, id, xid, TxnOp::CloseSession { ephemerals }, |_| {});
    }
}
