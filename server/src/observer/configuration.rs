//! Settings and directories.

use std::net::SocketAddr;

use crate::durable::DirectorySizes;
use crate::shared::Shared;

/// The directories of a server without any.
const IN_MEMORY: &str = "(in memory)";

/// What a server shows of its settings. No secret is among them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerConfiguration {
    /// The port of its first address.
    pub client_port: Option<u16>,
    /// The port of its first address for TLS alone.
    pub secure_client_port: Option<u16>,
    /// Where its data is, and how large that is.
    pub directories: DirectorySizes,
    /// Milliseconds.
    pub tick_time: i32,
    /// Connections that one address may have; 0 for any number.
    pub max_connections_per_ip: usize,
    /// Milliseconds.
    pub min_session_timeout: i32,
    /// Milliseconds.
    pub max_session_timeout: i32,
    /// Connections that may wait to be accepted.
    pub listen_backlog: u32,
}

impl Shared {
    pub(crate) async fn configuration(&self) -> Option<ServerConfiguration> {
        let configuration = self.turns.read(|core| ServerConfiguration {
            client_port: self.addrs.first().map(SocketAddr::port),
            secure_client_port: self.tls_addrs.first().map(SocketAddr::port),
            directories: DirectorySizes::default(),
            tick_time: core.config().tick_time,
            max_connections_per_ip: self.net.max_per_ip,
            min_session_timeout: core.config().min_timeout(),
            max_session_timeout: core.config().max_timeout(),
            listen_backlog: self.net.backlog,
        })?;
        // Only while it serves: the disk of a server that has failed may not answer.
        Some(ServerConfiguration { directories: self.dirs().await, ..configuration })
    }

    /// What the data directory takes. A server in memory has none, and says so: tools that split the lines of `conf` fail on an empty
    /// value.
    pub(crate) async fn dirs(&self) -> DirectorySizes {
        match self.log_and_disk() {
            Some((log, disk)) => log.dirs(disk).await,
            None => DirectorySizes {
                data: IN_MEMORY.to_owned(),
                log: IN_MEMORY.to_owned(),
                ..DirectorySizes::default()
            },
        }
    }
}
