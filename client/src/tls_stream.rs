//! Connections by TLS: the handshake, and what its failures mean.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zoolet_tls::rustls::{AlertDescription, CertificateError, Error as RustlsError, InvalidMessage};
use zoolet_tls::tokio_rustls::TlsConnector;
use zoolet_tls::tokio_rustls::client::TlsStream;
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
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, format!("TLS: {error}"));
    let name = tls.settings().name_for(host).map_err(invalid)?;
    let connector = TlsConnector::from(tls.current().await);
    let stream = connector.connect(name, stream).await.map_err(explain)?;
    Ok(Box::new(ExplainedStream(stream)))
}

/// A stream whose errors say what they mean.
struct ExplainedStream(TlsStream<Box<dyn ClientStream>>);

impl AsyncRead for ExplainedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll_read(cx, buf)) {
            // An end without a notice, as after a crash. Frames have lengths, so that none is taken for whole.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            read => read.map_err(explain),
        })
    }
}

impl AsyncWrite for ExplainedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf).map_err(explain)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx).map_err(explain)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx).map_err(explain)
    }
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
        // With TLS 1.3 a client learns only from its first read that it should have a certificate. Java sends bad_certificate then.
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
