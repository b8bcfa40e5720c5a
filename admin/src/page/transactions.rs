//! The transactions as they come, by long poll.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use zoolet_proto::{SessionId, Zxid};
use zoolet_server::{RecentTxn, RecentTxns, TxnStep};
use zoolet_server_core::{Core, Viewer};

use super::answer::{ApiError, ApiResult};
use super::visible::{Reader, hex_of, may_know};
use crate::http::HttpRequest;

/// How long a request waits for a transaction: less than the idle timeout of browsers and proxies.
const WAIT: Duration = Duration::from_secs(20);
/// Transactions of one answer: each has up to eight paths.
const AT_ONCE: usize = 500;

/// What a reader wants to see.
#[derive(Debug, Default)]
struct Filter {
    path: String,
    session: Option<SessionId>,
    kind: Option<String>,
}

/// The transactions after a zxid that pass the filter. Waits for the next one; the answer may be empty.
pub(super) async fn transactions(reader: &Reader<'_>, request: &HttpRequest) -> ApiResult {
    let given = |name| request.argument(name).filter(|value| !value.is_empty());
    let filter = Filter {
        path: given("path").unwrap_or_default().to_owned(),
        session: given("session").map(|id| hex_of(id).map(SessionId)).transpose()?,
        kind: given("kind").map(str::to_owned),
    };
    let after = given("after").map(|zxid| hex_of(zxid).map(Zxid)).transpose()?;
    let Ok(recent) = timeout(WAIT, reader.observer.transactions(after, AT_ONCE)).await else {
        let last = after.unwrap_or_default().to_string();
        return Ok(json!({ "transactions": [], "last": last, "missed": false }));
    };
    let RecentTxns { txns, last, missed, .. } = recent.ok_or_else(ApiError::stopped)?;
    let known = |core: &Core, viewer: &Viewer, path: Option<Arc<str>>| {
        path.is_none_or(|path| may_know(core, viewer, &path))
    };
    // Clients are served between two paths, and not only between two transactions.
    let paths = txns.iter().flat_map(|txn| &txn.steps).map(|step| step.path.clone()).collect();
    let known = reader.look_at_each(paths, known).await?;
    let mut rest = &known[..];
    let passing = txns.iter().filter_map(|txn| {
        let (known, others) = rest.split_at(txn.steps.len());
        rest = others;
        filter.passes(txn, known).then(|| shown(txn, known))
    });
    let rows: Vec<Value> = passing.collect();
    Ok(json!({ "transactions": rows, "last": last.to_string(), "missed": missed }))
}

impl Filter {
    /// Whether a transaction is wanted. By a path that its reader may not know of, none is found.
    fn passes(&self, txn: &RecentTxn, known: &[bool]) -> bool {
        let path = self.path.is_empty()
            || txn.steps.iter().zip(known).any(|(step, known)| {
                *known && step.path.as_deref().is_some_and(|path| path.starts_with(&self.path))
            });
        path && self.session.is_none_or(|session| session == txn.session)
            && self.kind.as_deref().is_none_or(|kind| kind == txn.kind)
    }
}

fn shown(txn: &RecentTxn, known: &[bool]) -> Value {
    let step = |(step, known): (&TxnStep, &bool)| {
        let path = step.path.as_deref().filter(|_| *known);
        // Of a path that was too long to keep, nobody knows who may know of it.
        json!({ "kind": step.kind, "path": path, "length": path.and(step.data_len), "hidden": !known })
    };
    json!({
        "zxid": txn.zxid.to_string(),
        "session": txn.session.to_string(),
        "time": txn.time.0,
        "kind": txn.kind,
        "error": txn.error.map(|code| format!("{code:?}")),
        "steps": txn.steps.iter().zip(known).map(step).collect::<Vec<_>>(),
        "length": txn.steps_in_all,
    })
}
