//! The server as a whole, in figures.

use std::sync::atomic::Ordering::Relaxed;

use zoolet_proto::Zxid;
use zoolet_server_core::ServerMode;

use crate::net::stats::Latency;
use crate::observer::environment;
use crate::shared::Shared;

/// A server in figures. Counters begin at the start of the server or at their last reset.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerSummary {
    /// The release whose behaviour it has, its own, and when it was built.
    pub version: String,
    /// How it serves.
    pub mode: ServerMode,
    /// The last transaction.
    pub zxid: Zxid,
    /// Znodes as a real server counts them: the root has two names there.
    pub znodes: usize,
    /// Bytes of all paths and data.
    pub data_size: usize,
    /// Ephemeral znodes.
    pub ephemerals: usize,
    /// Sessions.
    pub sessions: usize,
    /// Watches as a real server counts them, in two tables.
    pub watches: usize,
    /// Open connections.
    pub connections: usize,
    /// Requests that were read and are not answered yet.
    pub outstanding: u64,
    /// Requests that were read.
    pub received: u64,
    /// Replies and events that were sent.
    pub sent: u64,
    /// Bytes that were read.
    pub bytes_received: u64,
    /// Handshakes.
    pub connects: u64,
    /// Connections that were refused.
    pub rejected: u64,
    /// Sessions that have expired.
    pub expired: u64,
    /// From being read to being answered, of all requests.
    pub latency: RequestLatency,
    /// Milliseconds since the start.
    pub uptime: i64,
    /// How many descriptors the process has open, and how many it may have, if the system reports that.
    pub descriptors: Option<(usize, u64)>,
}

/// How long requests took from being read to being answered, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct RequestLatency {
    /// The shortest time.
    pub min: f64,
    /// The mean.
    pub avg: f64,
    /// The longest time.
    pub max: f64,
}

impl From<Latency> for RequestLatency {
    #[allow(clippy::cast_precision_loss, reason = "no request takes 2^52 microseconds")]
    fn from(latency: Latency) -> Self {
        let millis = |micros: i64| micros as f64 / 1_000.0;
        Self { min: millis(latency.min), avg: latency.avg_millis(), max: millis(latency.max) }
    }
}

impl Shared {
    pub(crate) fn summary(&self, at: usize) -> Option<ServerSummary> {
        let connections = self.peers(Some(at)).len();
        // Outside of the turn: the system is asked.
        let descriptors = environment::descriptors();
        self.turns.act(move |engine, now| {
            let machine = engine.bus.machine();
            let (core, stats) = (machine.replica(at), &engine.bus.stats);
            ServerSummary {
                version: environment::version(),
                mode: machine.mode(at),
                zxid: core.tree().last_zxid(),
                znodes: core.tree().len() + 1,
                data_size: core.tree().data_size(),
                ephemerals: core.tree().ephemerals_count(),
                sessions: core.sessions().len(),
                watches: core.watches().count_by_table(),
                connections,
                outstanding: stats.outstanding(),
                received: stats.received.load(Relaxed),
                sent: stats.sent.load(Relaxed),
                bytes_received: stats.bytes_received.load(Relaxed),
                connects: stats.connects.load(Relaxed),
                rejected: stats.rejected.load(Relaxed),
                expired: stats.expired.load(Relaxed),
                latency: stats.latency().into(),
                uptime: now.0 - stats.started.0,
                descriptors,
            }
        })
    }
}
