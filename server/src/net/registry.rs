//! The registry: who is connected. Entered and left by connection tasks, read by turns and by admin commands.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use hashbrown::DefaultHashBuilder;
use tracing::Span;
use zoolet_server_core::{ConnId, Millis};

use crate::net::outbox::Outbox;

/// Who is connected, and how many TCP connections each address has.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    next: AtomicU64,
    peers: DashMap<ConnId, Arc<Peer>, DefaultHashBuilder>,
    per_ip: DashMap<IpAddr, usize>,
    sockets: AtomicUsize,
}

/// A connection as others see it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) addr: SocketAddr,
    /// Where it was accepted, in a simulated ensemble.
    pub(crate) endpoint: usize,
    pub(crate) established: Millis,
    pub(crate) outbox: Outbox,
    pub(crate) span: Span,
    pub(crate) traffic: Traffic,
}

/// Bytes of a connection.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Read.
    pub(crate) read: AtomicU64,
    /// Read, and the whole frames in them brought to the inbox, or never to be.
    pub(crate) taken: AtomicU64,
    /// Given to the stream.
    pub(crate) written: AtomicU64,
    /// When the stream last took a part of what it was given, by the server's clock.
    took: AtomicI64,
}

impl Traffic {
    /// Notes that nothing that was read is still to be brought to the inbox.
    pub(crate) fn all_taken(&self) {
        self.taken.store(self.read.load(Ordering::Acquire), Ordering::Release);
    }

    /// Notes that the stream has taken a part.
    pub(crate) fn took(&self, now: Millis) {
        self.took.store(now.0, Ordering::Relaxed);
    }

    /// When it last did.
    pub(crate) fn last_took(&self) -> Millis {
        Millis(self.took.load(Ordering::Relaxed))
    }

    /// Whether something that was read is still to be brought to the inbox.
    pub(crate) fn is_under_way(&self) -> bool {
        self.taken.load(Ordering::Acquire) != self.read.load(Ordering::Acquire)
    }
}

impl Peer {
    pub(crate) fn new(
        addr: SocketAddr,
        endpoint: usize,
        established: Millis,
        outbox: Outbox,
        span: Span,
    ) -> Self {
        Self { addr, endpoint, established, outbox, span, traffic: Traffic::default() }
    }
}

/// A place under the limits on TCP connections, given back when dropped.
pub(crate) struct Place {
    registry: Arc<Registry>,
    ip: IpAddr,
}

/// The membership of one connection, ended when dropped.
pub(crate) struct Member {
    pub(crate) id: ConnId,
    pub(crate) peer: Arc<Peer>,
    registry: Arc<Registry>,
    _place: Option<Place>,
}

impl Registry {
    /// Enters a connection.
    pub(crate) fn enter(self: &Arc<Self>, peer: Peer, place: Option<Place>) -> Member {
        let id = ConnId(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let peer = Arc::new(peer);
        self.peers.insert(id, Arc::clone(&peer));
        Member { id, peer, registry: Arc::clone(self), _place: place }
    }

    /// A place for one more TCP connection from `ip`; `None` past a limit. A limit of 0 is none.
    pub(crate) fn place(self: &Arc<Self>, ip: IpAddr, max_per_ip: usize, max: usize) -> Option<Place> {
        let mut count = self.per_ip.entry(ip).or_insert(0);
        *count += 1;
        let own = *count;
        drop(count);
        let all = self.sockets.fetch_add(1, Ordering::Relaxed) + 1;
        // Taken first and given back past a limit, as there may be several listeners at it.
        let place = Place { registry: Arc::clone(self), ip };
        let within = |count, max| max == 0 || count <= max;
        (within(own, max_per_ip) && within(all, max)).then_some(place)
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<Arc<Peer>> {
        self.peers.get(&id).map(|peer| Arc::clone(&peer))
    }

    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Every connection, oldest first.
    pub(crate) fn all(&self) -> Vec<(ConnId, Arc<Peer>)> {
        let mut peers: Vec<_> = self.peers.iter().map(|entry| (*entry.key(), Arc::clone(&entry))).collect();
        peers.sort_unstable_by_key(|(id, _)| *id);
        peers
    }

    /// Closes every connection at once, the oldest first: in a simulation each end takes its own random time, and which
    /// one must not hang on the order of a hash map.
    pub(crate) fn kill_all(&self) {
        self.all().into_iter().for_each(|(_, peer)| peer.outbox.kill());
    }
}

impl Drop for Place {
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

impl Drop for Member {
    fn drop(&mut self) {
        self.registry.peers.remove(&self.id);
    }
}
