//! [`Session`]: what the judge remembers of a session across its connections.

use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::{AuthPacket, SaslToken};
use zoolet_proto::{ErrorCode, Request, Zxid};

use crate::client::evidence::Evidence;
use crate::client::watches::Watches;

#[derive(Default)]
pub(crate) struct Session {
    pub(crate) password: Bytes,
    pub(crate) timeout: Duration,
    /// The connection that it is attached to.
    pub(crate) connection: Option<usize>,
    /// What its client must have seen.
    pub(crate) known: Zxid,
    pub(crate) watches: Watches,
    auth: Vec<Auth>,
    sasl: Option<SaslUser>,
    pub(crate) has_ended: bool,
    pub(crate) is_closing: bool,
    /// Since when it has had no connection, by no act of its client.
    pub(crate) away_since: Option<Duration>,
    /// For how long its client was silent before it gave up a connection on which all was answered, and its last frame.
    pub(crate) gave_up: Option<(Duration, Evidence)>,
    /// The connect request for a new session in its place.
    pub(crate) successor: Option<Evidence>,
}

struct Auth {
    packet: AuthPacket,
    since: Duration,
    is_current: bool,
}

/// That its client has authenticated by SASL.
struct SaslUser {
    since: Duration,
    /// Whether it has responded to the challenge of this connection.
    is_current: bool,
}

/// Whether it is the response to a challenge. The first token of an exchange is empty.
fn is_sasl_response(request: &Request) -> bool {
    matches!(request, Request::Sasl(SaslToken(Some(token))) if !token.is_empty())
}

impl Session {
    /// Its client has sent what may restore something.
    pub(crate) fn requested(&mut self, request: &Request) {
        self.watches.requested(request);
        if let Request::Auth(packet) = request {
            let again = self.auth.iter_mut().filter(|auth| auth.packet == *packet);
            again.for_each(|auth| auth.is_current = true);
        }
        if let Some(sasl) = self.sasl.as_mut().filter(|_| is_sasl_response(request)) {
            sasl.is_current = true;
        }
    }

    /// Its client has got a reply.
    pub(crate) fn replied(&mut self, request: &Request, error: Option<ErrorCode>, at: Duration) {
        match (request, error) {
            (Request::Auth(packet), None) => {
                if !self.auth.iter().any(|auth| auth.packet == *packet) {
                    self.auth.push(Auth { packet: packet.clone(), since: at, is_current: true });
                }
            }
            (Request::Sasl(_), None) if is_sasl_response(request) => {
                self.sasl.get_or_insert(SaslUser { since: at, is_current: true });
            }
            (Request::CloseSession, None) => self.has_ended = true,
            (request, error) => self.watches.replied(request, error, at),
        }
    }

    /// Its connection is gone. What came after `certain` may be unknown to the client; of the replies until then, `known` is the
    /// largest zxid.
    pub(crate) fn disconnected(&mut self, certain: Duration, known: Option<Zxid>) {
        self.known = self.known.max(known.unwrap_or_default());
        self.watches.disconnected(certain);
        self.auth.retain(|auth| auth.since <= certain);
        self.auth.iter_mut().for_each(|auth| auth.is_current = false);
        self.sasl = self.sasl.take().filter(|sasl| sasl.since <= certain);
        self.sasl.iter_mut().for_each(|sasl| sasl.is_current = false);
        self.connection = None;
    }

    /// Whether its client has given credentials.
    pub(crate) fn has_auth(&self) -> bool {
        !self.auth.is_empty() || self.sasl.is_some()
    }

    /// The scheme of credentials that its client has yet to send again.
    pub(crate) fn owed_auth(&self) -> Option<String> {
        if self.sasl.as_ref().is_some_and(|sasl| !sasl.is_current) {
            return Some("sasl".to_owned());
        }
        let owed = self.auth.iter().find(|auth| !auth.is_current)?;
        Some(owed.packet.scheme.clone().unwrap_or_default())
    }
}
