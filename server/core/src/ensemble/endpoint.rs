//! An endpoint: a server that follows the leader, and how it works off what it is told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use zoolet_proto::{Incoming, Zxid};

use crate::config::CoreConfig;
use crate::core::Core;
use crate::ensemble::Ensemble;
use crate::message::{ConnId, Effects, Input, Message, Millis};
use crate::session::SessionTable;
use crate::txn::Txn;

/// A follower, and what it has not done yet.
pub(super) struct Endpoint {
    pub(super) core: Core,
    /// Decided by the leader and not applied here. Every endpoint is told everything, also while it is dead.
    pub(super) queue: VecDeque<Arc<Txn>>,
    /// What to do once a zxid is visible here, in the order it was asked for.
    waiting: BTreeMap<Zxid, Vec<(ConnId, Step)>>,
    /// Sessions that nobody else knows, opened while it is read-only.
    pub(super) local: SessionTable,
    pub(super) lagging: bool,
    pub(super) read_only: bool,
    pub(super) alive: bool,
}

/// Something to do for a connection in its turn.
pub(super) enum Step {
    /// Tell it what the leader has answered.
    Message(Message),
    /// Answer a request from what is visible.
    Request(Incoming),
}

/// How an endpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointView {
    /// The last transaction it has applied.
    pub zxid: Zxid,
    /// How many transactions it has not applied yet.
    pub behind: usize,
    /// Whether it was told to lag.
    pub lagging: bool,
    /// Whether it is cut off from the leader.
    pub read_only: bool,
    /// Whether it can be connected to.
    pub alive: bool,
}

impl Endpoint {
    pub(super) fn new(at: usize, config: CoreConfig, now: Millis) -> Self {
        // The top byte of a session id; that of the leader's is 1.
        let server = i64::try_from(at % 126).unwrap_or(0) + 2;
        Self {
            local: SessionTable::of_server(server, config.tick_time, now),
            core: Core::new(config, now),
            queue: VecDeque::new(),
            waiting: BTreeMap::new(),
            lagging: false,
            read_only: false,
            alive: true,
        }
    }

    pub(super) fn zxid(&self) -> Zxid {
        self.core.tree().last_zxid()
    }

    pub(super) fn view(&self) -> EndpointView {
        let Self { queue, lagging, read_only, alive, .. } = self;
        let (zxid, behind) = (self.zxid(), queue.len());
        EndpointView { zxid, behind, lagging: *lagging, read_only: *read_only, alive: *alive }
    }

    /// When a session or a connection that only this endpoint knows is due.
    pub(super) fn next_timeout(&self) -> Option<Millis> {
        let due = [self.local.next_deadline(), self.core.next_sessionless()];
        due.into_iter().flatten().min().filter(|_| self.read_only)
    }

    /// Whether it hears of the leader's transactions.
    pub(super) fn follows(&self) -> bool {
        self.alive && !self.read_only
    }
}

impl Ensemble {
    /// Does `step` for a connection once `after` is visible at its endpoint, and everything asked before is done.
    pub(super) fn answer(&mut self, conn: ConnId, after: Zxid, step: Step) {
        let Some(attached) = self.conns.get_mut(&conn) else { return };
        attached.after = attached.after.max(after);
        let (at, after) = (attached.endpoint, attached.after);
        self.endpoints[at].waiting.entry(after).or_default().push((conn, step));
        self.release(at);
    }

    /// Lets an endpoint apply all it has not applied, unless it lags or is cut off.
    pub(super) fn work_off(&mut self, at: usize) {
        if !self.endpoints[at].lagging {
            self.apply(at, usize::MAX);
        }
    }

    /// Lets an endpoint apply at most `most` transactions, each followed by the replies that waited for it. Gives how
    /// many it did.
    pub(super) fn apply(&mut self, at: usize, most: usize) -> usize {
        let mut applied = 0;
        while applied < most && self.endpoints[at].follows() {
            let Endpoint { queue, core, .. } = &mut self.endpoints[at];
            let Some(txn) = queue.pop_front() else { break };
            core.replay(&txn);
            applied += 1;
            self.collect(at);
            self.release(at);
        }
        applied
    }

    /// Does what has waited for what is visible by now.
    fn release(&mut self, at: usize) {
        let visible = self.endpoints[at].zxid();
        while let Some(entry) =
            self.endpoints[at].waiting.first_entry().filter(|entry| *entry.key() <= visible)
        {
            for (conn, step) in entry.remove() {
                // Unless it was closed in the meantime.
                if self.conns.contains_key(&conn) {
                    self.perform(at, conn, step);
                }
            }
        }
    }

    fn perform(&mut self, at: usize, conn: ConnId, step: Step) {
        let core = &mut self.endpoints[at].core;
        match step {
            Step::Request(incoming) => core.handle(self.now, conn, Input::Request(incoming)),
            Step::Message(message) => {
                if let Message::Connected(welcome) = &message {
                    if !welcome.is_refusal() {
                        core.attach(self.now, conn, welcome.session, welcome.timeout);
                    }
                }
                core.send(conn, message);
            }
        }
        self.collect(at);
    }

    /// Sends what an endpoint has to say, and forgets the connections it closes.
    pub(super) fn collect(&mut self, at: usize) {
        let Effects { txns, outbound } = self.endpoints[at].core.take_effects();
        debug_assert!(txns.is_empty(), "an endpoint decides nothing");
        for (conn, message) in outbound {
            let closed = matches!(message, Message::Close { .. });
            self.send(conn, message);
            if closed {
                self.forget(conn);
            }
        }
    }

    /// Drops every connection of an endpoint, and what it knows alone.
    pub(super) fn cut_all(&mut self, at: usize) {
        let conns = self.conns.iter().filter(|(_, attached)| attached.endpoint == at);
        let conns: Vec<ConnId> = conns.map(|(conn, _)| *conn).collect();
        conns.into_iter().for_each(|conn| self.cut(conn));
        self.endpoints[at].forget_all();
    }
}

impl Endpoint {
    pub(super) fn forget_all(&mut self) {
        self.waiting.clear();
        self.local.clear();
    }
}
