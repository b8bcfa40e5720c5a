//! TLS for a ZooKeeper server and its clients, on rustls: where keys and certificates come from, who is trusted, and the names in
//! certificates.
//!
//! [`ServerTls`] and [`ClientTls`] are settings; [`TlsSettings::load`] makes a configuration of rustls from them, and [`LiveTls`] one
//! that follows its files. Keys and certificates are in a [`Store`]. [`subject`] is the name in a certificate as ZooKeeper writes it.
//!
//! The cryptography is ring's: it needs a C compiler alone, also for a static binary. There is no global state.

mod client;
mod der;
mod error;
mod key;
mod live;
mod protocols;
mod roots;
mod server;
mod store;
mod subject;
mod verify;

pub use client::ClientTls;
pub use error::TlsError;
pub use live::{LiveTls, TlsSettings};
pub use protocols::{CipherSuites, ClientAuth, Protocols};
pub use rustls;
pub use server::ServerTls;
pub use store::{Store, StoreKind};
pub use subject::subject;
pub use tokio_rustls;
