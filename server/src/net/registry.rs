//! The registry of connections. Connection tasks register and remove themselves; turns, four-letter words and the
//! shutdown read it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use hashbrown::DefaultHashBuilder;
use tracing::Span;
use zoolet_proto::SessionId;
use zoolet_server_core::{ConnId, Millis, Origin};

use crate::net::flow::budget::SendBudget;
use crate::net::flow::outbox::Outbox;
use crate::net::stream::Link;

/// The connections, and the number of TCP connections of each address.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    next: AtomicU64,
    peers: DashMap<ConnId, Arc<Peer>, DefaultHashBuilder>,
    per_ip: DashMap<IpAddr, usize>,
    sockets: AtomicUsize,
    in_process: AtomicUsize,
    pub(crate) budget: Arc<SendBudget>,
}

/// A connection, for turns and for operators.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) addr: SocketAddr,
    pub(crate) link: Link,
    /// Which replica of the state machine serves it.
    pub(crate) replica: usize,
    pub(crate) established: Millis,
    pub(crate) outbox: Outbox,
    pub(crate) span: Span,
    pub(crate) state: PeerState,
}

/// What the task of a connection and turns note of it.
#[derive(Debug, Default)]
pub(crate) struct PeerState {
    /// Requests that were submitted.
    pub(crate) received: AtomicU64,
    /// Whether it has sent a four-letter word, after which it is not read any more.
    pub(crate) word: AtomicBool,
    /// When the stream last took a part of what it was given, by the server's clock.
    pub(crate) progress: AtomicI64,
    /// Whether its requests wait in the driver's queue. Changes only when none of them does, so that they stay in order.
    pub(crate) slow: AtomicBool,
    /// Whether its requests wait for room in the queue of the log: no turn has them.
    pub(crate) waits_for_room: AtomicBool,
    /// The session of its connect response; 0 for none, and if one was refused.
    pub(crate) session: AtomicI64,
}

impl Peer {
    /// What the state machine gets to know of it.
    pub(crate) fn origin(&self) -> Origin {
        let Link { in_process, certificate, .. } = &self.link;
        Origin { peer: self.addr.ip(), in_process: *in_process, certificate: certificate.clone() }
    }

    /// The session that it has, or has had. A turn that ends the session does not change it.
    pub(crate) fn session(&self) -> Option<SessionId> {
        Some(SessionId(self.state.session.load(Ordering::Relaxed))).filter(|id| *id != SessionId(0))
    }

    /// Notes requests that are submitted to a turn.
    pub(crate) fn begin_requests(&self, requests: usize) {
        self.state.received.fetch_add(requests as u64, Ordering::Relaxed);
        self.outbox.begin_requests(requests);
    }

    /// Notes that this many of them were not processed.
    pub(crate) fn return_unprocessed(&self, requests: usize) {
        self.state.received.fetch_sub(requests as u64, Ordering::Relaxed);
        self.outbox.return_unprocessed(requests);
    }
}

/// One of the TCP connections that the limits allow. It counts until it is dropped.
pub(crate) struct ConnectionPermit {
    registry: Arc<Registry>,
    ip: IpAddr,
}

/// The entry of one connection. Dropping it removes the connection.
pub(crate) struct Registration {
    pub(crate) id: ConnId,
    pub(crate) peer: Arc<Peer>,
    registry: Arc<Registry>,
    _permit: Option<ConnectionPermit>,
}

impl Registry {
    /// Registers a connection.
    pub(crate) fn enter(self: &Arc<Self>, peer: Peer, permit: Option<ConnectionPermit>) -> Registration {
        let id = ConnId(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let peer = Arc::new(peer);
        self.peers.insert(id, Arc::clone(&peer));
        self.in_process.fetch_add(usize::from(peer.link.in_process), Ordering::Relaxed);
        self.budget.enter();
        Registration { id, peer, registry: Arc::clone(self), _permit: permit }
    }

    /// A permit for one more TCP connection from `ip`; `None` past a limit. A limit of 0 allows any number.
    pub(crate) fn permit(
        self: &Arc<Self>,
        ip: IpAddr,
        max_per_ip: usize,
        max: usize,
    ) -> Option<ConnectionPermit> {
        let mut count = self.per_ip.entry(ip).or_insert(0);
        *count += 1;
        let own = *count;
        drop(count);
        let all = self.sockets.fetch_add(1, Ordering::Relaxed) + 1;
        // Counted first and taken back past a limit, as several listeners may be at it.
        let permit = ConnectionPermit { registry: Arc::clone(self), ip };
        let within = |count, max| max == 0 || count <= max;
        (within(own, max_per_ip) && within(all, max)).then_some(permit)
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<Arc<Peer>> {
        self.peers.get(&id).map(|peer| Arc::clone(&peer))
    }

    /// How many connections are open. `DashMap::len` would lock every shard.
    pub(crate) fn len(&self) -> usize {
        self.budget.connections()
    }

    /// How many of them are of clients in this process.
    pub(crate) fn in_process(&self) -> usize {
        self.in_process.load(Ordering::Relaxed)
    }

    /// Every connection, oldest first.
    pub(crate) fn all(&self) -> Vec<(ConnId, Arc<Peer>)> {
        let mut peers: Vec<_> = self.peers.iter().map(|entry| (*entry.key(), Arc::clone(&entry))).collect();
        peers.sort_unstable_by_key(|(id, _)| *id);
        peers
    }

    /// Closes every connection at once, the oldest first: in a simulation each end takes its own random time, which must
    /// not depend on the order of a hash map.
    pub(crate) fn abort_all(&self) {
        self.all().into_iter().for_each(|(_, peer)| peer.outbox.abort());
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.registry.sockets.fetch_sub(1, Ordering::Relaxed);
        if let Entry::Occupied(mut count) = self.registry.per_ip.entry(self.ip) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.peers.remove(&self.id);
        self.registry.in_process.fetch_sub(usize::from(self.peer.link.in_process), Ordering::Relaxed);
        self.registry.budget.leave();
    }
}
