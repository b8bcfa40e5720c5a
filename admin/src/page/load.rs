//! The server in figures. The page keeps the history and computes rates.

use serde_json::json;
use zoolet_server::Observer;

use super::answer::{ApiError, ApiResult};
use super::visible::Reader;
use crate::http::HttpRequest;

/// What does not change: the release, and what the page may do.
pub(super) async fn server(reader: &Reader<'_>, is_writable: bool) -> ApiResult {
    let summary = reader.observer.summary().await.ok_or_else(ApiError::stopped)?;
    let version = summary.version.split(',').next().unwrap_or_default();
    let peer = format!("ip:{}", reader.peer.ip());
    let identities: Vec<_> =
        reader.user().map(|user| format!("digest:{user}")).into_iter().chain([peer]).collect();
    Ok(json!({ "version": version, "writable": is_writable, "identities": identities }))
}

/// Counters and states. With the argument `measure` the server records the times of its syncs from now on.
pub(super) async fn load(observer: &Observer, request: &HttpRequest) -> ApiResult {
    if request.argument("measure").is_some() {
        observer.measure();
    }
    let load = observer.load().await.ok_or_else(ApiError::stopped)?;
    let metrics = load.metrics;
    let log = metrics.log.as_ref().map(|log| json!({ "queued": log.queued }));
    let sync = &metrics.summaries.sync_ms;
    Ok(json!({
        "now": load.now.0,
        "started": load.started.0,
        "zxid": metrics.zxid.to_string(),
        // A real server counts the root twice.
        "znodes": metrics.znodes - 1,
        "sessions": metrics.sessions,
        "connections": metrics.connections,
        "watches": metrics.watches,
        "outstanding": metrics.outstanding_requests,
        "handled": load.answered,
        "latency_micros": load.answered_micros,
        "bytes_received": metrics.bytes_received,
        "log": log,
        // Recorded only while the server measures.
        "syncs": metrics.is_measured.then_some(sync.count),
        "sync_ms": metrics.is_measured.then_some(sync.sum),
    }))
}
