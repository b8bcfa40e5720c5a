//! Flow control: what bounds a connection, and who wakes whom.

pub(crate) mod budget;
pub(crate) mod buffer;
pub(crate) mod cost;
pub(crate) mod event_runs;
pub(crate) mod outbox;
#[cfg(test)]
mod outbox_tests;
pub(crate) mod send_queue;
pub(crate) mod window;
