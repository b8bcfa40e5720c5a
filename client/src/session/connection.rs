//! From one connection to the next: the handshake, what a new connection begins with, what happens to the calls of a lost
//! one, and when to retry.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;
use zoolet_proto::frame::PREFIX;
use zoolet_proto::records::{ConnectRequest, ConnectResponse, Sync};
use zoolet_proto::{Request, SessionId, jute};

use super::pings::Pings;
use super::probe::ReadWriteProbe;
use super::{FIRST_BACKOFF, Phase, ProtocolViolation, SaslCredentials, Session};
use crate::command::Submission;
use crate::connection_error::ConnectionError;
use crate::context::ErrorDetail;
use crate::error::Error;
use crate::features::ServerFeature;
use crate::session_password::SessionPassword;
use crate::state::SessionState;
use crate::watch;

impl Session {
    /// The driver dials this host, or continues with a connection to it.
    pub(crate) fn handle_dialing(&mut self, host: Option<Arc<str>>) {
        self.shared.set_dialing(host.clone());
        self.host = host;
    }

    /// The driver is connected; the handshake begins.
    pub(crate) fn handle_connected(&mut self, now: Instant) {
        let Phase::Dialing { until } = self.phase else { return };
        self.phase = Phase::Handshaking { until, sent: now };
        self.last_heard = now;
        self.connect_request(self.settings.read_only).encode_frame(&mut self.out);
    }

    pub(super) fn connect_request(&self, read_only: bool) -> ConnectRequest {
        let timeout = self.settings.session_timeout.as_millis();
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.shared.last_zxid(),
            timeout: i32::try_from(timeout).unwrap_or(i32::MAX),
            session: if self.established { self.id } else { SessionId(0) },
            password: Some(self.password.clone()),
            read_only: Some(read_only),
        }
    }

    /// Bytes have arrived.
    pub(crate) fn handle_heard(&mut self, now: Instant) {
        self.last_heard = now;
    }

    /// A frame has arrived. On error the connection must be dropped.
    pub(crate) fn handle_frame(&mut self, now: Instant, frame: &[u8]) -> Result<(), ProtocolViolation> {
        self.shared.counters.bytes_received.add((frame.len() + PREFIX) as u64);
        match self.phase {
            Phase::Handshaking { until, sent } => {
                self.handle_connect_response(now, until, sent, jute::parse(frame)?)
            }
            Phase::Authenticating { .. } => match &self.settings.sasl {
                Some(SaslCredentials { handle_token, .. }) => handle_token(self, now, frame),
                None => Ok(()),
            },
            Phase::Serving => self.handle_reply(now, frame),
            Phase::Backoff { .. } | Phase::Dialing { .. } | Phase::Over => Ok(()),
        }
    }

    fn handle_connect_response(
        &mut self,
        now: Instant,
        until: Instant,
        sent: Instant,
        response: ConnectResponse,
    ) -> Result<(), ProtocolViolation> {
        let asked_for = if self.established { self.id } else { response.session };
        if response.is_refusal() || response.session != asked_for {
            if !self.established {
                return Err(ProtocolViolation("the server refused a new session"));
            }
            // A session that is to be closed and has expired is closed.
            let end = if self.closing.is_some() { SessionState::Closed } else { SessionState::Expired };
            let reason = self.is_to_be_resumed().then(|| {
                let text = format!("no server knows session {} with this password any more", self.id);
                ErrorDetail::Hint(text.into())
            });
            self.end(end, reason);
            return Ok(());
        }
        let read_only = response.read_only.unwrap_or(false);
        self.id = response.session;
        self.password = response.password;
        let granted = Duration::from_millis(u64::from(response.timeout.unsigned_abs()));
        // Once, and again only if another server grants something else that was not asked for either.
        let differs = |timeout: Duration| granted.as_millis() != timeout.as_millis();
        if differs(self.timeout) && differs(self.settings.session_timeout) {
            tracing::warn!(
                asked = ?self.settings.session_timeout,
                ?granted,
                "the server granted another session timeout than asked for; its minSessionTimeout and maxSessionTimeout limit it"
            );
        }
        self.timeout = granted;
        self.established |= !read_only;
        self.last_sent = sent;
        self.shared.set_session(self.id, self.timeout, SessionPassword(self.password.clone()));
        self.read_only = read_only;
        self.contacted(sent);
        let host = self.host.as_deref();
        tracing::info!(session = %self.id, host, timeout = ?self.timeout, read_only, "connected");
        if self.settings.sasl.is_some() {
            self.begin_sasl(until);
        } else {
            self.serve(now);
        }
        Ok(())
    }

    /// From now on the server answers requests.
    pub(super) fn serve(&mut self, now: Instant) {
        self.phase = Phase::Serving;
        self.probe = self.read_only.then(|| ReadWriteProbe::first(now));
        self.shared.set_server(self.host.clone());
        self.has_create2 = self.shared.supports(ServerFeature::Create2);
        self.shared.counters.connected();
        if let Some(servers) = &self.shared.servers {
            servers.forget_preferred();
        }
        self.resume(now);
        self.feeds.connected(self.generation);
        self.publish_connected();
    }

    /// Publishes that there is a connection. A new session does not count as connected before the server has accepted its
    /// identities, so that a refused one is always an error of `connect`.
    pub(super) fn publish_connected(&self) {
        if self.shared.state() == SessionState::Connecting && self.calls.awaits_auth() {
            return;
        }
        self.shared.set_state(match self.read_only {
            true => SessionState::ConnectedReadOnly,
            false => SessionState::Connected,
        });
    }

    /// Restores the state of the old connection on the new one: identities, watches, then the calls that have waited.
    fn resume(&mut self, now: Instant) {
        for auth in self.auths.clone() {
            self.transmit(now, Submission::internal(Request::Auth(auth)));
        }
        let restoring = watch::restore(&self.watches, self.shared.last_zxid(), self.settings.max_request);
        self.watches.restored();
        for request in restoring {
            let call = Submission::internal(request);
            let has = !matches!(call.request, Request::SetWatches2(_))
                || self.shared.supports(ServerFeature::AddWatch) != Some(false);
            // A server that does not know it closes the connection.
            if has { self.transmit(now, call) } else { self.abandon(&call) }
        }
        // A read-only server refuses it; it is sent on a later connection.
        if self.calls.owes_sync() && !self.read_only {
            let path = Some("/".to_owned());
            self.transmit(now, Submission::internal(Request::Sync(Sync { path })));
        }
        for call in self.calls.take_waiting() {
            self.transmit(now, call);
        }
        if self.closing.is_some() {
            self.transmit(now, Submission::internal(Request::CloseSession));
        }
    }

    /// Another server is to have this client. A connection is given up as soon as nothing is in flight on it, so that no write
    /// fails for this; later calls wait for the next one.
    pub(super) fn leave_server(&mut self, now: Instant) {
        self.leaving = match self.phase {
            // Nothing follows a close.
            Phase::Serving => self.closing.is_none(),
            Phase::Dialing { .. } | Phase::Handshaking { .. } | Phase::Authenticating { .. } => true,
            Phase::Backoff { .. } | Phase::Over => false,
        };
        self.leave_if_idle(now);
    }

    /// Gives up a connection that is to be left, if nothing is in flight.
    pub(super) fn leave_if_idle(&mut self, now: Instant) {
        if self.leaving && self.calls.in_flight() == 0 {
            self.handle_loss(now, io::Error::other("left for another server of the updated list"));
            // The server has not failed.
            self.failures -= 1;
        }
    }

    /// The connection, or the attempt at one, has failed.
    pub(crate) fn handle_loss(&mut self, now: Instant, error: io::Error) {
        if self.phase == Phase::Over {
            return;
        }
        let never =
            error.kind() == io::ErrorKind::Unsupported && !self.established && self.shared.hosts() <= 1;
        #[cfg(feature = "tls")]
        let error = crate::tls_stream::explain_later(error);
        let error = ConnectionError::new(self.host.clone(), &error);
        let was_serving = self.phase == Phase::Serving;
        let is_news = self.leave_connection(now, &error);
        if was_serving {
            tracing::warn!(session = %self.id, %error, "connection lost");
        } else if is_news {
            tracing::warn!(session = %self.id, %error, "no connection");
        } else {
            // Attempts go on for ever, so what has been reported already is not repeated.
            tracing::debug!(session = %self.id, %error, "no connection");
        }
        self.failures += 1;
        self.phase = Phase::Backoff { until: now + self.backoff() };
        // Nobody has the session yet, and it is closed, or no attempt can succeed.
        if never || self.closing.is_some() && !self.established {
            self.end(SessionState::Closed, None);
        }
    }

    /// Publishes the end of this connection, or of the attempt at one, and handles the loss of everything in flight. Returns
    /// whether `error` is news for the host.
    pub(super) fn leave_connection(&mut self, now: Instant, error: &ConnectionError) -> bool {
        let is_news = self.shared.set_failure(error.clone());
        self.shared.counters.failed(self.phase == Phase::Serving);
        if self.shared.state().is_connected() {
            self.shared.set_state(SessionState::Disconnected);
        }
        self.generation += 1;
        self.leaving = false;
        self.out.clear();
        self.pings = Pings::default();
        self.watches.lose_connection();
        self.feeds.lost();
        self.shared.counters.in_flight.set(0);
        self.calls.lose_connection(now + self.timeout, |call| {
            self.shared.counters.call_lost();
            call.fail(true, |context| Error::ConnectionLoss(context.because_of(Some(error.clone()))));
        });
        is_news
    }

    /// The pause before the next attempt: none after a connection that was useful, nor until every host has been tried.
    /// Then up to [`FIRST_BACKOFF`], at random, so that the clients of a restarted server do not return all at once. Each
    /// further round about doubles it, up to a sixth of the session timeout and never below [`FIRST_BACKOFF`].
    fn backoff(&mut self) -> Duration {
        let hosts = self.shared.hosts().max(1);
        if (self.failures == 1 && self.established) || self.failures % hosts != 0 {
            return Duration::ZERO;
        }
        let round = u32::try_from(self.failures / hosts - 1).unwrap_or(u32::MAX);
        let most = (FIRST_BACKOFF * 2u32.pow(round.min(16))).min((self.timeout / 6).max(FIRST_BACKOFF));
        let least = if round == 0 { Duration::ZERO } else { most / 2 };
        self.rng.random_range(least..=most)
    }
}
