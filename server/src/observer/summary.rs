//! The server as a whole, in figures.

use std::sync::atomic::Ordering::Relaxed;

use zoolet_proto::Zxid;
use zoolet_server_core::ServerMode;

use crate::net::stats::Latency;
use crate::observer::environment;
use crate::shared::Shared;

/// A server in figures, as the word `srvr` shows it; [`ServerMetrics`](crate::metrics::ServerMetrics) has more. Counters begin at the
/// start of the server or at their last reset.
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
    /// Open connections.
    pub connections: usize,
    /// Requests that were read and are not answered yet.
    pub outstanding: u64,
    /// Requests that were read.
    pub received: u64,
    /// Replies and events that were sent.
    pub sent: u64,
    /// From being read to being answered, of all requests.
    pub latency: RequestLatency,
    /// Milliseconds since the start.
    pub uptime: i64,
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
        let connections = self.connections_at(at);
        self.turns.act(move |engine, now| {
            let machine = engine.bus.machine();
            let (core, stats) = (machine.replica(at), &engine.bus.stats);
            ServerSummary {
                version: environment::version(),
                mode: machine.mode(at),
                zxid: core.tree().last_zxid(),
                znodes: core.tree().len() + 1,
                connections,
                outstanding: stats.outstanding(),
                received: stats.received.load(Relaxed),
                sent: stats.sent.load(Relaxed),
                latency: stats.latency().into(),
                uptime: now.0 - stats.started.0,
            }
        })
    }
}
