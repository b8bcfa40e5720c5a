//! The seam for test harnesses: to watch a running server, to change what passes through it, and to replace its state
//! machine.
//!
//! Not for applications, and without any promise of stability. A server that nothing is attached to pays three tests
//! of an `Option` for each turn.
//!
//! - An [`Interceptor`] sees every input before it is executed and every message before it is sent. It works through the
//!   [`Bus`], which the server lends it for one call.
//! - A [`Transport`] is the stream of a connection. An interceptor may put a wrapper in front of it.
//! - A [`StateMachine`] decides requests: [`Core`](zoolet_server_core::Core), or several that share a tree.
//! - A [`ServerHandle`] reaches all of these on a running server.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use zoolet_clock::Clock;
use zoolet_server_core::{ConnId, Millis};

use crate::config::ServerBuilder;
use crate::engine::{Attached, Engine};
use crate::locked::locked;
use crate::net::in_process::{self, InProcess};
use crate::server::Server;
use crate::shared::Shared;

pub use crate::bus::Bus;
pub use crate::engine::{Interceptor, MakeMachine};
pub use crate::net::stream::Transport;
pub use zoolet_server_core::StateMachine;
use zoolet_storage::StorageError;
pub use zoolet_storage::disk::Disk;

/// Settings that run another state machine than a [`Core`](zoolet_server_core::Core), with `replicas` replicas. Listeners
/// belong to these in turn.
pub fn with_state_machine(mut settings: ServerBuilder, replicas: usize, make: MakeMachine) -> ServerBuilder {
    (settings.make_machine, settings.replicas) = (make, replicas);
    settings
}

/// Settings with a data directory on this disk.
pub fn with_disk(mut settings: ServerBuilder, disk: Arc<dyn Disk>) -> ServerBuilder {
    if let Some(durable) = &mut settings.durable {
        durable.disk = disk;
    }
    settings
}

/// How many replicas the state machine of a server with these settings has.
pub fn replicas(settings: &ServerBuilder) -> usize {
    settings.replicas
}

/// A connection of a running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connected {
    /// Its number.
    pub conn: ConnId,
    /// Where it comes from.
    pub addr: SocketAddr,
    /// How many bytes wait for it or are being written.
    pub unsent: usize,
}

/// A running server, from the inside. It does not keep the server running: once that has stopped, its state can still be
/// read.
#[derive(Clone)]
pub struct ServerHandle {
    shared: Arc<Shared>,
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle").finish_non_exhaustive()
    }
}

impl ServerHandle {
    /// A handle to `server`.
    pub fn of(server: &Server) -> Self {
        Self { shared: Arc::clone(&server.shared) }
    }

    /// Attaches an interceptor, or returns the one that is attached already. `None` if that is of another type. It stays
    /// for the life of the server. Connections that are open already keep their streams.
    pub fn attach<T: Interceptor>(&self, make: impl FnOnce() -> T) -> Option<Arc<T>> {
        let mut engine = locked(&self.shared.engine);
        let attached = self.shared.attached.get_or_init(|| {
            let typed = Arc::new(make());
            engine.interceptor = Some(Arc::clone(&typed) as Arc<dyn Interceptor>);
            Attached { interceptor: Arc::clone(&typed) as Arc<dyn Interceptor>, typed }
        });
        Arc::clone(&attached.typed).downcast().ok()
    }

    /// The server's clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The time by that clock.
    pub fn now(&self) -> Millis {
        self.shared.now()
    }

    /// Reads the state between two inputs.
    pub fn look<T>(&self, look: impl FnOnce(&Bus) -> T) -> T {
        look(&locked(&self.shared.engine).bus)
    }

    /// Does something in a turn, after the tasks that are ready to run. `None` once the server has stopped.
    ///
    /// Cancel safe: it is done or not.
    pub async fn act<T>(&self, act: impl FnOnce(&mut Bus, Millis) -> T) -> Option<T> {
        self.shared.act_later(|engine, now| act(&mut engine.bus, now)).await
    }

    /// Goes on with the state that the data directory has after a crash, which `crash` simulates: in a turn, it aborts the
    /// connections, and returns the disk as the next process finds it. `reopened` sees the new state in the same turn. `None`
    /// once the server has stopped, which it also does, as a failed one, if the directory cannot be opened.
    pub async fn reopen(
        &self,
        crash: impl FnOnce(&mut Bus, Millis) -> Arc<dyn Disk>,
        reopened: impl FnOnce(&Bus),
    ) -> Option<Result<(), StorageError>> {
        let reopen = |engine: &mut Engine, now| {
            let disk = crash(&mut engine.bus, now);
            engine.reopen(now, disk).map(|()| reopened(&engine.bus))
        };
        let outcome = self.shared.act_later(reopen).await;
        if let (Some(Err(error)), Some(log)) = (&outcome, &self.shared.log) {
            self.shared.halt();
            log.queue.fail(StorageError::Failed(error.to_string()));
        }
        outcome
    }

    /// Waits until everything that was decided so far is durable, and returns whether it is: false if the server fails before, or
    /// crashes with [`reopen`](ServerHandle::reopen) and has lost some of it. At once true without a data directory.
    pub async fn durable(&self) -> bool {
        self.shared.is_durable().await
    }

    /// Whether every input that arrived is dealt with, to the last message it led to.
    pub fn is_quiet(&self) -> bool {
        self.shared.turns.is_quiet()
    }

    /// Whether the server has stopped.
    pub fn is_stopped(&self) -> bool {
        self.shared.stop.is_cancelled()
    }

    /// Whether it has stopped because the runtime that it was started in was shut down.
    pub fn has_lost_runtime(&self) -> bool {
        self.shared.has_lost_runtime()
    }

    /// Waits until the server stops.
    pub async fn stopped(&self) {
        self.shared.stop.cancelled().await;
    }

    /// Every connection, oldest first.
    pub fn connections(&self) -> Vec<Connected> {
        let peers = self.shared.registry.all().into_iter();
        peers.map(|(conn, peer)| Connected { conn, addr: peer.addr, unsent: peer.outbox.unsent() }).collect()
    }

    /// As [`Server::in_process`], to one replica of the state machine. If there is no such replica every call fails with
    /// `NotFound`.
    pub fn in_process_at(&self, replica: usize) -> InProcess {
        in_process::connector(Arc::downgrade(&self.shared), replica)
    }
}
