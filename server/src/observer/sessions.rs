//! Sessions and their ephemerals.

use std::sync::Arc;

use zoolet_proto::SessionId;
use zoolet_server_core::SessionView;

use crate::engine::Engine;
use crate::net::flow::limits::LISTED;
use crate::shared::Shared;

impl Shared {
    pub(crate) async fn sessions(&self) -> Option<Vec<SessionView>> {
        // In one turn, as they move with every request: each is four words. They are sorted after it.
        let copied = self.read_later(0, |core| core.sessions().unsorted().collect::<Vec<_>>()).await;
        let mut sessions = copied?;
        sessions.sort_unstable_by_key(|session| (session.deadline, session.id));
        Some(sessions)
    }

    pub(crate) async fn ephemerals(&self) -> Option<Vec<(SessionId, Vec<Arc<str>>)>> {
        let owners = self.read_later(0, |core| core.tree().owners()).await?;
        let mut ephemerals = Vec::with_capacity(owners.len());
        for owner in owners {
            let mut paths: Vec<Arc<str>> = Vec::new();
            loop {
                let slice = |engine: &mut Engine, _| -> Vec<_> {
                    let after = paths.last().map(|path| &**path);
                    engine.bus.core().tree().ephemerals_after(owner, after).take(LISTED).cloned().collect()
                };
                let slice = self.act_later(slice).await?;
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
