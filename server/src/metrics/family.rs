//! [`families`]: the table of metric families. Prometheus text, `mntr` and a program's own registry are made of it.

use std::sync::Arc;

use zoolet_proto::Zxid;

use super::snapshot::{ByKey, LogMetrics, ResponseSize, ServerMetrics, SummaryValue};
use super::unmoved::UNMOVED;

/// A family of metrics.
#[derive(Debug, Clone, Copy)]
pub struct MetricFamily {
    /// Its name: that of Apache ZooKeeper 3.9, or `zoolet_` and one of ours. The word `mntr` puts `zk_` before it.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// What it means on this server.
    pub help: &'static str,
    pub(super) read: Read,
}

pub(super) type Read = for<'m> fn(&'m ServerMetrics) -> MetricValue<'m>;

/// The kind of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows, until `srst`.
    Counter,
    /// A number that changes either way.
    Gauge,
    /// A distribution of which Apache publishes the median.
    BasicSummary,
    /// A distribution of which Apache publishes high quantiles too.
    AdvancedSummary,
}

/// The value of a family.
#[derive(Debug, Clone, Copy)]
pub enum MetricValue<'m> {
    /// A counter or gauge.
    Number(f64),
    /// A summary.
    Summary(&'m SummaryValue),
    /// Numbers by the label `key`.
    Numbers(&'m [(Arc<str>, i64)]),
    /// Summaries by the label `key`.
    Summaries(&'m [(Arc<str>, SummaryValue)]),
    /// The system does not report it.
    Unknown,
}

impl MetricKind {
    /// What Prometheus calls it.
    pub fn prometheus_name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::BasicSummary | Self::AdvancedSummary => "summary",
        }
    }
}

impl MetricFamily {
    /// Its value in a snapshot.
    pub fn value(self, metrics: &ServerMetrics) -> MetricValue<'_> {
        (self.read)(metrics)
    }

    /// Whether this server ever moves it: others are there because dashboards ask for them.
    pub fn moves(&self) -> bool {
        !UNMOVED.iter().any(|family| family.name == self.name)
    }

    /// Whether it is one of Apache ZooKeeper, by whose tools it is known.
    pub fn is_of_apache(self) -> bool {
        !self.name.starts_with("zoolet_")
    }
}

/// Every family: those of Apache ZooKeeper 3.9 and ours. All are there from the start, whatever has happened.
pub fn families() -> impl Iterator<Item = &'static MetricFamily> {
    MOVING.iter().chain(UNMOVED)
}

/// A table of families, a row each: kind, name, its value, and what it means.
macro_rules! family_table {
    ($metrics:ident; $($kind:ident $name:ident = $value:expr, $help:expr;)*) => {
        &[$(MetricFamily {
            name: stringify!($name),
            kind: MetricKind::$kind,
            help: $help,
            read: |$metrics| MetricValue::from($value),
        }),*]
    };
}
pub(super) use family_table;

/// Those that move.
const MOVING: &[MetricFamily] = family_table! { m;
    // Load.
    Gauge uptime = m.uptime_ms,
        "Milliseconds since the start.";
    Gauge packets_received = m.packets_received,
        "Requests that were read, with handshakes, pings and four-letter words.";
    Gauge packets_sent = m.packets_sent,
        "Replies, events, and texts of four-letter words.";
    Gauge outstanding_requests = m.outstanding_requests,
        "Requests that were read and are not answered.";
    Gauge avg_latency = rounded(m.avg_latency_ms),
        "Average latency in milliseconds, from being read to being answered.";
    Gauge max_latency = m.max_latency_ms,
        "Highest latency in whole milliseconds.";
    Gauge min_latency = m.min_latency_ms,
        "Lowest latency in whole milliseconds.";
    AdvancedSummary readlatency = &m.summaries.read_latency_ms,
        "Latency in milliseconds of requests without a transaction; of those that were read together, that of the batch.";
    AdvancedSummary updatelatency = &m.summaries.update_latency_ms,
        "Latency in milliseconds of requests with a transaction, until it is on disk if there is a disk.";
    Counter bytes_received_count = m.bytes_received,
        "Bytes that were read from clients.";
    Counter response_bytes = m.response_bytes,
        "Bytes of replies, without the four of their length and without pings.";
    Counter watch_bytes = m.watch_bytes,
        "Bytes of watch events, without the four of their length.";
    Gauge last_client_response_size = size(m, |size| size.last),
        "Length of the last reply in bytes; -1 before the first.";
    Gauge max_client_response_size = size(m, |size| size.max),
        "Length of the longest reply in bytes; -1 before the first.";
    Gauge min_client_response_size = size(m, |size| size.min),
        "Length of the shortest reply in bytes; -1 before the first.";
    BasicSummary read_per_namespace = &m.summaries.read_bytes,
        "Bytes of reads by the first element of the path: path, data or names of children, and 68 for the Stat.";
    BasicSummary write_per_namespace = &m.summaries.write_bytes,
        "Bytes of applied writes by the first element of the path: path and data.";

    // Connections and sessions.
    Gauge num_alive_connections = m.connections,
        "Open connections.";
    Counter connection_drop_count = m.connections_dropped,
        "Connections that their clients have closed or lost.";
    Counter connection_rejected = m.connections_rejected,
        "Connections that a limit on their number has refused.";
    Counter connection_request_count = m.connect_requests,
        "Handshakes: requests for a session.";
    Counter connection_revalidate_count = m.revalidations,
        "Handshakes that name a session.";
    Counter sessionless_connections_expired = m.sessionless_expired,
        "Connections that were closed because they opened no session in time.";
    Counter stale_requests = m.stale_requests,
        "Requests that were not executed as their connection was gone.";
    Counter stale_requests_dropped = m.stale_requests,
        "Requests that were dropped as their connection was gone: the same number.";
    Counter stale_sessions_expired = m.sessions_expired,
        "Sessions that have expired.";
    Gauge global_sessions = m.sessions,
        "Open sessions.";

    // The tree.
    Gauge znode_count = m.znodes,
        "Znodes, with the root twice.";
    Gauge ephemerals_count = m.ephemerals,
        "Ephemeral znodes.";
    Gauge watch_count = m.watches,
        "Watches, a persistent one twice if it waits for children too.";
    Gauge approximate_data_size = m.data_size,
        "Bytes of paths and data.";
    BasicSummary node_created_watch_count = &m.summaries.created_watchers,
        "Connections that got an event of a created znode.";
    BasicSummary node_deleted_watch_count = &m.summaries.deleted_watchers,
        "Connections that got an event of a deleted znode.";
    BasicSummary node_changed_watch_count = &m.summaries.changed_watchers,
        "Connections that got an event of a znode whose data was set.";
    BasicSummary node_children_watch_count = &m.summaries.children_watchers,
        "Connections that got an event of a znode whose children have changed.";
    Gauge quota_count_limit_per_namespace = &m.quotas.count_limit,
        "Limits of quotas on the number of znodes, the hard ones where there are, added up below the first element of the path.";
    Gauge quota_count_usage_per_namespace = &m.quotas.count_usage,
        "Znodes below quotas, added up below the first element of the path.";
    Gauge quota_bytes_limit_per_namespace = &m.quotas.bytes_limit,
        "Limits of quotas on bytes of data, added up in the same way.";
    Gauge quota_bytes_usage_per_namespace = &m.quotas.bytes_usage,
        "Bytes of data below quotas, added up below the first element of the path.";
    Counter quota_exceeded_error_per_namespace = &m.quota_exceeded,
        "Writes that a quota has refused.";

    // Turns.
    Counter prep_processor_request_queued = m.requests,
        "Requests that were passed to a turn.";
    BasicSummary prep_processor_queue_size = &m.summaries.turns_open,
        "Other turns that were waiting when one began.";
    AdvancedSummary prep_processor_queue_time_ms = &m.summaries.queue_time_ms,
        "Milliseconds that requests waited for their turn.";
    BasicSummary prep_process_time = &m.summaries.process_time_ms,
        "Milliseconds of its turn that a request took, as an equal share.";
    AdvancedSummary close_session_prep_time = &m.summaries.close_time_ms,
        "Milliseconds of its turn that the end of a session took, as an equal share among requests or, if they are more, such ends.";
    AdvancedSummary propagation_latency = &m.summaries.propagation_ms,
        "Milliseconds from the decision of a transaction until it could be shown: on disk, if there is one.";

    // The log and snapshots.
    BasicSummary fsynctime = &m.summaries.sync_ms,
        "Milliseconds of a sync of the log.";
    Counter sync_processor_request_queued = log(m, |log| log.submitted),
        "Transactions that were submitted to the log; Apache counts reads too.";
    BasicSummary sync_processor_batch_size = &m.summaries.sync_batch,
        "Transactions that one sync has made durable.";
    BasicSummary sync_processor_queue_size = &m.summaries.sync_batch,
        "Transactions that waited when the log took them: all that one sync has made durable.";
    AdvancedSummary sync_processor_queue_time_ms = &m.summaries.log_queue_ms,
        "Milliseconds that a transaction waited until the log took it.";
    AdvancedSummary sync_processor_queue_flush_time_ms = &m.summaries.sync_ms,
        "Milliseconds of a sync of the log.";
    AdvancedSummary sync_processor_queue_and_flush_time_ms = &m.summaries.log_ms,
        "Milliseconds of a transaction from its turn until it was on disk.";
    BasicSummary sync_process_time = &m.summaries.log_process_ms,
        "Milliseconds that the log took for a transaction by itself: to write it and to sync.";
    BasicSummary snapshottime = &m.summaries.snapshot_ms,
        "Milliseconds that a snapshot took.";
    BasicSummary dbinittime = &m.summaries.load_ms,
        "Milliseconds that the data directory took to load.";
    BasicSummary startup_snap_load_time = &m.summaries.load_ms,
        "Milliseconds that the data directory took to load: snapshot and log are read by one pass.";
    BasicSummary startup_txns_loaded = &m.summaries.loaded_txns,
        "Transactions of the log that were read when the server started.";
    Counter unrecoverable_error_count = log(m, |log| u64::from(log.has_failed)),
        "1 once the log has failed, which stops the server.";

    // TLS.
    Counter unsuccessful_handshake = m.tls_handshakes_failed,
        "TLS handshakes that have failed; on a unified port those that had begun.";
    Counter tls_handshake_exceeded = m.tls_handshakes_refused,
        "TLS connections that were refused because too many handshakes were under way.";
    Gauge outstanding_tls_handshake = m.tls_handshakes_open,
        "TLS handshakes that are under way.";
    Gauge auth_failed_count = m.tls_handshakes_failed,
        "TLS handshakes that have failed, counted in the same way; a failed `addauth` or SASL exchange does not count.";
    Gauge non_mtls_local_conn_count = m.plaintext_connections_local,
        "Connections without TLS that were ever opened from this machine, if the server has TLS.";
    Gauge non_mtls_remote_conn_count = m.plaintext_connections_remote,
        "Connections without TLS that were ever opened from other machines, if the server has TLS.";

    // The process and its admin server.
    Gauge open_file_descriptor_count = m.descriptors.map(|(open, _)| open),
        "Open descriptors of this process.";
    Gauge max_file_descriptor_count = m.descriptors.map(|(_, max)| max),
        "Descriptors that this process may have.";
    Counter snapshot_error_count = m.admin.snapshot_errors,
        "Commands for a snapshot that have failed.";
    Counter snapshot_rate_limited_count = m.admin.snapshots_rate_limited,
        "Commands for a snapshot that came too early.";
    Counter restore_error_count = m.admin.restore_errors,
        "Commands to restore that have failed.";
    Counter restore_rate_limited_count = m.admin.restores_rate_limited,
        "Commands to restore that came too early.";
    BasicSummary restore_time = &m.admin.restore_time_ms,
        "Milliseconds that a restore took.";
    Counter insecure_admin_count = m.admin.plaintext_requests,
        "Requests without TLS on an admin port that has both.";

    // Ours.
    AdvancedSummary zoolet_turn_time_ms = &m.summaries.turn_ms,
        "Milliseconds that a turn took.";
    Counter zoolet_turns_total = m.turns,
        "Turns: the state changes in one after the other.";
    Gauge zoolet_turns_open = m.turns_open,
        "Turns that are under way or wait for others.";
    Gauge zoolet_zxid = m.zxid,
        "The last transaction of the state.";
    Gauge zoolet_durable_zxid = log(m, |log| log.durable_zxid),
        "The last transaction on disk.";
    Gauge zoolet_log_queue_transactions = log(m, |log| log.queued),
        "Transactions that wait for the disk.";
    Gauge zoolet_log_queue_bytes = log(m, |log| log.queued_bytes),
        "Bytes of transactions that wait for the disk, about.";
    Counter zoolet_slow_syncs_total = log(m, |log| log.slow_syncs),
        "Syncs of the log that took longer than the limit for a warning.";
    Counter zoolet_snapshots_total = log(m, |log| log.snapshots),
        "Snapshots that were written.";
    Counter zoolet_snapshot_errors_total = log(m, |log| log.snapshot_errors),
        "Snapshots that could not be written.";
    Counter zoolet_snapshot_rest_ms_total = log(m, |log| log.snapshot_rest_ms),
        "Milliseconds for which writers of snapshots have rested, so that clients had the disk.";
    Gauge zoolet_outbox_bytes = m.outbox_bytes,
        "Bytes that are queued for clients, without queues of less than 16 KiB.";
    Gauge zoolet_in_process_connections = m.in_process_connections,
        "Open connections of clients in the server's own process.";
    Counter zoolet_connections_overflowed_total = m.connections_overflowed,
        "Connections that were closed because their clients did not read.";
    Counter zoolet_connections_foreign_total = m.connections_foreign,
        "Connections that began with another protocol, such as HTTP.";
    Counter zoolet_tls_handshakes_total = m.tls_handshakes,
        "TLS handshakes that have succeeded.";
};

#[allow(clippy::cast_precision_loss, reason = "no reply is that long")]
fn size(metrics: &ServerMetrics, of: fn(ResponseSize) -> u64) -> f64 {
    metrics.response_size.map_or(-1.0, |size| of(size) as f64)
}

/// Of the log; 0 without one.
fn log<T: Default>(metrics: &ServerMetrics, of: fn(&LogMetrics) -> T) -> T {
    metrics.log.as_ref().map(of).unwrap_or_default()
}

/// As Apache rounds averages.
fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

impl From<f64> for MetricValue<'_> {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<usize> for MetricValue<'_> {
    fn from(value: usize) -> Self {
        (value as u64).into()
    }
}

impl From<u64> for MetricValue<'_> {
    #[allow(clippy::cast_precision_loss, reason = "Prometheus has doubles only")]
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<i64> for MetricValue<'_> {
    #[allow(clippy::cast_precision_loss, reason = "Prometheus has doubles only")]
    fn from(value: i64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<Zxid> for MetricValue<'_> {
    fn from(zxid: Zxid) -> Self {
        zxid.0.into()
    }
}

impl<T: Into<Self>> From<Option<T>> for MetricValue<'_> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unknown, Into::into)
    }
}

impl<'m> From<&'m SummaryValue> for MetricValue<'m> {
    fn from(value: &'m SummaryValue) -> Self {
        Self::Summary(value)
    }
}

impl<'m> From<&'m ByKey<SummaryValue>> for MetricValue<'m> {
    fn from(values: &'m ByKey<SummaryValue>) -> Self {
        Self::Summaries(values)
    }
}

impl<'m> From<&'m ByKey<i64>> for MetricValue<'m> {
    fn from(values: &'m ByKey<i64>) -> Self {
        Self::Numbers(values)
    }
}
