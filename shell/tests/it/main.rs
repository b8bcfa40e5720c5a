//! The commands against a server in the same process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod bench;
mod common;
mod export;
mod line;
mod lost;
mod read;
mod transfer;
mod transfer_races;
mod wait;
mod watch;
mod write;
mod write_checks;
