//! The page and its API, by what a browser would send.

mod guard;
mod locks;
mod reads;
mod transactions;
mod writes;

use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_admin::{AdminServer, AdminServerBuilder};
use zoolet_proto::{Acl, Perms, Request};
use zoolet_server::{Server, ServerBuilder};
use zoolet_test_support::{Hello, Wire, create, set_data};

/// `bob` with the password `secret`, as a header field and as an ACL.
const BOB: &str = "Authorization: digest bob:secret\r\n";

fn of_bob() -> Vec<Acl> {
    vec![Acl::digest(Perms::ALL, "bob", "secret")]
}

/// A server with its page.
struct Scene {
    server: Server,
    admin: AdminServer,
}

/// What a browser gets.
struct Got {
    status: u16,
    head: String,
    body: String,
}

impl Scene {
    async fn start() -> Self {
        Self::start_with(|admin| admin).await
    }

    async fn writable() -> Self {
        Self::start_with(AdminServerBuilder::writable_page).await
    }

    async fn start_with(with: impl FnOnce(AdminServerBuilder) -> AdminServerBuilder) -> Self {
        Self::of(Server::builder(), with).await
    }

    async fn of(
        settings: ServerBuilder,
        with: impl FnOnce(AdminServerBuilder) -> AdminServerBuilder,
    ) -> Self {
        zoolet_test_support::limit();
        let settings = settings.bind("127.0.0.1:0");
        let server = zoolet_test_support::stored(settings).start().await.expect("a free port");
        let admin = with(AdminServer::builder(&server).bind("127.0.0.1:0")).start().await;
        Self { admin: admin.expect("a free port"), server }
    }

    async fn client(&self) -> Wire {
        let stream = TcpStream::connect(self.server.addrs()[0]).await.expect("a connection");
        Wire::open(stream, Hello::new()).await
    }

    /// Sends a request of the page itself, with more header fields.
    async fn send(&self, method: &str, path: &str, fields: &str, body: &str) -> Got {
        let host = format!("Host: {}\r\n", self.admin.addr());
        self.send_as(method, path, &format!("{host}{fields}"), body).await
    }

    /// Sends a request with exactly these header fields.
    async fn send_as(&self, method: &str, path: &str, fields: &str, body: &str) -> Got {
        let mut stream = TcpStream::connect(self.admin.addr()).await.expect("a connection");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer and the end");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Got { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    async fn get(&self, path: &str) -> Got {
        self.send("GET", path, "", "").await
    }

    /// What the API answers with success.
    async fn api(&self, call: &str) -> Value {
        self.api_as("", call).await
    }

    async fn api_as(&self, fields: &str, call: &str) -> Value {
        let got = self.send("GET", &format!("/api/{call}"), fields, "").await;
        assert_eq!(got.status, 200, "{call}: {}", got.body);
        got.json()
    }

    /// The code of an error.
    async fn refusal(&self, call: &str) -> (u16, String) {
        self.get(&format!("/api/{call}")).await.refusal()
    }

    async fn write(&self, name: &str, fields: &str, body: Value) -> Got {
        let fields = format!("X-Zoolet-Page: 1\r\n{fields}");
        self.send("POST", &format!("/api/{name}"), &fields, &body.to_string()).await
    }
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }

    fn refusal(&self) -> (u16, String) {
        let body = self.json();
        assert!(body["message"].is_string(), "{body}");
        (self.status, body["code"].as_str().expect("a code").to_owned())
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// A create with an ACL.
fn create_for(path: &str, acl: Vec<Acl>) -> Request {
    let Request::Create(create) = create(path) else { unreachable!("a create") };
    Request::Create(zoolet_proto::records::Create { acl: Some(acl.into()), ..create })
}

/// Creates a znode with data.
async fn put(client: &mut Wire, path: &str, data: impl AsRef<[u8]>) {
    assert_eq!(client.ask(create(path)).await.error, None, "{path}");
    assert_eq!(client.ask(set_data(path, data)).await.error, None, "{path}");
}

fn base64(text: impl AsRef<[u8]>) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn from_base64(value: &Value) -> Bytes {
    use base64::Engine as _;
    let text = value.as_str().expect("text");
    base64::engine::general_purpose::STANDARD.decode(text).expect("base64").into()
}
