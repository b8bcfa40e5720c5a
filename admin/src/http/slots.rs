//! [`Slots`]: how many connections there are, in all and of each address, and which of them gives way to another.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use zoolet_server::internal::PeerWait;

use super::limits::{MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS, STALLED};

/// A bound on connections.
///
/// If there is no place, one that waits for its peer, and has done so for a second, gives way, the oldest first: one of the same address
/// if that has too many. So silent connections keep nobody out, before and after a handshake, and within a request either.
#[derive(Debug, Default)]
pub(super) struct Slots(Mutex<OpenConnections>);

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// By age. There are few.
    by_number: BTreeMap<u64, (IpAddr, Arc<ConnectionState>)>,
}

/// What a connection waits for.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    pub(super) wait: PeerWait,
    cut: CancellationToken,
}

/// A request that is under way until this is dropped.
pub(super) struct UnderWay(Arc<ConnectionState>);

/// One of the connections that the limits allow. It counts until it is dropped, or gives way.
pub(super) struct Slot {
    slots: Arc<Slots>,
    number: u64,
    pub(super) state: Arc<ConnectionState>,
}

impl Slots {
    /// A slot for one more connection of `peer`; `None` past a limit, if none gives way.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
        let mut open = locked(&self.0);
        let own = open.by_number.values().filter(|(other, _)| *other == peer).count();
        if own >= MAX_CONNECTIONS_PER_ADDRESS {
            open.give_way(|other| other == peer)?;
        } else if open.by_number.len() >= MAX_CONNECTIONS {
            open.give_way(|_| true)?;
        }
        open.next += 1;
        let (number, state) = (open.next, Arc::<ConnectionState>::default());
        open.by_number.insert(number, (peer, Arc::clone(&state)));
        Some(Slot { slots: Arc::clone(self), number, state })
    }
}

impl OpenConnections {
    /// Closes one of these peers; `None` if none has waited for its peer for long.
    fn give_way(&mut self, of: impl Fn(IpAddr) -> bool) -> Option<()> {
        let mut open = self.by_number.iter();
        let (&number, _) = open.find(|(_, (peer, state))| of(*peer) && state.wait.is_stalled(STALLED))?;
        let (_, state) = self.by_number.remove(&number)?;
        state.cut();
        Some(())
    }
}

impl ConnectionState {
    /// Notes a request.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.wait.restart(true);
        UnderWay(Arc::clone(self))
    }

    /// Closes the connection.
    pub(super) fn cut(&self) {
        self.cut.cancel();
    }

    /// Serves it to its end; `None` if it is closed before.
    pub(super) async fn run<T>(&self, serve: impl Future<Output = T>) -> Option<T> {
        self.cut.run_until_cancelled(serve).await
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.wait.restart(false);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        locked(&self.slots.0).by_number.remove(&self.number);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds the lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn take(slots: &Arc<Slots>, last: u8) -> Option<Slot> {
        slots.take(IpAddr::from([127, 0, 0, last]))
    }

    fn fill(slots: &Arc<Slots>, last: u8) -> Vec<Slot> {
        (0..MAX_CONNECTIONS_PER_ADDRESS).map(|_| take(slots, last).expect("a slot")).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn no_address_takes_all_connections_and_what_ends_makes_room() {
        let slots = Arc::new(Slots::default());
        let mut first = fill(&slots, 1);
        assert!(take(&slots, 1).is_none(), "of one address");
        let _others = fill(&slots, 2);
        assert!(take(&slots, 3).is_none(), "of all");
        first.pop();
        assert!(take(&slots, 3).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_that_waits_for_its_peer_gives_way_after_a_second() {
        let slots = Arc::new(Slots::default());
        let (ones, twos) = (fill(&slots, 1), fill(&slots, 2));
        let is_cut = |slot: &Slot| slot.state.cut.is_cancelled();
        let busy = ones[0].state.begin();
        advance(STALLED).await;
        let _own = take(&slots, 2).expect("a slot of its own address");
        assert!(is_cut(&twos[0]) && !is_cut(&ones[1]));
        let _other = take(&slots, 3).expect("the oldest slot");
        assert!(is_cut(&ones[1]) && !is_cut(&ones[0]));
        let more: Vec<_> = (0..MAX_CONNECTIONS - 3).map(|_| take(&slots, 3)).collect();
        let taken = more.iter().flatten().count();
        assert_eq!(taken, MAX_CONNECTIONS_PER_ADDRESS - 1, "and then only its own, which are young");
        assert!(!is_cut(&ones[0]), "it has a request");
        drop(busy);
        assert!(take(&slots, 3).is_none(), "and had one until now");
    }
}
