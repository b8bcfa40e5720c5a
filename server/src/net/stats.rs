//! Counters: of the server as a whole, and of each connection.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use tokio::time::Instant;
use zoolet_proto::{OpCode, Xid, Zxid};
use zoolet_server_core::{ConnId, Input, Millis};

use crate::locked::locked;
use crate::metrics::AdminCounts;

/// Counters of the server.
#[derive(Debug, Default)]
pub(crate) struct ServerStats {
    pub(crate) started: Millis,
    pub(crate) received: AtomicU64,
    pub(crate) handled: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) connects: AtomicU64,
    pub(crate) expired: AtomicU64,
    /// Connections that their peers have closed, that have not read what was sent, and that began with another protocol.
    pub(crate) dropped: AtomicU64,
    pub(crate) overflowed: AtomicU64,
    pub(crate) foreign: AtomicU64,
    pub(crate) handshakes: HandshakeStats,
    /// Of a server with TLS: connections by a socket and without it, from this machine and from others. Not reset, as on Apache.
    pub(crate) plaintext_local: AtomicU64,
    pub(crate) plaintext_remote: AtomicU64,
    latency: Mutex<Latency>,
    /// Of the admin servers of this server.
    admin: Mutex<AdminCounts>,
    /// Set by `stmk` and read by `gtmk`. Nothing is traced with it.
    pub(crate) trace_mask: AtomicI64,
}

/// Counters of TLS handshakes.
#[derive(Debug, Default)]
pub(crate) struct HandshakeStats {
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Connections that had no slot for one, or lost it.
    pub(crate) refused: AtomicU64,
}

/// The default trace mask.
const TRACE_MASK: i64 = 306;

impl ServerStats {
    pub(crate) fn new(started: Millis) -> Self {
        Self { started, trace_mask: TRACE_MASK.into(), ..Self::default() }
    }

    /// Requests that were read and are not answered yet. For a caller that holds the lock of the engine, as turns count what is
    /// handled, and a reset changes both.
    pub(crate) fn outstanding(&self) -> u64 {
        // Words are counted outside of turns: the second count may have one that the first has not.
        self.received.load(Relaxed).saturating_sub(self.handled.load(Relaxed))
    }

    /// Resets the counters, but for requests that are not answered yet. For a caller that holds the lock of the engine.
    pub(crate) fn reset(&self) {
        // Not set to what is outstanding: others go on counting meanwhile.
        self.received.fetch_sub(self.handled.swap(0, Relaxed), Relaxed);
        let counts = [&self.sent, &self.bytes_received, &self.rejected, &self.connects, &self.expired];
        let HandshakeStats { done, failed, refused } = &self.handshakes;
        let more = [&self.dropped, &self.overflowed, &self.foreign, done, failed, refused];
        for count in counts.into_iter().chain(more) {
            count.store(0, Relaxed);
        }
        *locked(&self.latency) = Latency::default();
        *self.admin() = AdminCounts::default();
    }

    /// What its admin servers have counted.
    pub(crate) fn admin(&self) -> MutexGuard<'_, AdminCounts> {
        locked(&self.admin)
    }

    pub(crate) fn latency(&self) -> Latency {
        *locked(&self.latency)
    }

    /// Counts `requests` that were answered after `micros` each.
    pub(crate) fn record(&self, micros: i64, requests: u64) {
        self.handled.fetch_add(requests, Relaxed);
        locked(&self.latency).record(micros, requests);
    }
}

/// Counters of the server that change in turns.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnCounts {
    pub(crate) requests: u64,
    pub(crate) revalidations: u64,
    /// Requests that were not executed as their connection was gone.
    pub(crate) stale_requests: u64,
    pub(crate) replies: ReplySizes,
    pub(crate) event_bytes: u64,
    /// Connections that were closed without a session before the last reset.
    pub(crate) sessionless_before: u64,
}

/// The lengths of replies in bytes, without their prefixes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplySizes {
    pub(crate) all: u64,
    pub(crate) last: u64,
    /// 0 if there is none.
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl ReplySizes {
    /// Adds one. The bytes of a ping's reply do not count, as on Apache.
    pub(crate) fn add(&mut self, size: u64, is_ping: bool) {
        self.append(&Self { all: if is_ping { 0 } else { size }, last: size, min: size, max: size });
    }

    /// Adds those that came after.
    pub(crate) fn append(&mut self, after: &Self) {
        if after.last == 0 {
            return;
        }
        self.min = if self.last == 0 { after.min } else { self.min.min(after.min) };
        self.max = self.max.max(after.max);
        self.all += after.all;
        self.last = after.last;
    }
}

/// Requests of one connection that were executed together. They count as answered when their replies may leave: at the end of the
/// turn, or when the log has what the replies show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Executed {
    pub(crate) conn: ConnId,
    /// When they were read.
    pub(crate) read: Instant,
    pub(crate) requests: u64,
    /// How many of them took a transaction, and how many did not. A handshake that names a session is neither.
    pub(crate) writes: u64,
    pub(crate) reads: u64,
    pub(crate) last: Option<LastRequest>,
    /// The last transaction by then.
    pub(crate) zxid: Zxid,
}

/// A time in microseconds in the whole milliseconds that Apache prints.
pub(crate) fn whole_millis(micros: i64) -> i64 {
    micros / 1_000
}

/// How long requests took from being read to being answered, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Latency {
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) sum: i64,
    pub(crate) count: u64,
}

impl Latency {
    /// Counts `requests` that took `micros` each.
    pub(crate) fn record(&mut self, micros: i64, requests: u64) {
        self.min = if self.count == 0 { micros } else { self.min.min(micros) };
        self.max = self.max.max(micros);
        self.sum += micros * i64::try_from(requests).unwrap_or(0);
        self.count += requests;
    }

    /// In milliseconds, with a fraction.
    #[allow(clippy::cast_precision_loss, reason = "four decimals are printed")]
    pub(crate) fn avg_millis(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / 1_000.0 / self.count as f64 }
    }
}

/// Counters of a connection that change in turns. Latencies are in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnStats {
    pub(crate) sent: u64,
    pub(crate) last: Option<LastRequest>,
    pub(crate) last_zxid: Option<Zxid>,
    pub(crate) last_response: Option<Millis>,
    pub(crate) last_latency: i64,
    pub(crate) latency: Latency,
}

impl ConnStats {
    /// Counts requests that were answered at `now`, after `micros` each.
    pub(crate) fn record(&mut self, now: Millis, micros: i64, executed: &Executed) {
        self.latency.record(micros, executed.requests);
        self.last_latency = micros;
        if let Some(last) = executed.last {
            self.last = Some(last.after(self.last));
            self.last_response = Some(now);
            self.last_zxid = Some(executed.zxid);
        }
    }

    /// Requests that were answered.
    pub(crate) fn handled(&self) -> u64 {
        self.latency.count
    }
}

/// What a connection's counters remember of its last request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastRequest {
    /// Its opcode as it was on the wire.
    pub(crate) op: i32,
    pub(crate) xid: Xid,
}

impl LastRequest {
    /// What is remembered of an input. Authentication is not, as on a real server.
    pub(crate) fn of(input: &Input) -> Option<Self> {
        match input {
            Input::Connect(_) => Some(Self { op: OpCode::CreateSession.code(), xid: Xid(0) }),
            Input::Request(incoming) => {
                let auth = [OpCode::Auth.code(), OpCode::Sasl.code()].contains(&incoming.op);
                (!auth).then_some(Self { op: incoming.op, xid: incoming.xid })
            }
            Input::Open(_) | Input::Closed => None,
        }
    }

    /// What is remembered after `before`: the xids of pings and the like are not.
    pub(crate) fn after(self, before: Option<Self>) -> Self {
        let xid = before.filter(|_| self.xid.0 < 0).map_or(self.xid, |before| before.xid);
        Self { xid, ..self }
    }
}
