//! How a [`TestServer`] lets time pass.

use std::collections::BTreeMap;
use std::panic::Location;
use std::pin::pin;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;
use zoolet_client::Clock;
use zoolet_fixture::{FixtureError, StallGuard};

use super::TestServer;

/// The limit of waiting for a future, on the clock.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The least time on the clock before a wait in which nothing happens is given up because of the real time that it took.
const HOUR: Duration = Duration::from_secs(3600);

/// From this many calls of `advance` at one place on, they are a loop.
const LOOP: u64 = 100;

/// How many kinds of timers an error names.
const NAMED: usize = 8;

/// The last calls of `advance`, all at one place, between which clients sent nothing but pings.
#[derive(Debug, Default)]
pub(super) struct AdvanceLoop {
    place: Option<&'static Location<'static>>,
    calls: u64,
    passed: Duration,
    happened: u64,
}

/// Since when clients have sent nothing but pings.
struct Quiet {
    happened: u64,
    real: std::time::Instant,
    clock: Instant,
}

impl Quiet {
    fn since(zk: &TestServer) -> Self {
        let (happened, clock) = (zk.counters().all_but_pings(), zk.clock().now());
        Self { happened, real: std::time::Instant::now(), clock }
    }

    /// Whether a wait should be given up, because it takes long in both times.
    fn is_too_long(&mut self, zk: &TestServer) -> bool {
        let Some(limit) = zk.stall.as_ref().map(StallGuard::limit) else { return false };
        if self.real.elapsed() < limit || zk.clock().now() - self.clock < HOUR {
            return false;
        }
        let before = self.happened;
        *self = Self::since(zk);
        self.happened == before
    }
}

impl TestServer {
    /// Advances the clock by `duration`, in steps: it stops at each pending timeout until all clients have reacted. So
    /// pings are answered in time, and sessions expire in order.
    ///
    /// A manual clock moves by exactly `duration`. A paused tokio clock moves as tokio moves it, to the next timer of any task
    /// whenever the runtime is idle, so a program that sleeps with tokio is woken as well; the time of its timers is rounded
    /// up to a millisecond. It does not wait for bytes in flight on sockets, so connect clients in process.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zoolet::{Client, Clock, testing::TestServer};
    ///
    /// /// A program under test, which sleeps with tokio.
    /// async fn report(client: Client) -> Result<(), zoolet::Error> {
    ///     loop {
    ///         tokio::time::sleep(Duration::from_secs(60)).await;
    ///         client.create("/report-", "").sequential().await?;
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // In a test: #[tokio::test(start_paused = true)], with the feature `test-util` of tokio.
    /// let zk = TestServer::builder().clock(Clock::tokio()).start().await?;
    /// tokio::spawn(report(zk.client().await));
    /// zk.advance(Duration::from_secs(601)).await?;
    /// assert_eq!(zk.children("/").len(), 11);              // ten reports, and /zookeeper
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Clock` if the clock is neither manual nor a paused tokio clock, `TooFar` past the end of the clock, `NeverIdle`.
    /// `GoesNowhere` if a loop calls this for more than a day on the clock, and clients send nothing but pings meanwhile.
    #[track_caller]
    pub fn advance(&self, duration: Duration) -> impl Future<Output = Result<(), FixtureError>> {
        let place = Location::caller();
        async move {
            let end = self.clock().now().checked_add(duration).ok_or(FixtureError::TooFar(duration))?;
            self.notice_loop(place, duration)?;
            self.wait_until_idle().await?;
            if self.clock().is_paused() {
                self.clock().sleep_until(end).await;
                return self.wait_until_idle().await;
            }
            loop {
                let left = end.saturating_duration_since(self.clock().now());
                if self.clock().advance_to_next_timeout(left)?.is_none() {
                    self.clock().advance(left)?;
                    self.wait_until_idle().await?;
                    let at_end = self.clock().now() >= end;
                    return if at_end { Ok(()) } else { Err(FixtureError::TooFar(duration)) };
                }
                self.wait_until_idle().await?;
            }
        }
    }

    /// Advances the manual clock to the next pending timeout and returns by how much; `None` if there is none.
    ///
    /// # Errors
    /// `Clock` if the clock is not manual, `UnknownTimer` if it is a paused tokio clock, `NeverIdle`.
    pub async fn advance_to_next_timeout(&self) -> Result<Option<Duration>, FixtureError> {
        if self.clock().is_paused() {
            return Err(FixtureError::UnknownTimer);
        }
        self.wait_until_idle().await?;
        let moved = self.clock().advance_to_next_timeout(Duration::MAX)?;
        self.wait_until_idle().await?;
        Ok(moved)
    }

    /// Waits for `future` and lets time pass: whenever everything is idle, the clock advances to the next pending timeout. Use
    /// it for work that needs time, such as acquiring a lock while connections are lost repeatedly. See
    /// [`advance`](TestServer::advance) for the clocks.
    ///
    /// # Errors
    /// `Clock` if the clock is neither manual nor a paused tokio clock, `NeverIdle`. `NeverHappens` if there is no pending
    /// timeout, or after a day on the clock, or after an hour on it in which clients sent nothing but pings and the
    /// [`stall_timeout`](super::TestServerBuilder::stall_timeout) has elapsed in real time.
    #[track_caller]
    pub fn pass_time_until<F: IntoFuture>(
        &self,
        future: F,
    ) -> impl Future<Output = Result<F::Output, FixtureError>> {
        let place = Location::caller();
        async move {
            let mut future = pin!(future.into_future());
            let began = self.clock().now();
            let never = |timers| {
                let after = self.clock().now() - began;
                FixtureError::NeverHappens { after, place: shown(place), timers }
            };
            if self.clock().is_paused() {
                let outcome = tokio::time::timeout(DAY, future).await;
                return outcome.map_err(|_| never("timers of tokio".to_owned()));
            }
            let mut timers = BTreeMap::new();
            let mut quiet = Quiet::since(self);
            loop {
                let idle = self.wait_until_idle();
                // Biased: a future that is ready needs no time.
                let idle = tokio::select! {
                    biased;
                    output = &mut future => return Ok(output),
                    idle = idle => idle,
                };
                idle?;
                let next = self.clock().next_wait();
                let given_up = self.clock().now() - began > DAY || quiet.is_too_long(self);
                if given_up || self.clock().advance_to_next_timeout(DAY)?.is_none() {
                    return Err(never(listed(&timers)));
                }
                *timers.entry(next.map(|next| next.what).unwrap_or_default()).or_insert(0) += 1;
            }
        }
    }

    /// Fails if `advance` is called at `place` again and again and gets nowhere.
    fn notice_loop(&self, place: &'static Location<'static>, duration: Duration) -> Result<(), FixtureError> {
        if self.stall.is_none() {
            return Ok(());
        }
        let happened = self.fixture.counters().all_but_pings();
        let mut calls = self.advance_loop.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.place != Some(place) || calls.happened != happened {
            *calls = AdvanceLoop { place: Some(place), happened, ..AdvanceLoop::default() };
        }
        calls.calls += 1;
        calls.passed = calls.passed.saturating_add(duration);
        if calls.calls <= LOOP || calls.passed <= DAY {
            return Ok(());
        }
        let waits = waits_of(self.clock());
        Err(FixtureError::GoesNowhere { after: calls.passed, calls: calls.calls, place: shown(place), waits })
    }
}

fn shown(place: &Location<'_>) -> String {
    format!("{}:{}", place.file(), place.line())
}

fn waits_of(clock: &Clock) -> String {
    let mut counts = BTreeMap::new();
    for wait in clock.waits() {
        *counts.entry(wait.what).or_insert(0) += 1;
    }
    listed(&counts)
}

/// The most frequent timers.
fn listed(counts: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let name = |(name, count): &(&String, &u64)| match count {
        1 => (*name).clone(),
        _ => format!("{name} ({count} times)"),
    };
    let names: Vec<_> = counts.iter().take(NAMED).map(name).collect();
    let more = if counts.len() > NAMED { ", and others" } else { "" };
    if names.is_empty() { "no timer".to_owned() } else { names.join(", ") + more }
}
