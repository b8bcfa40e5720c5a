//! The look for a server that takes writes, while the one that serves the session is cut off from its ensemble.
//!
//! The next host is asked for the session by a connection of its own, with no word of being content with reading. One that
//! is cut off too refuses that. One that grants it has the session from then on, and that connection takes the place of the
//! other. A real client asks `isro` instead (`ClientCnxn.pingRwServer`), which a server may not be willing to answer, and
//! dials once more.

use std::time::Duration;

use bytes::BytesMut;
use tokio::time::Instant;
use zoolet_proto::jute;
use zoolet_proto::records::ConnectResponse;

use super::{Phase, Session};
use crate::state::SessionState;

/// How long the first pause before a look is, and the longest; each is twice the one before. Those of a real client.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);

/// What is done to find another server.
#[derive(Debug, Default, Clone, Copy)]
pub(super) enum Search {
    /// Nothing: this one takes writes, or there is none.
    #[default]
    Off,
    Resting {
        until: Instant,
        pause: Duration,
    },
    Out {
        until: Instant,
        /// When the session was asked for.
        sent: Instant,
        pause: Duration,
    },
}

impl Search {
    pub(super) fn of_a_new_connection(now: Instant, read_only: bool) -> Self {
        if read_only { Self::Resting { until: now + FIRST, pause: FIRST } } else { Self::Off }
    }

    fn next_timeout(self) -> Option<Instant> {
        match self {
            Self::Off => None,
            Self::Resting { until, .. } | Self::Out { until, .. } => Some(until),
        }
    }
}

impl Session {
    /// Whether another server is to be asked, by a connection beside the one that serves.
    pub(crate) fn searches(&self) -> bool {
        self.search_due().is_some() && matches!(self.search, Search::Out { .. })
    }

    /// When the search goes on, if there is one.
    pub(super) fn search_due(&self) -> Option<Instant> {
        // Whoever closes has no use for it any more.
        let wanted = self.phase == Phase::Serving && self.closing.is_none();
        self.search.next_timeout().filter(|_| wanted)
    }

    /// There is a stream to another server; what to ask it.
    pub(crate) fn handle_search_connected(&mut self, now: Instant) -> BytesMut {
        let mut out = BytesMut::new();
        self.hello(false).encode_frame(&mut out);
        if let Search::Out { sent, .. } = &mut self.search {
            *sent = now;
        }
        out
    }

    /// The other server has not granted the session.
    pub(crate) fn handle_search_failed(&mut self, now: Instant) {
        if let Search::Out { pause, .. } = self.search {
            let pause = (pause * 2).min(LONGEST);
            self.search = Search::Resting { until: now + pause, pause };
        }
    }

    /// The other server has answered with this frame. If it is an answer to go by, the driver goes on with the stream to it,
    /// as with one whose handshake is under way; false if this one stays.
    pub(crate) fn handle_search_answered(&mut self, now: Instant, frame: &[u8]) -> bool {
        let Search::Out { until, sent, .. } = self.search else { return false };
        let grants = |response: ConnectResponse| match response.is_refusal() {
            // That the session is over is true wherever it is heard.
            true => self.established,
            false => response.read_only != Some(true),
        };
        if !jute::parse(frame).is_ok_and(grants) {
            self.handle_search_failed(now);
            return false;
        }
        tracing::debug!("another server answers; leaving the read-only one");
        self.shared.set_state(SessionState::Disconnected);
        self.leave_connection(now);
        self.phase = Phase::Greeting { until, sent };
        self.last_heard = now;
        true
    }

    pub(super) fn handle_search_timeout(&mut self, now: Instant) {
        match self.search {
            Search::Resting { pause, .. } => {
                self.search = Search::Out { until: now + self.patience(), sent: now, pause };
            }
            Search::Out { .. } => self.handle_search_failed(now),
            Search::Off => {}
        }
    }
}
