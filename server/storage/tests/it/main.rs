//! The tests of the crate through its public interface.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod log;
mod recovery;
mod snapshot;
#[cfg(target_os = "linux")]
mod syscalls;
mod tools;
