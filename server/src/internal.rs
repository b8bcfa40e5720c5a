//! What `zoolet-admin` needs beyond the public API. Exempt from semantic versioning.

pub use crate::net::listener::bind_first;
pub use crate::net::peer_wait::PeerWait;
pub use crate::net::stepper::Stepper;
