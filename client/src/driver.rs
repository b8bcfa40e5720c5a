//! The task that owns a session and its stream, and moves bytes between them.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::time::Instant;
use zoolet_clock::{Clock, Hold, Sleep};

use crate::call::{Command, ReplyTo};
use crate::search::Search;
use crate::session::{Link, Session};
use crate::transport::{Dialing, Transport};
use crate::wire::Wire;

#[cfg(test)]
mod tests;

/// Most commands taken at once.
const TURN: usize = 256;
/// Most turns of commands before something else is looked at.
const IN_A_ROW: usize = 4;
/// Most rounds before other tasks get their turn.
const ROUNDS: usize = 8;

/// Moves a session until its end.
pub(crate) struct Driver {
    session: Session,
    transport: Transport,
    commands: mpsc::UnboundedReceiver<Command>,
    turn: Vec<Command>,
    line: Line,
    search: Search,
    /// The session's epoch that `line` belongs to.
    epoch: u64,
    /// Callers that were answered and have not asked again since.
    answered: usize,
    /// They were given their chance to ask before the next write.
    yielded: bool,
    clock: Clock,
    alarm: Sleep,
    /// What the alarm is set for. It may be earlier than anything due: then it rings for nothing, once.
    alarm_at: Instant,
    orphaned: bool,
    /// Keeps a manual clock from being moved on before this has begun.
    hold: Hold,
}

enum Line {
    Down,
    Dialing(Dialing),
    Up(Wire),
}

impl Driver {
    pub(crate) fn new(
        session: Session,
        transport: Transport,
        commands: mpsc::UnboundedReceiver<Command>,
        clock: Clock,
    ) -> Self {
        let now = clock.now();
        Self {
            epoch: session.epoch(),
            session,
            transport,
            commands,
            turn: Vec::with_capacity(TURN),
            line: Line::Down,
            search: Search::default(),
            answered: 0,
            yielded: false,
            alarm: clock.sleep_until(now),
            alarm_at: now,
            hold: clock.hold(),
            clock,
            orphaned: false,
        }
    }

    /// Ends with the session.
    pub(crate) async fn run(mut self) {
        poll_fn(|cx| {
            let polled = self.poll(cx);
            self.hold = Hold::default();
            polled
        })
        .await;
    }

    /// All that can happen, and in which order: commands in, bytes out, bytes in, time. Of commands and bytes as many are
    /// taken as there are, within limits, so that mostly one round does.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS {
            let now = self.clock.now();
            let mut again = self.poll_commands(cx, now);
            if self.lets_callers_go_first() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            again |= self.poll_line(cx, now) | self.poll_search(cx, now);
            let due = self.session.next_timeout();
            if due.is_some_and(|due| due <= now) {
                self.session.handle_timeout(now);
                again = true;
            }
            if self.session.link() == Link::Over {
                return Poll::Ready(());
            }
            // An alarm that rang is set anew behind all that was due at it: by a manual clock it counts as unattended
            // until then, and time does not go on.
            if !again && !self.poll_alarm(cx, now, due) {
                return Poll::Pending;
            }
        }
        // Others have a right to run even if the stream never ends.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes commands until there are none; whether there may be more.
    fn poll_commands(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        for _ in 0..IN_A_ROW {
            if self.orphaned {
                return false;
            }
            let Poll::Ready(taken) = self.commands.poll_recv_many(cx, &mut self.turn, TURN) else {
                return false;
            };
            if taken == 0 {
                // The last handle is gone: nobody can ask for anything any more.
                self.orphaned = true;
                self.session.handle_close(now, ReplyTo::nobody());
            }
            self.answered = self.answered.saturating_sub(taken);
            for command in self.turn.drain(..) {
                self.session.handle_command(now, command);
            }
        }
        true
    }

    /// Whether to run again behind the callers that the last read has woken: one write then takes all their next
    /// requests. Without this the first of them, which wakes this task, would have a write of its own.
    fn lets_callers_go_first(&mut self) -> bool {
        let wait = self.answered > 0 && !self.yielded && !self.session.out().is_empty();
        self.yielded = wait;
        if !wait && !self.session.out().is_empty() {
            self.answered = 0;
        }
        wait
    }

    /// Moves the connection on, or on to the next one; whether there may be more to do for it.
    fn poll_line(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if self.epoch != self.session.epoch() {
            self.epoch = self.session.epoch();
            self.line = Line::Down;
        }
        let again = match (&mut self.line, self.session.link()) {
            (Line::Down, Link::Dialing) => {
                self.line = Line::Dialing(self.transport.dial());
                Ok(true)
            }
            (Line::Dialing(dialing), Link::Dialing) => match dialing.as_mut().poll(cx) {
                Poll::Ready(Ok(stream)) => {
                    self.line = Line::Up(Wire::new(stream));
                    self.session.handle_connected(now);
                    Ok(true)
                }
                Poll::Ready(Err(error)) => Err(error),
                Poll::Pending => Ok(false),
            },
            (Line::Up(wire), Link::Up) => {
                let again = wire.poll(cx, &mut self.session, now);
                self.answered += self.session.take_answered();
                again
            }
            _ => Ok(false),
        };
        again.unwrap_or_else(|error| {
            self.session.handle_loss(now, error);
            true
        })
    }

    /// Looks for a server that takes writes if the session wants one, and goes over to it; whether it did.
    fn poll_search(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let found = self.search.poll(cx, &mut self.session, &mut self.transport, now);
        let Some(mut wire) = found else { return false };
        self.epoch = self.session.epoch();
        let taken = wire.take_frames(&mut self.session, now);
        self.line = Line::Up(wire);
        if let Err(error) = taken {
            self.session.handle_loss(now, error);
        }
        true
    }

    /// Sets the alarm for what is due next; whether it rings already. This task is woken when it does.
    fn poll_alarm(&mut self, cx: &mut Context<'_>, now: Instant, due: Option<Instant>) -> bool {
        // A session for which nothing is ever due is over, and this task with it: no alarm outlives that.
        let Some(due) = due else { return false };
        // The alarm is not set anew when what is due moves away, which it does with every request.
        if self.alarm_at <= now || due < self.alarm_at {
            self.alarm_at = due;
            self.alarm.reset(due);
        }
        // Polled also as it was: a sleep may wake its task too early, and counts on being polled then.
        Pin::new(&mut self.alarm).poll(cx).is_ready()
    }
}

impl Drop for Driver {
    /// Nobody is left waiting, however this task ends: also if its runtime goes, or what it calls panics.
    fn drop(&mut self) {
        self.session.give_up();
        // Whoever submitted meanwhile learns how the session ended; whoever submits later asks its published state.
        self.commands.close();
        let now = self.clock.now();
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.session.handle_command(now, command),
                Err(TryRecvError::Disconnected) => return,
                // A command that is counted but not yet in its place, which takes its sender a few instructions more.
                // The sender takes it for sent, so it must not be left behind.
                Err(TryRecvError::Empty) => thread::yield_now(),
            }
        }
    }
}
