//! Watches.

use std::sync::Arc;

use zoolet_proto::SessionId;
use zoolet_server_core::{ConnId, Core};

use crate::net::flow::limits::LISTED;
use crate::shared::Shared;

/// A watch on a znode itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedWatch {
    /// Its path, as the client sent it.
    pub path: Arc<str>,
    /// The connection that set it.
    pub conn: ConnId,
    /// The session of that connection; 0 if there is none.
    pub session: SessionId,
}

impl Shared {
    /// The watches on znodes themselves, of the connections of a replica.
    pub(crate) async fn watches(&self, at: usize) -> Option<Vec<ObservedWatch>> {
        let conns = self.read_later(at, |core| core.watches().connections()).await?;
        let mut watches = Vec::new();
        for conn in conns {
            let mut after: Option<Arc<str>> = None;
            loop {
                let slice = move |core: &Core| -> (Vec<_>, SessionId) {
                    let paths = core.watches().paths_of(conn, after.as_deref());
                    let paths = paths.take(LISTED).map(|(path, on_data)| (Arc::clone(path), on_data));
                    (paths.collect(), core.session_of(conn).unwrap_or_default())
                };
                let (slice, session) = self.read_later(at, slice).await?;
                let more = slice.len() == LISTED;
                after = slice.last().map(|(path, _)| Arc::clone(path));
                let on_data = slice.into_iter().filter(|(_, on_data)| *on_data);
                watches.extend(on_data.map(|(path, _)| ObservedWatch { path, conn, session }));
                if !more {
                    break;
                }
            }
        }
        Some(watches)
    }
}
