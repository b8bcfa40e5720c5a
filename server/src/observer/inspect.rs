//! What the page needs: short looks at the state, the transactions that come, and connections of its own.

use std::io;
use std::net::SocketAddr;

use zoolet_proto::Zxid;
use zoolet_server_core::{AdminAccess, ConnId, Core, Millis, Origin};

use super::Observer;
use crate::bus::feed::RecentTxns;
use crate::locked::locked;
use crate::metrics::ServerMetrics;
use crate::net::in_process::{self, InProcessStream};

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionSource {
    /// Its address.
    pub addr: SocketAddr,
    /// When it was opened, in milliseconds since 1970.
    pub established: Millis,
}

/// What a server has counted by now, with what rates and means of any interval need.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerLoad {
    /// What it has counted.
    pub metrics: ServerMetrics,
    /// Requests that were answered.
    pub answered: u64,
    /// From being read to being answered, of all of them together, in microseconds.
    pub answered_micros: i64,
    /// When the server was started, in milliseconds since 1970.
    pub started: Millis,
    /// The time now.
    pub now: Millis,
}

impl Observer {
    /// Asks the newest state, in a turn. No client is served meanwhile: so look at some hundred things at once, and at the rest in
    /// further calls.
    ///
    /// # Cancel safety
    /// It is asked or not.
    pub async fn look<T>(&self, question: impl FnOnce(&Core) -> T) -> Option<T> {
        let shared = self.shared()?;
        let answer = shared.act_later(|engine, _| question(engine.bus.core())).await?;
        shared.is_durable().await.then_some(answer)
    }

    /// Where these connections come from, as far as they are open.
    pub fn sources(&self, conns: &[ConnId]) -> Option<Vec<Option<ConnectionSource>>> {
        let shared = self.shared()?;
        let source = |conn: &ConnId| {
            let peer = shared.registry.get(*conn)?;
            Some(ConnectionSource { addr: peer.addr, established: peer.established })
        };
        Some(conns.iter().map(source).collect())
    }

    /// The first transactions after the zxid `after`, at most `max`; waits until there is one. `None` means from now on, and returns
    /// at once.
    ///
    /// The server keeps the last thousand while somebody calls this, and for ten seconds after that. Otherwise it keeps none.
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call with the same zxid returns the same.
    pub async fn transactions(&self, after: Option<Zxid>, max: usize) -> Option<RecentTxns> {
        let shared = self.shared()?;
        let follower = locked(&shared.engine).bus.follow();
        let stop = shared.stop.clone();
        // The wait may be long, and must not keep the state of a stopped server.
        drop(shared);
        let recent = stop.run_until_cancelled(follower.after(after, max)).await?;
        self.shared()?.is_durable().await.then_some(recent)
    }

    /// Whether somebody may read and replace the whole state who shows these credentials; see [`Core::admin_access`].
    pub fn admin_access(
        &self,
        origin: &Origin,
        scheme: &str,
        credentials: Option<&str>,
    ) -> Option<AdminAccess> {
        self.shared()?.turns.read(|core| core.admin_access(origin, scheme, credentials))
    }

    /// Opens a connection without a socket, as [`Server::in_process`](crate::Server::in_process) does, for somebody at `peer`: ACLs of
    /// the scheme `ip` hold for that address.
    ///
    /// # Errors
    /// `ConnectionRefused` if the server has stopped.
    pub fn connect_for(&self, peer: SocketAddr) -> io::Result<InProcessStream> {
        in_process::connect(&self.shared, 0, peer)
    }

    /// What the server has counted by now.
    pub async fn load(&self) -> Option<ServerLoad> {
        let shared = self.shared()?;
        let (metrics, latency) = (shared.metrics(0), shared.stats.latency());
        let (started, now) = (shared.stats.started, shared.now());
        let (answered, answered_micros) = (latency.count, latency.sum);
        let load = ServerLoad { metrics, answered, answered_micros, started, now };
        shared.is_durable().await.then_some(load)
    }

    /// The time by the server's clock, in milliseconds since 1970.
    pub fn now(&self) -> Option<Millis> {
        Some(self.shared()?.now())
    }
}
