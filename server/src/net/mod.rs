//! Networking: connections on one side, the turns that change the state on the other, bounded queues between them.

pub(crate) mod admin;
pub(crate) mod connection;
pub(crate) mod driver;
pub(crate) mod farewell;
pub(crate) mod in_process;
pub(crate) mod java;
pub(crate) mod listener;
pub(crate) mod outbox;
pub(crate) mod registry;
pub(crate) mod stats;
pub(crate) mod stream;
pub(crate) mod weight;
