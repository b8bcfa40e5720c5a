//! [`Slots`]: how many connections there are, in all and of each address.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::limits::{MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS};

/// The addresses of all connections, of which there are few.
#[derive(Debug, Default)]
pub(super) struct Slots(Mutex<Vec<IpAddr>>);

/// One of the connections that the limits allow. It counts until it is dropped.
pub(super) struct Slot {
    slots: Arc<Slots>,
    peer: IpAddr,
}

impl Slots {
    /// A slot for one more connection of `peer`; `None` past a limit.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
        let mut peers = self.lock();
        let own = peers.iter().filter(|other| **other == peer).count();
        if peers.len() >= MAX_CONNECTIONS || own >= MAX_CONNECTIONS_PER_ADDRESS {
            return None;
        }
        peers.push(peer);
        Some(Slot { slots: Arc::clone(self), peer })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut peers = self.slots.lock();
        if let Some(at) = peers.iter().position(|peer| *peer == self.peer) {
            peers.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_takes_all_connections_and_what_ends_makes_room() {
        let slots = Arc::new(Slots::default());
        let take = |last| slots.take(IpAddr::from([127, 0, 0, last]));
        let mut first: Vec<_> = (0..MAX_CONNECTIONS_PER_ADDRESS).map(|_| take(1)).collect();
        assert!(first.iter().all(Option::is_some));
        assert!(take(1).is_none(), "of one address");
        let others: Vec<_> = (MAX_CONNECTIONS_PER_ADDRESS..MAX_CONNECTIONS).map(|_| take(2)).collect();
        assert!(others.iter().all(Option::is_some));
        assert!(take(3).is_none(), "of all");
        first.pop();
        assert!(take(3).is_some());
    }
}
