//! The metrics of a server for Prometheus, as Apache ZooKeeper's provider writes them, and for the `metrics` facade.

#[cfg(feature = "facade")]
mod facade;
mod java_double;
mod process;
mod prometheus_text;
mod server;

#[cfg(feature = "facade")]
pub use facade::{describe_metrics, publish_metrics};
pub use prometheus_text::PrometheusText;
pub use server::{MetricsServer, MetricsServerBuilder};
