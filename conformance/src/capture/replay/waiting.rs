//! What a [`Player`] waits for, and the sessions that it keeps alive meanwhile.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use zoolet_proto::{OpCode, Xid};

use super::link::Came;
use super::plan::Step;
use super::player::{Activity, Player};
use crate::error::CaptureError;
use crate::wire::connection::{Frame, Silence};
use crate::wire::fields::Value;

/// How often sessions are kept alive while something is waited for.
const TICK: Duration = Duration::from_millis(50);
/// The longest time that is waited for what a timer of the server has done.
const TIMER_LIMIT: Duration = Duration::from_secs(60);

impl Player<'_> {
    /// Waits until the server is as far as it was before this step. What no request explains is done by a timer of it.
    pub(super) async fn catch_up(&mut self, step: &Step) -> Result<(), CaptureError> {
        let begun = Instant::now();
        while self.zxid < self.ids.zxid(step.after) {
            self.observe().await?;
            if self.zxid >= self.ids.zxid(step.after) {
                break;
            }
            if begun.elapsed() > self.timer_limit() {
                let (captured, came) = (step.after, self.zxid - self.ids.offset);
                self.differ(
                    step,
                    "nothing was asked",
                    format!("transactions of the server itself up to zxid {captured:#x}"),
                    format!("it is still at {came:#x}"),
                );
                self.ids.offset = self.zxid - step.after;
                break;
            }
            sleep(Duration::from_millis(2)).await;
            self.tick().await;
        }
        Ok(())
    }

    /// How long a timer of the server may take.
    pub(super) fn timer_limit(&self) -> Duration {
        self.plan.duration.min(TIMER_LIMIT) + self.replay.limit
    }

    /// Asks the server how far it is.
    pub(super) async fn observe(&mut self) -> Result<(), CaptureError> {
        let gone = |silence: Silence| CaptureError::server(&self.replay.server, silence.to_string());
        self.observer.send(OpCode::Ping.code(), Some(Xid::PING.0), &[]).await.map_err(gone)?;
        if let Frame::Reply(fields) = self.observer.next().await.map_err(gone)? {
            if let Some((_, Value::Int(zxid))) = fields.iter().find(|(name, _)| *name == "zxid") {
                self.zxid = self.zxid.max(*zxid);
            }
        }
        Ok(())
    }

    /// Waits until the server must have given up a session: it looks at most half a timeout after its time is over.
    pub(super) async fn expire(&mut self, activity: Activity) {
        while activity.last.elapsed() < activity.timeout.mul_f64(1.5) + 2 * TICK {
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
        // If it fails, the next step tells.
        let _ = self.observe().await;
        for (connection, link) in &mut self.links {
            let Some(session) = link.session else { continue };
            if self.plan.last_sign.get(connection).is_some_and(|last| *last > self.at) {
                link.ping().await;
                if let Some(activity) = self.sessions.get_mut(&session) {
                    activity.last = self.ticked;
                }
            }
        }
    }

    /// What comes next on a connection; none if nothing does until then. A server that sends on and on what is not waited for does not
    /// make it later.
    pub(super) async fn next(&mut self, connection: u32, until: Instant) -> Option<Came> {
        while Instant::now() < until {
            let Some(link) = self.links.get_mut(&connection) else { return Some(Came::Ended) };
            if let Ok(came) = timeout(TICK, link.next()).await {
                return Some(came);
            }
            self.tick().await;
        }
        None
    }
}
