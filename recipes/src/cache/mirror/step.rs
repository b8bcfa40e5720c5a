//! The snapshots of a mirror: when what it has is one, and what has changed since the one before.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Mirror, Step};
use crate::cache::change::between;
use crate::cache::snapshot::Snapshot;

impl<T> Mirror<T> {
    /// The subtree at the frontier, if nothing is outstanding, with what has changed since the last snapshot.
    pub(in crate::cache) fn snapshot(&mut self) -> Option<Step<T>> {
        let pass = &self.pass;
        let is_settled = pass.armed
            && !pass.unlabelled
            && pass.outstanding.is_empty()
            && pass.queue.is_empty()
            && pass.cursor.is_none();
        // A session begins with the zxid of the one before, so a server that is behind does not serve it.
        let is_behind = self.working_base().is_some_and(|base| base.as_of > pass.frontier);
        if !is_settled || is_behind {
            return None;
        }
        let unreadable = match self.working_base() {
            Some(base) if *base.unreadable == pass.unreadable => Arc::clone(&base.unreadable),
            _ => Arc::new(pass.unreadable.clone()),
        };
        let is_same = |base: &Arc<Snapshot<T>>| {
            base.as_of == pass.frontier && Arc::ptr_eq(&base.unreadable, &unreadable)
        };
        if pass.touched.is_empty() && self.stale_since.is_none() && self.working_base().is_some_and(is_same) {
            return None;
        }
        let new = Arc::new(Snapshot {
            nodes: self.nodes.clone(),
            as_of: self.pass.frontier,
            epoch: self.epoch,
            stale_since: None,
            unreadable,
            bytes: self.bytes,
        });
        let changes = match &self.base {
            Some(base) => {
                let mut old = (**base).clone();
                old.stale_since = self.stale_since;
                between(&old, &new, &self.pass.touched)
            }
            // Readers compare with nothing.
            None => Vec::new(),
        };
        for (path, pzxid) in self.pass.pzxids.drain() {
            // The Stat says it, or the znode is gone.
            match self.nodes.get(&path) {
                Some(entry) if entry.stat().pzxid != pzxid => drop(self.base_pzxids.insert(path, pzxid)),
                _ => drop(self.base_pzxids.remove(&path)),
            }
        }
        for path in std::mem::take(&mut self.pass.touched) {
            if !self.nodes.contains_key(&path) {
                self.base_pzxids.remove(&path);
            }
        }
        self.stale_since = None;
        self.base = Some(Arc::clone(&new));
        Some((new, changes))
    }

    /// Changes no longer arrive. The last snapshot, marked so, unless it is already or there is none.
    pub(in crate::cache) fn stale(&mut self, now: Instant) -> Option<Step<T>> {
        self.pass.armed = false;
        let base = self.base.as_ref().filter(|_| self.stale_since.is_none())?;
        let mut stale = (**base).clone();
        stale.stale_since = Some(now);
        self.stale_since = Some(now);
        let changes = between(base, &stale, []);
        Some((Arc::new(stale), changes))
    }
}
