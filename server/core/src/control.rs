//! What the program around the core does to sessions and connections by itself, as tests and a restart need it.

use zoolet_proto::{ErrorCode, OpCode, SessionId, Xid};

use crate::container_cleaner::ContainerCleaner;
use crate::core::{Call, Core};
use crate::message::{ConnId, Millis};
use crate::watch::WatchTable;

impl Core {
    /// What a stop and a start leave of a server that keeps its state.
    ///
    /// The tree stays, and zxids and session ids go on where they were. Sessions live on with their whole timeout
    /// before them and attached to nothing, as on a real server that has loaded its snapshot. Every connection is
    /// forgotten with its watches and identities, and with what was queued for it: nobody is told, since the sockets
    /// are gone.
    pub fn restart(&mut self, now: Millis) {
        self.conns.clear();
        self.sessionless.clear();
        self.watches = WatchTable::default();
        self.sessions.restart(now);
        self.cleaner = ContainerCleaner::new(&self.config, now);
        self.effects.outbound.clear();
    }

    /// A sign of life for a session: it has its whole timeout before it again. False if it does not live.
    ///
    /// For a session that the program around the core holds itself and that never pings.
    pub fn renew(&mut self, now: Millis, session: SessionId) -> bool {
        self.sessions.touch(session, now);
        self.sessions.get(session).is_some()
    }

    /// Closes the connection of a session, which lives on and can be resumed. False if it has none or does not live.
    pub fn disconnect(&mut self, session: SessionId) -> bool {
        let conn = self.sessions.get(session).and_then(|session| session.conn);
        conn.inspect(|conn| self.close(*conn)).is_some()
    }

    /// Makes it look as if another server of an ensemble had taken the session over: the next request on its present
    /// connection is answered with SessionMoved (−118), and the connection is closed. The session lives on and can be
    /// resumed. False if it has no connection or does not live.
    ///
    /// Refused like this is whatever a leader checks the owner of the session for: every request but addauth and SASL,
    /// which are none to it, and closeSession, which ends a session for whoever asks. A refused write takes a zxid.
    ///
    /// A client of Apache ZooKeeper sees less. From 3.5.4 on a server that meets a moved session closes the connection
    /// and says nothing; before, −118 came as the answer to a multi. And a follower asks the leader about writes and
    /// sync only, so that reads and pings on the old connection go on being answered. A client that can take the answer
    /// and the close behind it can take either.
    pub fn move_session(&mut self, session: SessionId) -> bool {
        let conn = self.sessions.get(session).and_then(|session| session.conn);
        conn.inspect(|conn| self.move_away(*conn)).is_some()
    }

    /// Makes it look as if so many children had been created below a znode, which is what numbers sequential names: the end
    /// of a 32-bit counter is out of reach otherwise. No transaction; it is not replayed. False if there is no such znode.
    pub fn set_counter(&mut self, path: &str, children: i64) -> bool {
        self.tree.set_counter(path, children)
    }

    /// Refuses the next request on a connection because its session has moved away.
    pub fn move_away(&mut self, conn: ConnId) {
        if let Some(state) = self.conns.get_mut(&conn) {
            state.moved = true;
        }
    }

    /// Answers a request on the connection that a session has moved away from.
    pub(crate) fn refuse_moved(&mut self, call: Call, op: Option<OpCode>) {
        match op {
            Some(op) if op.takes_zxid() => self.refuse_write(call, ErrorCode::SessionMoved),
            Some(OpCode::Ping) => {
                let ping = Call { xid: Xid::PING, ..call };
                self.refuse(ping, self.tree.last_zxid(), ErrorCode::SessionMoved);
            }
            _ => self.refuse(call, self.tree.last_zxid(), ErrorCode::SessionMoved),
        }
        self.close(call.conn);
    }
}
