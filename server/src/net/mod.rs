//! Networking: connection tasks, turns that change the state, and bounded queues between them.

pub(crate) mod close;
pub(crate) mod connection;
pub(crate) mod driver;
pub(crate) mod flow;
pub(crate) mod in_process;
pub(crate) mod listener;
pub(crate) mod peer_wait;
pub(crate) mod rate_limited_line;
pub(crate) mod registry;
pub(crate) mod stats;
pub(crate) mod stepper;
pub(crate) mod stream;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod turns;

/// What connections on a port speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortKind {
    Plain,
    #[cfg(feature = "tls")]
    Tls,
    /// Either, by the first bytes.
    #[cfg(feature = "tls")]
    Unified,
}
