//! The `metrics` facade: the families of a server in the recorder of the program around it.

use metrics::{Key, KeyName, Label, Level, Metadata, Recorder};
use zoolet_server::metrics::{MetricFamily, MetricKind, MetricValue, ServerMetrics, SummaryValue, families};

const METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Tells a recorder what the families are. Once is enough.
pub fn describe_metrics(recorder: &dyn Recorder) {
    for family in families() {
        let describe = |name: String, is_counter: bool| match is_counter {
            true => recorder.describe_counter(KeyName::from(name), None, family.help.into()),
            false => recorder.describe_gauge(KeyName::from(name), None, family.help.into()),
        };
        describe(name(family), family.kind == MetricKind::Counter);
        if matches!(family.kind, MetricKind::BasicSummary | MetricKind::AdvancedSummary) {
            describe(format!("{}_count", name(family)), true);
            describe(format!("{}_sum", name(family)), false);
        }
    }
}

/// Gives the values of a server to a recorder, such as that of an exporter that the program has; call it as often as they are to be
/// fresh. Families of Apache ZooKeeper get the prefix `zk_`, as in `mntr`, as `uptime` would say nothing in the registry of another
/// program.
///
/// The facade has no summaries whose values are known already. Of one there are a gauge with the label `quantile`, a counter with the
/// suffix `_count`, and a gauge with the suffix `_sum`.
pub fn publish_metrics(values: &ServerMetrics, recorder: &dyn Recorder) {
    for family in families() {
        let out = Out { name: name(family), recorder };
        match family.value(values) {
            MetricValue::Number(value) => out.number(family.kind, Vec::new(), value),
            MetricValue::Numbers(values) => {
                values.iter().for_each(|(key, value)| out.number(family.kind, key_label(key), *value as f64));
            }
            MetricValue::Summary(summary) => out.summary(Vec::new(), summary),
            MetricValue::Summaries(all) => {
                all.iter().for_each(|(key, value)| out.summary(key_label(key), value))
            }
            MetricValue::Unknown => {}
        }
    }
}

fn name(family: &MetricFamily) -> String {
    if family.is_of_apache() { format!("zk_{}", family.name) } else { family.name.to_owned() }
}

fn key_label(key: &str) -> Vec<Label> {
    vec![Label::new("key", key.to_owned())]
}

struct Out<'r> {
    name: String,
    recorder: &'r dyn Recorder,
}

impl Out<'_> {
    fn number(&self, kind: MetricKind, labels: Vec<Label>, value: f64) {
        match kind {
            MetricKind::Counter => self.counter("", labels, value as u64),
            _ => self.gauge("", labels, value),
        }
    }

    fn summary(&self, labels: Vec<Label>, summary: &SummaryValue) {
        if let Some(of) = summary.quantiles {
            for (quantile, value) in
                [("0.5", of.p50), ("0.9", of.p90), ("0.95", of.p95), ("0.99", of.p99), ("0.999", of.p999)]
            {
                let quantile = Label::from_static_parts("quantile", quantile);
                self.gauge("", labels.iter().cloned().chain([quantile]).collect(), value);
            }
        }
        self.counter("_count", labels.clone(), summary.count);
        self.gauge("_sum", labels, summary.sum);
    }

    fn counter(&self, suffix: &str, labels: Vec<Label>, value: u64) {
        let key = Key::from_parts(format!("{}{suffix}", self.name), labels);
        self.recorder.register_counter(&key, &METADATA).absolute(value);
    }

    fn gauge(&self, suffix: &str, labels: Vec<Label>, value: f64) {
        let key = Key::from_parts(format!("{}{suffix}", self.name), labels);
        self.recorder.register_gauge(&key, &METADATA).set(value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};

    use metrics::{Counter, Gauge, Histogram, SharedString, Unit};
    use zoolet_test_support::{Zk, create, get_data};

    use super::*;

    /// Keeps what it gets, by name and labels.
    #[derive(Default)]
    struct Kept {
        counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
        gauges: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
        described: Mutex<BTreeMap<String, String>>,
    }

    fn place(map: &Mutex<BTreeMap<String, Arc<AtomicU64>>>, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(map.lock().expect("a map").entry(name).or_default())
    }

    impl Recorder for Kept {
        fn describe_counter(&self, key: KeyName, _: Option<Unit>, text: SharedString) {
            self.described.lock().expect("a map").insert(key.as_str().to_owned(), text.into_owned());
        }

        fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
            self.describe_counter(key, unit, text);
        }

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
            panic!("there are none");
        }

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(place(&self.counters, key))
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(place(&self.gauges, key))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            panic!("there are none");
        }
    }

    impl Kept {
        fn counter(&self, name: &str) -> u64 {
            self.counters.lock().expect("a map")[name].load(Relaxed)
        }

        fn gauge(&self, name: &str) -> f64 {
            f64::from_bits(self.gauges.lock().expect("a map")[name].load(Relaxed))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_finds_the_families_in_its_own_recorder() {
        let (server, kept) = (Zk::start().await, Kept::default());
        server.measure();
        let mut wire = server.wire().await;
        wire.ask(create("/app")).await;
        wire.ask(get_data("/app")).await;
        describe_metrics(&kept);
        publish_metrics(&server.metrics(), &kept);
        assert_eq!(kept.gauge("zk_znode_count{}"), 6.0);
        assert_eq!(kept.counter("zk_connection_request_count{}"), 1);
        assert_eq!(kept.counter("zk_read_per_namespace_count{key=app}"), 1);
        assert_eq!(kept.gauge("zk_read_per_namespace_sum{key=app}"), 72.0);
        assert_eq!(kept.gauge("zk_read_per_namespace{key=app,quantile=0.99}"), 72.0);
        assert_eq!(kept.gauge("zoolet_in_process_connections{}"), 1.0);
        wire.ask(get_data("/app")).await;
        publish_metrics(&server.metrics(), &kept);
        assert_eq!(kept.counter("zk_readlatency_count{}"), 2);
        let described = kept.described.lock().expect("a map");
        let is_described = |name: &String| {
            let name = name.split('{').next().expect("a name");
            described.get(name).is_some_and(|text| text.ends_with('.'))
        };
        let (counters, gauges) = (kept.counters.lock().expect("a map"), kept.gauges.lock().expect("a map"));
        let undescribed: Vec<_> =
            counters.keys().chain(gauges.keys()).filter(|name| !is_described(name)).collect();
        assert_eq!(undescribed, [""; 0]);
    }
}
