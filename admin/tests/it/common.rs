//! A server with its admin server, and requests to the latter.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_admin::{AdminServer, AdminServerBuilder};
use zoolet_server::{Server, ServerBuilder};
use zoolet_test_support::{Hello, Wire};

/// A server, and its admin server on a free port.
pub struct Pair {
    pub server: Server,
    pub admin: AdminServer,
}

/// An answer.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    /// The header fields, one a line, names in small letters.
    pub headers: String,
    pub body: Vec<u8>,
}

impl Pair {
    pub async fn start(settings: ServerBuilder) -> Self {
        Self::start_with(settings, |admin| admin).await
    }

    pub async fn start_with(
        settings: ServerBuilder,
        with: impl FnOnce(AdminServerBuilder) -> AdminServerBuilder,
    ) -> Self {
        zoolet_test_support::limit();
        let server = settings.bind("127.0.0.1:0").start().await.expect("a free port");
        let admin = with(AdminServer::builder(&server).bind("127.0.0.1:0")).start().await;
        Self { server, admin: admin.expect("a free port") }
    }

    /// A client with a session.
    pub async fn client(&self) -> Wire {
        let stream = TcpStream::connect(self.server.addrs()[0]).await.expect("a connection");
        let mut wire = Wire::over(stream);
        wire.hello(Hello::new()).await;
        wire
    }

    pub async fn get(&self, path: &str) -> HttpAnswer {
        self.ask("GET", path, "", b"").await
    }

    /// Sends a request with these lines of header fields.
    pub async fn ask(&self, method: &str, path: &str, fields: &str, body: &[u8]) -> HttpAnswer {
        ask_at(self.admin.addr(), method, path, fields, body).await
    }
}

/// Sends a request to an admin server.
pub async fn ask_at(addr: SocketAddr, method: &str, path: &str, fields: &str, body: &[u8]) -> HttpAnswer {
    ask_as(addr, "localhost", method, path, fields, body).await
}

/// Sends a request that names this host.
pub async fn ask_as(
    addr: SocketAddr,
    host: &str,
    method: &str,
    path: &str,
    fields: &str,
    body: &[u8],
) -> HttpAnswer {
    let mut stream = TcpStream::connect(addr).await.expect("a connection");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(body).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer and the end");
    HttpAnswer::parse(&answer)
}

impl HttpAnswer {
    pub fn parse(bytes: &[u8]) -> Self {
        let at = bytes.windows(4).position(|end| end == b"\r\n\r\n").expect("a head");
        let head = std::str::from_utf8(&bytes[..at]).expect("text");
        let (status, fields) = head.split_once("\r\n").unwrap_or((head, ""));
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Self { status, headers: fields.to_lowercase(), body: bytes[at + 4..].to_vec() }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    /// The value of a header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The body, which must be JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.text()).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }

    /// The keys of the outermost object, in their order.
    pub fn keys(&self) -> Vec<String> {
        self.json().as_object().expect("an object").keys().cloned().collect()
    }
}
