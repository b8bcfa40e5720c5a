//! The settings of a server.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};

use crate::error::{TlsError, both};
use crate::key::{identity, resolver};
use crate::live::TlsSettings;
use crate::protocols::{CipherSuites, ClientAuth, Protocols, provider, unusable};
use crate::roots::roots;
use crate::store::{Store, read_crls};
use crate::subject::subject;
use crate::verify::{ClientCertificates, TrustedThemselves, names_address};

/// The TLS settings of a server, each with the default of Apache ZooKeeper 3.9 unless its documentation says otherwise.
///
/// ```
/// use zoolet_tls::{ClientAuth, ServerTls, Store};
///
/// let tls = ServerTls::new(Store::file("server.pem"))
///     .trust_store(Store::file("authorities.pem"))
///     .client_auth(ClientAuth::Want);
/// # let _ = tls;
/// ```
///
/// A session of TLS is never resumed, as on Apache: every connection proves its certificate anew.
#[derive(Debug, Clone)]
#[must_use]
pub struct ServerTls {
    key_store: Store,
    trust_store: Option<Store>,
    client_auth: ClientAuth,
    protocols: Protocols,
    cipher_suites: CipherSuites,
    revocation_lists: Vec<PathBuf>,
    verify_client_address: bool,
}

impl ServerTls {
    /// A server with the certificate and the key of this store (`ssl.keyStore.location`).
    pub fn new(key_store: Store) -> Self {
        Self {
            key_store,
            trust_store: None,
            client_auth: ClientAuth::default(),
            protocols: Protocols::TLS13,
            cipher_suites: CipherSuites::default(),
            revocation_lists: Vec::new(),
            verify_client_address: false,
        }
    }

    /// The authorities whose certificates of clients are accepted (`ssl.trustStore.location`). A certificate in the store is accepted
    /// itself as well. Required, unless clients are not asked; Apache would accept everyone whom the authorities of the JDK know.
    pub fn trust_store(mut self, store: Store) -> Self {
        self.trust_store = Some(store);
        self
    }

    /// Whether clients need a certificate. Default: they do (`ssl.clientAuth`).
    pub fn client_auth(mut self, auth: ClientAuth) -> Self {
        self.client_auth = auth;
        self
    }

    /// The versions of TLS. Default: 1.3 alone, as Apache on Java 11 and later (`ssl.enabledProtocols`).
    pub fn protocols(mut self, protocols: Protocols) -> Self {
        self.protocols = protocols;
        self
    }

    /// The cipher suites, the preferred ones first. Default: AES-GCM with ECDHE, and for TLS 1.3 ChaCha20-Poly1305 as well
    /// (`ssl.ciphersuites`). Apache has CBC suites too, which do not exist here.
    pub fn cipher_suites(mut self, suites: CipherSuites) -> Self {
        self.cipher_suites = suites;
        self
    }

    /// Lists of revoked certificates, in PEM or DER, one of each authority in a chain. With any, a certificate of a client is refused
    /// if it is revoked, if no list is of its issuer, and if that list has expired. Default: none; nothing is fetched.
    pub fn revocation_lists(mut self, files: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.revocation_lists = files.into_iter().map(Into::into).collect();
        self
    }

    /// Whether a certificate of a client must name the address from which the client connects. Default: no
    /// (`ssl.clientHostnameVerification`). On Apache this refuses every client, or compares with 127.0.0.1.
    pub fn verify_client_address(mut self, verify: bool) -> Self {
        self.verify_client_address = verify;
        self
    }

    /// The id that a client at `peer` has in the scheme `x509`: the subject of the first of the certificates that it has shown, if
    /// there is one. Compares the address with the certificate, if that is [set](ServerTls::verify_client_address): the configuration
    /// of rustls knows no address.
    ///
    /// # Errors
    /// If the certificate cannot be read, or does not name the address. The connection is to be closed then.
    pub fn client_subject(
        &self,
        chain: Option<&[CertificateDer<'_>]>,
        peer: IpAddr,
    ) -> io::Result<Option<Arc<str>>> {
        let Some(leaf) = chain.and_then(<[_]>::first) else { return Ok(None) };
        let invalid = |problem| io::Error::new(io::ErrorKind::InvalidData, problem);
        if self.verify_client_address && !names_address(leaf, peer) {
            return Err(invalid("the certificate of the client does not name its address"));
        }
        let subject = subject(leaf).ok_or_else(|| invalid("the certificate of the client cannot be read"))?;
        Ok(Some(subject.into()))
    }

    /// The certificates of clients that are accepted, if clients are asked.
    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Option<ClientCertificates>, TlsError> {
        if self.client_auth == ClientAuth::None {
            return Ok(None);
        }
        let missing = || {
            TlsError::new(
                "clients are asked for certificates, and there is no trust store to verify them with: set ssl.trustStore.location, or ssl.clientAuth=none",
            )
        };
        let store = self.trust_store.as_ref().ok_or_else(missing)?;
        let mut lists = Ok(Vec::new());
        for file in &self.revocation_lists {
            lists = both(lists, read_crls(file)).map(|(lists, more)| [lists, more].concat());
        }
        let (trusted, lists) = both(store.trusted(), lists)?;
        let roots = Arc::new(roots(store, &trusted)?);
        let themselves = TrustedThemselves(if lists.is_empty() { trusted } else { Vec::new() });
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider))
            .with_crls(lists)
            .enforce_revocation_expiration();
        if self.client_auth == ClientAuth::Want {
            builder = builder.allow_unauthenticated();
        }
        let lists = || self.revocation_lists.first().map(PathBuf::as_path);
        let inner = builder.build().map_err(|error| TlsError::new(error.to_string()).of(lists()))?;
        Ok(Some(ClientCertificates { inner, themselves, provider: Arc::clone(provider) }))
    }
}

impl TlsSettings for ServerTls {
    type Config = ServerConfig;

    fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = provider(&self.cipher_suites);
        let (identity, verifier) = both(identity(&self.key_store), self.verifier(&provider))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&self.protocols.versions())
            .map_err(|_| unusable())?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::new(verifier)),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(resolver(&self.key_store, identity));
        // Java's server chooses by its own order too.
        config.ignore_client_order = true;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    fn files(&self) -> Vec<PathBuf> {
        let stores = self.trust_store.iter().chain([&self.key_store]);
        stores
            .flat_map(|store| store.files().map(ToOwned::to_owned))
            .chain(self.revocation_lists.clone())
            .collect()
    }
}
