//! The records of the protocol, one file for each family. Each implements [`Jute`](crate::Jute).

mod auth;
mod connect;
mod data;
mod multi;
mod watch;

pub use auth::*;
pub use connect::*;
pub use data::*;
pub use multi::*;
pub use watch::*;
