//! What is recovered from a data directory, whole and damaged.

mod damage;
mod opening;
mod scene;
mod support;
