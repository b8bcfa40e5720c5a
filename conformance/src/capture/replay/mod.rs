//! [`Replay`]: sends what clients have said in a capture again, and compares what comes.
//!
//! Nothing is judged by time: each request waits for the reply to the one before. What the captured server did by itself, such as the
//! end of a session that had expired, is done by the replay at the same point if the capture shows what it was. Otherwise the replay
//! waits until the new server has done it as well.
//!
//! ```text
//! records -> Reading, Draft -> UpperBounds, Order -> Plan, Step -> Player, Link -> Replayed
//! ```
//!
//! | file | subject |
//! | --- | --- |
//! | `reading.rs` | `Reading`: records one after the other, as a `Draft` of each step and what its place follows from |
//! | `timeline.rs` | `Timeline`: how far the captured server was at each record, and which transactions nothing explains |
//! | `expiry.rs` | `Expiries`: which of these were sessions that had expired |
//! | `order.rs` | `Order`: the place of each step, and a guess of the zxids that no reply names |
//! | `plan.rs` | `Plan`: the steps of clients and of the captured server, sorted |
//! | `step.rs` | `Step`: one of them, with its `Action` and what is `Awaited` |
//! | `player.rs` | `Player`: makes the steps on the new server, and compares |
//! | `waiting.rs` | what the `Player` waits for, and how it keeps sessions alive |
//! | `link.rs` | `Link`: a connection to the new server in place of a captured one |
//! | `ids.rs` | `Ids`: sessions and zxids of the new server in those of the capture, and what is left out of a comparison |

mod expiry;
mod ids;
mod link;
mod order;
mod plan;
mod player;
mod reading;
mod step;
mod timeline;
mod waiting;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::capture::format::Records;
use crate::error::CaptureError;
use plan::Plan;
use player::Player;

/// Replays captures on a server, which nobody else may use meanwhile.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The server as HOST:PORT.
    pub server: String,
    /// Schemes and credentials to put in the place of those that are masked. An auth request gets the first ones of its scheme
    /// and length, and for the scheme `digest` of its user.
    pub auth: Vec<(String, Bytes)>,
    /// How long the server may take for an answer. What its timers do may take longer by the length of the capture, at most 60 s.
    pub limit: Duration,
}

/// What has come of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replayed {
    /// How many connections were opened.
    pub connections: usize,
    /// How many requests were sent.
    pub requests: usize,
    /// How many events have come.
    pub events: usize,
    /// How many pings were left out, as they are a matter of time.
    pub pings: usize,
    /// How many requests could not be sent, because their connection was lost.
    pub unsent: usize,
    /// How many auth requests were sent with zeros, because no credentials fit.
    pub masked_auth: usize,
    /// How many SASL requests were sent with zeros.
    pub masked_sasl: usize,
    /// How many transactions changed nothing that the capture shows: those that the server refused itself, and those of clients
    /// that were not captured. A refused request took the place of each.
    pub unexplained: usize,
    /// What was not as captured.
    pub differences: Vec<ReplayDifference>,
    /// What to say of the file, if it breaks off.
    pub warning: Option<String>,
}

/// Something that was not as captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayDifference {
    /// When the request was captured.
    pub time: Duration,
    /// The connection of the capture.
    pub connection: u32,
    /// The request, or what else has happened.
    pub request: String,
    /// What was captured.
    pub captured: String,
    /// What has come instead, in the ids of the capture.
    pub replayed: String,
}

impl Replay {
    /// Replays a capture.
    ///
    /// # Errors
    /// If the file cannot be read, or the server is not a ZooKeeper or has gone away.
    pub async fn run(&self, file: &Path) -> Result<Replayed, CaptureError> {
        let plan = Plan::read(Records::open(file)?)?;
        Player::new(self, plan).await?.play().await
    }

    /// The credentials for an auth request whose own are masked.
    pub(super) fn credentials(&self, scheme: &str, masked: &[u8]) -> Option<&Bytes> {
        // The user of a digest is not masked.
        let user = masked.iter().position(|byte| *byte == 0).unwrap_or(masked.len());
        let fits = |(known, auth): &&(String, Bytes)| {
            known == scheme && auth.len() == masked.len() && auth[..user] == masked[..user]
        };
        self.auth.iter().find(fits).map(|(_, auth)| auth)
    }
}
