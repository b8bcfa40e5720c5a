//! The probe for a server that takes writes, while the session is served by one that is cut off from its ensemble.
//!
//! The next host is asked for the session over a second connection, without accepting read-only service. A server that
//! is cut off too refuses. A server that grants the session owns it from then on, and the second connection replaces the
//! first. The Java client sends `isro` first (`ClientCnxn.pingRwServer`), which a server may not be configured to answer,
//! and then dials once more.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::Instant;
use zoolet_proto::jute;
use zoolet_proto::records::ConnectResponse;

use super::{Phase, Session};
use crate::connection_error::ConnectionError;

/// The first pause before a probe. Each pause is twice as long as the one before, up to the longest, as in Java.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default, Clone, Copy)]
pub(super) enum ReadWriteProbe {
    /// The server takes writes, or there is no connection.
    #[default]
    Off,
    Waiting {
        until: Instant,
        pause: Duration,
    },
    Probing {
        until: Instant,
        /// When the session was asked for.
        sent: Instant,
        pause: Duration,
    },
}

impl ReadWriteProbe {
    pub(super) fn for_connection(now: Instant, read_only: bool) -> Self {
        match read_only {
            true => Self::Waiting { until: now + FIRST_PAUSE, pause: FIRST_PAUSE },
            false => Self::Off,
        }
    }

    fn next_timeout(self) -> Option<Instant> {
        match self {
            Self::Off => None,
            Self::Waiting { until, .. } | Self::Probing { until, .. } => Some(until),
        }
    }
}

impl Session {
    /// Whether the driver is to ask another server, over a second connection.
    pub(crate) fn is_probing(&self) -> bool {
        self.probe_due().is_some() && matches!(self.probe, ReadWriteProbe::Probing { .. })
    }

    /// When to call [`Session::handle_probe_timeout`].
    pub(super) fn probe_due(&self) -> Option<Instant> {
        let wanted = self.phase == Phase::Serving && self.closing.is_none();
        self.probe.next_timeout().filter(|_| wanted)
    }

    /// Returns the bytes to write to the other server once it is connected.
    pub(crate) fn handle_probe_connected(&mut self, now: Instant) -> BytesMut {
        let mut out = BytesMut::new();
        self.connect_request(false).encode_frame(&mut out);
        if let ReadWriteProbe::Probing { sent, .. } = &mut self.probe {
            *sent = now;
        }
        out
    }

    /// The other server has not granted the session.
    pub(crate) fn handle_probe_failed(&mut self, now: Instant) {
        if let ReadWriteProbe::Probing { pause, .. } = self.probe {
            let pause = (pause * 2).min(LONGEST_PAUSE);
            self.probe = ReadWriteProbe::Waiting { until: now + pause, pause };
        }
    }

    /// The other server has answered with this frame. Returns whether the answer decides: the driver then continues with
    /// that connection, whose handshake is in progress, and hands it this frame again.
    pub(crate) fn handle_probe_answered(&mut self, now: Instant, frame: &[u8]) -> bool {
        let ReadWriteProbe::Probing { until, sent, .. } = self.probe else { return false };
        let decides = |response: ConnectResponse| match response.is_refusal() {
            // Any server may report that an established session has expired.
            true => self.established,
            false => response.read_only != Some(true),
        };
        if !jute::parse(frame).is_ok_and(decides) {
            self.handle_probe_failed(now);
            return false;
        }
        tracing::debug!("switching from a read-only server to one that answered the probe");
        let left = io::Error::other("left for a server that takes writes");
        self.leave_connection(now, &ConnectionError::new(self.host.clone(), &left));
        self.phase = Phase::Handshaking { until, sent };
        self.last_heard = now;
        true
    }

    pub(super) fn handle_probe_timeout(&mut self, now: Instant) {
        match self.probe {
            ReadWriteProbe::Waiting { pause, .. } => {
                self.probe =
                    ReadWriteProbe::Probing { until: now + self.attempt_timeout(), sent: now, pause };
            }
            ReadWriteProbe::Probing { .. } => self.handle_probe_failed(now),
            ReadWriteProbe::Off => {}
        }
    }
}
