//! `zoolet data` as its users see it: its output and its exit codes.

mod dump;
mod log;
mod mistakes;
mod snapshot;
