//! A core that goes on from what a server before it has left.

use zoolet_proto::{SessionId, Xid};

use crate::config::CoreConfig;
use crate::core::Core;
use crate::message::Millis;
use crate::record::ZnodeRecord;
use crate::session::SessionTable;
use crate::snapshot::SnapshotHeader;
use crate::tree::Tree;

impl Core {
    /// Creates a server that goes on with a tree and sessions: their ids and timeouts.
    ///
    /// As on a real server, each session has its whole timeout from `now` on, and no connection. New sessions get ids that
    /// follow `highest_session`, the [last](crate::SessionTable::later) that was given. Ephemerals of other sessions are deleted
    /// by ending these: the transactions are in the first [effects](crate::StateMachine::take_effects).
    pub fn restore(
        config: CoreConfig,
        tree: Tree,
        sessions: Vec<(SessionId, i32)>,
        highest_session: Option<SessionId>,
        now: Millis,
    ) -> Self {
        let mut core = Self::with_tree(config, tree, now);
        // Nothing is left of sessions that were closed before the last snapshot, and on a manual clock no time may have passed since
        // they got their ids: but each has taken a zxid.
        core.sessions.skip_ids(core.tree.last_zxid().0 & 0xffff_ffff);
        for (id, timeout) in sessions {
            core.sessions.insert(id, timeout, None, now);
            core.sessions.continue_after(id);
        }
        highest_session.into_iter().for_each(|id| core.sessions.continue_after(id));
        for id in core.tree.owners() {
            core.sessions.continue_after(id);
            if core.sessions.get(id).is_none() {
                tracing::info!(session = %id, "session is unknown; deleting its ephemerals");
                core.end_session(now, id, Xid(0));
            }
        }
        core
    }

    /// Ends the sessions that were opened in process: the process that they belonged to has ended, and nobody can resume them.
    /// For a server that starts in a new process; as after [`Core::restore`], the transactions are among the first effects.
    pub fn end_in_process_sessions(&mut self, now: Millis) {
        let sessions = self.sessions.timeouts().into_iter().map(|(id, _)| id);
        for id in sessions.filter(|id| SessionTable::is_in_process(*id)) {
            tracing::info!(session = %id, "session was opened in process, by a program that has ended; ending it");
            self.end_session(now, id, Xid(0));
        }
    }

    /// Begins a snapshot of the tree and of the sessions, with their timeouts. See [`Tree::begin_snapshot`].
    pub fn begin_snapshot(&mut self) -> (SnapshotHeader, Vec<(SessionId, i32)>) {
        (self.tree.begin_snapshot(), self.sessions.timeouts())
    }

    /// See [`Tree::next_slice`].
    pub fn next_slice(&mut self, max: usize, bytes: usize, take: &mut dyn FnMut(ZnodeRecord)) -> bool {
        self.tree.next_slice(max, bytes, take)
    }

    /// See [`Tree::end_snapshot`].
    pub fn end_snapshot(&mut self) {
        self.tree.end_snapshot();
    }
}
