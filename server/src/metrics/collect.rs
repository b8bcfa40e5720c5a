//! Takes the snapshot: most figures are read at once, between two turns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use zoolet_server_core::{Core, QuotaView};

use crate::engine::Engine;
use crate::locked::locked;
#[cfg(feature = "metrics")]
use crate::metrics::Measures;
use crate::metrics::{KeyNames, QuotaMetrics, ServerMetrics, SummaryValue};
use crate::net::stats::whole_millis;
use crate::observer::environment;
use crate::shared::Shared;

impl Shared {
    /// What is measured of the server; of the state, what a replica has.
    pub(crate) fn metrics(&self, at: usize) -> ServerMetrics {
        let stats = &self.stats;
        let latency = stats.latency();
        // A reset takes this lock within that of the engine: it is not held while descriptors are listed.
        let admin = stats.admin().clone();
        let mut metrics = ServerMetrics {
            uptime_ms: self.now().0 - stats.started.0,
            bytes_received: stats.bytes_received.load(Relaxed),
            min_latency_ms: whole_millis(latency.min),
            avg_latency_ms: latency.avg_millis(),
            max_latency_ms: whole_millis(latency.max),
            connections: self.connections_at(at),
            in_process_connections: self.registry.in_process(),
            connections_dropped: stats.dropped.load(Relaxed),
            connections_rejected: stats.rejected.load(Relaxed),
            connections_overflowed: stats.overflowed.load(Relaxed),
            connections_foreign: stats.foreign.load(Relaxed),
            connect_requests: stats.connects.load(Relaxed),
            sessions_expired: stats.expired.load(Relaxed),
            plaintext_connections_local: stats.plaintext_local.load(Relaxed),
            plaintext_connections_remote: stats.plaintext_remote.load(Relaxed),
            tls_handshakes: stats.handshakes.done.load(Relaxed),
            tls_handshakes_failed: stats.handshakes.failed.load(Relaxed),
            tls_handshakes_refused: stats.handshakes.refused.load(Relaxed),
            #[cfg(feature = "tls")]
            tls_handshakes_open: self.tls.as_ref().map_or(0, |tls| tls.slots.open()),
            admin,
            turns_open: self.turns.open.load(Relaxed),
            outbox_bytes: self.registry.budget.used(),
            descriptors: environment::descriptors(),
            log: self.log.as_ref().map(|log| log.queue.metrics()),
            ..ServerMetrics::default()
        };
        let now = self.clock.now();
        let measures = {
            let mut engine = locked(&self.engine);
            metrics.turns = engine.turns;
            // A turn counts its messages after they may have arrived.
            metrics.packets_sent = stats.sent.load(Relaxed);
            metrics.packets_received = stats.received.load(Relaxed);
            metrics.outstanding_requests = stats.outstanding();
            let Engine { bus, quota_keys, .. } = &mut *engine;
            let core = bus.machine().replica(at);
            metrics.zxid = core.tree().last_zxid();
            // A real server has the root under two names and counts both.
            metrics.znodes = core.tree().len() + 1;
            metrics.data_size = core.tree().data_size();
            metrics.ephemerals = core.tree().ephemerals_count();
            metrics.sessions = core.sessions().len();
            metrics.watches = core.watches().count_by_table();
            metrics.quotas = quotas(core, quota_keys);
            bus.write_counts(&mut metrics);
            bus.measures.as_mut().map(|measures| measures.copy(now))
        };
        // Quantiles take longer than a copy, and nobody waits for them.
        if let Some(measures) = measures {
            measures.write(&mut metrics);
        }
        if let Some(log) = &self.log {
            if let Some(measures) = log.queue.measures(now) {
                measures.write(&mut metrics);
            }
            metrics.summaries.load_ms = SummaryValue::once(log.load_time.as_secs_f64() * 1_000.0);
            metrics.summaries.loaded_txns = SummaryValue::once(log.report.replayed as f64);
        }
        metrics
    }

    /// Measures from now on, if it does not yet.
    #[cfg(feature = "metrics")]
    pub(crate) fn measure(&self) {
        let now = self.clock.now();
        if let Some(log) = &self.log {
            log.queue.measure(now);
        }
        let bus = &mut locked(&self.engine).bus;
        let with_quotas = bus.core().config().enforce_quota;
        bus.measures.get_or_insert_with(|| Measures::new(now, with_quotas));
    }

    /// Forgets what was counted and measured, but for requests that are not answered yet.
    pub(crate) fn reset_statistics(&self) {
        let now = self.clock.now();
        {
            let bus = &mut locked(&self.engine).bus;
            self.stats.reset();
            bus.reset_counts(now);
        }
        if let Some(log) = &self.log {
            log.queue.reset_counts(now);
        }
    }

    /// The open connections of a replica.
    pub(crate) fn connections_at(&self, at: usize) -> usize {
        if self.replicas == 1 { self.registry.len() } else { self.peers(Some(at)).len() }
    }
}

/// How many quotas are looked at: each is two znodes that are parsed, while no request is executed.
const MOST_QUOTAS: usize = 1_000;
/// The bytes of their paths, each of which is copied and looked up twice.
const MOST_QUOTA_PATHS: usize = 1 << 20;

/// The quotas, added up below each first element of a path (`QuotaMetricsUtils`).
fn quotas(core: &Core, keys: &mut KeyNames) -> QuotaMetrics {
    let mut sums = BTreeMap::<Arc<str>, [i64; 4]>::new();
    let mut paths = 0;
    for QuotaView { top, count_limit, count, byte_limit, bytes } in core.tree().quotas().take(MOST_QUOTAS) {
        paths += top.len();
        if paths > MOST_QUOTA_PATHS {
            break;
        }
        let Some(name) = top_level_name(top) else { continue };
        let sum = sums.entry(keys.key(name)).or_default();
        for (sum, more) in sum.iter_mut().zip([count_limit, count, byte_limit, bytes]) {
            *sum = sum.saturating_add(more);
        }
    }
    let mut quotas = QuotaMetrics::default();
    for (key, [count_limit, count, byte_limit, bytes]) in sums {
        quotas.count_limit.push((Arc::clone(&key), count_limit));
        quotas.count_usage.push((Arc::clone(&key), count));
        quotas.bytes_limit.push((Arc::clone(&key), byte_limit));
        quotas.bytes_usage.push((key, bytes));
    }
    quotas
}

/// The first element of a path; the root has none (`PathUtils.getTopNamespace`).
pub(crate) fn top_level_name(path: &str) -> Option<&str> {
    let name = path.strip_prefix('/')?;
    let name = name.split_once('/').map_or(name, |(first, _)| first);
    (!name.is_empty()).then_some(name)
}
