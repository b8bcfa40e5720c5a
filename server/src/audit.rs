//! The audit lines of the server itself; `zoolet-server-core` has those of requests.

use std::env;
use std::sync::Arc;

/// The user that the process runs as, who does what no client has asked for.
pub(crate) fn own_user() -> Arc<str> {
    let user =
        ["USER", "LOGNAME"].iter().find_map(|name| env::var(name).ok().filter(|user| !user.is_empty()));
    // As in a container, where no variable says so.
    user.map_or_else(|| "zoolet".into(), Arc::from)
}

/// The server has started.
pub(crate) fn started(user: &str) {
    tracing::info!(target: "audit", user, operation = "serverStart", result = "success");
}

/// The server is stopped.
pub(crate) fn stopped(user: &str) {
    tracing::info!(target: "audit", user, operation = "serverStop", result = "invoked");
}
