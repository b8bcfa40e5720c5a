//! What others ask of the endpoint: each sample that their queries name has to be there.

use zoolet_admin::PrometheusText;
use zoolet_test_support::Zk;

use crate::scrape::Scrape;

/// The queries of the alert rules in Apache's own guide (`zookeeperMonitor.md` of 3.9), and the samples that they need.
const ALERTS: [(&str, &[&str]); 11] = [
    // Prometheus itself has it.
    ("up == 0", &[]),
    ("znode_count > 1000000", &["znode_count"]),
    ("num_alive_connections > 50", &["num_alive_connections"]),
    ("approximate_data_size /1024 /1024 > 1 * 1024", &["approximate_data_size"]),
    ("watch_count > 10000", &["watch_count"]),
    ("increase(election_time_count[5m]) > 0", &["election_time_count"]),
    ("open_file_descriptor_count > 300", &["open_file_descriptor_count"]),
    ("rate(fsynctime_sum[1m]) > 100", &["fsynctime_sum"]),
    ("rate(snapshottime_sum[5m]) > 100", &["snapshottime_sum"]),
    ("avg_latency > 100", &["avg_latency"]),
    ("jvm_memory_bytes_used / jvm_memory_bytes_max{area=\"heap\"} > 0.8", &JVM),
];

/// There is no JVM: `docs/metrics.md` names what to ask for instead.
const JVM: [&str; 2] = ["jvm_memory_bytes_used", "jvm_memory_bytes_max{area=\"heap\",}"];

/// The samples of the dashboard that the guide points to, Grafana's number 10465, and of the alerts that come with it.
const DASHBOARD: [&str; 32] = [
    "approximate_data_size",
    "avg_latency",
    "bytes_received_count",
    "commit_count",
    "connection_drop_count",
    "connection_rejected",
    "election_time{quantile=\"0.5\",}",
    "election_time_count",
    "election_time_sum",
    "ephemerals_count",
    "global_sessions",
    "local_write_committed_time_ms{quantile=\"0.99\",}",
    "local_write_committed_time_ms_count",
    "local_write_committed_time_ms_sum",
    "max_file_descriptor_count",
    "max_latency",
    "min_latency",
    "open_file_descriptor_count",
    "outstanding_requests",
    "packets_received",
    "packets_sent",
    "proposal_count",
    "proposal_latency{quantile=\"0.99\",}",
    "proposal_latency_count",
    "server_write_committed_time_ms{quantile=\"0.99\",}",
    "uptime",
    "znode_count",
    // Of the leader of an ensemble.
    LEADER[0],
    LEADER[1],
    LEADER[2],
    LEADER[3],
    LEADER[4],
];

/// Only the leader of an ensemble has them: a standalone server of Apache does not answer either.
const LEADER: [&str; 5] =
    ["leader_uptime", "learners", "quorum_size", "synced_followers", "synced_observers"];

/// Families of 3.9.5 without a JVM's, which tell what a standalone server of Apache answers.
fn is_of_standalone_apache(sample: &str) -> bool {
    let name = sample.split('{').next().expect("a name");
    let families = crate::families::APACHE.lines().filter_map(|line| line.split(' ').next());
    let mut stems = [name, name.trim_end_matches("_count"), name.trim_end_matches("_sum")].into_iter();
    let families: Vec<_> = families.collect();
    stems.any(|stem| families.contains(&stem))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn every_query_of_the_monitoring_guide_and_of_its_dashboard_gets_an_answer() {
    let server = Zk::start().await;
    server.measure();
    let scrape = Scrape::parse(&PrometheusText::new().write(&server.metrics()));
    let asked = ALERTS.iter().flat_map(|(_, samples)| samples.iter()).chain(&DASHBOARD);
    let missing: Vec<_> = asked.filter(|sample| !scrape.samples.contains_key(**sample)).copied().collect();
    let expected: Vec<_> = JVM.into_iter().chain(LEADER).collect();
    assert_eq!(missing, expected);
    assert!(!LEADER.into_iter().any(is_of_standalone_apache), "Apache alone answers these");
    assert!(DASHBOARD.into_iter().filter(|sample| !LEADER.contains(sample)).all(is_of_standalone_apache));
    // What an operator looks at instead of a heap.
    assert!(scrape.samples["process_resident_memory_bytes"] > 0.0);
}
