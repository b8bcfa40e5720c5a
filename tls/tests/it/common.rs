//! Stores in memory, and handshakes.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use zoolet_test_support::certificates::{Authority, CertificateParams, ExtendedKeyUsagePurpose};
use zoolet_tls::rustls::pki_types::ServerName;
use zoolet_tls::rustls::{ClientConfig, ServerConfig};
use zoolet_tls::tokio_rustls::{TlsAcceptor, TlsConnector};
use zoolet_tls::{ClientTls, ServerTls, Store, TlsSettings, subject};

/// A store with the certificate of an authority.
pub fn store(authority: &Authority) -> Store {
    Store::pem(authority.pem())
}

/// A store with a key and its certificate.
pub fn issue(authority: &Authority, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Store {
    Store::pem(authority.issue_with(name, change))
}

pub fn for_servers(params: &mut CertificateParams) {
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
}

/// What came of a connection.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// The subject of the client's certificate, if the server accepted the connection.
    pub server: Result<Option<String>, String>,
    /// What the client's handshake and its first read gave.
    pub client: Result<(), String>,
}

impl Outcome {
    pub fn accepted(subject: Option<&str>) -> Self {
        Self { server: Ok(subject.map(str::to_owned)), client: Ok(()) }
    }

    /// The alert that the client got.
    pub fn alert(&self) -> &str {
        let text = self.client.as_ref().expect_err("a failure");
        text.strip_prefix("received fatal alert: ").unwrap_or(text)
    }
}

pub async fn connect(server: &ServerTls, client: &ClientTls) -> Outcome {
    let server = server.load().expect("settings of a server");
    handshake(server, client.load().expect("settings of a client"), "localhost").await
}

pub async fn handshake(server: Arc<ServerConfig>, client: Arc<ClientConfig>, name: &'static str) -> Outcome {
    let (ours, theirs) = duplex(1 << 16);
    let serve = async {
        let mut stream = TlsAcceptor::from(server).accept(ours).await?;
        let certificates = stream.get_ref().1.peer_certificates();
        let subject = certificates.map(|chain| subject(&chain[0]).expect("a certificate"));
        stream.write_all(b"x").await?;
        stream.shutdown().await?;
        io::Result::Ok(subject)
    };
    let ask = async {
        let name = ServerName::try_from(name).expect("a name");
        let mut stream = TlsConnector::from(client).connect(name, theirs).await?;
        stream.read_exact(&mut [0]).await?;
        io::Result::Ok(())
    };
    let (server, client) = tokio::join!(serve, ask);
    let text = |error: io::Error| error.to_string();
    Outcome { server: server.map_err(text), client: client.map_err(text) }
}
