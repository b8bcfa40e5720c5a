//! What a server measures: a snapshot that a program reads, and the table of metric families that every text is made of.
//!
//! [`Server::metrics`](crate::Server::metrics) takes the snapshot. Counters and gauges are always there. Summaries, such as the
//! latencies and the times of syncs, are recorded from the first call of `Server::measure`, which the feature `metrics` brings; before,
//! they are empty and cost nothing.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), zoolet_server::StartError> {
//! use zoolet_server::metrics::{MetricValue, families};
//!
//! let server = zoolet_server::Server::builder().start().await?;
//! let metrics = server.metrics();
//! println!("{} znodes, {} packets", metrics.znodes, metrics.packets_received);
//! for family in families() {
//!     if let MetricValue::Number(value) = family.value(&metrics) {
//!         println!("{} {value}", family.name);
//!     }
//! }
//! # server.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod collect;
mod distribution;
mod family;
mod keys;
mod measures;
mod mntr;
mod snapshot;
mod unmoved;

pub use crate::four_letter_words::java_format::decimal;
pub use family::{MetricFamily, MetricKind, MetricValue, families};
pub(crate) use keys::KeyNames;
pub(crate) use measures::{LogMeasures, Measures};
pub(crate) use mntr::mntr;
pub use mntr::monitor_values;
pub use snapshot::{
    AdminCounts, ByKey, LogMetrics, Quantiles, QuotaMetrics, ResponseSize, ServerMetrics, Summaries,
    SummaryValue,
};
