//! What the word `mntr` and the admin command `monitor` show, in the form of Apache's default provider.

use std::fmt::Display;

use super::family::{MetricKind, MetricValue, families};
use super::snapshot::{ServerMetrics, SummaryValue};
use crate::four_letter_words::java_format::decimal;

/// Families that are doubles in Apache: they print a fraction also if it is 0.
const DOUBLES: [&str; 2] = ["avg_latency", "connection_drop_probability"];

/// The lines of the word `mntr`.
pub(crate) fn mntr(metrics: &ServerMetrics) -> String {
    let lines = monitor_values(metrics).into_iter().map(|(name, value)| format!("zk_{name}\t{value}\n"));
    lines.collect()
}

/// A name and a printed value for each number of each family. Summaries are among them once the server measures: before, they would say
/// that everything takes no time.
pub fn monitor_values(metrics: &ServerMetrics) -> Vec<(String, String)> {
    let mut lines = Lines::default();
    for family in families() {
        let (name, kind) = (family.name, family.kind);
        match family.value(metrics) {
            MetricValue::Number(value) if value.fract() == 0.0 && !DOUBLES.contains(&name) => {
                lines.add("", name, value);
            }
            MetricValue::Number(value) => lines.add("", name, decimal(value)),
            MetricValue::Numbers(values) => {
                values.iter().for_each(|(key, value)| lines.add(&format!("{key}_"), name, value));
            }
            MetricValue::Summary(summary) if metrics.is_measured => lines.summary("", name, kind, summary),
            MetricValue::Summaries(summaries) => {
                summaries
                    .iter()
                    .for_each(|(key, summary)| lines.summary(&format!("{key}_"), name, kind, summary));
            }
            MetricValue::Summary(_) | MetricValue::Unknown => {}
        }
    }
    lines.0
}

#[derive(Default)]
struct Lines(Vec<(String, String)>);

impl Lines {
    fn add(&mut self, prefix: &str, name: &str, value: impl Display) {
        self.0.push((format!("{prefix}{name}"), value.to_string()));
    }

    /// All but the average are whole numbers in Apache, whose times are in whole milliseconds.
    fn summary(&mut self, key: &str, name: &str, kind: MetricKind, summary: &SummaryValue) {
        self.add(&format!("avg_{key}"), name, decimal(summary.average()));
        self.add(&format!("min_{key}"), name, summary.min.floor());
        self.add(&format!("max_{key}"), name, summary.max.floor());
        self.add(&format!("cnt_{key}"), name, summary.count);
        self.add(&format!("sum_{key}"), name, summary.sum.floor());
        if kind == MetricKind::AdvancedSummary {
            let quantiles = summary.quantiles.map_or([0.0; 4], |of| [of.p50, of.p95, of.p99, of.p999]);
            for (quantile, value) in ["p50", "p95", "p99", "p999"].into_iter().zip(quantiles) {
                self.add(&format!("{quantile}_{key}"), name, value.floor());
            }
        }
    }
}
