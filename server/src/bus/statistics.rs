//! What a bus counts: requests when they are answered, and sessions that expire.

use std::mem;
use std::sync::atomic::Ordering::Relaxed;

use tokio::time::Instant;
use zoolet_proto::Zxid;
use zoolet_server_core::{ConnId, Millis};

use super::Bus;
use crate::net::stats::{ConnStats, Executed, LastRequest};

impl Bus {
    pub(super) fn note_executed(
        &mut self,
        conn: ConnId,
        read: Instant,
        requests: usize,
        last: Option<LastRequest>,
    ) {
        let zxid = self.machine.core().tree().last_zxid();
        self.executed.push(Executed { conn, read, requests: requests as u64, last, zxid });
    }

    /// Counts what this turn has executed and has delivered the replies of. What waits for the log counts when it has that.
    pub(super) fn count_executed(&mut self, now: Millis) {
        if self.executed.is_empty() {
            return;
        }
        let at = self.turn.clock.now();
        let mut executed = mem::take(&mut self.executed);
        for executed in executed.drain(..) {
            let held_until = self.conns.get(&executed.conn).map_or(Zxid(0), |conn| conn.held_until);
            match &mut self.gate {
                Some(gate) if held_until > gate.durable() => gate.hold_count(held_until, executed),
                _ => self.count_answered(now, at, &executed),
            }
        }
        self.executed = executed;
    }

    pub(super) fn count_answered(&mut self, now: Millis, at: Instant, executed: &Executed) {
        let took = at.saturating_duration_since(executed.read);
        let micros = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        self.stats.record(micros, executed.requests);
        if let Some(conn) = self.conns.get_mut(&executed.conn) {
            conn.stats.record(now, micros, executed);
        }
    }

    /// Counts sessions that have expired.
    pub fn count_expired(&mut self, sessions: usize) {
        self.stats.expired.fetch_add(sessions as u64, Relaxed);
    }

    pub(crate) fn conn_stats(&self, conn: ConnId) -> ConnStats {
        self.conns.get(&conn).map_or_else(ConnStats::default, |conn| conn.stats)
    }

    pub(crate) fn reset_stats(&mut self, conn: ConnId) {
        if let Some(conn) = self.conns.get_mut(&conn) {
            // All but what is not answered yet.
            conn.peer.received.fetch_sub(conn.stats.handled(), Relaxed);
            conn.stats = ConnStats::default();
        }
    }
}
