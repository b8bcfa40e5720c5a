//! Control operations: what the embedding program does to sessions and connections, for tests and for a restart.

use zoolet_proto::{ErrorCode, OpCode, SessionId, Xid};

use crate::container_cleaner::ContainerCleaner;
use crate::core::{Core, RequestContext, Standing};
use crate::message::{ConnId, Millis};
use crate::watch::WatchTable;

impl Core {
    /// Closes the connection of a session, which stays and can be resumed. Returns false if there is no such session or it has
    /// no connection.
    pub fn disconnect(&mut self, session: SessionId) -> bool {
        let conn = self.sessions.get(session).and_then(|session| session.conn);
        conn.inspect(|conn| self.close_because(*conn, "the embedding program has cut it")).is_some()
    }

    /// Renews a session for its whole timeout. Returns false if there is no such session.
    ///
    /// For a session that the embedding program holds itself, without pings.
    pub fn renew(&mut self, now: Millis, session: SessionId) -> bool {
        self.sessions.touch(session, now);
        self.sessions.get(session).is_some()
    }

    /// Expires a session, whether or not its timeout has elapsed. Returns false if there is no such session.
    pub fn expire(&mut self, now: Millis, id: SessionId) -> bool {
        let Some(session) = self.sessions.get(id) else { return false };
        let peer = session.conn.map(|conn| self.peer(conn));
        tracing::info!(session = %id, ?peer, "session expired");
        self.end_session(now, id, Xid(0));
        session.conn.into_iter().for_each(|conn| self.close_because(conn, "its session has expired"));
        true
    }

    /// Restarts a server that keeps its state.
    ///
    /// The tree stays, and zxids and session ids continue. Sessions stay with their whole timeout and without a connection, as
    /// on a real server that has loaded its snapshot. Connections are dropped with their watches, identities and queued
    /// messages. No connection gets a close message, since the sockets are gone.
    pub fn restart(&mut self, now: Millis) {
        self.conns.clear();
        self.sessionless.clear();
        self.watches = WatchTable::default();
        self.sessions.restart(now);
        self.cleaner = ContainerCleaner::new(&self.config, now);
        self.effects.outbound.clear();
    }

    /// Sets how many children a znode has ever had, which numbers sequential names: the end of a 32-bit counter is out of reach
    /// otherwise. It is not a transaction and is not replayed. Returns false if there is no such znode.
    pub fn set_counter(&mut self, path: &str, children: i64) -> bool {
        self.tree.set_counter(path, children)
    }

    /// Simulates that another server of an ensemble has taken the session over: the next request on its present connection
    /// fails with SessionMoved (−118), and the connection is closed. The session stays and can be resumed. Returns false if
    /// there is no such session or it has no connection.
    ///
    /// This refuses every request for which a leader checks the owner of the session: all but addauth and SASL, which do not
    /// reach it, and closeSession, which ends a session for any client. A refused write takes a zxid.
    ///
    /// A client of Apache ZooKeeper sees less. Since 3.5.4 a server that detects a moved session closes the connection
    /// without a reply; before, −118 was the reply to a multi. A follower forwards only writes and sync to the leader, so
    /// reads and pings on the old connection still succeed. A client that handles the error and the close handles both.
    pub fn move_session(&mut self, session: SessionId) -> bool {
        let conn = self.sessions.get(session).and_then(|session| session.conn);
        conn.inspect(|conn| self.move_away(*conn)).is_some()
    }

    /// Makes the next request on a connection fail because its session has moved.
    pub fn move_away(&mut self, conn: ConnId) {
        if let Some(state) = self.conns.get_mut(&conn) {
            state.standing = Standing::Moved;
        }
    }

    /// Refuses a request on the old connection of a moved session.
    pub(crate) fn refuse_moved(&mut self, call: RequestContext, op: OpCode) {
        let xid = if op == OpCode::Ping { Xid::PING } else { call.xid };
        if op.takes_zxid() {
            self.refuse_write(call, ErrorCode::SessionMoved);
        } else {
            self.refuse(RequestContext { xid, ..call }, self.tree.last_zxid(), ErrorCode::SessionMoved);
        }
        self.close_because(call.conn, "its session has moved");
    }
}
