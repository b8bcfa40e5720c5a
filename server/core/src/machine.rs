//! [`StateMachine`]: what a server drives, and how a [`Core`] does it.

use std::any::Any;
use std::net::IpAddr;

use zoolet_proto::{Incoming, SessionId, Xid, Zxid};

use crate::container_cleaner::ContainerCleaner;
use crate::core::Core;
use crate::message::{ConnId, Effects, Input, Millis, Output};
use crate::record::ZnodeRecord;
use crate::snapshot::SnapshotHeader;
use crate::watch::WatchTable;

/// The largest capacity of a list that the next effects reuse: most turns are short.
const REUSE: usize = 1024;

/// How many sessions expire in one call of [`StateMachine::handle_timeout`], so that other clients can be served between two
/// of them.
pub const EXPIRED_AT_ONCE: usize = 1000;

/// What decides requests: a [`Core`], or several of them that share a tree.
///
/// A state machine may consist of several replicas: each connection is served by one of them, and sees its state. They
/// are numbered from 0.
pub trait StateMachine: Send + 'static {
    /// Executes one input. Inputs of connections that were never opened, or are closed, are ignored.
    ///
    /// `now` must not decrease between calls.
    fn handle(&mut self, now: Millis, conn: ConnId, input: Input);

    /// Prepares for these inputs, which are next. Changes only how long they take.
    fn prefetch(&self, _inputs: &[Input]) {}

    /// Does what is due at `now`: expires sessions, closes connections that did not open one, deletes containers and TTL
    /// znodes. Call it after the inputs of a turn, so that a ping that was queued still counts.
    ///
    /// One call expires at most [`EXPIRED_AT_ONCE`] sessions, the earliest first, and does a bounded part of the rest. If more
    /// is due, the [next call](StateMachine::next_timeout) is due at once.
    fn handle_timeout(&mut self, now: Millis);

    /// When [`handle_timeout`](StateMachine::handle_timeout) must be called next.
    fn next_timeout(&self) -> Millis;

    /// Takes the effects of the inputs since the last call.
    fn take_effects(&mut self) -> Effects;

    /// Takes back effects that are done with: the next ones reuse their memory.
    fn reuse(&mut self, _effects: Effects) {}

    /// The outputs of the effects not taken yet.
    fn outputs(&self) -> &[Output];

    /// Whether a connection is open.
    fn is_open(&self, conn: ConnId) -> bool;

    /// The session a connection is attached to.
    fn session_of(&self, conn: ConnId) -> Option<SessionId>;

    /// Renews a session for its whole timeout. Returns false if there is no such session.
    ///
    /// For a session that the embedding program holds itself, without pings.
    fn renew(&mut self, now: Millis, session: SessionId) -> bool;

    /// Expires a session, whether or not its timeout has elapsed. Returns false if there is no such session.
    fn expire(&mut self, now: Millis, session: SessionId) -> bool;

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
    fn move_session(&mut self, session: SessionId) -> bool;

    /// Sets how many children a znode has ever had, which numbers sequential names: the end of a 32-bit counter is out of reach
    /// otherwise. It is not a transaction and is not replayed. Returns false if there is no such znode.
    fn set_counter(&mut self, path: &str, children: i64) -> bool;

    /// Restarts a server that keeps its state.
    ///
    /// The tree stays, and zxids and session ids continue. Sessions stay with their whole timeout and without a connection, as
    /// on a real server that has loaded its snapshot. Connections are dropped with their watches, identities and queued
    /// messages. No connection gets a close message, since the sockets are gone.
    fn restart(&mut self, now: Millis);

    /// Sets how many milliseconds the wall clock is ahead of `now`, which never decreases and serves for deadlines. The times
    /// of znodes are those of the wall clock.
    fn set_wall_ahead(&mut self, _ahead: i64) {}

    /// Opens a connection at a replica. `in_process` is as in [`Input::Open`].
    fn open(&mut self, now: Millis, conn: ConnId, peer: IpAddr, in_process: bool, _replica: usize) {
        self.handle(now, conn, Input::Open { peer, in_process });
    }

    /// Takes note that all transactions up to `zxid` are durable. Matters only if they are [logged](crate::CoreConfig::logged).
    ///
    /// Call it before the next input when messages that name them are sent: a client that has seen a zxid must not receive a
    /// lower one.
    fn set_durable(&mut self, _zxid: Zxid) {}

    /// Begins a snapshot of the newest state. See [`Tree::begin_snapshot`](crate::Tree::begin_snapshot). The sessions have their
    /// timeouts.
    fn begin_snapshot(&mut self) -> (SnapshotHeader, Vec<(SessionId, i32)>) {
        self.core_mut().begin_snapshot()
    }

    /// Passes the next znodes of the snapshot on. See [`Tree::next_slice`](crate::Tree::next_slice).
    fn next_slice(&mut self, max: usize, bytes: usize, take: &mut dyn FnMut(ZnodeRecord)) -> bool {
        self.core_mut().next_slice(max, bytes, take)
    }

    /// Ends the snapshot. See [`Tree::end_snapshot`](crate::Tree::end_snapshot).
    fn end_snapshot(&mut self) {
        self.core_mut().end_snapshot();
    }

    /// The newest state, and the sessions.
    fn core(&self) -> &Core;

    /// The newest state, and the sessions.
    fn core_mut(&mut self) -> &mut Core;

    /// The state that connections to a replica see.
    fn replica(&self, _replica: usize) -> &Core {
        self.core()
    }

    /// How many replicas there are.
    fn replicas(&self) -> usize {
        1
    }

    /// What a replica is to operators (`getState` of a server).
    fn mode(&self, _replica: usize) -> &'static str {
        "standalone"
    }

    /// Whether a replica serves reads only.
    fn is_read_only(&self, _replica: usize) -> bool {
        false
    }

    /// For what only one kind of state machine can do.
    fn as_any(&self) -> &dyn Any;

    /// For what only one kind of state machine can do.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl StateMachine for Core {
    fn handle(&mut self, now: Millis, conn: ConnId, input: Input) {
        match input {
            Input::Open { peer, in_process } => self.accept(now, conn, peer, in_process),
            Input::Connect(request) => self.connect(now, conn, &request),
            Input::Request(incoming) => self.request(now, conn, incoming),
            Input::Closed => self.forget(conn),
        }
    }

    fn prefetch(&self, inputs: &[Input]) {
        let paths = inputs.iter().filter_map(|input| match input {
            Input::Request(Incoming { body: Ok(request), .. }) => request.path(),
            _ => None,
        });
        self.tree.prefetch(paths);
    }

    fn handle_timeout(&mut self, now: Millis) {
        let mut deleted = 0;
        for _ in 0..EXPIRED_AT_ONCE {
            let Some(id) = self.sessions.expired(now).filter(|_| deleted < EXPIRED_AT_ONCE) else { break };
            deleted += self.tree.count_ephemerals(id);
            self.expire(now, id);
        }
        self.close_sessionless(now);
        self.clean_containers(now);
    }

    fn next_timeout(&self) -> Millis {
        let due = [self.sessions.next_deadline(), self.next_sessionless()];
        due.into_iter().flatten().fold(self.cleaner.next_timeout(), Millis::min)
    }

    fn take_effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    fn outputs(&self) -> &[Output] {
        &self.effects.outbound
    }

    fn reuse(&mut self, effects: Effects) {
        reuse(&mut self.effects.txns, effects.txns);
        reuse(&mut self.effects.outbound, effects.outbound);
    }

    fn is_open(&self, conn: ConnId) -> bool {
        self.conns.contains_key(&conn)
    }

    fn session_of(&self, conn: ConnId) -> Option<SessionId> {
        self.conns.get(&conn)?.session
    }

    fn expire(&mut self, now: Millis, id: SessionId) -> bool {
        let Some(session) = self.sessions.get(id) else { return false };
        let peer = session.conn.map(|conn| self.peer(conn));
        tracing::info!(session = %id, ?peer, "session expired");
        self.end_session(now, id, Xid(0));
        if let Some(conn) = session.conn {
            self.close(conn);
        }
        true
    }

    fn restart(&mut self, now: Millis) {
        self.conns.clear();
        self.sessionless.clear();
        self.watches = WatchTable::default();
        self.sessions.restart(now);
        self.cleaner = ContainerCleaner::new(&self.config, now);
        self.effects.outbound.clear();
    }

    fn renew(&mut self, now: Millis, session: SessionId) -> bool {
        self.sessions.touch(session, now);
        self.sessions.get(session).is_some()
    }

    fn move_session(&mut self, session: SessionId) -> bool {
        let conn = self.sessions.get(session).and_then(|session| session.conn);
        conn.inspect(|conn| self.move_away(*conn)).is_some()
    }

    fn set_wall_ahead(&mut self, ahead: i64) {
        self.wall_ahead = ahead;
    }

    fn set_counter(&mut self, path: &str, children: i64) -> bool {
        self.tree.set_counter(path, children)
    }

    fn set_durable(&mut self, zxid: Zxid) {
        if let Some(undurable) = &mut self.undurable {
            undurable.set_durable(zxid);
        }
    }

    fn core(&self) -> &Core {
        self
    }

    fn core_mut(&mut self) -> &mut Core {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn reuse<T>(list: &mut Vec<T>, mut other: Vec<T>) {
    if list.is_empty() && other.capacity() <= REUSE {
        other.clear();
        *list = other;
    }
}
