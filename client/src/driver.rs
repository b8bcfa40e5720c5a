//! The task that owns a session and its stream, and moves bytes between them.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::thread;

use bytes::BytesMut;
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::time::Instant;
use zoolet_clock::{ActivityGuard, Clock, Sleep, tokio_is_paused};

use crate::command::{DriverCommand, ReplyTo};
use crate::framed_stream::{FramedStream, ReceivedFrame};
use crate::session::{Session, WantedLink};
use crate::transport::{Dialing, Transport};

#[cfg(test)]
mod tests;

/// Most commands received at once. A channel hands over many for little more than one; this bounds the buffer.
const BATCH: usize = 256;
/// Most batches before bytes are written and read: 1,024 requests, so that replies are not delayed by a caller that
/// submits faster than the driver encodes.
const MAX_BATCHES: usize = 4;
/// Most rounds of one poll. One round does the work almost always, which is a part of what took a get in process from
/// 2.7 to 2.2 µs. The limit keeps a stream that never pauses from starving the other tasks of the runtime.
const MAX_ROUNDS: usize = 8;
/// Most reads before commands are handled again: 64 KiB if the peer sends as fast as it can.
const MAX_READS: usize = 4;

/// Drives a session until its end.
pub(crate) struct SessionDriver {
    session: Session,
    transport: Transport,
    commands: mpsc::UnboundedReceiver<DriverCommand>,
    batch: Vec<DriverCommand>,
    connection: ConnectionState,
    /// That of the session that `connection` belongs to.
    generation: u64,
    /// A second connection, to probe for a server that takes writes, and what is still to be written to it.
    probe: ConnectionState,
    probe_out: BytesMut,
    /// The host of the second connection.
    probe_host: Option<Arc<str>>,
    /// Callers that got a reply and have not submitted a request since.
    woken_callers: usize,
    /// Whether those callers were given a chance to run before the next write.
    yielded: bool,
    clock: Clock,
    timer: Sleep,
    /// What `timer` is set for. If it is earlier than anything due, the timer fires once for nothing.
    timer_at: Instant,
    /// Whether the last handle is gone.
    orphaned: bool,
    /// Whether it is being polled. If it is dropped meanwhile, a callee has panicked.
    polling: bool,
    /// Keeps a manual clock from advancing before the first poll.
    activity: ActivityGuard,
}

#[derive(Default)]
enum ConnectionState {
    #[default]
    Down,
    Dialing(Dialing),
    Up(FramedStream),
}

impl ConnectionState {
    /// Dials until it is up, and reports the host of each attempt.
    fn poll_up(
        &mut self,
        cx: &mut Context<'_>,
        transport: &Transport,
        mut dials: impl FnMut(Option<Arc<str>>),
    ) -> Poll<io::Result<()>> {
        loop {
            *self = match self {
                Self::Down => {
                    let (host, dialing) = transport.dial();
                    dials(host);
                    Self::Dialing(dialing)
                }
                Self::Dialing(dialing) => match ready!(dialing.as_mut().poll(cx))? {
                    Some(stream) => Self::Up(FramedStream::new(stream)),
                    None => Self::Down,
                },
                Self::Up(_) => return Poll::Ready(Ok(())),
            };
        }
    }
}

impl SessionDriver {
    pub(crate) fn new(
        session: Session,
        transport: Transport,
        commands: mpsc::UnboundedReceiver<DriverCommand>,
        clock: Clock,
    ) -> Self {
        let now = clock.now();
        Self {
            generation: session.generation(),
            session,
            transport,
            commands,
            batch: Vec::with_capacity(BATCH),
            connection: ConnectionState::Down,
            probe: ConnectionState::Down,
            probe_out: BytesMut::new(),
            probe_host: None,
            woken_callers: 0,
            yielded: false,
            timer: clock.sleep_until(now).internal("a client: its next ping, timeout or attempt to connect"),
            timer_at: now,
            activity: clock.begin_activity(),
            clock,
            orphaned: false,
            polling: false,
        }
    }

    /// Ends with the session.
    pub(crate) async fn run(mut self) {
        poll_fn(|cx| {
            self.polling = true;
            let polled = self.poll(cx);
            self.polling = false;
            self.activity = ActivityGuard::default();
            polled
        })
        .await;
    }

    /// Everything that can happen, in order: commands in, bytes out, bytes in, time.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..MAX_ROUNDS {
            let now = self.clock.now();
            let mut again = self.poll_commands(cx, now);
            if self.yields_to_callers() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            again |= self.poll_connection(cx, now) | self.poll_probe(cx, now);
            let due = self.session.next_timeout();
            if due.is_some_and(|due| due <= now) {
                self.session.handle_timeout(now);
                again = true;
            }
            if self.session.wanted_link() == WantedLink::Over {
                return Poll::Ready(());
            }
            // The timer is reset after everything due has been handled: until then a manual clock counts it as a pending
            // wake-up and does not advance.
            if !again && !self.poll_timer(cx, now, due) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Handles commands until there are none. Returns whether there may be more.
    fn poll_commands(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        for _ in 0..MAX_BATCHES {
            if self.orphaned {
                return false;
            }
            let Poll::Ready(received) = self.commands.poll_recv_many(cx, &mut self.batch, BATCH) else {
                return false;
            };
            if received == 0 {
                self.orphaned = true;
                self.session.handle_close(now, ReplyTo::nobody());
            }
            self.woken_callers = self.woken_callers.saturating_sub(received);
            for command in self.batch.drain(..) {
                self.session.handle_command(now, command);
            }
        }
        true
    }

    /// Whether to run again after the callers that the last read has woken, so that one write carries all their next
    /// requests. Without this, the first of them wakes this task and its request gets a write of its own. This is why the
    /// client needs 0.57 of the CPU of zookeeper-client per request at depth 1, but 0.17 (get) to 0.26 at depth 16; see
    /// docs/performance.md.
    fn yields_to_callers(&mut self) -> bool {
        let wait = self.woken_callers > 0 && !self.yielded && !self.session.out().is_empty();
        self.yielded = wait;
        if !wait && !self.session.out().is_empty() {
            self.woken_callers = 0;
        }
        wait
    }

    /// Advances the connection, or the attempt at the next one. Returns whether there may be more to do for it.
    fn poll_connection(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if self.generation != self.session.generation() {
            self.generation = self.session.generation();
            self.connection = ConnectionState::Down;
        }
        let again = match (&mut self.connection, self.session.wanted_link()) {
            (connection, WantedLink::Dialing) => {
                match connection.poll_up(cx, &self.transport, |host| self.session.handle_dialing(host)) {
                    Poll::Ready(Ok(())) => {
                        self.session.handle_connected(now);
                        Ok(true)
                    }
                    Poll::Ready(Err(error)) => Err(error),
                    Poll::Pending => Ok(false),
                }
            }
            (ConnectionState::Up(stream), WantedLink::Up) => {
                let again = exchange(stream, &mut self.session, cx, now);
                self.woken_callers += self.session.take_answered();
                again
            }
            _ => Ok(false),
        };
        again.unwrap_or_else(|error| {
            self.session.handle_loss(now, error);
            true
        })
    }

    /// Advances the probe if the session wants one, and switches to the server that answers it. Returns whether it did.
    fn poll_probe(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        while self.session.is_probing() {
            let answered = match &mut self.probe {
                ConnectionState::Up(stream) => stream.poll_first_frame(cx, &mut self.probe_out),
                probe => match probe.poll_up(cx, &self.transport, |host| self.probe_host = host) {
                    Poll::Ready(Ok(())) => {
                        self.probe_out = self.session.handle_probe_connected(now);
                        continue;
                    }
                    unreached => unreached,
                },
            };
            match answered {
                Poll::Pending => return false,
                Poll::Ready(Ok(())) => {
                    let ConnectionState::Up(stream) = mem::take(&mut self.probe) else { break };
                    let decides = |frame| self.session.handle_probe_answered(now, frame);
                    if stream.first_frame().ok().flatten().is_some_and(decides) {
                        self.switch_to(stream, now);
                        return true;
                    }
                }
                Poll::Ready(Err(error)) => {
                    #[cfg(feature = "tls")]
                    let error = crate::tls_stream::explain_later(error);
                    let host = self.probe_host.as_deref();
                    tracing::debug!(host, %error, "the probe for a server that takes writes failed");
                    self.session.handle_probe_failed(now);
                }
            }
        }
        self.probe = ConnectionState::Down;
        false
    }

    /// Continues with a connection whose first frame is in its read buffer.
    fn switch_to(&mut self, mut stream: FramedStream, now: Instant) {
        self.generation = self.session.generation();
        self.session.handle_dialing(self.probe_host.take());
        let handled = pass_frames(&mut stream, &mut self.session, now);
        self.connection = ConnectionState::Up(stream);
        if let Err(error) = handled {
            self.session.handle_loss(now, error);
        }
    }

    /// Sets the timer for what is due next. Returns whether it has fired already; otherwise it wakes this task.
    fn poll_timer(&mut self, cx: &mut Context<'_>, now: Instant, due: Option<Instant>) -> bool {
        // Nothing due means that the session is over, and this task with it.
        let Some(due) = due else { return false };
        // Every request moves the next deadline back; the timer is not reset for that.
        if self.timer_at <= now || due < self.timer_at {
            self.timer_at = due;
            self.timer.reset(due);
        }
        // Polled even if unchanged: a sleep may wake its task too early, and must be polled again then.
        Pin::new(&mut self.timer).poll(cx).is_ready()
    }

    /// Writes what was submitted before the runtime was dropped, and then a close: nobody can continue this session, and its
    /// locks must not stay held until it times out. Without a connection nothing can be said. Never waits: what the stream
    /// does not take at once is lost.
    fn write_last_requests(&mut self) {
        let ConnectionState::Up(stream) = &mut self.connection else { return };
        let now = self.clock.now();
        // As many as there are now, because other threads may go on sending.
        for _ in 0..self.commands.len() {
            let Ok(command) = self.commands.try_recv() else { break };
            self.session.handle_command(now, command);
        }
        self.session.encode_last_close(now);
        // Nobody is woken when it takes more, and an error changes nothing: the stream is dropped next.
        stream.poll_write(&mut Context::from_waker(Waker::noop()), self.session.out());
    }
}

/// Writes what the session has to write and passes on what has arrived. Returns whether there may be more to do.
fn exchange(
    stream: &mut FramedStream,
    session: &mut Session,
    cx: &mut Context<'_>,
    now: Instant,
) -> io::Result<bool> {
    let written = stream.poll_write(cx, session.out());
    let mut more = true;
    for _ in 0..MAX_READS {
        match stream.poll_read(cx, session.max_reply()) {
            Poll::Ready(read) => read?,
            Poll::Pending => {
                more = false;
                break;
            }
        }
        session.handle_heard(now);
        pass_frames(stream, session, now)?;
        if session.wanted_link() != WantedLink::Up {
            break;
        }
    }
    // If bytes were left before, the stream wakes this task when it takes more. Frames may have added new ones.
    Ok(more || (written && !session.out().is_empty()))
}

/// Passes every whole frame that was read to the session, as long as it wants this connection.
fn pass_frames(stream: &mut FramedStream, session: &mut Session, now: Instant) -> io::Result<()> {
    while session.wanted_link() == WantedLink::Up {
        let handled = match stream.next_frame(session.max_reply())? {
            Some(ReceivedFrame::Frame(frame)) => session.handle_frame(now, frame),
            Some(ReceivedFrame::Oversize { header, size }) => session.handle_oversize(now, header, size),
            None => break,
        };
        handled.map_err(|violation| io::Error::new(io::ErrorKind::InvalidData, violation.0))?;
    }
    Ok(())
}

impl Drop for SessionDriver {
    /// Answers every caller, however this task ends: also if its runtime is dropped, or if a callee panics.
    fn drop(&mut self) {
        // If the time of the runtime is paused, its world is simulated: there a runtime is dropped to crash a host, or when
        // the simulation is over, outside of which streams such as turmoil's panic.
        if !self.polling && !tokio_is_paused() {
            // A stream of the user's may need what is gone by now.
            let written = catch_unwind(AssertUnwindSafe(|| self.write_last_requests()));
            if written.is_err() {
                tracing::warn!("the stream panicked at the last write of a session");
            }
        }
        self.session.give_up(Some(match self.polling {
            true => {
                "the stream, or the closure that connects, has panicked, or the clock of a test that stalled"
            }
            false => "the tokio runtime that drove it was shut down",
        }));
        // Requests submitted meanwhile are answered here; later ones fail on the published state.
        self.commands.close();
        let now = self.clock.now();
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.session.handle_command(now, command),
                Err(TryRecvError::Disconnected) => return,
                // A sender has reserved its slot but not filled it yet, which takes a few instructions. It regards the
                // command as sent, so the command must not be left in the channel.
                Err(TryRecvError::Empty) => thread::yield_now(),
            }
        }
    }
}
