//! [`Sleep`]: a wait for a time, on any clock.

use std::fmt;
use std::future::Future;
use std::panic::{Location, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::task::coop;
use tokio::time::Instant;

use crate::clock::{Clock, ClockSource};
use crate::manual::{Manual, SleeperId};
use crate::wait::WaitName;

/// A future that is ready when its deadline has passed, from [`Clock::sleep_until`](crate::Clock::sleep_until).
///
/// Dropping it ends the wait. It may be polled after completion, and stays ready. The owner of a manual clock takes a wait that is
/// over for [work in progress](Clock::pending_wakeups) until it is polled, reset or dropped.
///
/// # Panics
/// A wait for a manual clock panics if the clock is [abandoned](crate::Clock::abandon).
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    clock: Clock,
    kind: SleepKind,
}

/// A wait by the source of a clock, which does not count suspensions of the machine.
enum SleepKind {
    Tokio { sleep: Pin<Box<tokio::time::Sleep>>, task: Option<Waker> },
    System { deadline: Instant, nap: Pin<Box<tokio::time::Sleep>> },
    Manual { clock: Arc<Manual>, deadline: Instant, id: Option<SleeperId>, name: WaitName },
}

impl Clock {
    /// Waits until `deadline`; if the machine is suspended meanwhile, for the rest of the time after that.
    #[track_caller]
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        let deadline = self.awake_at(deadline);
        let kind = match &self.source {
            ClockSource::System(_) => {
                SleepKind::System { deadline, nap: Box::pin(tokio::time::sleep(left(deadline))) }
            }
            ClockSource::Tokio(_) => {
                SleepKind::Tokio { sleep: Box::pin(tokio::time::sleep_until(deadline)), task: None }
            }
            ClockSource::Manual(manual) => {
                let name = WaitName::At(Location::caller());
                SleepKind::Manual { clock: Arc::clone(manual), deadline, id: None, name }
            }
        };
        Sleep { clock: self.clone(), kind }
    }
}

impl Sleep {
    /// Names the wait in [`Clock::waits`](crate::Clock::waits). Without this it is named by the line that began it. On other
    /// clocks than a manual one `name` is not called.
    pub fn named<S: Into<String>>(mut self, name: impl FnOnce() -> S) -> Self {
        if let SleepKind::Manual { name: named, .. } = &mut self.kind {
            *named = WaitName::Text(name().into().into());
        }
        self
    }

    /// Marks a timer of a task that no caller awaits, such as that of a ping. If its clock is abandoned, it ends its task
    /// later than the waits of callers, and without a message.
    pub fn internal(mut self, name: &'static str) -> Self {
        if let SleepKind::Manual { name: named, .. } = &mut self.kind {
            *named = WaitName::Internal(name);
        }
        self
    }

    /// Changes the deadline.
    pub fn reset(&mut self, to: Instant) {
        let to = self.clock.awake_at(to);
        match &mut self.kind {
            SleepKind::Tokio { sleep, task } => {
                *task = None;
                sleep.as_mut().reset(to);
            }
            SleepKind::System { deadline, nap } => {
                *deadline = to;
                nap.as_mut().reset(Instant::now() + left(to));
            }
            SleepKind::Manual { clock, deadline, id, .. } => {
                if let Some(id) = id.take() {
                    clock.forget(*deadline, id);
                }
                *deadline = to;
            }
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.kind {
            SleepKind::Tokio { sleep, task } => {
                // Most polls are caused by something else that the task waits for, and tokio registers the waker in each: 83 ns,
                // where this takes 6. A client's driver polls its timer twice for a get in process, of 6.4 µs on the same busy
                // machine, so this is 2.4 % of it.
                let registered = task.as_ref().is_some_and(|task| task.will_wake(cx.waker()));
                if registered && !sleep.is_elapsed() {
                    return Poll::Pending;
                }
                // Out of budget, or during a dump of all tasks, tokio reschedules the task instead of registering the waker.
                let registers = coop::has_budget_remaining() && !cfg!(tokio_unstable);
                *task = registers.then(|| cx.waker().clone());
                sleep.as_mut().poll(cx)
            }
            SleepKind::System { deadline, nap } => {
                let left = left(*deadline);
                if left.is_zero() {
                    return Poll::Ready(());
                }
                ready!(nap.as_mut().poll(cx));
                // tokio's time was moved, the machine's was not: sleep again, after other tasks have run.
                nap.as_mut().reset(Instant::now() + left);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            SleepKind::Manual { clock, deadline, id, name } => {
                match ready!(clock.wait(*deadline, id, name, cx.waker())) {
                    Ok(()) => Poll::Ready(()),
                    // The panic of the caller tells it all.
                    Err(reason) if name.is_internal() => resume_unwind(Box::new(reason.to_string())),
                    Err(reason) => panic!("{reason}"),
                }
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let SleepKind::Manual { clock, deadline, id: Some(id), .. } = &self.kind {
            clock.forget(*deadline, *id);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").finish_non_exhaustive()
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::from_std(std::time::Instant::now()))
}
