//! What a bus does when time has passed.

use std::sync::atomic::Ordering::Relaxed;

use zoolet_server_core::{EXPIRED_AT_ONCE, Millis};

use super::Bus;

impl Bus {
    /// Does what is due in the state machine, or a part of it: the next timeout is then due at once.
    pub fn handle_timeout(&mut self, now: Millis) {
        // With each one that is renewed, others are among the first that are due.
        while self.renew_slow_readers(now) {}
        let sessions = self.core().sessions().len();
        self.machine.handle_timeout(now);
        self.count_expired(sessions - self.core().sessions().len());
    }

    /// Renews sessions that are due, but whose requests wait in the driver's queue or for the log, or whose clients have taken a
    /// part of what is sent to them: such a connection is not read meanwhile, and their pings may lie in it.
    /// Looks at as many as expire at once, and returns whether it has renewed one.
    fn renew_slow_readers(&mut self, now: Millis) -> bool {
        let due = self.core().sessions().iter().take_while(|session| session.deadline <= now);
        let due = due.take(EXPIRED_AT_ONCE);
        let slow = due.filter_map(|session| {
            let peer = &self.conns.get(&session.conn?)?.peer;
            let is_queued = peer.state.slow.load(Relaxed) && peer.outbox.has_requests();
            if is_queued || peer.state.waits_for_room.load(Relaxed) || peer.outbox.reader_waits_for_log() {
                return Some((session.id, now));
            }
            let progress = Millis(peer.state.progress.load(Relaxed));
            let is_alive = progress.0 + i64::from(session.timeout) > now.0;
            (is_alive && peer.outbox.reader_waits()).then_some((session.id, progress))
        });
        let slow: Vec<_> = slow.collect();
        for (id, progress) in &slow {
            self.core_mut().renew(*progress, *id);
        }
        !slow.is_empty()
    }
}
