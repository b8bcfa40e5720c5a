//! Which certificates of a peer are accepted: those of trusted authorities, and those that a trust store has itself.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use x509_parser::extensions::ExtendedKeyUsage;
use x509_parser::parse_x509_certificate;

/// The methods of a verifier that check who owns a certificate, and not which is accepted: as the provider does. The traits for clients
/// and for servers both have them.
macro_rules! signatures_of_provider {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

/// The certificates in a trust store, each of which also stands for itself: a self-signed one may say that it is an authority;
/// webpki then accepts it only as an issuer, Java as a leaf too.
#[derive(Debug)]
pub(crate) struct TrustedThemselves(pub(crate) Vec<CertificateDer<'static>>);

impl TrustedThemselves {
    /// Whether the store has this very certificate, and it is valid now and for the purpose that `has_purpose` looks for.
    fn accept(
        &self,
        certificate: &CertificateDer<'_>,
        has_purpose: fn(&ExtendedKeyUsage<'_>) -> bool,
        now: UnixTime,
    ) -> bool {
        let Ok((_, parsed)) = parse_x509_certificate(certificate) else { return false };
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let validity = parsed.validity();
        let is_for_purpose = match parsed.extended_key_usage() {
            Ok(None) => true,
            Ok(Some(usage)) => usage.value.any || has_purpose(usage.value),
            Err(_) => false,
        };
        let is_valid = validity.not_before.timestamp() <= now && now <= validity.not_after.timestamp();
        is_valid && is_for_purpose && self.0.contains(certificate)
    }
}

/// What "openssl x509 -req" writes without extensions.
pub(crate) const OLD_VERSION: &str =
    "X.509 of version 1 or 2; issue one of version 3, in openssl with -extfile";

/// Why a certificate was refused. The peer gets the alert certificate_unknown for it, as from Java.
#[derive(thiserror::Error)]
#[error("{0}")]
struct RefusedCertificate(Error);

/// What a log line shows: rustls prints the inner error with `Debug`.
impl fmt::Debug for RefusedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Error::InvalidCertificate(CertificateError::Other(OtherError(error)))
                if error.to_string() == "UnsupportedCertVersion" =>
            {
                f.write_str(OLD_VERSION)
            }
            error => fmt::Display::fmt(error, f),
        }
    }
}

/// Verifies the certificates of clients.
#[derive(Debug)]
pub(crate) struct ClientCertificates {
    pub(crate) inner: Arc<dyn ClientCertVerifier>,
    /// Empty with revocation lists, which would not be asked.
    pub(crate) themselves: TrustedThemselves,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for ClientCertificates {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.inner.verify_client_cert(end_entity, intermediates, now) {
            Err(_) if self.themselves.accept(end_entity, |usage| usage.client_auth, now) => {
                Ok(ClientCertVerified::assertion())
            }
            Err(error) => {
                let refused = OtherError(Arc::new(RefusedCertificate(error)));
                Err(Error::InvalidCertificate(CertificateError::Other(refused)))
            }
            verified => verified,
        }
    }

    signatures_of_provider!();
}

/// Verifies the certificates of servers.
#[derive(Debug)]
pub(crate) struct ServerCertificates {
    pub(crate) inner: Arc<WebPkiServerVerifier>,
    pub(crate) themselves: TrustedThemselves,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ServerCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(_) if self.themselves.accept(end_entity, |usage| usage.server_auth, now) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    signatures_of_provider!();
}

/// Accepts every certificate of a server. It still has to prove that it owns it.
#[derive(Debug)]
pub(crate) struct AnyServerCertificate {
    pub(crate) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyServerCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    signatures_of_provider!();
}

/// Whether a certificate names this address, in its subject alternative names.
pub(crate) fn names_address(certificate: &CertificateDer<'_>, address: IpAddr) -> bool {
    let name = ServerName::IpAddress(address.to_canonical().into());
    ParsedCertificate::try_from(certificate).is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
}
