//! The settings of HTTPS of the admin server.

use zoolet_admin::AdminServerBuilder;
use zoolet_server::tls::{ClientAuth, Protocols, ServerTls};

use super::SettingMistake;
use super::tls::StoreParts;

/// What was set of HTTPS.
#[derive(Debug, Default)]
pub(crate) struct HttpsParts {
    pub(crate) forced: bool,
    pub(crate) unified: bool,
    pub(crate) need_client_auth: bool,
    pub(crate) key_store: StoreParts,
    pub(crate) trust_store: StoreParts,
}

impl HttpsParts {
    pub(super) fn is_on(&self) -> bool {
        self.forced || self.unified
    }

    /// What does not fit together.
    pub(super) fn check(&self) -> Option<SettingMistake> {
        let lacks = if self.key_store.file.is_none() {
            "HTTPS of the admin server (admin.forceHttps, admin.portUnification) needs a certificate and its key; set \
             ssl.quorum.keyStore.location"
        } else if self.need_client_auth && self.trust_store.file.is_none() {
            "admin.needClientAuth = true: there is nothing to verify the certificates with; set ssl.quorum.trustStore.location"
        } else {
            return None;
        };
        Some(SettingMistake::Together(lacks))
    }

    pub(super) fn apply(&self, admin: AdminServerBuilder) -> AdminServerBuilder {
        let Some(key_store) = self.key_store.store().filter(|_| self.is_on()) else {
            return admin;
        };
        let trust_store = self.trust_store.store();
        let auth = match (self.need_client_auth, &trust_store) {
            (true, _) => ClientAuth::Need,
            // Who has a certificate can prove by it who they are.
            (false, Some(_)) => ClientAuth::Want,
            (false, None) => ClientAuth::None,
        };
        // As Apache's, whatever the ports of clients take.
        let tls = ServerTls::new(key_store).client_auth(auth).protocols(Protocols::ALL);
        let tls = trust_store.into_iter().fold(tls, ServerTls::trust_store);
        if self.forced { admin.https(tls) } else { admin.http_and_https(tls) }
    }
}
