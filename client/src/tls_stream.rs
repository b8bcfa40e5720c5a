//! Connections by TLS: the handshake, and what its failures mean.

use std::io;
use std::sync::Arc;

use zoolet_tls::rustls::{AlertDescription, CertificateError, Error as RustlsError, InvalidMessage};
use zoolet_tls::{ClientTls, LiveTls};

use crate::error::Error;
use crate::transport::ClientStream;

/// The settings of a client, and the configuration that follows their files.
pub(crate) type SharedTls = Arc<LiveTls<ClientTls>>;

/// Reads the files of the settings. `named` is whether the target has names of hosts.
pub(crate) async fn load(settings: ClientTls, named: bool) -> Result<SharedTls, Error> {
    let invalid = |error| Error::InvalidTarget(format!("TLS: {error}"));
    if !named {
        settings.name_for(None).map_err(invalid)?;
    }
    LiveTls::open(settings).await.map_err(invalid)
}

/// Shakes hands with a server at this host, or with one whose name is in the settings.
pub(crate) async fn shake_hands(
    tls: SharedTls,
    host: Option<&str>,
    stream: Box<dyn ClientStream>,
) -> io::Result<Box<dyn ClientStream>> {
    Ok(Box::new(tls.connect(host, stream).await.map_err(explain)?))
}

/// An error of a connection. If it is one of TLS, with what a user can do about it: with TLS 1.3, only the first read tells a client
/// that the server refuses its certificate.
pub(crate) fn explain_later(error: io::Error) -> io::Error {
    let is_of_tls = error.get_ref().is_some_and(|inner| inner.is::<RustlsError>());
    if is_of_tls { explain(error) } else { error }
}

/// The same error with what a user can do about it.
fn explain(error: io::Error) -> io::Error {
    let text = match error.get_ref().and_then(|inner| inner.downcast_ref::<RustlsError>()) {
        Some(RustlsError::AlertReceived(alert)) => refusal(*alert),
        Some(RustlsError::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "the server does not answer with TLS; the port may expect plaintext".to_owned()
        }
        Some(RustlsError::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "the certificate of the server is not of a trusted authority".to_owned()
        }
        Some(RustlsError::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "the certificate of the server has expired".to_owned(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server closed the connection during the handshake".to_owned()
        }
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("TLS: {text}"))
}

/// What a server means by an alert.
fn refusal(alert: AlertDescription) -> String {
    let meaning = match alert {
        // Java sends bad_certificate for it.
        AlertDescription::CertificateRequired => "it requires a certificate of the client",
        AlertDescription::BadCertificate => "it requires a certificate of the client, or cannot read it",
        AlertDescription::CertificateUnknown | AlertDescription::UnknownCA => {
            "it does not trust the certificate of the client"
        }
        AlertDescription::CertificateExpired => "the certificate of the client has expired",
        AlertDescription::CertificateRevoked => "the certificate of the client is revoked",
        AlertDescription::ProtocolVersion => "it has no version of TLS in common with the client",
        AlertDescription::HandshakeFailure => "it has no cipher suite in common with the client",
        _ => return format!("the server refuses the connection: alert {alert:?}"),
    };
    format!("the server refuses the connection: {meaning} (alert {alert:?})")
}
