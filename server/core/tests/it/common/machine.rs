//! What a [`World`](super::World) drives: one server, or several that share a tree.

use std::net::IpAddr;

use zoolet_proto::SessionId;
use zoolet_server_core::{ConnId, Core, Effects, Input, Millis, WatchTable};

/// What a world drives.
pub trait Machine {
    fn open(&mut self, now: Millis, conn: ConnId, peer: IpAddr, at: usize);
    fn handle(&mut self, now: Millis, conn: ConnId, input: Input);
    fn handle_timeout(&mut self, now: Millis);
    fn next_timeout(&self) -> Millis;
    fn take_effects(&mut self) -> Effects;
    fn session_of(&self, conn: ConnId) -> Option<SessionId>;
    /// The core that decides writes and has the sessions.
    fn leader(&self) -> &Core;
    fn expire(&mut self, now: Millis, session: SessionId) -> bool;
    fn watches(&self) -> Vec<&WatchTable>;
}

impl Machine for Core {
    fn open(&mut self, now: Millis, conn: ConnId, peer: IpAddr, _at: usize) {
        self.handle(now, conn, Input::Open { peer });
    }

    fn handle(&mut self, now: Millis, conn: ConnId, input: Input) {
        self.handle(now, conn, input);
    }

    fn handle_timeout(&mut self, now: Millis) {
        self.handle_timeout(now);
    }

    fn next_timeout(&self) -> Millis {
        self.next_timeout()
    }

    fn take_effects(&mut self) -> Effects {
        self.take_effects()
    }

    fn session_of(&self, conn: ConnId) -> Option<SessionId> {
        self.session_of(conn)
    }

    fn leader(&self) -> &Core {
        self
    }

    fn expire(&mut self, now: Millis, session: SessionId) -> bool {
        self.expire(now, session)
    }

    fn watches(&self) -> Vec<&WatchTable> {
        vec![self.watches()]
    }
}
