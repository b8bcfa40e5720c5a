//! [`ContainerCleaner`]: deletes empty containers and expired TTL znodes (`ContainerManager`).

use std::collections::VecDeque;
use std::sync::Arc;

use zoolet_proto::{SessionId, Xid};

use crate::config::CoreConfig;
use crate::core::Core;
use crate::message::Millis;
use crate::pending::Pending;
use crate::prepare::{Actor, Write, decide};
use crate::txn::TxnOp;

/// When to look for candidates, and the candidates that are not tried yet.
#[derive(Debug)]
pub(crate) struct ContainerCleaner {
    next_check: Millis,
    next_attempt: Millis,
    candidates: VecDeque<Arc<str>>,
}

impl ContainerCleaner {
    pub(crate) fn new(config: &CoreConfig, now: Millis) -> Self {
        let next_check = now.plus(config.container_check_interval.max(1));
        Self { next_check, next_attempt: now, candidates: VecDeque::new() }
    }

    pub(crate) fn next_timeout(&self) -> Millis {
        if self.candidates.is_empty() { self.next_check } else { self.next_attempt.min(self.next_check) }
    }
}

impl Core {
    /// Does what is due: looks for candidates, deletes the next of them.
    pub(crate) fn clean_containers(&mut self, now: Millis) {
        if self.cleaner.next_check <= now {
            self.cleaner.next_check = now.plus(self.config.container_check_interval.max(1));
            // The candidates of the previous check come first.
            if self.cleaner.candidates.is_empty() {
                self.cleaner.candidates = self.expired_znodes(now);
                self.cleaner.next_attempt = now;
            }
        }
        let pause = 60_000 / self.config.container_max_per_minute.max(1);
        while self.cleaner.next_attempt <= now {
            let Some(path) = self.cleaner.candidates.pop_front() else { break };
            self.cleaner.next_attempt = self.cleaner.next_attempt.plus(pause.max(1));
            self.delete_container(now, &path);
        }
    }

    fn expired_znodes(&self, now: Millis) -> VecDeque<Arc<str>> {
        let never_used = self.config.container_max_never_used;
        let is_expired = |path: &&Arc<str>| {
            self.tree.get(path).filter(|node| node.children().len() == 0).is_some_and(|node| {
                let age = now.plus(self.wall_ahead).0 - node.mtime;
                match node.owner().as_ttl() {
                    Some(ttl) => age > ttl,
                    None => node.creates > 0 || never_used.is_some_and(|max| age > max),
                }
            })
        };
        self.tree.containers.iter().chain(&self.tree.ttls).filter(is_expired).cloned().collect()
    }

    /// Executes an internal request: it is checked again, and takes a zxid.
    fn delete_container(&mut self, now: Millis, path: &str) {
        let mut actor = Actor::server(&self.config);
        let write = Write::DeleteContainer { path: path.to_owned() };
        let op = decide(&Pending::new(&self.tree), &mut actor, write).unwrap_or_else(TxnOp::Error);
        self.commit(now, SessionId(0), Xid(0), op, |_| {});
    }
}
