//! The sweeper: deletes empty containers and TTL znodes whose time is over (`ContainerManager`).

use std::collections::VecDeque;
use std::sync::Arc;

use zoolet_proto::{SessionId, Xid};

use crate::config::CoreConfig;
use crate::machine::Core;
use crate::message::Millis;
use crate::pending::Pending;
use crate::prepare::{Actor, Write, decide};
use crate::txn::TxnOp;

/// When to look for what may go, and what was found and is still to be tried.
#[derive(Debug)]
pub(crate) struct Sweep {
    next_check: Millis,
    next_attempt: Millis,
    found: VecDeque<Arc<str>>,
}

impl Sweep {
    pub(crate) fn new(config: &CoreConfig, now: Millis) -> Self {
        let next_check = now.plus(config.container_check_interval.max(1));
        Self { next_check, next_attempt: now, found: VecDeque::new() }
    }

    pub(crate) fn next_timeout(&self) -> Millis {
        if self.found.is_empty() { self.next_check } else { self.next_attempt.min(self.next_check) }
    }
}

impl Core {
    /// Does what is due: looks for candidates, tries the next of them.
    pub(crate) fn sweep(&mut self, now: Millis) {
        if self.sweep.next_check <= now {
            self.sweep.next_check = now.plus(self.config.container_check_interval.max(1));
            // A sweep that has not got through its list goes on with it first.
            if self.sweep.found.is_empty() {
                self.sweep.found = self.candidates(now);
                self.sweep.next_attempt = now;
            }
        }
        let pause = 60_000 / self.config.container_max_per_minute.max(1);
        while self.sweep.next_attempt <= now {
            let Some(path) = self.sweep.found.pop_front() else { break };
            self.sweep.next_attempt = self.sweep.next_attempt.plus(pause.max(1));
            self.delete_container(now, &path);
        }
    }

    fn candidates(&self, now: Millis) -> VecDeque<Arc<str>> {
        let never_used = self.config.container_max_never_used;
        let containers = self.tree.containers().filter(|path| {
            self.tree.get(path).is_some_and(|node| {
                let unused = never_used.is_some_and(|max| now.0 - node.mtime > max);
                node.children().len() == 0 && (node.creates > 0 || unused)
            })
        });
        let ttls = self.tree.ttls().filter(|path| {
            self.tree.get(path).is_some_and(|node| {
                let over = node.owner().as_ttl().is_some_and(|ttl| now.0 - node.mtime > ttl);
                node.children().len() == 0 && over
            })
        });
        containers.chain(ttls).cloned().collect()
    }

    /// An internal request like any other: checked again, with a zxid of its own.
    fn delete_container(&mut self, now: Millis, path: &str) {
        let actor = Actor { ids: &[], verdicts: &self.verdicts, config: &self.config, internal: true };
        let write = Write::DeleteContainer { path: path.to_owned() };
        let op = decide(&Pending::new(&self.tree), actor, write).unwrap_or_else(TxnOp::Error);
        self.commit(now, SessionId(0), Xid(0), op, |_| {});
    }
}
