//! [`Dial`]: connections for four-letter words, which need no session.

use std::io;
#[cfg(feature = "tls")]
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use zoolet_client::tls::{ClientTls, LiveTls};

/// How servers are reached: as a session would be, in plaintext or by TLS.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dial {
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<LiveTls<ClientTls>>>,
}

/// A connection.
pub(crate) trait WordStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> WordStream for S {}

impl Dial {
    /// Connects to `HOST:PORT`.
    pub(crate) async fn connect(&self, address: &str) -> io::Result<Box<dyn WordStream>> {
        let stream = TcpStream::connect(address).await?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            return Ok(Box::new(tls.connect(Some(host.trim_matches(['[', ']'])), stream).await?));
        }
        Ok(Box::new(stream))
    }
}
