//! The settings of TLS: what has several keys here is one setting of the builder.

use std::path::PathBuf;

use zoolet_server::ServerBuilder;
use zoolet_server::tls::{CipherSuites, ClientAuth, Protocols, ServerTls, Store, StoreKind};

use super::secret::Secret;
use super::written::Written;
use super::{ANY_ADDRESS, SettingMistake, joined, put};

/// What was set of TLS.
#[derive(Debug, Default)]
pub(crate) struct TlsParts {
    pub(crate) key_store: StoreParts,
    pub(crate) trust_store: StoreParts,
    /// Those of the flags, which replace that of a file.
    pub(crate) binds: Vec<String>,
    pub(crate) port: Option<u16>,
    pub(crate) address: Option<String>,
    /// Whether the other ports take TLS as well.
    pub(crate) unified: bool,
    pub(crate) client_auth: Option<ClientAuth>,
    /// Whether the certificate or the authorities are those of a flag: then clients are asked only if authorities are named.
    pub(crate) by_flag: bool,
    pub(crate) protocol: Option<Protocols>,
    pub(crate) protocols: Option<Protocols>,
    pub(crate) suites: Option<CipherSuites>,
    pub(crate) verify_names: Option<bool>,
    pub(crate) verify_client_names: bool,
    /// Whether certificates are compared with lists of revoked ones, and these.
    pub(crate) crl: bool,
    pub(crate) crl_files: Vec<PathBuf>,
    pub(crate) max_handshakes: Option<usize>,
}

/// A key store or a trust store.
#[derive(Debug, Default)]
pub(crate) struct StoreParts {
    pub(crate) file: Option<PathBuf>,
    /// The private key, if it has a file of its own.
    pub(crate) key: Option<PathBuf>,
    pub(crate) kind: Option<StoreKind>,
    pub(crate) password: Option<Secret>,
    /// Takes precedence over the password.
    pub(crate) password_file: Option<PathBuf>,
}

impl StoreParts {
    /// Sets the file. What a file of settings says of its own store does not hold for that of a flag.
    pub(super) fn set_file(&mut self, value: Written<'_>) -> Result<(), String> {
        if matches!(value, Written::Flag(_)) {
            *self = Self::default();
        }
        put(&mut self.file, value.file().map(Some))
    }

    pub(super) fn store(&self) -> Option<Store> {
        let store = Store::file(self.file.clone()?);
        let store = self.key.iter().fold(store, |store, key| store.key_file(key));
        let store = self.kind.into_iter().fold(store, Store::kind);
        Some(match (&self.password_file, &self.password) {
            (Some(file), _) => store.password_file(file),
            (None, Some(password)) => store.password(password.0.as_str()),
            (None, None) => store,
        })
    }
}

impl TlsParts {
    /// Where it listens for TLS alone.
    fn listens(&self) -> Vec<String> {
        match self.port {
            Some(port) if self.binds.is_empty() => {
                vec![joined(self.address.as_deref().unwrap_or(ANY_ADDRESS), port)]
            }
            _ => self.binds.clone(),
        }
    }

    /// Whether there is a port for TLS alone.
    pub(super) fn has_port(&self) -> bool {
        self.port.is_some() || !self.binds.is_empty()
    }

    /// Whether clients can connect by TLS.
    pub(crate) fn is_on(&self) -> bool {
        self.has_port() || self.unified
    }

    /// Whether a file has certificates that no port uses: Apache starts as well.
    pub(super) fn is_unused(&self) -> bool {
        let has_stores = self.key_store.file.is_some() || self.trust_store.file.is_some();
        has_stores && !self.by_flag && !self.is_on()
    }

    /// What does not fit together. The files are looked at when the server starts.
    pub(super) fn check(&self) -> Vec<SettingMistake> {
        let mut mistakes = Vec::new();
        if self.is_on() && self.key_store.file.is_none() {
            mistakes.push(SettingMistake::Together(
                "TLS (secureClientPort, client.portUnification, --tls-bind) needs a certificate and its key; set ssl.keyStore.location \
                 (--tls-cert)",
            ));
        }
        let has_flag = self.by_flag || self.key_store.key.is_some() || !self.crl_files.is_empty();
        if has_flag && !self.is_on() {
            mistakes.push(SettingMistake::Together(
                "--tls-cert, --tls-key, --tls-client-ca and --tls-crl are used by no port; set --tls-bind (secureClientPort) or \
                 client.portUnification",
            ));
        }
        let asks_nobody = self.trust_store.file.is_none() || self.client_auth == Some(ClientAuth::None);
        if self.is_on() && !self.crl_files.is_empty() && asks_nobody {
            mistakes.push(SettingMistake::Together(
                "--tls-crl: no client is asked for a certificate; set ssl.trustStore.location (--tls-client-ca), and ssl.clientAuth to \
                 need or want",
            ));
        }
        if self.crl && self.crl_files.is_empty() {
            mistakes.push(SettingMistake::Together(
                "ssl.crl = true: lists of revoked certificates are not fetched from where certificates say; name their files with \
                 --tls-crl, or remove the key to run without the check",
            ));
        }
        mistakes
    }

    /// The builder with these settings.
    pub(super) fn apply(&self, server: ServerBuilder) -> ServerBuilder {
        let Some(key_store) = self.key_store.store().filter(|_| self.is_on()) else { return server };
        let trust_store = self.trust_store.store();
        let unasked = self.by_flag && trust_store.is_none();
        let auth = self.client_auth.unwrap_or(if unasked { ClientAuth::None } else { ClientAuth::Need });
        let tls = ServerTls::new(key_store)
            .client_auth(auth)
            .revocation_lists(&self.crl_files)
            .verify_client_address(self.verify_client_names && self.verify_names != Some(false));
        let tls = trust_store.into_iter().fold(tls, ServerTls::trust_store);
        let tls = self.protocols.or(self.protocol).into_iter().fold(tls, ServerTls::protocols);
        let tls = self.suites.clone().into_iter().fold(tls, ServerTls::cipher_suites);
        let server = server.tls(tls).unified_ports(self.unified);
        let server = self.max_handshakes.into_iter().fold(server, ServerBuilder::max_tls_handshakes);
        self.listens().into_iter().fold(server, ServerBuilder::bind_tls)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::set;
    use super::*;

    #[test]
    fn the_certificates_of_flags_replace_the_stores_of_a_file_with_all_that_belongs_to_them() {
        let file = [
            ("secureClientPort", "1"),
            ("ssl.keyStore.location", "/key.jks"),
            ("ssl.keyStore.type", "JKS"),
            ("ssl.keyStore.password", "a"),
            ("ssl.trustStore.location", "/trust.jks"),
            ("ssl.trustStore.type", "JKS"),
            ("ssl.trustStore.passwordPath", "/password"),
            ("ssl.clientAuth", "none"),
        ];
        let flags = [("tls-cert", "/cert.pem"), ("tls-key", "/key.pem"), ("tls-client-ca", "/ca.pem")];
        let tls = set(&file, &flags).tls;
        let key_store = StoreParts {
            file: Some("/cert.pem".into()),
            key: Some("/key.pem".into()),
            ..StoreParts::default()
        };
        let trust_store = StoreParts { file: Some("/ca.pem".into()), ..StoreParts::default() };
        let expected = (key_store, trust_store, Some(ClientAuth::Need));
        assert_eq!(
            format!("{:?}", (tls.key_store, tls.trust_store, tls.client_auth)),
            format!("{expected:?}")
        );
    }
}
