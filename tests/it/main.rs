//! Everything together in one process, hermetic: no network but this machine's own, no other program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod authentication;
mod barriers;
mod cache;
mod checker;
mod common;
mod counters;
mod discovery;
mod durable;
mod elections;
mod embedding;
mod endpoints;
mod faults;
mod five_hundred;
mod groups;
mod hostile;
mod inspect;
mod keep_node;
mod limits;
mod listening;
mod locks;
mod ordering;
mod own_thread;
mod partitions;
mod paused;
mod program_ends;
mod queues;
mod random;
mod report;
mod request_fault;
mod resume;
mod secrets;
mod sessions;
mod shared;
mod simulation;
mod stalls;
mod suspension;
mod tap;
mod test_server;
mod tickets;
mod tls;
mod watches;
mod wire;
