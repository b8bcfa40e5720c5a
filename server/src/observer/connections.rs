//! Connections, with their counters and their sessions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use zoolet_proto::{OpCode, SessionId, Xid, Zxid};
use zoolet_server_core::{ConnId, Core, Millis};

use crate::engine::Engine;
use crate::net::flow::limits::LISTED;
use crate::net::registry::Peer;
use crate::net::stats::{ConnStats, whole_millis};
use crate::observer::summary::RequestLatency;
use crate::shared::Shared;

/// A connection. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ObservedConnection {
    /// Its number.
    pub conn: ConnId,
    /// Where it comes from.
    pub addr: SocketAddr,
    /// The subject of the certificate that its client has proved to own.
    pub certificate: Option<Arc<str>>,
    /// Whether it came by TLS.
    pub is_secure: bool,
    /// Whether the server reads from it: not after a four-letter word.
    pub is_read: bool,
    /// Requests that were read and are not answered yet.
    pub outstanding: u64,
    /// Requests that were read.
    pub received: u64,
    /// Replies and events that were sent.
    pub sent: u64,
    /// When it was opened.
    pub established: Millis,
    /// Its session, and the timeout of that in milliseconds.
    pub session: Option<(SessionId, i32)>,
    /// When a real server would close it if it sends nothing. This server only closes one without a session: the others close when
    /// their sessions expire.
    pub deadline: Millis,
    /// The last operation that was answered, if it is known.
    pub last_op: Option<OpCode>,
    /// The xid of the last request with one of its own.
    pub last_xid: Option<Xid>,
    /// The last transaction when the last request was executed.
    pub last_zxid: Option<Zxid>,
    /// When the last request was answered.
    pub last_response: Option<Millis>,
    /// How long that took, in whole milliseconds.
    pub last_latency: i64,
    /// Of all its requests.
    pub latency: RequestLatency,
}

impl ObservedConnection {
    fn new(core: &Core, conn: ConnId, peer: &Peer, stats: &ConnStats) -> Self {
        let session = core.session_of(conn).and_then(|session| core.sessions().get(session));
        let (received, word) = (peer.state.received.load(Relaxed), peer.state.word.load(Relaxed));
        let interval = core.config().sessionless_timeout.max(1);
        let timeout = session.map_or(interval, |session| session.timeout.into());
        let heard = stats.last_response.unwrap_or(peer.established);
        Self {
            conn,
            addr: peer.addr,
            certificate: peer.link.certificate.clone(),
            is_secure: peer.link.is_secure,
            is_read: !word,
            outstanding: received.saturating_sub(stats.handled() + u64::from(word)),
            received,
            sent: stats.sent,
            established: peer.established,
            session: session.map(|session| (session.id, session.timeout)),
            deadline: Millis(heard.plus(timeout).next_multiple_of(interval).0),
            last_op: stats.last.and_then(|last| OpCode::from_code(last.op)),
            last_xid: stats.last.map(|last| last.xid).filter(|xid| xid.0 >= 0),
            last_zxid: stats.last_zxid,
            last_response: stats.last_response,
            last_latency: whole_millis(stats.last_latency),
            latency: stats.latency.into(),
        }
    }
}

impl Shared {
    /// The connections of a replica, or of all.
    pub(crate) fn peers(&self, replica: Option<usize>) -> Vec<(ConnId, Arc<Peer>)> {
        let mut peers = self.registry.all();
        peers.retain(|(_, peer)| replica.is_none_or(|replica| peer.replica == replica));
        peers
    }

    /// Every connection of a replica, as that one sees it; or all of them, by the newest state.
    pub(crate) async fn connections(&self, replica: Option<usize>) -> Option<Vec<ObservedConnection>> {
        let peers = self.peers(replica);
        let mut connections = Vec::with_capacity(peers.len());
        for slice in peers.chunks(LISTED) {
            let question = |engine: &mut Engine, _| -> Vec<_> {
                let bus = &engine.bus;
                let core = replica.map_or(bus.core(), |replica| bus.machine().replica(replica));
                let observed = |(id, peer): &(ConnId, Arc<Peer>)| {
                    ObservedConnection::new(core, *id, peer, &bus.conn_stats(*id))
                };
                slice.iter().map(observed).collect()
            };
            connections.extend(self.act_later(question).await?);
        }
        Some(connections)
    }

    pub(crate) fn reset_connections(&self, replica: usize) {
        let ids: Vec<_> = self.peers(Some(replica)).into_iter().map(|(id, _)| id).collect();
        self.turns.act(|engine, _| ids.into_iter().for_each(|id| engine.bus.reset_stats(id)));
    }
}
