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

/// The next probe, or the one in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadWriteProbe {
    /// When it begins, or is given up.
    until: Instant,
    /// The pause before it.
    pause: Duration,
    /// When the session was asked for, if it has begun.
    sent: Option<Instant>,
}

impl ReadWriteProbe {
    pub(super) fn first(now: Instant) -> Self {
        Self::after(FIRST_PAUSE, now)
    }

    fn after(pause: Duration, now: Instant) -> Self {
        Self { until: now + pause, pause, sent: None }
    }
}

impl Session {
    /// Whether the driver is to ask another server, over a second connection.
    pub(crate) fn is_probing(&self) -> bool {
        self.probe_due().is_some() && self.probe.is_some_and(|probe| probe.sent.is_some())
    }

    /// When to call [`Session::handle_probe_timeout`].
    pub(super) fn probe_due(&self) -> Option<Instant> {
        let wanted = self.phase == Phase::Serving && self.closing.is_none();
        self.probe.filter(|_| wanted).map(|probe| probe.until)
    }

    /// Returns the bytes to write to the other server once it is connected.
    pub(crate) fn handle_probe_connected(&mut self, now: Instant) -> BytesMut {
        let mut out = BytesMut::new();
        self.connect_request(false).encode_frame(&mut out);
        if let Some(probe) = &mut self.probe {
            probe.sent = Some(now);
        }
        out
    }

    /// The other server has not granted the session.
    pub(crate) fn handle_probe_failed(&mut self, now: Instant) {
        self.probe = self.probe.map(|probe| ReadWriteProbe::after((probe.pause * 2).min(LONGEST_PAUSE), now));
    }

    /// The other server has answered with this frame. Returns whether the answer decides: the driver then continues with
    /// that connection, whose handshake is in progress, and hands it this frame again.
    pub(crate) fn handle_probe_answered(&mut self, now: Instant, frame: &[u8]) -> bool {
        let Some(ReadWriteProbe { until, sent: Some(sent), .. }) = self.probe else { return false };
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
            Some(ReadWriteProbe { pause, sent: None, .. }) => {
                let until = now + self.attempt_timeout();
                self.probe = Some(ReadWriteProbe { until, pause, sent: Some(now) });
            }
            _ => self.handle_probe_failed(now),
        }
    }
}
