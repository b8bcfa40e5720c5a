//! What is recovered from a data directory, whole and damaged.

mod beginning;
mod damage;
mod missing_log;
mod opening;
pub(crate) mod scene;
pub(crate) mod support;
