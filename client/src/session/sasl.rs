//! SASL DIGEST-MD5: the exchange that every connection of such a session begins with. Nothing else is sent before its end.

use std::fmt;

use rand::RngExt;
use tokio::time::Instant;
use zoolet_proto::digest_md5::{self, DigestResponse};
use zoolet_proto::records::SaslToken;
use zoolet_proto::{ErrorCode, Jute, OpCode, Reply, ReplyHeader, Request, Xid};

use super::reply::{LOST, is_lost};
use super::{Phase, ProtocolViolation, Session};
use crate::context::ErrorDetail;
use crate::state::SessionState;

/// A user and a password.
#[derive(Clone)]
pub(crate) struct SaslCredentials {
    pub(crate) user: String,
    pub(crate) password: String,
    /// [`Session::handle_token`]. Whoever has credentials brings the code of the exchange: a program that makes none is linked
    /// without it.
    pub(crate) handle_token: HandleToken,
}

pub(crate) type HandleToken = fn(&mut Session, Instant, &[u8]) -> Result<(), ProtocolViolation>;

impl SaslCredentials {
    pub(crate) fn new(user: String, password: String) -> Self {
        Self { user, password, handle_token: Session::handle_token }
    }
}

// Hand-written, to keep the password out of logs.
impl fmt::Debug for SaslCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The exchange of the present connection.
#[derive(Debug, Default)]
pub(super) struct SaslExchange {
    /// The xid of the token that is not answered yet.
    xid: Xid,
    /// What the server has to confirm, once its challenge is answered.
    response: Option<DigestResponse>,
}

impl Session {
    /// Whether the exchange is in progress.
    pub(super) fn is_authenticating(&self) -> bool {
        matches!(self.phase, Phase::Authenticating { .. })
    }

    /// Begins the exchange with an empty token.
    pub(super) fn begin_sasl(&mut self, until: Instant) {
        self.phase = Phase::Authenticating { until };
        self.sasl.response = None;
        self.send_token(&[]);
    }

    fn send_token(&mut self, token: &[u8]) {
        // Tokens are numbered among the requests, also after a reconnect, as those of a Java client.
        let xid = self.calls.next_xid(OpCode::Sasl);
        self.sasl.xid = xid;
        let token = SaslToken(Some(token.to_vec().into()));
        Request::Sasl(token).encode_frame(xid, &mut self.out);
    }

    /// The answer to a token, which is all that a server may send until the exchange is over.
    fn handle_token(&mut self, now: Instant, frame: &[u8]) -> Result<(), ProtocolViolation> {
        let mut body = frame;
        let header = ReplyHeader::decode(&mut body)
            .map_err(|_| ProtocolViolation("a frame without a reply header"))?;
        if header.xid != self.sasl.xid {
            return Err(ProtocolViolation("a reply out of order"));
        }
        let token = match header.error_code() {
            error if is_lost(error) => return Err(LOST),
            Some(ErrorCode::AuthFailed) => Err("the server refused the user of SASL or the password".into()),
            Some(ErrorCode::SessionClosedRequireSaslAuth) => {
                Err("the server requires SASL, and refused the user or the password".into())
            }
            Some(code) => Err(format!("the server refused SASL: {code}")),
            None => match Reply::parse(OpCode::Sasl, body)? {
                Reply::Sasl(Some(token)) => Ok(token),
                // Whether it has no users, or lets a client that failed stay without an identity, it does not say.
                _ => Err("the server has no users of SASL, or refused the user or the password".into()),
            },
        };
        match (token, self.sasl.response.take()) {
            (Ok(token), None) => self.respond(&token),
            (Ok(token), Some(response)) if response.is_confirmed_by(&token) => self.serve(now),
            (Ok(_), Some(_)) => {
                self.refused("the server did not prove that it knows the password of the SASL user".into());
            }
            (Err(reason), _) => self.refused(reason),
        }
        Ok(())
    }

    fn respond(&mut self, challenge: &[u8]) {
        let Some(credentials) = self.settings.sasl.clone() else { return };
        let cnonce = digest_md5::nonce(self.rng.random());
        match digest_md5::respond(challenge, &credentials.user, &credentials.password, &cnonce) {
            Ok(response) => {
                self.send_token(response.token());
                self.sasl.response = Some(response);
            }
            Err(reason) => self.refused(format!("the challenge of the server for SASL: {reason}")),
        }
    }

    fn refused(&mut self, reason: String) {
        self.end(SessionState::AuthFailed, Some(ErrorDetail::Hint(reason.into())));
    }
}
