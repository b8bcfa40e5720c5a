//! The settings of a client.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::{TlsError, both};
use crate::key::{identity, resolver};
use crate::live::{LiveTls, TlsSettings};
use crate::protocols::{CipherSuites, Protocols, provider, unusable};
use crate::roots::{roots, system_roots};
use crate::store::Store;
use crate::verify::{AnyServerCertificate, ServerCertificates, TrustedThemselves};

/// The TLS settings of a client. By default it trusts the authorities of the system, verifies the name of the server, and has no
/// certificate of its own.
///
/// ```
/// use zoolet_tls::{ClientTls, Store};
///
/// let tls = ClientTls::new()
///     .trust_store(Store::file("authorities.pem"))
///     .key_store(Store::file("client.p12").password_file("client.password"));
/// # let _ = tls;
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ClientTls {
    trust_store: Option<Store>,
    key_store: Option<Store>,
    protocols: Protocols,
    cipher_suites: CipherSuites,
    server_name: Option<String>,
    verify: bool,
}

impl Default for ClientTls {
    fn default() -> Self {
        Self {
            trust_store: None,
            key_store: None,
            protocols: Protocols::ALL,
            cipher_suites: CipherSuites::default(),
            server_name: None,
            verify: true,
        }
    }
}

impl ClientTls {
    /// The default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// The default settings with the files that the flags `--tls-ca`, `--tls-identity` and `--tls-password-file` of `zoolet` name;
    /// `None` if there are no files.
    ///
    /// # Errors
    /// If there is a password, and no store that may need it.
    pub fn of_files(
        ca: Option<&Path>,
        identity: Option<&Path>,
        password_file: Option<&Path>,
    ) -> Result<Option<Self>, TlsError> {
        if ca.is_none() && identity.is_none() {
            let unused = "--tls-password-file is used by no store; set --tls-ca or --tls-identity";
            return password_file.map_or(Ok(None), |_| Err(TlsError::new(unused)));
        }
        let store = |file| password_file.into_iter().fold(Store::file(file), Store::password_file);
        Ok(Some(Self { trust_store: ca.map(store), key_store: identity.map(store), ..Self::default() }))
    }

    /// The authorities whose certificates of servers are accepted, instead of those of the system. A certificate in the store is
    /// accepted itself as well.
    pub fn trust_store(mut self, store: Store) -> Self {
        self.trust_store = Some(store);
        self
    }

    /// The certificate and the key with which the client authenticates itself, if the server asks. Default: none.
    pub fn key_store(mut self, store: Store) -> Self {
        self.key_store = Some(store);
        self
    }

    /// The versions of TLS. Default: 1.2 and 1.3.
    pub fn protocols(mut self, protocols: Protocols) -> Self {
        self.protocols = protocols;
        self
    }

    /// The cipher suites, the preferred ones first. Default: as [`ServerTls::cipher_suites`](crate::ServerTls::cipher_suites).
    pub fn cipher_suites(mut self, suites: CipherSuites) -> Self {
        self.cipher_suites = suites;
        self
    }

    /// The name or address that the certificate of a server must have. Default: the host of the connect string.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Accepts every certificate, of any authority and with any name, so that anyone on the way can read and change everything. For
    /// tests, where no certificate can be right.
    pub fn dangerously_accept_any_certificate(mut self) -> Self {
        self.verify = false;
        self
    }

    /// The name that is verified for a server at this host.
    ///
    /// # Errors
    /// If it is neither a name nor an address.
    pub fn name_for(&self, host: Option<&str>) -> Result<ServerName<'static>, TlsError> {
        let missing = || {
            TlsError::new("a connection that is not made from a connect string needs ClientTls::server_name")
        };
        let name = self.server_name.as_deref().or(host).ok_or_else(missing)?;
        let invalid = |_| TlsError::new(format!("{name:?} is not a name that a certificate can have"));
        ServerName::try_from(name.to_owned()).map_err(invalid)
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<ServerCertificates, TlsError> {
        let (roots, trusted) = match &self.trust_store {
            Some(store) => {
                let trusted = store.trusted()?;
                (roots(store, &trusted)?, trusted)
            }
            None => (system_roots()?, Vec::new()),
        };
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let inner = builder.build().map_err(|error| TlsError::new(error.to_string()))?;
        let themselves = TrustedThemselves(trusted);
        Ok(ServerCertificates { inner, themselves, provider: Arc::clone(provider) })
    }
}

impl LiveTls<ClientTls> {
    /// Shakes hands with a server at this host, or with one whose name is in the settings.
    ///
    /// # Errors
    /// `InvalidInput` if there is no valid name to verify; otherwise that of the handshake.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        self: &Arc<Self>,
        host: Option<&str>,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let name = self.settings().name_for(host).map_err(invalid)?;
        TlsConnector::from(self.current().await).connect(name, stream).await
    }
}

impl TlsSettings for ClientTls {
    type Config = ClientConfig;

    fn load(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = provider(&self.cipher_suites);
        let verifier = self.verify.then(|| self.verifier(&provider)).transpose();
        let own = self.key_store.as_ref().map(|store| Ok((store, identity(store)?))).transpose();
        let (verifier, own) = both(verifier, own)?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&self.protocols.versions())
            .map_err(|_| unusable())?
            .dangerous();
        let builder = match verifier {
            Some(verifier) => builder.with_custom_certificate_verifier(Arc::new(verifier)),
            None => builder.with_custom_certificate_verifier(Arc::new(AnyServerCertificate { provider })),
        };
        let mut config = match own {
            Some((store, identity)) => builder.with_client_cert_resolver(resolver(store, identity)),
            None => builder.with_no_client_auth(),
        };
        // Connections last, and servers of ZooKeeper resume nothing.
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    fn files(&self) -> Vec<PathBuf> {
        let stores = self.trust_store.iter().chain(&self.key_store);
        stores.flat_map(|store| store.files().map(ToOwned::to_owned)).collect()
    }
}
