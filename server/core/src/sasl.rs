//! The SASL exchange of a connection, and requests of connections that have not authenticated.

use sha2::{Digest, Sha256};
use zoolet_proto::digest_md5::{self, AuthenticatedUser, DigestMd5Error};
use zoolet_proto::{ErrorCode, Reply, Zxid};

use crate::auth_config::{AuthScheme, SaslServer};
use crate::core::{Core, RequestContext};
use crate::message::ConnId;

/// How far the exchange of a connection is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SaslProgress {
    /// The client has sent nothing.
    #[default]
    Idle,
    /// The challenge is sent.
    Challenged,
    /// The client has authenticated. Another token is a failure.
    Complete,
    /// It has failed, and every further token fails too.
    Failed,
}

impl SaslServer {
    /// The nonce of a connection: each has its own, and nobody can know it before.
    fn nonce(&self, conn: ConnId) -> String {
        let hash = Sha256::new().chain_update(self.secret).chain_update(conn.0.to_be_bytes()).finalize();
        digest_md5::nonce(std::array::from_fn(|at| hash[at]))
    }

    fn judge(&self, conn: ConnId, token: &[u8]) -> Result<AuthenticatedUser, DigestMd5Error> {
        let key_of = |user: &str| self.users.get(user).cloned();
        digest_md5::judge(&self.nonce(conn), token, key_of)
    }
}

impl Core {
    /// A client tries SASL, with this token.
    pub(crate) fn sasl(&mut self, call: RequestContext, token: &[u8]) {
        match &self.config.auth.sasl_server {
            Some(SaslServer { take_token, .. }) => take_token(self, call, token),
            None => self.sasl_without_users(call),
        }
    }

    /// Takes a token where there are users. A failure closes the connection unless the settings say otherwise.
    pub(crate) fn take_token(&mut self, call: RequestContext, token: &[u8]) {
        let Some(server) = &self.config.auth.sasl_server else { return };
        let Some(state) = self.conns.get_mut(&call.conn) else { return };
        let (session, peer, progress) = (call.session, state.peer, state.sasl);
        let outcome = match progress {
            _ if token.len() > digest_md5::MAX_TOKEN => Err(DigestMd5Error::Malformed("it is too long")),
            // What the first token contains does not matter: this mechanism has no initial response.
            SaslProgress::Idle => {
                state.sasl = SaslProgress::Challenged;
                Ok(digest_md5::challenge(&server.nonce(call.conn)))
            }
            SaslProgress::Challenged => server.judge(call.conn, token).and_then(|user| {
                let AuthenticatedUser { name, rspauth } = user;
                let shown = name.clone();
                let ids = self.config.auth.identities_of_sasl(name);
                if !state.add(ids, &self.config.auth) {
                    return Err(DigestMd5Error::Unexpected("further identity: the connection has too many"));
                }
                state.sasl = SaslProgress::Complete;
                tracing::info!(%session, %peer, user = shown, "authenticated by SASL");
                Ok(rspauth)
            }),
            SaslProgress::Complete => Err(DigestMd5Error::Unexpected("token after the exchange")),
            SaslProgress::Failed => Err(DigestMd5Error::Unexpected("token after a failure")),
        };
        let reason = match outcome {
            Ok(token) => return self.reply_to_auth(call, Reply::Sasl(Some(token.into()))),
            Err(reason) => reason,
        };
        let is_required = self.config.auth.required.contains(&AuthScheme::Sasl);
        let stays = self.config.auth.allow_sasl_failed && !is_required;
        tracing::info!(%session, %peer, %reason, stays, "SASL authentication failed");
        if stays {
            if progress != SaslProgress::Complete {
                state.sasl = SaslProgress::Failed;
            }
            return self.reply_to_auth(call, Reply::Sasl(None));
        }
        let code = if is_required { ErrorCode::SessionClosedRequireSaslAuth } else { ErrorCode::AuthFailed };
        // As for multiRead, an error with a body.
        self.send_refusal(call, Zxid(0), code, Reply::Sasl(None));
        self.close_unauthenticated(call.conn);
    }

    /// Without users a null token says so, and the client goes on without SASL, or gives up.
    fn sasl_without_users(&mut self, call: RequestContext) {
        let (session, peer) = (call.session, self.peer(call.conn));
        if std::mem::replace(&mut self.warned.of_sasl, true) {
            tracing::info!(%session, %peer, "client tries SASL, which has no users here");
        } else {
            tracing::warn!(
                %session, %peer,
                "a client tries to authenticate by SASL, for which this server has no users: it goes on without an identity, or \
                 gives up; a Java client does not try with zookeeper.sasl.client=false (later ones are logged at info)"
            );
        }
        self.reply_to_auth(call, Reply::Sasl(None));
    }

    /// Refuses a request of a connection that has not authenticated as it must, and closes it. The session stays, even if the
    /// request was to close it (`AuthenticationHelper.enforceAuthentication`).
    pub(crate) fn refuse_unauthenticated(&mut self, call: RequestContext) {
        let (session, peer) = (call.session, self.peer(call.conn));
        tracing::info!(%session, %peer, "a client without the required authentication sends a request; closing its connection");
        self.send_refusal(call, Zxid(0), ErrorCode::SessionClosedRequireSaslAuth, Reply::Empty);
        self.close_unauthenticated(call.conn);
    }
}
