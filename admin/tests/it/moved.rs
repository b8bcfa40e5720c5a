//! What operations do to metrics, beside what they do on Apache ZooKeeper 3.9.5.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zoolet_admin::PrometheusText;
use zoolet_server::extension::with_disk;
use zoolet_server::metrics::{ServerMetrics, SummaryValue};
use zoolet_server::{FourLetterWord, ServerBuilder};
use zoolet_simdisk::SimulatedDisk;
use zoolet_test_support::{
    RequestExt, Wire, Zk, add_watch, counted_operations, create, delete, ephemeral, get_data, multi, secs,
    set_data,
};

use crate::scrape::Scrape;

/// What the script of `zoolet_test_support::counted_operations` adds to samples of 3.9.5, as far as it is the same each time: times
/// and lengths of queues are not. `tests/apache/run metrics` compares it with one.
pub const APACHE: &str = include_str!("moved-3.9.5.txt");

/// Samples that this server does not move as 3.9.5 does, and by how much it moves them. `docs/metrics.md` says why.
const OTHERWISE: [(&str, f64); 12] = [
    // There is no throttler, no change record, no stage that hands requests over, and no cache of replies.
    ("connection_token_deficit_count", 0.0),
    ("outstanding_changes_queued", 0.0),
    ("outstanding_changes_removed", 0.0),
    ("proposal_process_time_count", 0.0),
    ("request_throttle_queue_time_ms_count", 0.0),
    ("response_packet_cache_hits", 0.0),
    ("response_packet_cache_misses", 0.0),
    ("response_packet_get_children_cache_misses", 0.0),
    // Reads do not pass the log. It takes all transactions that wait at once.
    ("sync_processor_queue_size_count", 24.0),
    ("sync_processor_queue_time_ms_count", 24.0),
    ("sync_processor_request_queued", 24.0),
    // One more byte of a quota's statistics, which Apache does not count again when it rewrites them.
    ("approximate_data_size", 397.0),
];

/// Families whose values are different each time; of a summary of them the count is not.
const VARYING: [&str; 20] = [
    "avg_latency",
    "max_latency",
    "open_file_descriptor_count",
    "uptime",
    "close_session_prep_time_sum",
    "fsynctime_sum",
    "prep_process_time_sum",
    "prep_processor_queue_size_sum",
    "prep_processor_queue_time_ms_sum",
    "propagation_latency_sum",
    "proposal_process_time_sum",
    "readlatency_sum",
    "request_throttle_queue_time_ms_sum",
    "sync_process_time_sum",
    "sync_processor_queue_and_flush_time_ms_sum",
    "sync_processor_queue_flush_time_ms_sum",
    "sync_processor_queue_size_sum",
    "sync_processor_queue_time_ms_sum",
    "updatelatency_sum",
    "approximate_data_size",
];

/// What was moved, but for what varies and for families of ours.
pub fn comparable<'s>(now: &'s Scrape, before: &Scrape) -> BTreeMap<&'s str, f64> {
    let mut moved = now.since(before);
    moved.retain(|sample, _| !VARYING.contains(sample) && !sample.starts_with("zoolet_"));
    moved
}

pub fn apache() -> BTreeMap<&'static str, f64> {
    let sample = |line: &'static str| {
        let (sample, value) = line.rsplit_once(' ').expect("a value");
        (sample, value.parse().expect("a number"))
    };
    APACHE.lines().map(sample).collect()
}

fn scrape(server: &Zk) -> Scrape {
    Scrape::parse(&PrometheusText::new().without_process().write(&server.metrics()))
}

async fn on_disk() -> Zk {
    let disk = Arc::new(SimulatedDisk::new(1));
    let words = [FourLetterWord::Mntr, FourLetterWord::Srst];
    let settings =
        |settings: ServerBuilder| settings.enforce_quota(true).four_letter_words(words).data_dir("/data");
    Zk::with(|new| with_disk(settings(new), disk)).await
}

#[tokio::test(start_paused = true)]
async fn operations_move_families_as_they_do_on_apache_zookeeper() {
    let server = on_disk().await;
    server.measure();
    let before = scrape(&server);
    counted_operations(async |hello| Wire::open(server.stream(), hello).await).await;
    let after = scrape(&server);
    let mut expected = apache();
    for (sample, value) in OTHERWISE {
        expected.insert(sample, value);
    }
    expected.retain(|sample, value| *value != 0.0 && !VARYING.contains(sample));
    assert_eq!(comparable(&after, &before), expected);
    let size = |scrape: &Scrape| scrape.samples["approximate_data_size"];
    assert_eq!(size(&after) - size(&before), 397.0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_measure_has_counters_and_no_distributions() {
    let server = on_disk().await;
    let before = scrape(&server);
    counted_operations(async |hello| Wire::open(server.stream(), hello).await).await;
    let after = scrape(&server);
    let moved = comparable(&after, &before);
    assert!(
        moved.keys().all(|sample| !sample.ends_with("_sum") && !sample.contains("_per_namespace_")),
        "{moved:?}"
    );
    assert_eq!((moved["packets_received"], moved["response_bytes"]), (44.0, 2463.0));
    let mntr = server.word("mntr").await;
    assert!(!mntr.contains("readlatency") && mntr.contains("zk_response_bytes\t2463\n"), "{mntr}");
}

/// The names are those that 3.9.5 prints with its default provider.
#[tokio::test(start_paused = true)]
async fn mntr_prints_distributions_once_they_are_measured() {
    let server = on_disk().await;
    server.measure();
    counted_operations(async |hello| Wire::open(server.stream(), hello).await).await;
    let mntr = server.word("mntr").await;
    for line in [
        "zk_avg_app_read_per_namespace\t108.8",
        "zk_min_app_read_per_namespace\t75",
        "zk_cnt_app_read_per_namespace\t10",
        "zk_sum_app_read_per_namespace\t1088",
        "zk_max_node_changed_watch_count\t2",
        "zk_cnt_fsynctime\t24",
        "zk_cnt_updatelatency\t24",
        "zk_p50_updatelatency\t0",
        "zk_p999_updatelatency\t0",
        "zk_avg_election_time\t0.0",
        "zk_app_quota_bytes_limit_per_namespace\t100000",
        "zk_missing_quota_exceeded_error_per_namespace\t1",
        "zk_connection_drop_probability\t0.0",
    ] {
        assert!(mntr.lines().any(|printed| printed == line), "{line} in\n{mntr}");
    }
    assert!(!mntr.contains("zk_p50_fsynctime"), "a basic summary has no quantiles");
}

#[tokio::test(start_paused = true)]
async fn names_are_told_apart_up_to_a_limit() {
    let server = Zk::start().await;
    server.measure();
    let mut wire = server.wire().await;
    for at in 0..150 {
        wire.ask(create(&format!("/name-{at:03}"))).await;
        wire.ask(get_data(&format!("/absent-{at:03}"))).await;
    }
    wire.ask(set_data("/name-149", "x")).await;
    let metrics = server.metrics();
    let writes = &metrics.summaries.write_bytes;
    let count = |key: &str| writes.iter().find(|(name, _)| &**name == key).map(|(_, value)| value.count);
    assert_eq!((writes.len(), count("name-099"), count("name-100")), (101, Some(1), None));
    // No znode has a name with a slash.
    assert_eq!(count("/others"), Some(51));
    assert!(metrics.summaries.read_bytes.is_empty(), "what does not exist gets no name");
}

/// A scrape has each name about ten times, and a name may be as long as a request.
#[tokio::test(start_paused = true)]
async fn a_name_of_more_than_256_bytes_is_one_of_the_others() {
    let server = Zk::start().await;
    server.measure();
    let mut wire = server.wire().await;
    let names = [256, 257, 300_000].map(|length| "\"".repeat(length));
    for name in &names {
        wire.ask(create(&format!("/{name}"))).await;
        wire.ask(get_data(&format!("/{name}"))).await;
        for path in [format!("/zookeeper/quota/{name}"), format!("/zookeeper/quota/{name}/zookeeper_limits")]
        {
            wire.ask(create(&path).data("count=1,bytes=-1")).await;
        }
    }
    let metrics = server.metrics();
    let counts = |values: &[(Arc<str>, SummaryValue)]| -> Vec<_> {
        values.iter().map(|(name, value)| (name.to_string(), value.count)).collect()
    };
    let others = "/others".to_owned();
    assert_eq!(counts(&metrics.summaries.read_bytes), [(names[0].clone(), 1), (others.clone(), 2)]);
    let of_writes = counts(&metrics.summaries.write_bytes);
    assert_eq!(of_writes, [(names[0].clone(), 1), (others, 2), ("zookeeper".into(), 6)]);
    assert_eq!(metrics.quotas.count_limit, [(names[0].as_str().into(), 1), ("/others".into(), 2)]);
    assert!(PrometheusText::new().write(&metrics).len() < 100_000);
}

/// A program's recorder keeps each name for ever.
#[tokio::test(start_paused = true)]
async fn names_of_quotas_are_told_apart_up_to_a_limit_however_many_there_were() {
    let server = on_disk().await;
    server.measure();
    let mut wire = server.wire().await;
    let mut keys = BTreeSet::new();
    for round in 0..3 {
        for at in 0..60 {
            let top = format!("/zookeeper/quota/name-{round}-{at:02}");
            wire.ask(create(&format!("/name-{round}-{at:02}"))).await;
            wire.ask(create(&top)).await;
            wire.ask(create(&format!("{top}/zookeeper_limits")).data("count=2,bytes=3")).await;
        }
        let metrics = server.metrics();
        let (quotas, writes) = (&metrics.quotas, &metrics.summaries.write_bytes);
        for values in [&quotas.count_limit, &quotas.count_usage, &quotas.bytes_limit, &quotas.bytes_usage] {
            keys.extend(values.iter().map(|(key, _)| Arc::clone(key)));
        }
        keys.extend(writes.iter().map(|(key, _)| Arc::clone(key)));
        let sum: i64 = quotas.count_limit.iter().map(|(_, limit)| limit).sum();
        assert_eq!((sum, quotas.count_limit.len()), (120, [60, 41, 1][round]));
        for at in 0..60 {
            wire.ask(delete(&format!("/zookeeper/quota/name-{round}-{at:02}/zookeeper_limits"))).await;
        }
        server.word("srst").await;
    }
    // Those of writes begin with the system's own.
    let expected = (0..100).map(|at| format!("name-{}-{:02}", at / 60, at % 60));
    let expected = expected.chain(["/others".to_owned(), "zookeeper".to_owned()]);
    assert_eq!(keys, expected.map(Arc::from).collect());
}

/// They are copied while no request is executed.
#[tokio::test(start_paused = true)]
async fn quotas_count_up_to_a_mebibyte_of_their_paths() {
    let server = on_disk().await;
    let mut wire = server.wire().await;
    for name in ["a", "b", "c"] {
        let top = format!("/zookeeper/quota/{}", name.repeat(400_000));
        wire.ask(create(&top)).await;
        wire.ask(create(&format!("{top}/zookeeper_limits")).data("count=2,bytes=3")).await;
    }
    assert_eq!(server.metrics().quotas.count_limit, [("/others".into(), 4)]);
}

/// Watchers of several kinds are in several lists, and a multi has events of several znodes.
#[tokio::test(start_paused = true)]
async fn an_event_counts_once_with_all_that_get_it() {
    let server = Zk::start().await;
    server.measure();
    let mut wires = [server.wire().await, server.wire().await, server.wire().await];
    for path in ["/a", "/b"] {
        wires[0].ask(create(path)).await;
    }
    wires[0].ask(get_data("/a").watch()).await;
    wires[1].ask(add_watch("/a", 0)).await;
    wires[2].ask(add_watch("/", 1)).await;
    wires[0].ask(get_data("/b").watch()).await;
    let mut writer = server.wire().await;
    writer.ask(multi([set_data("/a", "1"), set_data("/b", "2")])).await;
    let changed = server.metrics().summaries.changed_watchers;
    assert_eq!((changed.count, changed.sum, changed.min, changed.max), (2, 5.0, 2.0, 3.0));
}

#[tokio::test(start_paused = true)]
async fn each_change_of_a_transaction_counts_by_itself() {
    let server = Zk::start().await;
    server.measure();
    let (mut owner, mut writer) = (server.wire().await, server.wire().await);
    owner.ask(create("/m")).await;
    for at in 0..10 {
        owner.ask(ephemeral(&format!("/m/{at}"))).await;
    }
    let mut watchers = [server.wire().await, server.wire().await, server.wire().await];
    for watcher in &mut watchers {
        watcher.ask(add_watch("/m", 0)).await;
    }
    owner.close_session().await;
    let children = server.metrics().summaries.children_watchers;
    assert_eq!((children.count, children.sum, children.min, children.max), (10, 30.0, 3.0, 3.0));
    writer.ask(get_data("/m").watch()).await;
    writer.send(multi([set_data("/m", "1"), set_data("/m", "2")])).await;
    writer.next().await;
    writer.next().await;
    let changed = server.metrics().summaries.changed_watchers;
    assert_eq!((changed.count, changed.sum, changed.min, changed.max), (2, 7.0, 3.0, 4.0));
}

#[tokio::test(start_paused = true)]
async fn a_multi_that_a_quota_refuses_counts_for_the_part_that_exceeds_it() {
    let server = on_disk().await;
    server.measure();
    counted_operations(async |hello| Wire::open(server.stream(), hello).await).await;
    let exceeded = || server.metrics().quota_exceeded;
    assert_eq!(exceeded(), [("missing".into(), 1)]);
    let mut wire = server.wire().await;
    wire.ask(multi([set_data("/app", "x"), set_data("/missing", "more"), create("/other")])).await;
    assert_eq!(exceeded(), [("missing".into(), 2)]);
    wire.ask(multi([set_data("/missing", "x"), create("/app")])).await;
    assert_eq!(exceeded(), [("missing".into(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn quantiles_are_of_the_last_ten_minutes_also_if_nobody_asks_meanwhile() {
    let server = on_disk().await;
    server.measure();
    counted_operations(async |hello| Wire::open(server.stream(), hello).await).await;
    let quantiles = |metrics: &ServerMetrics| {
        let of = &metrics.summaries;
        [&of.update_latency_ms, &of.sync_ms, &of.write_bytes[0].1].map(|summary| summary.quantiles.is_some())
    };
    tokio::time::advance(secs(7 * 60)).await;
    assert_eq!(quantiles(&server.metrics()), [true; 3]);
    tokio::time::advance(secs(4 * 60)).await;
    let metrics = server.metrics();
    assert_eq!(quantiles(&metrics), [false; 3]);
    assert_eq!((metrics.summaries.update_latency_ms.count, metrics.summaries.sync_ms.count), (24, 24));
}

#[tokio::test(start_paused = true)]
async fn srst_forgets_what_was_measured() {
    let server = on_disk().await;
    server.measure();
    counted_operations(async |hello| Wire::open(server.stream(), hello).await).await;
    assert_eq!(server.word("srst").await, "Server stats reset.\n");
    let metrics = server.metrics();
    let log = metrics.log.as_ref().expect("a log");
    assert_eq!((metrics.requests, metrics.response_bytes, metrics.watch_bytes, log.submitted), (0, 0, 0, 0));
    assert_eq!((metrics.summaries.update_latency_ms.count, metrics.summaries.sync_ms.count), (0, 0));
    assert!(metrics.is_measured);
}
