//! Sessions and their ephemerals.

use std::sync::Arc;

use zoolet_proto::SessionId;
use zoolet_server_core::{ConnId, Core, Millis};

use crate::net::flow::limits::LISTED;
use crate::shared::Shared;

/// A session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedSession {
    /// Its id.
    pub id: SessionId,
    /// Its timeout in milliseconds.
    pub timeout: i32,
    /// When it expires unless its client sends something, in milliseconds since 1970.
    pub deadline: Millis,
    /// The connection that it is attached to.
    pub conn: Option<ConnId>,
}

impl Shared {
    pub(crate) async fn sessions(&self) -> Option<Vec<ObservedSession>> {
        // In one turn, as they move with every request: each is four words.
        self.read_later(0, |core| {
            let session = |view: zoolet_server_core::SessionView| ObservedSession {
                id: view.id,
                timeout: view.timeout,
                deadline: view.deadline,
                conn: view.conn,
            };
            core.sessions().iter().map(session).collect()
        })
        .await
    }

    pub(crate) async fn ephemerals(&self) -> Option<Vec<(SessionId, Vec<Arc<str>>)>> {
        let owners = self.read_later(0, |core| core.tree().owners()).await?;
        let mut ephemerals = Vec::with_capacity(owners.len());
        for owner in owners {
            let mut paths: Vec<Arc<str>> = Vec::new();
            loop {
                let after = paths.last().cloned();
                let slice = move |core: &Core| -> Vec<_> {
                    core.tree().ephemerals_after(owner, after.as_deref()).take(LISTED).cloned().collect()
                };
                let slice = self.act_later(move |engine, _| slice(engine.bus.core())).await?;
                let more = slice.len() == LISTED;
                paths.extend(slice);
                if !more {
                    break;
                }
            }
            ephemerals.push((owner, paths));
        }
        Some(ephemerals)
    }
}
