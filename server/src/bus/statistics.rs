//! What a bus counts: requests when they are answered, and sessions that expire.

use std::mem;
use std::sync::atomic::Ordering::Relaxed;

use tokio::time::Instant;
use zoolet_proto::Zxid;
use zoolet_server_core::{ConnId, Effects, Millis};

use super::Bus;
use crate::metrics::{ResponseSize, ServerMetrics};
use crate::net::stats::{ConnStats, Executed, LastRequest, TurnCounts};

impl Bus {
    /// How far it is: the last transaction, and the sessions that came back.
    pub(super) fn progress(&self) -> (Zxid, u64) {
        (self.machine.core().tree().last_zxid(), self.counts.revalidations)
    }

    /// Notes requests that were executed since the progress was that of `before`.
    pub(super) fn note_executed(
        &mut self,
        conn: ConnId,
        read: Instant,
        requests: usize,
        before: (Zxid, u64),
        last: Option<LastRequest>,
    ) {
        let zxid = self.machine.core().tree().last_zxid();
        let requests = requests as u64;
        self.counts.requests += requests;
        let writes = u64::try_from(zxid.0 - before.0.0).unwrap_or(0).min(requests);
        let reads = (requests - writes).saturating_sub(self.counts.revalidations - before.1);
        let executed = Executed { conn, read, requests, writes, reads, last, zxid };
        if let Some(measures) = &mut self.measures {
            measures.taken(read, reads, writes);
        }
        self.executed.push(executed);
    }

    /// Counts what this turn has executed and has delivered the replies of. What waits for the log counts when it has that.
    /// Returns the time, if it had to look at the clock.
    pub(super) fn count_executed(&mut self, now: Millis) -> Option<Instant> {
        if self.executed.is_empty() {
            return None;
        }
        let at = self.turn.clock.now();
        let mut executed = mem::take(&mut self.executed);
        for executed in executed.drain(..) {
            let held_until = self.conns.get(&executed.conn).map_or(Zxid(0), |conn| conn.held_until);
            match &mut self.gate {
                Some(gate) if held_until > gate.rule.durable => gate.count_when_durable(held_until, executed),
                _ => self.count_answered(now, at, &executed),
            }
        }
        self.executed = executed;
        Some(at)
    }

    /// Measures effects, if the server does. Returns when the turn began then.
    pub(super) fn measure_effects(&mut self, effects: &Effects) -> Option<Instant> {
        let measures = self.measures.as_mut()?;
        measures.effects(effects);
        Some(measures.began())
    }

    pub(super) fn count_answered(&mut self, now: Millis, at: Instant, executed: &Executed) {
        let took = at.saturating_duration_since(executed.read);
        let micros = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        self.stats.record(micros, executed.requests);
        if let Some(measures) = &mut self.measures {
            measures.answered(took, executed.reads, executed.writes);
        }
        if let Some(conn) = self.conns.get_mut(&executed.conn) {
            conn.stats.record(now, micros, executed);
        }
    }

    /// Counts sessions that have expired.
    pub fn count_expired(&mut self, sessions: usize) {
        self.stats.expired.fetch_add(sessions as u64, Relaxed);
    }

    /// Writes what is counted in turns.
    pub(crate) fn write_counts(&self, metrics: &mut ServerMetrics) {
        let TurnCounts { requests, revalidations, stale_requests, replies, event_bytes, sessionless_before } =
            self.counts;
        metrics.requests = requests - revalidations;
        metrics.revalidations = revalidations;
        metrics.stale_requests = stale_requests;
        metrics.response_bytes = replies.all;
        metrics.watch_bytes = event_bytes;
        let size = ResponseSize { last: replies.last, min: replies.min, max: replies.max };
        metrics.response_size = (replies.last > 0).then_some(size);
        metrics.sessionless_expired = self.core().sessionless_expired().saturating_sub(sessionless_before);
    }

    pub(crate) fn reset_counts(&mut self, now: Instant) {
        if let Some(measures) = &mut self.measures {
            measures.reset(now);
        }
        self.counts =
            TurnCounts { sessionless_before: self.core().sessionless_expired(), ..TurnCounts::default() };
    }

    pub(crate) fn conn_stats(&self, conn: ConnId) -> ConnStats {
        self.conns.get(&conn).map_or_else(ConnStats::default, |conn| conn.stats)
    }

    pub(crate) fn reset_stats(&mut self, conn: ConnId) {
        if let Some(conn) = self.conns.get_mut(&conn) {
            // All but what is not answered yet.
            conn.peer.state.received.fetch_sub(conn.stats.handled(), Relaxed);
            conn.stats = ConnStats::default();
        }
    }
}
