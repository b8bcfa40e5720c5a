//! [`PrometheusText`]: the text that Prometheus scrapes, byte for byte in the form of Apache ZooKeeper's provider (simpleclient's
//! `TextFormat.write004`).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use zoolet_server::metrics::{MetricKind, MetricValue, ServerMetrics, SummaryValue, families};

use super::java_double::JavaDouble;
use super::process::process_families;

/// Writes metrics as text for Prometheus.
///
/// ```
/// use zoolet_admin::PrometheusText;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), zoolet_server::StartError> {
/// let server = zoolet_server::Server::builder().start().await?;
/// let text = PrometheusText::new().only(["znode_count"]).write(&server.metrics());
/// assert_eq!(text, "# HELP znode_count znode_count\n# TYPE znode_count gauge\nznode_count 5.0\n");
/// # server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct PrometheusText {
    /// The samples to write; all if there is no set.
    only: Option<BTreeSet<String>>,
    without_process: bool,
}

impl PrometheusText {
    /// The content type of the text.
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// All families.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes only samples of these names, such as `fsynctime_sum`: `name[]` in the query of a scrape.
    pub fn only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.only = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Leaves out what is of the process and not of the server, as `metricsProvider.exportJvmInfo=false` does: a program that publishes
    /// it already has one.
    pub fn without_process(mut self) -> Self {
        self.without_process = true;
        self
    }

    /// The text.
    pub fn write(&self, metrics: &ServerMetrics) -> String {
        let mut out = Out { name: "", only: self.only.as_ref(), text: String::with_capacity(32 << 10) };
        for family in families() {
            // Apache's families have no help but their name.
            let help = if family.is_of_apache() { family.name } else { family.help };
            let quantiles = match family.kind {
                MetricKind::AdvancedSummary => &QUANTILES[..],
                _ => &QUANTILES[..1],
            };
            out.family(family.name, family.kind, help, |out| match family.value(metrics) {
                MetricValue::Number(value) => out.add("", "", value),
                MetricValue::Numbers(values) => {
                    values.iter().for_each(|(key, value)| out.add("", &key_label(key), *value as f64));
                }
                MetricValue::Summary(summary) => out.summary("", quantiles, summary),
                MetricValue::Summaries(summaries) => {
                    summaries.iter().for_each(|(key, value)| out.summary(&key_label(key), quantiles, value));
                }
                MetricValue::Unknown => {}
            });
        }
        if !self.without_process {
            for family in process_families(metrics) {
                out.family(family.name, family.kind, family.help, |out| out.add("", "", family.value));
            }
        }
        out.text
    }
}

/// As Apache publishes them. The first alone is that of a basic summary.
const QUANTILES: [&str; 3] = ["0.5", "0.9", "0.99"];

/// With a comma after each label, like simpleclient.
fn key_label(key: &str) -> String {
    format!("key=\"{}\",", key.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

struct Out<'o> {
    /// The family that is being written.
    name: &'static str,
    only: Option<&'o BTreeSet<String>>,
    text: String,
}

impl Out<'_> {
    fn family(&mut self, name: &'static str, kind: MetricKind, help: &str, write: impl FnOnce(&mut Self)) {
        self.name = name;
        let begin = self.text.len();
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // A string takes everything.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.prometheus_name());
        let before = self.text.len();
        write(self);
        // A family of which no sample was asked for is left out, and one that has none is not.
        if self.only.is_some() && self.text.len() == before {
            self.text.truncate(begin);
        }
    }

    fn add(&mut self, suffix: &str, labels: &str, value: f64) {
        let name = format!("{}{suffix}", self.name);
        if self.only.is_some_and(|only| !only.contains(&name)) {
            return;
        }
        let _ = match labels {
            "" => writeln!(self.text, "{name} {}", JavaDouble(value)),
            _ => writeln!(self.text, "{name}{{{labels}}} {}", JavaDouble(value)),
        };
    }

    fn summary(&mut self, key: &str, quantiles: &[&str], summary: &SummaryValue) {
        let values = summary.quantiles.map_or([f64::NAN; 3], |of| [of.p50, of.p90, of.p99]);
        for (quantile, value) in quantiles.iter().zip(values) {
            self.add("", &format!("{key}quantile=\"{quantile}\","), value);
        }
        // Prometheus has doubles only.
        self.add("_count", key, summary.count as f64);
        self.add("_sum", key, summary.sum);
    }
}
