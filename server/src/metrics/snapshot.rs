//! [`ServerMetrics`]: what a server has measured by now.

use std::sync::Arc;

use zoolet_proto::Zxid;

/// Values by the first element of a path, such as `app` of `/app/config`.
pub type ByKey<T> = Vec<(Arc<str>, T)>;

/// What a server has counted by now, and how it is. Counters begin with the server, or with the last `srst`.
///
/// The names of the [families](super::families) that the fields are published as are those of Apache ZooKeeper.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ServerMetrics {
    /// Milliseconds since the start.
    pub uptime_ms: i64,
    /// The last transaction of the state.
    pub zxid: Zxid,
    /// Requests that were read, with handshakes, pings and four-letter words.
    pub packets_received: u64,
    /// Replies, events, and texts of four-letter words.
    pub packets_sent: u64,
    /// Requests that were read and are not answered.
    pub outstanding_requests: u64,
    /// Bytes that were read from clients.
    pub bytes_received: u64,
    /// Bytes of replies, without the four of their length; pings and responses to handshakes do not count.
    pub response_bytes: u64,
    /// Bytes of watch events, without the four of their length.
    pub watch_bytes: u64,
    /// The length of a reply in bytes: of the last one, the shortest and the longest. `None` before the first.
    pub response_size: Option<ResponseSize>,
    /// The latency of requests in milliseconds, from being read to being answered.
    pub min_latency_ms: i64,
    /// The average of it.
    pub avg_latency_ms: f64,
    /// The highest.
    pub max_latency_ms: i64,

    /// Connections that are open.
    pub connections: usize,
    /// Those of clients in this process among them.
    pub in_process_connections: usize,
    /// Connections that their clients have closed or lost.
    pub connections_dropped: u64,
    /// Connections that a limit on their number has refused.
    pub connections_rejected: u64,
    /// Connections that were closed because their clients did not read what was sent.
    pub connections_overflowed: u64,
    /// Connections that began with another protocol, such as HTTP.
    pub connections_foreign: u64,
    /// Connections that were closed because they opened no session in time.
    pub sessionless_expired: u64,
    /// Handshakes: requests for a session.
    pub connect_requests: u64,
    /// Those that name a session, which may have ended.
    pub revalidations: u64,
    /// Sessions that are open.
    pub sessions: usize,
    /// Sessions that have expired.
    pub sessions_expired: u64,

    /// Of a server with TLS: connections by a socket and without it that were ever opened from this machine.
    pub plaintext_connections_local: u64,
    /// The same from other machines.
    pub plaintext_connections_remote: u64,
    /// TLS handshakes that have succeeded.
    pub tls_handshakes: u64,
    /// TLS handshakes that have failed; on a unified port those that had begun.
    pub tls_handshakes_failed: u64,
    /// TLS connections that were refused because too many handshakes were under way.
    pub tls_handshakes_refused: u64,
    /// TLS handshakes that are under way.
    pub tls_handshakes_open: usize,

    /// Znodes; like Apache, with the root twice.
    pub znodes: usize,
    /// Ephemeral znodes.
    pub ephemerals: usize,
    /// Watches, a persistent one twice if it waits for children too, as in Apache's tables.
    pub watches: usize,
    /// Bytes of paths and data.
    pub data_size: usize,
    /// The quotas of subtrees and how far they are used.
    pub quotas: QuotaMetrics,
    /// Writes that a quota has refused. Counted only while the server measures.
    pub quota_exceeded: ByKey<i64>,

    /// Requests that were passed to a turn.
    pub requests: u64,
    /// Requests that were not executed as their connection was gone.
    pub stale_requests: u64,
    /// Turns: the state changes in one after the other.
    pub turns: u64,
    /// Turns that are under way or wait for others.
    pub turns_open: usize,
    /// Bytes that are queued for clients and shared with no znode, as far as they are counted: queues of less than 16 KiB are not.
    pub outbox_bytes: usize,
    /// Open descriptors of this process, and how many it may have. `None` if the system does not report it.
    pub descriptors: Option<(usize, u64)>,

    /// The log and the snapshots; `None` for a server in memory.
    pub log: Option<LogMetrics>,
    /// Whether distributions are recorded.
    pub is_measured: bool,
    /// Distributions; empty unless they are recorded.
    pub summaries: Summaries,
    /// What an admin server has counted. Zero unless one fills it in.
    pub admin: AdminCounts,
}

/// The lengths of replies in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named like what they are")]
pub struct ResponseSize {
    pub last: u64,
    pub min: u64,
    pub max: u64,
}

/// The quotas of subtrees, by the first element of their paths.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "named like what they are")]
pub struct QuotaMetrics {
    pub count_limit: ByKey<i64>,
    pub count_usage: ByKey<i64>,
    pub bytes_limit: ByKey<i64>,
    pub bytes_usage: ByKey<i64>,
}

/// How far the log and the snapshots are.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LogMetrics {
    /// The last transaction that is on disk.
    pub durable_zxid: Zxid,
    /// Transactions that wait for the disk.
    pub queued: u64,
    /// Bytes of transactions that wait for the disk, about.
    pub queued_bytes: usize,
    /// Transactions that were submitted.
    pub submitted: u64,
    /// Syncs that took longer than [`StorageOptions::slow_sync`](crate::StorageOptions::slow_sync).
    pub slow_syncs: u64,
    /// Whether the log has failed, which stops the server.
    pub has_failed: bool,
    /// Snapshots that were written.
    pub snapshots: u64,
    /// Snapshots that could not be written.
    pub snapshot_errors: u64,
    /// Milliseconds for which writers of snapshots have rested, so that clients had the disk.
    pub snapshot_rest_ms: f64,
}

/// What admin servers count of their commands, by [`Observer::count_admin`](crate::Observer::count_admin).
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "named like what they are")]
pub struct AdminCounts {
    pub snapshot_errors: u64,
    pub snapshots_rate_limited: u64,
    pub restore_errors: u64,
    pub restores_rate_limited: u64,
    pub plaintext_requests: u64,
    pub restore_time_ms: SummaryValue,
}

/// The distributions that a server records while it measures. Times are in milliseconds.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Summaries {
    /// The latency of requests without a transaction, from being read to being answered.
    pub read_latency_ms: SummaryValue,
    /// The latency of requests with a transaction.
    pub update_latency_ms: SummaryValue,
    /// How long requests waited for their turn.
    pub queue_time_ms: SummaryValue,
    /// The share of a turn that a request took.
    pub process_time_ms: SummaryValue,
    /// The same of the end of a session; the share is smaller if more sessions end than there are requests.
    pub close_time_ms: SummaryValue,
    /// From the decision of a transaction until it could be shown: on disk, if there is one.
    pub propagation_ms: SummaryValue,
    /// How long a turn took.
    pub turn_ms: SummaryValue,
    /// How many other turns were waiting when one began.
    pub turns_open: SummaryValue,
    /// Connections that got an event of a znode that was created.
    pub created_watchers: SummaryValue,
    /// The same of one that was deleted.
    pub deleted_watchers: SummaryValue,
    /// The same of one whose data was set.
    pub changed_watchers: SummaryValue,
    /// The same of one whose children have changed.
    pub children_watchers: SummaryValue,
    /// Bytes of reads: path, data or names of children, and 68 for the Stat.
    pub read_bytes: ByKey<SummaryValue>,
    /// Bytes of applied writes: path and data.
    pub write_bytes: ByKey<SummaryValue>,
    /// How long a sync of the log took.
    pub sync_ms: SummaryValue,
    /// Transactions that one sync has made durable.
    pub sync_batch: SummaryValue,
    /// How long a transaction waited until the log took it.
    pub log_queue_ms: SummaryValue,
    /// How long a transaction took from its turn until it was on disk.
    pub log_ms: SummaryValue,
    /// How long the log took for a transaction by itself: to write it and to sync.
    pub log_process_ms: SummaryValue,
    /// How long a snapshot took.
    pub snapshot_ms: SummaryValue,
    /// How long the data directory took to load when the server started.
    pub load_ms: SummaryValue,
    /// How many transactions of the log were read then.
    pub loaded_txns: SummaryValue,
}

/// A distribution: what was ever recorded, and the quantiles of the last ten minutes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SummaryValue {
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The lowest; 0 without one.
    pub min: f64,
    /// The highest; 0 without one.
    pub max: f64,
    /// Of the values of the last eight to ten minutes; `None` if there are none.
    pub quantiles: Option<Quantiles>,
}

/// Quantiles, each within one percent of a value that was recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "named like what they are")]
pub struct Quantiles {
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
}

impl SummaryValue {
    /// A single value, which is as recent as the server.
    pub(crate) fn once(value: f64) -> Self {
        let quantiles = Quantiles { p50: value, p90: value, p95: value, p99: value, p999: value };
        Self { count: 1, sum: value, min: value, max: value, quantiles: Some(quantiles) }
    }

    /// Adds a value, which no quantile will show.
    pub fn add(&mut self, value: f64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.sum += value;
        self.count += 1;
    }

    /// The average of all values; 0 without one.
    #[allow(clippy::cast_precision_loss, reason = "an average is not exact")]
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }
}
