//! The client against a server that the tests play.

mod calls;
mod cancel;
mod chroot;
mod clock;
mod common;
mod connection;
mod counters;
mod delete_recursive;
mod identities;
mod last_requests;
mod messages;
mod parents;
mod pending;
mod probe;
mod resume;
mod seed;
mod sessions;
#[cfg(feature = "dns-srv")]
mod srv;
