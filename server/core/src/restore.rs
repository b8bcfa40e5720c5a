//! A core that goes on from what a server before it has left.

use zoolet_proto::{SessionId, Xid, Zxid};

use crate::config::CoreConfig;
use crate::container_cleaner::ContainerCleaner;
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
        core.end_unknown_sessions(now);
        core
    }

    /// Replaces the tree by that of a snapshot, while the server runs, at the zxid `at`, which is later than every transaction of both.
    /// Returns the former tree, which takes long to drop if it is large.
    ///
    /// All connections are closed, and lose their watches. Sessions stay, with their whole timeouts, so that clients come back; those of
    /// the snapshot that are unknown are added. Call [`end_unknown_sessions`](Core::end_unknown_sessions) next.
    pub fn replace_tree(
        &mut self,
        now: Millis,
        mut tree: Tree,
        sessions: &[(SessionId, i32)],
        at: Zxid,
    ) -> Tree {
        // In this order, as that of a hash map would not repeat.
        let mut conns: Vec<_> = self.conns.keys().copied().collect();
        conns.sort_unstable();
        conns.into_iter().for_each(|conn| self.close_because(conn, "the state was restored from a snapshot"));
        (tree.last_zxid, tree.restored_at) = (at, Some(at));
        let former = std::mem::replace(&mut self.tree, tree);
        self.cleaner = ContainerCleaner::new(&self.config, now);
        self.sessions.restart(now);
        for (id, timeout) in sessions {
            // The process that a session was opened in is not this one, or it would be known.
            if self.sessions.get(*id).is_none() && !SessionTable::is_in_process(*id) {
                self.sessions.insert(*id, *timeout, None, now);
                self.sessions.continue_after(*id);
            }
        }
        former
    }

    /// Ends the sessions that own ephemerals and are not known, which deletes these.
    pub fn end_unknown_sessions(&mut self, now: Millis) {
        for id in self.tree.owners() {
            self.sessions.continue_after(id);
            if self.sessions.get(id).is_none() {
                tracing::info!(session = %id, "session is unknown; deleting its ephemerals");
                self.end_session(now, id, Xid(0));
            }
        }
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
