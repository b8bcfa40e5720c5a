//! The families of Apache ZooKeeper that do not move on this server: dashboards ask for them, and get 0 or an empty summary.

use super::family::{MetricFamily, MetricKind, MetricValue};
use super::snapshot::SummaryValue;

const ENSEMBLE: &str = "Of ensembles.";
const NO_CACHE: &str = "There is no cache of replies.";
const NO_CLEANER: &str = "Watches of closed connections are dropped at once.";
const NO_DOUBT: &str =
    "A wrong digest is noticed when a directory is loaded: refused, or a warning if Apache wrote it.";
const NO_LOCAL: &str = "Every session is global.";
const NO_STAGES: &str = "A request is decided and applied in one step.";
const NO_THROTTLER: &str = "There is no request or connection throttler.";
const NEVER: &str = "Has no counterpart.";

static EMPTY: SummaryValue = SummaryValue { count: 0, sum: 0.0, min: 0.0, max: 0.0, quantiles: None };

macro_rules! unmoved {
    ($($kind:ident $name:ident $([$key:ident])? = $why:ident;)*) => {
        &[$(MetricFamily {
            name: stringify!($name),
            kind: MetricKind::$kind,
            has_keys: !concat!($(stringify!($key))?).is_empty(),
            help: $why,
            read: unmoved!(@read $kind $($key)?),
        }),*]
    };
    (@read Counter) => { |_| MetricValue::Number(0.0) };
    (@read Gauge) => { |_| MetricValue::Number(0.0) };
    (@read $summary:ident) => { |_| MetricValue::Summary(&EMPTY) };
    (@read $summary:ident key) => { |_| MetricValue::Summaries(&[]) };
}

pub(super) const UNMOVED: &[MetricFamily] = unmoved! {
    AdvancedSummary ack_latency [key] = ENSEMBLE;
    Counter add_dead_watcher_stall_time = NO_CLEANER;
    Counter cnxn_closed_without_zk_server_running = NEVER;
    BasicSummary commit_commit_proc_req_queued = ENSEMBLE;
    Counter commit_count = ENSEMBLE;
    BasicSummary commit_process_time = ENSEMBLE;
    AdvancedSummary commit_propagation_latency = ENSEMBLE;
    BasicSummary concurrent_request_processing_in_commit_processor = ENSEMBLE;
    Gauge connection_drop_probability = NO_THROTTLER;
    BasicSummary connection_token_deficit = NO_THROTTLER;
    AdvancedSummary dead_watchers_cleaner_latency = NO_CLEANER;
    Counter dead_watchers_cleared = NO_CLEANER;
    Counter dead_watchers_queued = NO_CLEANER;
    Counter diff_count = ENSEMBLE;
    Counter digest_mismatches_count = NO_DOUBT;
    BasicSummary election_time = ENSEMBLE;
    Counter ensemble_auth_fail = ENSEMBLE;
    Counter ensemble_auth_skip = ENSEMBLE;
    Counter ensemble_auth_success = ENSEMBLE;
    BasicSummary follower_sync_time = ENSEMBLE;
    BasicSummary inflight_diff_count = ENSEMBLE;
    BasicSummary inflight_snap_count = ENSEMBLE;
    AdvancedSummary jvm_pause_time_ms = NEVER;
    Counter large_requests_rejected = NEVER;
    BasicSummary leader_unavailable_time = ENSEMBLE;
    Counter learner_commit_received_count = ENSEMBLE;
    BasicSummary learner_handler_qp_size [key] = ENSEMBLE;
    AdvancedSummary learner_handler_qp_time_ms [key] = ENSEMBLE;
    Counter learner_proposal_received_count = ENSEMBLE;
    BasicSummary learner_request_processor_queue_size = ENSEMBLE;
    Gauge local_sessions = NO_LOCAL;
    AdvancedSummary local_write_committed_time_ms = ENSEMBLE;
    Counter looking_count = ENSEMBLE;
    BasicSummary netty_queued_buffer_capacity = NEVER;
    Gauge non_mtls_local_conn_count = NEVER;
    Gauge non_mtls_remote_conn_count = NEVER;
    BasicSummary observer_sync_time = ENSEMBLE;
    AdvancedSummary om_commit_process_time_ms = ENSEMBLE;
    AdvancedSummary om_proposal_process_time_ms = ENSEMBLE;
    Counter outstanding_changes_queued = NO_STAGES;
    Counter outstanding_changes_removed = NO_STAGES;
    BasicSummary pending_session_queue_size = ENSEMBLE;
    AdvancedSummary proposal_ack_creation_latency = ENSEMBLE;
    Counter proposal_count = ENSEMBLE;
    AdvancedSummary proposal_latency = ENSEMBLE;
    BasicSummary proposal_process_time = NO_STAGES;
    Counter quit_leading_due_to_disloyal_voter = ENSEMBLE;
    AdvancedSummary quorum_ack_latency = ENSEMBLE;
    BasicSummary read_commit_proc_issued = ENSEMBLE;
    BasicSummary read_commit_proc_req_queued = ENSEMBLE;
    AdvancedSummary read_commitproc_time_ms = ENSEMBLE;
    AdvancedSummary read_final_proc_time_ms = ENSEMBLE;
    BasicSummary reads_after_write_in_session_queue = ENSEMBLE;
    BasicSummary reads_issued_from_session_queue = ENSEMBLE;
    Counter request_commit_queued = ENSEMBLE;
    AdvancedSummary request_throttle_queue_time_ms = NO_THROTTLER;
    Counter request_throttle_wait_count = NO_THROTTLER;
    BasicSummary requests_in_session_queue = ENSEMBLE;
    Counter requests_not_forwarded_to_commit_processor = ENSEMBLE;
    Counter response_packet_cache_hits = NO_CACHE;
    Counter response_packet_cache_misses = NO_CACHE;
    Counter response_packet_get_children_cache_hits = NO_CACHE;
    Counter response_packet_get_children_cache_misses = NO_CACHE;
    Counter revalidate_count = ENSEMBLE;
    AdvancedSummary server_write_committed_time_ms = ENSEMBLE;
    BasicSummary session_queues_drained = ENSEMBLE;
    Counter skip_learner_request_to_next_processor_count = ENSEMBLE;
    Counter snap_count = ENSEMBLE;
    BasicSummary socket_closing_time = ENSEMBLE;
    Counter stale_replies = NEVER;
    BasicSummary startup_txns_load_time = NEVER;
    Counter throttled_ops = NO_THROTTLER;
    BasicSummary time_waiting_empty_pool_in_commit_processor_read_ms = ENSEMBLE;
    BasicSummary unavailable_time = ENSEMBLE;
    BasicSummary write_batch_time_in_commit_processor = ENSEMBLE;
    BasicSummary write_commit_proc_issued = ENSEMBLE;
    BasicSummary write_commit_proc_req_queued = ENSEMBLE;
    AdvancedSummary write_commitproc_time_ms = ENSEMBLE;
    AdvancedSummary write_final_proc_time_ms = ENSEMBLE;
};
