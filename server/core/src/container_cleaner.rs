//! [`ContainerCleaner`]: deletes empty containers and expired TTL znodes (`ContainerManager`).

use std::collections::VecDeque;
use std::sync::Arc;

use zoolet_proto::records::DeleteContainer;
use zoolet_proto::{SessionId, Xid};

use crate::config::CoreConfig;
use crate::core::Core;
use crate::identity::Identity;
use crate::machine::EXPIRED_AT_ONCE;
use crate::message::Millis;
use crate::paths::paths_after;
use crate::pending::Pending;
use crate::prepare::{Actor, Write, decide};
use crate::txn::TxnOp;
use crate::znode::Owner;

/// When to look for candidates, and the candidates that are not tried yet.
#[derive(Debug)]
pub(crate) struct ContainerCleaner {
    next_check: Millis,
    next_attempt: Millis,
    candidates: VecDeque<Arc<str>>,
    search: Option<Search>,
}

/// A search for candidates that goes on: how far it has come.
#[derive(Debug, Default)]
struct Search {
    in_ttls: bool,
    after: Option<Arc<str>>,
}

impl ContainerCleaner {
    pub(crate) fn new(config: &CoreConfig, now: Millis) -> Self {
        let next_check = now.plus(config.container_check_interval.max(1));
        Self { next_check, next_attempt: now, candidates: VecDeque::new(), search: None }
    }

    pub(crate) fn next_timeout(&self) -> Millis {
        let busy = !self.candidates.is_empty() || self.search.is_some();
        if busy { self.next_attempt.min(self.next_check) } else { self.next_check }
    }
}

impl Core {
    /// Does what is due: looks for candidates, deletes the next of them.
    pub(crate) fn clean_containers(&mut self, now: Millis) {
        if self.cleaner.next_check <= now {
            self.cleaner.next_check = now.plus(self.config.container_check_interval.max(1));
            // The candidates of the previous check come first.
            if self.cleaner.candidates.is_empty() {
                self.cleaner.search.get_or_insert_default();
                self.cleaner.next_attempt = now;
            }
        }
        if let Some(search) = self.cleaner.search.take() {
            self.search_expired_znodes(now, search);
            if self.cleaner.search.is_some() {
                return;
            }
        }
        let pause = 60_000 / self.config.container_max_per_minute.max(1);
        for _ in 0..EXPIRED_AT_ONCE {
            if now < self.cleaner.next_attempt {
                break;
            }
            let Some(path) = self.cleaner.candidates.pop_front() else { break };
            self.cleaner.next_attempt = self.cleaner.next_attempt.plus(pause);
            if !self.must_keep(now, &path) {
                self.delete_container(now, &path);
            }
        }
    }

    /// Looks at the next containers, and then at TTL znodes. If there are more, the search is due again at once.
    fn search_expired_znodes(&mut self, now: Millis, search: Search) {
        const AT_ONCE: usize = 5000;
        let Search { mut in_ttls, mut after } = search;
        let mut left = AT_ONCE;
        loop {
            let paths = if in_ttls { &self.tree.ttls } else { &self.tree.containers };
            let mut last = None;
            for path in paths_after(paths, after.as_deref()).take(left) {
                if self.is_expired(now, path) {
                    self.cleaner.candidates.push_back(Arc::clone(path));
                }
                left -= 1;
                last = Some(Arc::clone(path));
            }
            if left == 0 {
                self.cleaner.search = Some(Search { in_ttls, after: last });
                return;
            }
            if in_ttls {
                return;
            }
            (in_ttls, after) = (true, None);
        }
    }

    fn is_expired(&self, now: Millis, path: &str) -> bool {
        let Some(node) = self.tree.get(path).filter(|node| node.children().len() == 0) else { return false };
        let age = now.plus(self.wall_ahead).0.saturating_sub(node.mtime);
        match node.owner().as_ttl() {
            Some(ttl) => age > ttl,
            None => node.creates() > 0 || self.config.container_max_never_used.is_some_and(|max| age > max),
        }
    }

    /// Whether there is a leaf at the path of a candidate that must not be deleted: it was created since, perhaps as a znode of
    /// another kind, or its data was set. A real server deletes it all the same.
    fn must_keep(&self, now: Millis, path: &str) -> bool {
        self.tree.get(path).is_some_and(|node| {
            let may_expire = node.owner() == Owner::CONTAINER || node.owner().as_ttl().is_some();
            node.children().len() == 0 && !(may_expire && self.is_expired(now, path))
        })
    }

    /// Executes an internal request: it is checked again, and takes a zxid.
    fn delete_container(&mut self, now: Millis, path: &str) {
        // No ACL restricts the server itself.
        let ids = [Identity::Super];
        let mut actor = Actor::new(&ids, &self.config);
        let write = Write::DeleteContainer(DeleteContainer { path: path.to_owned() });
        let op = decide(&Pending::new(&self.tree), &mut actor, write).unwrap_or_else(TxnOp::Error);
        self.commit(now, SessionId(0), Xid(0), op, |_| {});
    }
}
