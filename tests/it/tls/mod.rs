//! Servers and clients by TLS, with certificates made in the test.

mod bounds;
mod clients;
mod ports;
mod reload;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use zoolet::ServerBuilder;
use zoolet::server::tls::rustls::pki_types::ServerName;
use zoolet::server::tls::tokio_rustls::TlsConnector;
use zoolet::server::tls::tokio_rustls::client::TlsStream;
use zoolet::server::tls::{ClientAuth, ClientTls, ServerTls, Store, TlsSettings};
use zoolet_test_support::certificates::Authority;
use zoolet_test_support::*;

/// An authority, and a server with one of its certificates in a file.
struct Secured {
    authority: Authority,
    folder: TempDir,
    zk: Zk,
}

impl Secured {
    /// With a port that speaks TLS alone.
    async fn start(auth: ClientAuth) -> Self {
        Self::with(auth, |server| server.bind_tls("127.0.0.1:0")).await
    }

    /// With a port that speaks both.
    async fn unified() -> Self {
        Self::with(ClientAuth::None, |server| server.bind("127.0.0.1:0").unified_ports(true)).await
    }

    async fn with(auth: ClientAuth, change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let authority = Authority::new("authority");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("server.pem"), authority.issue("server")).expect("a file");
        let tls = ServerTls::new(Store::file(folder.path().join("server.pem")))
            .trust_store(Store::pem(authority.pem()))
            .client_auth(auth);
        let zk = Zk::with(|server| change(server.tls(tls).all_four_letter_words())).await;
        Self { authority, folder, zk }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn addr(&self) -> SocketAddr {
        self.zk.tls_addrs().iter().chain(self.zk.addrs()).copied().next().expect("a port")
    }

    /// The settings of a client that trusts the server.
    fn client(&self) -> ClientTls {
        ClientTls::new().trust_store(Store::pem(self.authority.pem()))
    }

    /// A client with a certificate for this name.
    fn client_named(&self, name: &str) -> ClientTls {
        self.client().key_store(Store::pem(self.authority.issue(name)))
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.addr()).await.expect("a server that listens")
    }

    async fn stream(&self) -> TlsStream<TcpStream> {
        shake_hands(&self.client(), self.tcp().await).await.expect("a handshake")
    }

    /// How many handshakes have succeeded, failed and been refused, and are under way.
    fn handshakes(&self) -> [u64; 4] {
        let metrics = self.zk.metrics();
        let counts = [metrics.tls_handshakes, metrics.tls_handshakes_failed, metrics.tls_handshakes_refused];
        let [done, failed, refused] = counts;
        [done, failed, refused, metrics.tls_handshakes_open as u64]
    }
}

async fn shake_hands(client: &ClientTls, tcp: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
    let config = client.load().expect("settings of a client");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::clone(&config)).connect(name, tcp).await
}

/// Everything that is sent until the end, which must be one in order.
async fn rest(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.expect("an end in order");
    all
}
