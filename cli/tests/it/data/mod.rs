//! `zoolet data` as its users see it: its output and its exit codes.

mod copy;
mod dump;
mod inspect;
mod log;
mod mistakes;
mod snapshot;
mod verify;
