//! The HTTP side of a Zoolet server: the commands of ZooKeeper's admin server, metrics, and a page to look at.
//!
//! [`AdminServer::builder`] starts it beside a running server. It is off unless a program asks for it, and listens on the loopback
//! unless told otherwise.

mod commands;
mod error;
mod http;
mod metrics;
mod page;
mod server;

pub use error::AdminError;
pub use metrics::{MetricsServer, MetricsServerBuilder, PrometheusText};
#[cfg(feature = "facade")]
pub use metrics::{describe_metrics, publish_metrics};
pub use server::{AdminServer, AdminServerBuilder};
