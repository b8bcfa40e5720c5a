//! Counters: of the server as a whole, and of each connection.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use tokio::time::Instant;
use zoolet_proto::{OpCode, Xid, Zxid};
use zoolet_server_core::{ConnId, Input, Millis};

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
    pub(crate) latency: Latency,
    /// Set by `stmk` and read by `gtmk`. Nothing is traced with it.
    pub(crate) trace_mask: AtomicI64,
}

/// The default trace mask.
const TRACE_MASK: i64 = 306;

impl ServerStats {
    pub(crate) fn new(started: Millis) -> Self {
        Self { started, trace_mask: TRACE_MASK.into(), ..Self::default() }
    }

    /// Requests that were read and are not answered yet.
    pub(crate) fn outstanding(&self) -> u64 {
        // Requests that a turn returned may be subtracted before they are added.
        let outstanding = self.received.load(Relaxed).wrapping_sub(self.handled.load(Relaxed));
        if outstanding > u64::MAX / 2 { 0 } else { outstanding }
    }

    /// Resets the counters, but for requests that are not answered yet.
    pub(crate) fn reset(&self) {
        let outstanding = self.outstanding();
        self.received.store(outstanding, Relaxed);
        self.handled.store(0, Relaxed);
        for count in [&self.sent, &self.bytes_received, &self.rejected, &self.connects, &self.expired] {
            count.store(0, Relaxed);
        }
        self.latency.reset();
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
    pub(crate) last: Option<LastRequest>,
    /// The last transaction by then.
    pub(crate) zxid: Zxid,
}

/// A time in microseconds in the whole milliseconds that Apache prints.
pub(crate) fn whole_millis(micros: i64) -> i64 {
    micros / 1_000
}

/// How long requests took from being read to being answered, in microseconds.
#[derive(Debug)]
pub(crate) struct Latency {
    min: AtomicI64,
    max: AtomicI64,
    sum: AtomicI64,
    count: AtomicI64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { min: i64::MAX.into(), max: 0.into(), sum: 0.into(), count: 0.into() }
    }
}

impl Latency {
    /// Counts `requests` that took `micros` each.
    pub(crate) fn record(&self, micros: i64, requests: u64) {
        let requests = i64::try_from(requests).unwrap_or(0);
        self.min.fetch_min(micros, Relaxed);
        self.max.fetch_max(micros, Relaxed);
        self.sum.fetch_add(micros * requests, Relaxed);
        self.count.fetch_add(requests, Relaxed);
    }

    pub(crate) fn min(&self) -> i64 {
        let min = self.min.load(Relaxed);
        if min == i64::MAX { 0 } else { min }
    }

    pub(crate) fn max(&self) -> i64 {
        self.max.load(Relaxed)
    }

    /// In milliseconds, with a fraction.
    #[allow(clippy::cast_precision_loss, reason = "four decimals are printed")]
    pub(crate) fn avg_millis(&self) -> f64 {
        match self.count.load(Relaxed) {
            0 => 0.0,
            count => self.sum.load(Relaxed) as f64 / 1_000.0 / count as f64,
        }
    }

    fn reset(&self) {
        self.min.store(i64::MAX, Relaxed);
        self.max.store(0, Relaxed);
        self.sum.store(0, Relaxed);
        self.count.store(0, Relaxed);
    }
}

/// Counters of a connection that change in turns. Latencies are in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnStats {
    pub(crate) handled: u64,
    pub(crate) sent: u64,
    /// The opcode of the last request as it was on the wire.
    pub(crate) last_op: Option<i32>,
    pub(crate) last_xid: Option<Xid>,
    pub(crate) last_zxid: Option<Zxid>,
    pub(crate) last_response: Option<Millis>,
    pub(crate) last_latency: i64,
    pub(crate) min_latency: i64,
    pub(crate) max_latency: i64,
    pub(crate) latency_sum: i64,
}

impl ConnStats {
    /// Counts requests that were answered at `now`, after so many microseconds each.
    pub(crate) fn record(&mut self, now: Millis, micros: i64, executed: &Executed) {
        let Executed { requests, last, zxid, .. } = *executed;
        self.min_latency = if self.handled == 0 { micros } else { self.min_latency.min(micros) };
        self.max_latency = self.max_latency.max(micros);
        self.latency_sum += micros * i64::try_from(requests).unwrap_or(0);
        self.handled += requests;
        self.last_latency = micros;
        if let Some(LastRequest { op, xid }) = last {
            self.last_response = Some(now);
            self.last_op = Some(op);
            self.last_xid = (xid.0 >= 0).then_some(xid).or(self.last_xid);
            self.last_zxid = Some(zxid);
        }
    }

    pub(crate) fn avg_latency(&self) -> i64 {
        i64::try_from(self.handled).ok().filter(|handled| *handled > 0).map_or(0, |n| self.latency_sum / n)
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
            Input::Open { .. } | Input::Closed => None,
        }
    }

    /// What is remembered after `before`: the xids of pings and the like are not.
    pub(crate) fn after(self, before: Option<Self>) -> Self {
        let xid = before.filter(|_| self.xid.0 < 0).map_or(self.xid, |before| before.xid);
        Self { xid, ..self }
    }
}
