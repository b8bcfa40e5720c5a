//! The metrics of a server for Prometheus, as Apache ZooKeeper's provider writes them, and for the `metrics` facade.

mod java_double;
mod process;
mod prometheus_text;
mod server;

pub use prometheus_text::PrometheusText;
pub use server::{MetricsServer, MetricsServerBuilder};
