//! [`StateMachine`]: what a server drives, and how a [`Core`] does it.

use std::any::Any;
use std::fmt;

use crate::core::Core;
use crate::message::{ConnId, Effects, Input, Millis, Origin, Output};

/// The largest capacity of a list that the next effects reuse: most turns are short.
const REUSE: usize = 1024;

/// How many sessions expire in one call of [`StateMachine::handle_timeout`], so that other clients can be served between two
/// of them.
pub const EXPIRED_AT_ONCE: usize = 1000;

/// How a server serves its clients, as it says to operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerMode {
    /// It is the only one.
    Standalone,
    /// It follows a leader.
    Follower,
    /// It has no leader, and serves reads only.
    ReadOnly,
}

impl fmt::Display for ServerMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standalone => "standalone",
            Self::Follower => "follower",
            Self::ReadOnly => "read-only",
        })
    }
}

/// What decides requests: a [`Core`], or several of them that share a tree.
///
/// A state machine may consist of several replicas: each connection is served by one of them, and sees its state. They
/// are numbered from 0.
pub trait StateMachine: Send + 'static {
    /// Executes one input. Inputs of connections that were never opened, or are closed, are ignored.
    ///
    /// `now` must not decrease between calls.
    fn handle(&mut self, now: Millis, conn: ConnId, input: Input);

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

    /// Opens a connection at a replica.
    fn open(&mut self, now: Millis, conn: ConnId, origin: Origin, _replica: usize) {
        self.handle(now, conn, Input::Open(origin));
    }

    /// The newest state, and the sessions.
    fn core(&self) -> &Core;

    /// The newest state, and the sessions, to change them. The next effects include what follows from it.
    fn core_mut(&mut self) -> &mut Core;

    /// The state that connections to a replica see.
    fn replica(&self, _replica: usize) -> &Core {
        self.core()
    }

    /// How a replica serves its clients.
    fn mode(&self, _replica: usize) -> ServerMode {
        ServerMode::Standalone
    }

    /// Under its own type, for a harness that controls it.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Like [`as_any`](StateMachine::as_any), to change it.
    fn as_any_mut(&mut self) -> Option<&mut dyn Any> {
        None
    }
}

impl StateMachine for Core {
    fn handle(&mut self, now: Millis, conn: ConnId, input: Input) {
        match input {
            Input::Open(origin) => self.accept(now, conn, origin),
            Input::Connect(request) => self.connect(now, conn, &request),
            Input::Request(incoming) => self.request(now, conn, incoming),
            Input::Closed => self.forget(conn),
        }
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

    fn core(&self) -> &Core {
        self
    }

    fn core_mut(&mut self) -> &mut Core {
        self
    }
}

fn reuse<T>(list: &mut Vec<T>, mut other: Vec<T>) {
    if list.is_empty() && other.capacity() <= REUSE {
        other.clear();
        *list = other;
    }
}
