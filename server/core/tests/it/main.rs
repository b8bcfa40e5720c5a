//! The state machine without a runtime: inputs in, effects out.

mod access;
mod authentication;
mod checks;
mod common;
mod control;
mod creates;
mod digests;
mod durable_reads;
mod fan_out;
mod hostile;
mod lifetimes;
mod loads;
mod multi;
mod properties;
mod reconcile;
mod recovery;
mod replay;
mod sessions;
mod snapshots;
mod stats;
mod view;
mod watches;
mod zxids;
