//! The binary as it is run: files, flags, signals.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod audit;
mod capture;
mod common;
mod conform;
mod conform_client;
mod conform_failing;
mod conform_hostile;
mod conform_undecided;
mod data;
#[cfg(all(unix, feature = "tls", feature = "admin"))]
mod deployments;
mod durable;
mod health;
mod logging;
mod packaging;
#[cfg(feature = "tls")]
mod relay;
#[cfg(all(feature = "tls", feature = "admin"))]
mod secure;
mod serve;
mod settings;
#[cfg(feature = "shell")]
mod shell;
#[cfg(feature = "shell")]
mod shell_address;
#[cfg(all(feature = "shell", feature = "tls"))]
mod shell_secure;
