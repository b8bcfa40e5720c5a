//! How many handshakes are under way, and which of them gives way to another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use crate::locked::locked;
use crate::net::flow::limits::STALLED_HANDSHAKE;
use crate::net::peer_wait::PeerWait;

/// A bound on handshakes.
///
/// If all slots are taken, one that waits for its peer, and has done so for a second in all, gives way, the oldest first. So a thousand
/// silent or slow connections keep nobody out, and a flood of handshakes that do go on keeps out the last ones and not the first.
#[derive(Debug)]
pub(crate) struct HandshakeSlots {
    most: usize,
    open: Mutex<OpenHandshakes>,
}

#[derive(Debug, Default)]
struct OpenHandshakes {
    next: u64,
    /// By age.
    by_number: BTreeMap<u64, Arc<SlotState>>,
}

#[derive(Debug)]
pub(crate) struct SlotState {
    pub(crate) wait: PeerWait,
    lost: CancellationToken,
}

/// One of the handshakes. Free again when it is dropped.
#[derive(Debug)]
pub(crate) struct HandshakeSlot {
    number: u64,
    /// What it waits for.
    pub(crate) state: Arc<SlotState>,
    slots: Arc<HandshakeSlots>,
}

impl HandshakeSlots {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, open: Mutex::default() }
    }

    /// A slot for one more; `None` if all are taken and none gives way.
    pub(crate) fn take(self: &Arc<Self>) -> Option<HandshakeSlot> {
        let mut open = locked(&self.open);
        if open.by_number.len() >= self.most {
            let (&number, _) =
                open.by_number.iter().find(|(_, state)| state.wait.is_stalled(STALLED_HANDSHAKE))?;
            if let Some(state) = open.by_number.remove(&number) {
                state.lost.cancel();
            }
        }
        let state = Arc::new(SlotState { wait: PeerWait::default(), lost: CancellationToken::new() });
        open.next += 1;
        let number = open.next;
        open.by_number.insert(number, Arc::clone(&state));
        Some(HandshakeSlot { number, state, slots: Arc::clone(self) })
    }

    /// How many handshakes are under way.
    pub(crate) fn open(&self) -> usize {
        locked(&self.open).by_number.len()
    }
}

impl HandshakeSlot {
    /// Waits until it has to give way.
    pub(crate) async fn lost(&self) {
        self.state.lost.cancelled().await;
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        locked(&self.slots.open).by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn is_lost(slot: &HandshakeSlot) -> bool {
        slot.state.lost.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_that_waits_for_its_peer_gives_way_after_a_second() {
        let slots = Arc::new(HandshakeSlots::new(3));
        let [busy, silent, young] = [(); 3].map(|()| slots.take().expect("a slot"));
        busy.state.wait.note(true);
        assert!(slots.take().is_none(), "nobody has waited for long");
        drop(young);
        let young = slots.take().expect("the slot that is free again");
        advance(STALLED_HANDSHAKE).await;
        let next = slots.take().expect("the slot of the silent one");
        assert!(is_lost(&silent) && !is_lost(&busy) && !is_lost(&young));
        let last = slots.take().expect("the slot of the one after it");
        assert!(is_lost(&young) && !is_lost(&busy) && !is_lost(&next));
        assert!(slots.take().is_none(), "the others are busy or young");
        drop((silent, young));
        assert_eq!(slots.open(), 3);
        drop((busy, next, last));
        assert_eq!(slots.open(), 0);
    }
}
