//! The recipes against a server in the same process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod algorithms;
mod barriers;
mod callers;
mod clock;
mod common;
mod counter;
mod dropped;
mod errors;
mod family;
mod faults;
mod lock;
mod others;
mod races;
mod read_only;
mod room;
mod rw_lock;
mod seed;
mod semaphore;
mod tickets;
mod tickets_collected;
mod tickets_in_doubt;
mod tickets_outside;
