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
#[cfg(unix)]
mod deployments;
mod durable;
mod health;
mod logging;
mod packaging;
mod relay;
mod secure;
mod serve;
mod settings;
mod shell;
mod shell_address;
mod shell_secure;
