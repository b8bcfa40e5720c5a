//! HTTPS, alone and beside plain HTTP.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_admin::{AdminError, AdminServer};
use zoolet_server::Server;
use zoolet_test_support::certificates::Authority;
use zoolet_tls::rustls::ClientConnection;
use zoolet_tls::rustls::pki_types::ServerName;
use zoolet_tls::tokio_rustls::TlsConnector;
use zoolet_tls::{ClientAuth, ClientTls, Protocols, ServerTls, Store, TlsSettings};

use crate::common::{HttpAnswer, Pair};

/// An authority, a certificate of a server and one of a client.
struct Certificates {
    authority: Store,
    server: Store,
    client: Store,
}

impl Certificates {
    fn new() -> Self {
        let authority = Authority::new("authority");
        let issue = |name| Store::pem(authority.issue(name));
        Self { authority: Store::pem(authority.pem()), server: issue("server"), client: issue("client") }
    }

    fn of_server(&self, auth: ClientAuth) -> ServerTls {
        let tls = ServerTls::new(self.server.clone()).trust_store(self.authority.clone());
        tls.client_auth(auth).protocols(Protocols::ALL)
    }

    fn of_client(&self) -> ClientTls {
        ClientTls::new().trust_store(self.authority.clone())
    }
}

/// Asks by HTTPS.
async fn get(admin: &AdminServer, tls: &ClientTls, path: &str, fields: &str) -> std::io::Result<HttpAnswer> {
    ask(admin, tls, ("GET", path), fields, "").await
}

async fn ask(
    admin: &AdminServer,
    tls: &ClientTls,
    (method, path): (&str, &str),
    fields: &str,
    body: &str,
) -> std::io::Result<HttpAnswer> {
    let config = tls.load().expect("settings of a client");
    let stream = TcpStream::connect(admin.addr()).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = TlsConnector::from(config).connect(name, stream).await?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(HttpAnswer::parse(&answer))
}

const HSTS: Option<&str> = Some("max-age=86400; includesubdomains");

#[tokio::test]
async fn https_alone_answers_with_a_policy_and_takes_no_plain_http() {
    let certificates = Certificates::new();
    let tls = certificates.of_server(ClientAuth::None);
    let pair = Pair::start_with(Server::builder(), |admin| admin.https(tls)).await;
    assert!(pair.admin.url().starts_with("https://127.0.0.1:"), "{}", pair.admin.url());
    for path in ["/commands/ruok", "/foo"] {
        let answer = get(&pair.admin, &certificates.of_client(), path, "").await.expect("an answer");
        assert_eq!(answer.header("strict-transport-security"), HSTS, "{path}");
    }
    let mut plain = TcpStream::connect(pair.admin.addr()).await.expect("a connection");
    plain.write_all(b"GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest).await;
    assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
}

#[tokio::test]
async fn one_port_can_have_both_and_counts_what_is_plain() {
    let certificates = Certificates::new();
    let tls = certificates.of_server(ClientAuth::None);
    let pair = Pair::start_with(Server::builder(), |admin| admin.http_and_https(tls)).await;
    let secure = get(&pair.admin, &certificates.of_client(), "/commands/ruok", "").await.expect("an answer");
    assert_eq!((secure.status, secure.header("strict-transport-security")), (200, HSTS));
    let plain = pair.get("/commands/mntr").await;
    assert_eq!((plain.status, plain.header("strict-transport-security")), (200, None));
    assert_eq!(plain.json()["insecure_admin_count"], 1);
    // Where metrics are scraped as well, which is another port.
    let metrics = pair.server.observer().metrics().expect("a server");
    assert_eq!(metrics.admin.plaintext_requests, 1);
}

#[tokio::test]
async fn the_page_and_its_writes_work_by_https_and_plain_origins_are_refused_there() {
    let certificates = Certificates::new();
    let (server, client) = (certificates.of_server(ClientAuth::None), certificates.of_client());
    let pair = Pair::start_with(Server::builder(), |admin| admin.writable_page().https(server)).await;
    let page = get(&pair.admin, &client, "/", "").await.expect("an answer");
    assert_eq!((page.status, page.header("strict-transport-security")), (200, HSTS));
    assert!(page.header("content-security-policy").is_some());
    for (scheme, status) in [("http", 403), ("https", 200)] {
        let fields = format!("X-Zoolet-Page: 1\r\nOrigin: {scheme}://localhost\r\n");
        let body = r#"{"path":"/a","data":""}"#;
        let made = ask(&pair.admin, &client, ("POST", "/api/create"), &fields, body).await;
        assert_eq!(made.expect("an answer").status, status, "{scheme}");
    }
}

#[tokio::test]
async fn everybody_else_is_served_between_two_handshakes_however_many_have_begun() {
    const BEGUN: usize = 20;
    let certificates = Certificates::new();
    let (server, client) = (certificates.of_server(ClientAuth::None), certificates.of_client());
    let pair = Pair::start_with(Server::builder(), |admin| admin.https(server)).await;
    let config = client.load().expect("settings of a client");
    let begin = |_| {
        let name = ServerName::try_from("localhost").expect("a name");
        let mut session = ClientConnection::new(Arc::clone(&config), name).expect("a client");
        // Connects without the server's runtime.
        let mut stream = std::net::TcpStream::connect(pair.admin.addr()).expect("a connection");
        session.write_tls(&mut stream).expect("sent");
        stream.set_nonblocking(true).expect("a socket");
        stream
    };
    let streams: Vec<_> = (0..BEGUN).map(begin).collect();
    let (mut before, mut most) = (0, 0);
    while before < BEGUN {
        tokio::task::yield_now().await;
        let now = streams.iter().filter(|stream| stream.peek(&mut [0]).is_ok()).count();
        most = most.max(now - before);
        before = now;
    }
    assert_eq!(most, 1, "handshakes while somebody waited");
}

#[tokio::test]
async fn a_certificate_can_be_needed() {
    let certificates = Certificates::new();
    let tls = certificates.of_server(ClientAuth::Need);
    let pair = Pair::start_with(Server::builder(), |admin| admin.https(tls)).await;
    let refused = get(&pair.admin, &certificates.of_client(), "/commands/ruok", "").await;
    assert!(refused.is_err(), "{refused:?}");
    let client = certificates.of_client().key_store(certificates.client.clone());
    let answer = get(&pair.admin, &client, "/commands/ruok", "").await.expect("an answer");
    assert_eq!(answer.status, 200);
    let snapshot = get(&pair.admin, &client, "/commands/snapshot", "Authorization: digest u:p\r\n").await;
    assert!(snapshot.expect("an answer").body.starts_with(b"ZKSN"));
}

#[tokio::test]
async fn stores_that_cannot_be_read_stop_the_start_and_are_named() {
    let server = Server::builder().start().await.expect("a server");
    let tls = ServerTls::new(Store::file("/nowhere/keys.pem")).client_auth(ClientAuth::None);
    let refused = AdminServer::builder(&server).bind("127.0.0.1:0").https(tls).start().await;
    let error = refused.expect_err("no store");
    assert!(matches!(error, AdminError::Tls(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("/nowhere/keys.pem") && !text.contains('\n'), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stalls_ends_after_ten_seconds() {
    let certificates = Certificates::new();
    for is_unified in [false, true] {
        let tls = certificates.of_server(ClientAuth::None);
        let with = |admin: zoolet_admin::AdminServerBuilder| {
            if is_unified { admin.http_and_https(tls) } else { admin.https(tls) }
        };
        let pair = Arc::new(Pair::start_with(Server::builder(), with).await);
        let begun = tokio::time::Instant::now();
        let mut stalled = TcpStream::connect(pair.admin.addr()).await.expect("a connection");
        assert_eq!(stalled.read(&mut [0]).await.unwrap_or(0), 0);
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
    }
}
