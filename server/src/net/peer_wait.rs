//! [`PeerWait`]: how long something has waited for its peer, so that it can give way to another.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::locked::locked;

/// How long a handshake or a connection has waited for its peer in all. A new one waits for it.
#[derive(Debug)]
pub struct PeerWait(Mutex<Waiting>);

#[derive(Debug)]
struct Waiting {
    /// When it began, and later by the time for which it has waited for this server: that is not its peer's fault.
    since: Instant,
    /// From when on it waits for this server.
    busy: Option<Instant>,
}

impl Default for PeerWait {
    fn default() -> Self {
        Self(Mutex::new(Waiting { since: Instant::now(), busy: None }))
    }
}

impl PeerWait {
    /// Notes whether it waits for this server, and not for its peer.
    pub fn note(&self, is_busy: bool) {
        let mut waiting = locked(&self.0);
        if is_busy {
            waiting.busy.get_or_insert_with(Instant::now);
        } else if let Some(busy) = waiting.busy.take() {
            waiting.since += busy.elapsed();
        }
    }

    /// Begins anew, as the peer has done its part; notes whether it waits for this server now.
    pub fn restart(&self, is_busy: bool) {
        let now = Instant::now();
        *locked(&self.0) = Waiting { since: now, busy: is_busy.then_some(now) };
    }

    /// Whether it waits for its peer, and has done so for this long in all.
    pub fn is_stalled(&self, after: Duration) -> bool {
        let waiting = locked(&self.0);
        waiting.busy.is_none() && waiting.since.elapsed() >= after
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_the_time_for_which_it_waits_for_its_peer_counts_and_it_adds_up() {
        const LONG: Duration = Duration::from_secs(1);
        let wait = PeerWait::default();
        for is_stalled in [false, true] {
            wait.note(true);
            advance(2 * LONG).await;
            assert!(!wait.is_stalled(LONG), "it waits for the server");
            wait.note(false);
            advance(LONG / 2).await;
            assert_eq!(wait.is_stalled(LONG), is_stalled);
        }
        wait.restart(false);
        assert!(!wait.is_stalled(LONG), "the peer has done its part");
    }
}
