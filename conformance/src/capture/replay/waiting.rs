//! What a [`Player`] waits for, and the sessions that it keeps alive meanwhile.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use zoolet_proto::Request;

use super::ids::ReplayedSession;
use super::player::Player;
use super::step::Step;
use crate::error::CaptureError;
use crate::wire::connection::ReceiveError;
use crate::wire::conversation::FromServer;

/// How often sessions are kept alive while something is waited for.
const TICK: Duration = Duration::from_millis(50);
/// How often the server is asked how far it is while something is waited for that it does by itself.
const POLL: Duration = Duration::from_millis(2);
/// The longest time that is waited for what a timer of the server has done.
const TIMER_LIMIT: Duration = Duration::from_secs(60);

impl Player<'_> {
    /// Waits until the new server is as far as the captured one was before this step. What the plan has no step for is left to its timers.
    pub(super) async fn catch_up(&mut self, step: &Step) -> Result<(), CaptureError> {
        let begun = Instant::now();
        while self.new_zxid < self.ids.new_zxid(step.after) {
            self.ask_zxid().await?;
            if self.new_zxid >= self.ids.new_zxid(step.after) {
                break;
            }
            if begun.elapsed() > self.timer_limit() {
                let (captured, came) = (step.after, self.new_zxid - self.ids.offset);
                let missing = format!("transactions of the server itself up to zxid {captured:#x}");
                self.unasked_difference(step, &missing, &format!("it is still at {came:#x}"));
                // It is reported once: the rest is compared from where the server is.
                self.ids.offset = self.new_zxid - step.after;
                break;
            }
            sleep(POLL).await;
            self.tick().await;
        }
        Ok(())
    }

    /// How long a timer of the server may take.
    pub(super) fn timer_limit(&self) -> Duration {
        self.plan.duration.min(TIMER_LIMIT) + self.replay.limit
    }

    /// Asks the server how far it is.
    pub(super) async fn ask_zxid(&mut self) -> Result<(), CaptureError> {
        self.ask(&Request::Ping).await.map(drop)
    }

    /// Waits until the server must have given up a session: it looks at most half a timeout after its time is over.
    pub(super) async fn wait_for_expiry(&mut self, session: &ReplayedSession) {
        while session.heard.elapsed() < session.timeout.mul_f64(1.5) + 2 * TICK {
            sleep(TICK).await;
            self.tick().await;
        }
    }

    /// Keeps the sessions alive whose clients have something to say later in the capture.
    pub(super) async fn tick(&mut self) {
        if self.ticked.elapsed() < TICK {
            return;
        }
        self.ticked = Instant::now();
        // If it fails, the replay goes on until a step needs an answer of its own session.
        let _ = self.ask_zxid().await;
        for (connection, link) in &mut self.links {
            let says_more = |number| self.plan.connections[number].last_sign > self.at;
            if link.session.is_some() && says_more(connection) {
                link.ping().await;
                if let Some(session) = self.ids.session_mut(link.session) {
                    session.heard = self.ticked;
                }
            }
        }
    }

    /// Waits for something on a connection, and keeps sessions alive meanwhile. A server that sends on and on what is not waited for
    /// does not make it later.
    pub(super) async fn wait_for<T>(
        &mut self,
        connection: u32,
        limit: Duration,
        wanted: impl Fn(Result<FromServer, String>) -> Option<T>,
    ) -> Result<T, ReceiveError> {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            let Some(link) = self.links.get_mut(&connection) else { return Err(ReceiveError::Ended) };
            match timeout(TICK, link.next()).await {
                Ok(None) => return Err(ReceiveError::Ended),
                Ok(Some(message)) => {
                    if let Some(found) = wanted(message) {
                        return Ok(found);
                    }
                }
                Err(_) => {}
            }
            self.tick().await;
        }
        Err(ReceiveError::Late(limit))
    }
}

/// Why an answer has not come. Other messages may have.
pub(super) fn why_missing(error: &ReceiveError) -> String {
    match error {
        ReceiveError::Late(limit) => format!("no answer within {} s", limit.as_secs_f64()),
        error => error.to_string(),
    }
}
