//! Control operations: what the embedding program does to sessions and connections, for tests and for a restart.

use zoolet_proto::{ErrorCode, OpCode, SessionId, Xid};

use crate::core::{Core, RequestContext};
use crate::message::ConnId;

impl Core {
    /// Closes the connection of a session, which stays and can be resumed. Returns false if there is no such session or it has
    /// no connection.
    pub fn disconnect(&mut self, session: SessionId) -> bool {
        let conn = self.sessions.get(session).and_then(|session| session.conn);
        conn.inspect(|conn| self.close(*conn)).is_some()
    }

    /// Makes the next request on a connection fail because its session has moved.
    pub fn move_away(&mut self, conn: ConnId) {
        if let Some(state) = self.conns.get_mut(&conn) {
            state.moved = true;
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
        self.close(call.conn);
    }
}
