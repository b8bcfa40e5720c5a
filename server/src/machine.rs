//! [`Machine`]: what the engine runs, a server of its own or a simulated ensemble.

use std::net::IpAddr;

use zoolet_proto::SessionId;
use zoolet_server_core::{
    ConnId, Core, CoreConfig, Effects, EndpointView, Ensemble, Input, Message, Millis, SessionTable, Tree,
};

/// What an endpoint is to operators that is cut off from the leader.
pub(crate) const READ_ONLY: &str = "read-only";

/// One server, or several that share a tree. What can be asked of both is answered by the leader for several.
#[allow(clippy::large_enum_variant, reason = "there is one of them, and the large one is the common one")]
pub(crate) enum Machine {
    One(Core),
    Many(Box<Ensemble>),
}

impl Machine {
    /// As many endpoints as are asked for; a server of its own for one.
    pub(crate) fn new(config: CoreConfig, endpoints: usize, now: Millis) -> Self {
        if endpoints > 1 {
            Self::Many(Box::new(Ensemble::new(config, endpoints, now)))
        } else {
            Self::One(Core::new(config, now))
        }
    }

    /// The newest state.
    pub(crate) fn core(&self) -> &Core {
        match self {
            Self::One(core) => core,
            Self::Many(ensemble) => ensemble.leader(),
        }
    }

    /// The state that connections to an endpoint see.
    pub(crate) fn view(&self, endpoint: usize) -> &Core {
        match self {
            Self::One(core) => core,
            Self::Many(ensemble) => ensemble.endpoint(endpoint),
        }
    }

    /// The state that connections see: one, or one of each endpoint.
    pub(crate) fn views(&self) -> Vec<&Core> {
        let endpoints = match self {
            Self::One(_) => 1,
            Self::Many(ensemble) => ensemble.endpoints().len(),
        };
        (0..endpoints).map(|endpoint| self.view(endpoint)).collect()
    }

    /// What an endpoint is to operators (`getState` of a server). The leader of several is none of them.
    pub(crate) fn mode(&self, endpoint: usize) -> &'static str {
        match self {
            Self::One(_) => "standalone",
            Self::Many(ensemble) if ensemble.is_read_only(endpoint) => READ_ONLY,
            Self::Many(_) => "follower",
        }
    }

    pub(crate) fn tree(&self) -> &Tree {
        self.core().tree()
    }

    pub(crate) fn sessions(&self) -> &SessionTable {
        self.core().sessions()
    }

    pub(crate) fn session_of(&self, conn: ConnId) -> Option<SessionId> {
        match self {
            Self::One(core) => core.session_of(conn),
            Self::Many(ensemble) => ensemble.session_of(conn),
        }
    }

    /// Whether a connection was opened and is neither gone nor closed.
    pub(crate) fn is_open(&self, conn: ConnId) -> bool {
        match self {
            Self::One(core) => core.is_open(conn),
            Self::Many(ensemble) => ensemble.endpoint_of(conn).is_some(),
        }
    }

    pub(crate) fn open(&mut self, now: Millis, conn: ConnId, peer: IpAddr, endpoint: usize) {
        match self {
            Self::One(core) => core.handle(now, conn, Input::Open { peer }),
            Self::Many(ensemble) => ensemble.open(now, conn, peer, endpoint),
        }
    }

    /// Opens a connection wherever writes are answered, at once if possible.
    pub(crate) fn open_anywhere(&mut self, now: Millis, conn: ConnId, peer: IpAddr) {
        let endpoint = match self {
            Self::One(_) => 0,
            Self::Many(ensemble) => {
                let views: Vec<_> = ensemble.endpoints().collect();
                let serves = |view: &EndpointView| view.alive && !view.read_only;
                let prompt = views.iter().position(|view| serves(view) && !view.lagging);
                prompt.or_else(|| views.iter().position(serves)).unwrap_or(0)
            }
        };
        self.open(now, conn, peer, endpoint);
    }

    pub(crate) fn handle(&mut self, now: Millis, conn: ConnId, input: Input) {
        match self {
            Self::One(core) => core.handle(now, conn, input),
            Self::Many(ensemble) => ensemble.handle(now, conn, input),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Millis) {
        match self {
            Self::One(core) => core.handle_timeout(now),
            Self::Many(ensemble) => ensemble.handle_timeout(now),
        }
    }

    pub(crate) fn next_timeout(&self) -> Millis {
        match self {
            Self::One(core) => core.next_timeout(),
            Self::Many(ensemble) => ensemble.next_timeout(),
        }
    }

    pub(crate) fn take_effects(&mut self) -> Effects {
        match self {
            Self::One(core) => core.take_effects(),
            Self::Many(ensemble) => ensemble.take_effects(),
        }
    }

    /// The last of the messages so far.
    pub(crate) fn last_message(&self) -> Option<&Message> {
        match self {
            Self::One(core) => core.last_message(),
            Self::Many(ensemble) => ensemble.last_message(),
        }
    }

    /// Takes back the memory of effects that are dealt with. An ensemble copies its own together and has no use for it.
    pub(crate) fn reuse(&mut self, effects: Effects) {
        if let Self::One(core) = self {
            core.reuse(effects);
        }
    }

    pub(crate) fn expire(&mut self, now: Millis, session: SessionId) -> bool {
        match self {
            Self::One(core) => core.expire(now, session),
            Self::Many(ensemble) => ensemble.expire(now, session),
        }
    }

    pub(crate) fn renew(&mut self, now: Millis, session: SessionId) -> bool {
        match self {
            Self::One(core) => core.renew(now, session),
            Self::Many(ensemble) => ensemble.renew(now, session),
        }
    }

    pub(crate) fn move_session(&mut self, session: SessionId) -> bool {
        match self {
            Self::One(core) => core.move_session(session),
            Self::Many(ensemble) => ensemble.move_session(session),
        }
    }

    pub(crate) fn set_counter(&mut self, path: &str, children: i64) -> bool {
        match self {
            Self::One(core) => core.set_counter(path, children),
            Self::Many(ensemble) => ensemble.set_counter(path, children),
        }
    }

    pub(crate) fn restart(&mut self, now: Millis) {
        match self {
            Self::One(core) => core.restart(now),
            Self::Many(ensemble) => ensemble.restart(now),
        }
    }
}
