//! What is recovered from a data directory, whole and damaged.

mod opening;
mod support;
