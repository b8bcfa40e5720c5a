//! [`Session`]: what the judge remembers of a session across its connections.

use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::{AuthPacket, SaslToken};
use zoolet_proto::{ErrorCode, Request, SessionId, Zxid};

use crate::client::evidence::Evidence;
use crate::client::watches::Watches;

#[derive(Default)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) password: Bytes,
    pub(crate) timeout: Duration,
    /// The connection that it is attached to.
    pub(crate) connection: Option<usize>,
    /// What its client must have seen.
    pub(crate) known: Zxid,
    pub(crate) watches: Watches,
    auth: Vec<Auth>,
    pub(crate) has_ended: bool,
    pub(crate) is_closing: bool,
    /// Since when it has had no connection, by no act of its client.
    pub(crate) away_since: Option<Duration>,
    /// For how long its client was silent before it gave up a connection on which all was answered, and its last frame.
    pub(crate) gave_up: Option<(Duration, Evidence)>,
    /// The connect request for a new session in its place.
    pub(crate) successor: Option<Evidence>,
}

/// Credentials that a server has accepted.
struct Auth {
    credentials: Credentials,
    since: Duration,
    /// Whether its client has sent them on the connection that is open.
    is_current: bool,
}

#[derive(PartialEq, Eq)]
enum Credentials {
    Packet(AuthPacket),
    /// The response to a challenge, which is another one on each connection.
    Sasl,
}

impl Credentials {
    fn of(request: &Request) -> Option<Self> {
        match request {
            Request::Auth(packet) => Some(Self::Packet(packet.clone())),
            // The first token of an exchange is empty.
            Request::Sasl(SaslToken(Some(token))) if !token.is_empty() => Some(Self::Sasl),
            _ => None,
        }
    }
}

impl Session {
    /// Its client has sent what may restore something.
    pub(crate) fn requested(&mut self, request: &Request) {
        self.watches.requested(request);
        if let Some(credentials) = Credentials::of(request) {
            let again = self.auth.iter_mut().filter(|auth| auth.credentials == credentials);
            again.for_each(|auth| auth.is_current = true);
        }
    }

    /// Its client has got a reply.
    pub(crate) fn replied(&mut self, request: &Request, error: Option<ErrorCode>, at: Duration) {
        self.watches.replied(request, error, at);
        if error.is_some() {
            return;
        }
        self.has_ended |= *request == Request::CloseSession;
        if let Some(credentials) = Credentials::of(request) {
            if !self.auth.iter().any(|auth| auth.credentials == credentials) {
                self.auth.push(Auth { credentials, since: at, is_current: true });
            }
        }
    }

    /// Its connection is gone. What came after `certain` may be unknown to the client; of the replies until then, `known` is the
    /// largest zxid.
    pub(crate) fn disconnected(&mut self, certain: Duration, known: Option<Zxid>) {
        self.known = self.known.max(known.unwrap_or_default());
        self.watches.disconnected(certain);
        self.auth.retain(|auth| auth.since <= certain);
        self.auth.iter_mut().for_each(|auth| auth.is_current = false);
        self.connection = None;
    }

    /// Whether its client has given credentials.
    pub(crate) fn has_auth(&self) -> bool {
        !self.auth.is_empty()
    }

    /// The scheme of credentials that its client has yet to send again.
    pub(crate) fn owed_auth(&self) -> Option<String> {
        let owed = self.auth.iter().find(|auth| !auth.is_current)?;
        Some(match &owed.credentials {
            Credentials::Packet(packet) => packet.scheme.clone().unwrap_or_default(),
            Credentials::Sasl => "sasl".to_owned(),
        })
    }
}
