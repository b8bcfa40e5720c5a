//! [`Dial`]: connections for four-letter words, which need no session.

use std::io;
#[cfg(feature = "tls")]
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio::task::spawn_blocking;
#[cfg(feature = "tls")]
use zoolet_client::tls::{ClientTls, TlsSettings as _, rustls::ClientConfig, tokio_rustls::TlsConnector};

#[cfg(feature = "tls")]
use crate::failure::{ShellError, ShellResult};

/// How servers are reached: as a session would be, in plaintext or by TLS.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dial {
    #[cfg(feature = "tls")]
    tls: Option<(ClientTls, Arc<ClientConfig>)>,
}

/// A connection.
pub(crate) trait WordStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> WordStream for S {}

impl Dial {
    /// Reads the files of the settings.
    #[cfg(feature = "tls")]
    pub(crate) async fn by_tls(tls: ClientTls) -> ShellResult<Self> {
        let settings = tls.clone();
        // It may derive a key from a password, which takes a while.
        let loaded = spawn_blocking(move || settings.load()).await;
        let loaded = loaded.map_err(|error| ShellError::local("read the files of TLS", &error.into()))?;
        let config = loaded.map_err(|error| ShellError::usage(format!("TLS: {error}")))?;
        Ok(Self { tls: Some((tls, config)) })
    }

    /// Connects to `HOST:PORT`.
    pub(crate) async fn connect(&self, address: &str) -> io::Result<Box<dyn WordStream>> {
        let stream = TcpStream::connect(address).await?;
        #[cfg(feature = "tls")]
        if let Some((settings, config)) = &self.tls {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let name = settings.name_for(Some(host)).map_err(io::Error::other)?;
            let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
            return Ok(Box::new(stream));
        }
        Ok(Box::new(stream))
    }
}
