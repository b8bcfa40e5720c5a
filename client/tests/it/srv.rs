//! Hosts of SRV records, from a name server that the test plays.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;
use zoolet_client::{Client, ConnectOptions, Error, SessionState};
use zoolet_proto::SessionId;
use zoolet_proto::records::ConnectResponse;

/// A record: priority, weight, port, target.
type Srv = (u16, u16, u16, &'static str);

/// How long the loopback interface may take.
const PATIENCE: Duration = Duration::from_secs(5);
const NAME: &str = "_zk._tcp.example.test";
const NO_SUCH_NAME: u8 = 3;
const SERVER_FAILURE: u8 = 2;

/// A name server on the loopback interface, by UDP and TCP.
#[derive(Clone)]
struct NameServer {
    address: SocketAddr,
    answers: Arc<Mutex<Answers>>,
}

#[derive(Default)]
struct Answers {
    records: HashMap<String, Vec<Srv>>,
    /// Instead of any answer.
    failure: Option<u8>,
    /// Whether an answer by UDP has no records, because they would be too long.
    truncated: bool,
    questions: usize,
}

impl NameServer {
    async fn start() -> Self {
        zoolet_test_support::limit();
        // A port that both protocols have free.
        let (tcp, udp) = loop {
            let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().expect("an address")).await {
                break (tcp, udp);
            }
        };
        let server = Self { address: udp.local_addr().expect("an address"), answers: Arc::default() };
        tokio::spawn(server.clone().serve_udp(udp));
        tokio::spawn(server.clone().serve_tcp(tcp));
        server
    }

    fn set(&self, name: &str, records: &[Srv]) {
        self.with(|answers| answers.records.insert(name.to_owned(), records.to_vec()));
    }

    fn with<T>(&self, change: impl FnOnce(&mut Answers) -> T) -> T {
        change(&mut self.answers.lock().expect("no panic"))
    }

    fn options(&self) -> ConnectOptions {
        Client::options().dns_servers([self.address]).seed(7)
    }

    async fn serve_udp(self, socket: UdpSocket) {
        let mut question = [0; 512];
        loop {
            let (length, from) = socket.recv_from(&mut question).await.expect("a question");
            let question = &question[..length];
            // First what a client must not take for the answer.
            let mut other = self.answer(question, false);
            other[0] ^= 0xff;
            other[3] |= NO_SUCH_NAME;
            socket.send_to(&other, from).await.expect("sent");
            socket.send_to(b"?", from).await.expect("sent");
            let truncated = self.with(|answers| answers.truncated);
            socket.send_to(&self.answer(question, truncated), from).await.expect("sent");
        }
    }

    async fn serve_tcp(self, listener: TcpListener) {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut question = vec![0; usize::from(stream.read_u16().await.expect("a length"))];
            stream.read_exact(&mut question).await.expect("a question");
            let answer = self.answer(&question, false);
            stream.write_u16(answer.len() as u16).await.expect("sent");
            stream.write_all(&answer).await.expect("sent");
        }
    }

    /// By hand, so that no mistake of a library is on both sides.
    fn answer(&self, question: &[u8], truncated: bool) -> Vec<u8> {
        let name = name_in(&question[12..]);
        let kind = &question[question.len() - 4..];
        assert_eq!(kind, [0, 33, 0, 1], "SRV, IN");
        self.with(|answers| {
            answers.questions += 1;
            let records = answers.records.get(&name);
            let code = answers.failure.unwrap_or(if records.is_some() { 0 } else { NO_SUCH_NAME });
            let records = records.filter(|_| code == 0 && !truncated).map_or(&[][..], |records| records);
            let flags = [0x81 | if truncated { 2 } else { 0 }, 0x80 | code];
            let mut answer = [&question[..2], &flags, &[0, 1, 0, records.len() as u8, 0, 0, 0, 0]].concat();
            answer.extend(&question[12..]);
            for (priority, weight, port, target) in records {
                let target = labels(target);
                let length = target.len() as u16 + 6;
                answer.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 5]);
                answer.extend(
                    [length, *priority, *weight, *port].iter().flat_map(|number| number.to_be_bytes()),
                );
                answer.extend(target);
            }
            answer
        })
    }
}

fn labels(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).chain([0]).collect()
}

fn name_in(mut rest: &[u8]) -> String {
    let mut labels = Vec::new();
    while let Some((&length, after)) = rest.split_first().filter(|(length, _)| **length > 0) {
        let (label, after) = after.split_at(usize::from(length));
        labels.push(String::from_utf8_lossy(label).into_owned());
        rest = after;
    }
    labels.join(".")
}

/// A server that grants every session, and answers nothing else.
struct GrantingServer(TcpListener);

impl GrantingServer {
    async fn start() -> Self {
        Self(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port"))
    }

    fn port(&self) -> u16 {
        self.0.local_addr().expect("an address").port()
    }

    /// The next connection, with its session.
    async fn accept(&self) -> TcpStream {
        let (mut stream, _) = self.0.accept().await.expect("a connection");
        let mut request = vec![0; stream.read_u32().await.expect("a length") as usize];
        stream.read_exact(&mut request).await.expect("a connect request");
        let response = ConnectResponse {
            protocol_version: 0,
            timeout: 10_000,
            session: SessionId(7),
            password: vec![0; 16].into(),
            read_only: Some(false),
        };
        let mut frame = bytes::BytesMut::new();
        response.encode_frame(&mut frame);
        stream.write_all(&frame).await.expect("sent");
        stream
    }
}

/// A client of the hosts of [`NAME`], and its connection to this server.
async fn connect(options: ConnectOptions, server: &GrantingServer) -> (Client, TcpStream) {
    let client = async {
        let options = options.connect_timeout(PATIENCE);
        options.connect(format!("dns-srv://{NAME}")).await.expect("a session")
    };
    tokio::join!(client, server.accept())
}

/// A port that nobody listens to.
async fn closed_port() -> u16 {
    GrantingServer::start().await.port()
}

#[tokio::test]
async fn hosts_are_tried_by_priority_and_looked_up_again_after_a_loss() {
    let (dns, first, second) =
        (NameServer::start().await, GrantingServer::start().await, GrantingServer::start().await);
    let dead = closed_port().await;
    dns.set(
        NAME,
        &[(20, 9, second.port(), "127.0.0.1"), (10, 0, first.port(), "127.0.0.1"), (5, 0, dead, "127.0.0.1")],
    );
    let (client, connection) = connect(dns.options(), &first).await;
    let server = |port: u16| format!("127.0.0.1:{port}");
    assert_eq!(client.server().as_deref(), Some(&*server(first.port())));
    let failed = client.last_connection_error().expect("an attempt before");
    assert_eq!(failed.host(), Some(&*server(dead)));

    dns.set(NAME, &[(10, 0, second.port(), "localhost.")]);
    drop(connection);
    // Its name may have an address of IPv6 first, where nobody listens: then it is the turn of the other one.
    let _connection = timeout(PATIENCE, second.accept()).await.expect("another connection");
    let mut states = client.states();
    while states.next().await != Some(SessionState::Connected) {}
    assert_eq!(client.server().as_deref(), Some(&*format!("localhost:{}", second.port())));
}

#[tokio::test]
async fn hosts_that_were_known_are_tried_if_a_lookup_fails() {
    let (dns, server) = (NameServer::start().await, GrantingServer::start().await);
    dns.set(NAME, &[(0, 0, server.port(), "127.0.0.1")]);
    let (_client, connection) = connect(dns.options(), &server).await;
    let asked = dns.with(|answers| {
        answers.failure = Some(SERVER_FAILURE);
        answers.questions
    });
    drop(connection);
    timeout(PATIENCE, server.accept()).await.expect("another connection");
    assert!(dns.with(|answers| answers.questions) > asked, "it has asked");
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_read_by_tcp() {
    let (dns, server) = (NameServer::start().await, GrantingServer::start().await);
    dns.set(NAME, &[(0, 0, server.port(), "127.0.0.1")]);
    dns.with(|answers| answers.truncated = true);
    let (_client, _connection) = connect(dns.options(), &server).await;
}

#[tokio::test]
async fn the_next_name_server_is_asked_if_one_fails() {
    let (failing, dns, server) =
        (NameServer::start().await, NameServer::start().await, GrantingServer::start().await);
    failing.with(|answers| answers.failure = Some(SERVER_FAILURE));
    dns.set(NAME, &[(0, 0, server.port(), "127.0.0.1")]);
    let options = Client::options().dns_servers([failing.address, dns.address]);
    let (_client, _connection) = connect(options, &server).await;
    assert!(failing.with(|answers| answers.questions) > 0);
}

#[tokio::test]
async fn a_name_without_records_is_why_there_is_no_session() {
    let dns = NameServer::start().await;
    dns.set("none.test", &[]);
    dns.set("gone.test", &[(0, 0, 0, ".")]);
    for (name, reason) in [
        ("unknown.test", "no such name"),
        ("none.test", "the name has no SRV records"),
        ("gone.test", "the name has no SRV records"),
    ] {
        let options = dns.options().connect_timeout(Duration::from_millis(50));
        let error = options.connect(format!("dns-srv://{name}")).await.expect_err("no host");
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        let cause = error.connection_error().expect("a cause");
        assert_eq!(cause.to_string(), format!("dns-srv://{name}: {reason}"));
    }
}

#[tokio::test]
async fn the_hosts_of_srv_records_and_those_of_a_list_do_not_replace_each_other() {
    let (dns, server) = (NameServer::start().await, GrantingServer::start().await);
    dns.set(NAME, &[(0, 0, server.port(), "127.0.0.1")]);
    let (client, _connection) = connect(dns.options(), &server).await;
    let error = client.update_servers("a,b").expect_err("they would be forgotten").to_string();
    assert_eq!(error, format!("connect: \"a,b\": the hosts of this client are those of dns-srv://{NAME}"));
    let error = client.update_servers(&format!("dns-srv://{NAME}")).expect_err("not a list").to_string();
    assert!(
        error.ends_with("a client reads SRV records if it connects to their name: name the hosts here"),
        "{error}"
    );
}
