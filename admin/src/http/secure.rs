//! [`Https`]: TLS in front of HTTP, on a port of its own or beside plain HTTP.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;
use zoolet_server::Observer;
use zoolet_server::internal::Stepper;
use zoolet_tls::tokio_rustls::TlsAcceptor;
use zoolet_tls::tokio_rustls::server::TlsStream;
use zoolet_tls::{LiveTls, ServerTls};

use super::limits::HANDSHAKE_TIME;
use super::request::HttpClient;

/// How connections are secured.
pub(crate) struct Https {
    live: Arc<LiveTls<ServerTls>>,
    /// Whether plain HTTP is served too, as the first byte of a connection says.
    is_unified: bool,
    /// Counts what comes by plain HTTP.
    observer: Observer,
}

/// A connection that can be served.
pub(super) enum OpenedHttp {
    Plain(TcpStream),
    /// With the subject of the certificate that the client has proved to own.
    Secure(Box<TlsStream<TcpStream>>, Option<Arc<str>>),
}

impl Https {
    pub(crate) fn new(live: Arc<LiveTls<ServerTls>>, is_unified: bool, observer: Observer) -> Self {
        Self { live, is_unified, observer }
    }

    /// Finds out what a connection speaks, and shakes hands, within a bounded time.
    pub(super) async fn open(
        &self,
        stream: TcpStream,
        client: &HttpClient,
        stepper: &Stepper,
    ) -> io::Result<OpenedHttp> {
        /// The type of a record of a handshake, with which no method begins.
        const HANDSHAKE: u8 = 0x16;
        let open = async {
            if self.is_unified {
                let mut first = [0];
                if stream.peek(&mut first).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if first != [HANDSHAKE] {
                    self.observer.count_admin(|counts| counts.plaintext_requests += 1);
                    return Ok(OpenedHttp::Plain(stream));
                }
            }
            let accepting = TlsAcceptor::from(self.live.current().await).accept(stream);
            let stream = stepper.run(accepting, |is_busy| client.connection.wait.note(is_busy)).await?;
            client.connection.wait.note(false);
            let chain = stream.get_ref().1.peer_certificates();
            let subject = self.live.settings().client_subject(chain, client.addr.ip())?;
            Ok(OpenedHttp::Secure(Box::new(stream), subject))
        };
        timeout(HANDSHAKE_TIME, open).await?
    }
}
