//! How the servers that are compared are set up.

use std::time::Duration;

use zoolet::server::{Clock, Server, ServerBuilder};

/// The digest of `super:secret`.
const SUPER: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

/// Ours beside a server with default settings, tickTime 2000 and no limit of connections per address.
pub fn plain() -> ServerBuilder {
    // Containers would vanish in the middle of a long comparison. The other side sweeps after a minute unless configured otherwise
    // (`-Dznode.container.checkIntervalMs`).
    let never = Duration::from_secs(100_000);
    // 2025-12-31: before 2026 zxids begin at 0, as those of the other side do.
    let clock = Clock::tokio().starting_at(Duration::from_secs(1_767_139_200));
    Server::builder()
        .clock(clock)
        .bind("127.0.0.1:0")
        .tick_time(Duration::from_secs(2))
        .max_connections_per_ip(0)
        .container_check_interval(never)
}

/// As [`plain`], beside a server with `reconfigEnabled=true` in its configuration and started with
/// `-Dzookeeper.extendedTypesEnabled=true -Dzookeeper.enforceQuota=true
/// -Dzookeeper.DigestAuthenticationProvider.superDigest=…`, which is [`SUPER`].
pub fn extended() -> ServerBuilder {
    plain().extended_types(true).enforce_quota(true).reconfig_enabled(true).super_digest(SUPER)
}
