//! The driver: a task that keeps the time, and takes the turns of slow connections.
//!
//! A connection is slow if one of its batches has used up a turn. Its batches wait in a queue. The driver serves that queue one
//! batch at a time while no other turn is taken, and for at most half of the time while others are.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::locked::locked;
use crate::net::registry::Registry;
use crate::net::turns::{SlowBatch, Turns};

#[cfg(test)]
mod tests;

/// How many sockets tokio polls at once.
const EVENTS: usize = 1024;

/// Takes the turns for deadlines, and those that no connection task takes.
pub(crate) struct Driver {
    pub(crate) turns: Arc<Turns>,
    pub(crate) slow: mpsc::UnboundedReceiver<SlowBatch>,
    pub(crate) registry: Arc<Registry>,
}

/// Without a driver no deadline is met: the server stops when it ends, even if it never ran.
impl Drop for Driver {
    fn drop(&mut self) {
        self.turns.stop.cancel();
        self.registry.abort_all();
    }
}

impl Driver {
    /// Runs until the server is stopped.
    pub(crate) async fn run(mut self) {
        let turns = Arc::clone(&self.turns);
        let Turns { engine, open, moved, clock, stop, .. } = &*turns;
        let mut stopped = pin!(stop.cancelled());
        let mut timer = clock
            .sleep_until(clock.instant_of(locked(engine).timer.0))
            .internal("the server: its next deadline, such as the end of a session");
        let mut slow = SlowTurns { turns: &turns, next: None, from: clock.now(), seen: 0 };
        loop {
            let mut timer_fired = false;
            // Slow batches may never end, so they come last.
            tokio::select! {
                biased;
                () = &mut stopped => return,
                () = &mut timer => timer_fired = true,
                () = moved.notified() => {}
                () = turns.advanced() => {
                    turns.release_durable();
                    continue;
                }
                Some(batch) = self.slow.recv(), if slow.next.is_none() => {
                    slow.next = Some(batch);
                    continue;
                }
                // Replies leave, and others take their turns, before the next slow one.
                () = yield_now(), if slow.next.is_some() => {
                    slow.take();
                    continue;
                }
            }
            if timer_fired {
                open.fetch_add(1, Ordering::Relaxed);
                self.let_others_go_first().await;
                turns.take(|engine, now| engine.take_due(now));
            }
            let (due, waited) = locked(engine).set_timer();
            timer.reset(clock.instant_of(due.0));
            open.fetch_sub(waited + usize::from(timer_fired), Ordering::Release);
        }
    }

    /// What clients have sent by now was sent in time, though it may still be in a socket. So other tasks run before a deadline:
    /// with one thread, all that the runtime can poll, which with many connections takes several polls of the sockets.
    async fn let_others_go_first(&self) {
        for _ in 0..1 + 2 * (self.registry.len() / EVENTS) {
            yield_now().await;
        }
    }
}

/// The turns of slow connections.
struct SlowTurns<'t> {
    turns: &'t Turns,
    next: Option<SlowBatch>,
    /// When it is taken although others take turns: they have had as long as the last one took.
    from: Instant,
    /// How many turns there were.
    seen: u64,
}

impl SlowTurns<'_> {
    /// Takes the next one, if it is time for it.
    fn take(&mut self) {
        let turns = self.turns;
        let others = self.seen != locked(&turns.engine).turns;
        let begun = turns.clock.now();
        if !others || begun >= self.from {
            if let Some(SlowBatch { conn, read, mut inputs }) = self.next.take() {
                turns.act(|engine, now| engine.take(now, conn, read, &mut inputs, true));
                turns.open.fetch_sub(1, Ordering::Release);
                let end = turns.clock.now();
                self.from = end + (end - begun);
            }
        }
        self.seen = locked(&turns.engine).turns;
    }
}
