//! The state machine without a runtime: inputs in, effects out.

mod access;
mod checks;
mod common;
mod control;
mod creates;
mod ensemble;
mod ensemble_random;
mod hostile;
mod lifetimes;
mod multi;
mod partitions;
mod properties;
mod reconcile;
mod replay;
mod sessions;
mod stats;
mod watches;
mod zxids;
