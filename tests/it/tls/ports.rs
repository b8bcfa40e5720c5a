//! What a port with TLS does with what it is sent.

use tokio::io::AsyncWriteExt;
use tokio::time::Instant;
use zoolet::server::StartError;
use zoolet::server::tls::{ClientAuth, ServerTls, Store};
use zoolet::{Server, ServerBuilder};
use zoolet_test_support::*;

use super::{Secured, rest};

#[tokio::test]
async fn inside_of_tls_is_the_protocol_with_its_words_and_an_end_in_order() {
    for secured in [Secured::start(ClientAuth::None).await, Secured::unified().await] {
        let mut word = secured.stream().await;
        word.write_all(b"ruok").await.expect("a stream that takes bytes");
        assert_eq!(rest(&mut word).await, b"imok");

        let mut wire = Wire::open(secured.stream().await, Hello::new()).await;
        let data = "x".repeat(300_000);
        assert_eq!(wire.ask(create("/large").data(&data)).await.error, None);
        assert_eq!(wire.ask(get_data("/large")).await.data(), Some(data.into()));
        wire.close_session().await;

        // A connection that breaks the protocol ends in order too, and not like one that is attacked.
        let mut broken = secured.stream().await;
        broken.write_all(&[0xff; 8]).await.expect("a stream that takes bytes");
        assert_eq!(rest(&mut broken).await, b"");
        assert_eq!(secured.handshakes(), [3, 0, 0, 0]);
    }
}

#[tokio::test]
async fn operators_see_the_port_and_which_connections_came_by_tls() {
    let secured = Secured::with(ClientAuth::None, |server| {
        server.bind("127.0.0.1:0").bind_tls("127.0.0.1:0").all_four_letter_words()
    })
    .await;
    let secure = Wire::open(secured.stream().await, Hello::new()).await;
    let plain = secured.zk.connect(Hello::new()).await;
    let conf = secured.zk.word("conf").await;
    let ports = [("clientPort", secured.zk.addrs()), ("secureClientPort", secured.zk.tls_addrs())];
    for (key, addrs) in ports {
        assert!(conf.contains(&format!("{key}={}\n", addrs[0].port())), "{conf}");
    }
    let connections = secured.zk.observer().connections().await.expect("a server");
    let by_tls: Vec<_> = connections
        .iter()
        .filter_map(|connection| Some((connection.session?.0, connection.is_secure)))
        .collect();
    assert_eq!(by_tls, [(secure.welcome.session, true), (plain.welcome.session, false)]);
}

#[tokio::test]
async fn a_unified_port_tells_plaintext_from_tls_by_the_first_bytes() {
    let secured = Secured::unified().await;
    let mut plain = Wire::open(secured.tcp().await, Hello::new()).await;
    assert!(plain.is_alive().await);
    let mut by_tls = Wire::open(secured.stream().await, Hello::new()).await;
    assert!(by_tls.is_alive().await);
    let metrics = secured.zk.metrics();
    assert_eq!((metrics.plaintext_connections_local, metrics.plaintext_connections_remote), (1, 0));
    for (sent, answer) in [
        (&b"ruok"[..], &b"imok"[..]),
        // Not a record: a frame that is too long.
        (b"\x16ab\x00\x02", b""),
        (b"\x80\x2e\x01\x03\x01", b""),
        // A record with an alert, and one with what is not a handshake.
        (b"\x15\x03\x01\x00\x02\x01\x00", b""),
        (b"\x16\x03\x01\x00\x05hello", b""),
    ] {
        let mut tcp = secured.tcp().await;
        tcp.write_all(sent).await.expect("a socket that takes bytes");
        // A record that promises more is waited for.
        tcp.shutdown().await.expect("a socket that takes an end");
        assert_eq!(rest(&mut tcp).await, answer, "{sent:x?}");
    }
    secured.zk.serves_others().await;
}

#[tokio::test]
async fn a_handshake_that_comes_byte_by_byte_is_recognized() {
    for secured in [Secured::start(ClientAuth::None).await, Secured::unified().await] {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let mut tcp = secured.tcp().await;
        tcp.set_nodelay(true).expect("a socket");
        let relay = async move {
            // As the client writes them.
            let (mut from_server, mut to_server) = tcp.split();
            let (mut from_client, mut to_client) = tokio::io::split(&mut far);
            let down = tokio::io::copy(&mut from_server, &mut to_client);
            let up = async {
                while let Ok(byte) = tokio::io::AsyncReadExt::read_u8(&mut from_client).await {
                    if to_server.write_u8(byte).await.is_err() {
                        break;
                    }
                }
            };
            tokio::select! { _ = down => {}, () = up => {} }
        };
        let relay = tokio::spawn(relay);
        let config = zoolet::server::tls::TlsSettings::load(&secured.client()).expect("settings");
        let name = "localhost".try_into().expect("a name");
        let stream = zoolet::server::tls::tokio_rustls::TlsConnector::from(config).connect(name, near).await;
        let mut wire = Wire::open(stream.expect("a handshake"), Hello::new()).await;
        assert!(wire.is_alive().await);
        drop(wire);
        relay.await.expect("a relay");
    }
}

#[tokio::test]
async fn a_secure_port_closes_what_is_not_tls_without_a_byte() {
    let secured = Secured::start(ClientAuth::None).await;
    for sent in [&Hello::new().bytes()[..], b"GET / HTTP/1.1\r\n\r\n", b"\x80\x2e\x01\x03\x01"] {
        let mut tcp = secured.tcp().await;
        tcp.write_all(sent).await.expect("a socket that takes bytes");
        assert_eq!(rest(&mut tcp).await, b"", "{sent:x?}");
    }
    until(|| secured.handshakes() == [0, 3, 0, 0]).await;
    secured.zk.serves_others().await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_go_on_ends_after_ten_seconds() {
    // On a unified port a peer may still begin plaintext until its first five bytes are there.
    let ports = [(Secured::start(ClientAuth::None).await, 4), (Secured::unified().await, 1)];
    for (secured, failed) in ports {
        let sent: &[&[u8]] = &[b"", b"\x16", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01"];
        for sent in sent {
            let begin = Instant::now();
            let mut tcp = secured.tcp().await;
            tcp.write_all(sent).await.expect("a socket that takes bytes");
            assert_eq!(rest(&mut tcp).await, b"", "{sent:x?}");
            let took = begin.elapsed();
            assert!(secs(10) <= took && took < secs(12), "{sent:x?}: {took:?}");
        }
        assert_eq!(secured.handshakes(), [0, failed, 0, 0]);
    }
}

/// As on Apache ZooKeeper 3.9.5: a check that a port is open speaks nothing.
#[tokio::test]
async fn on_a_unified_port_only_what_has_begun_tls_is_a_handshake_that_fails() {
    for (secured, failed) in [(Secured::start(ClientAuth::None).await, 4), (Secured::unified().await, 1)] {
        let sent: &[&[u8]] = &[b"", b"\x16", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01"];
        for sent in sent {
            let mut tcp = secured.tcp().await;
            tcp.write_all(sent).await.expect("a socket that takes bytes");
            tcp.shutdown().await.expect("closed");
            assert_eq!(rest(&mut tcp).await, b"", "{sent:x?}");
        }
        until(|| secured.handshakes()[3] == 0).await;
        assert_eq!(secured.handshakes(), [0, failed, 0, 0]);
    }
}

#[tokio::test]
async fn a_handshake_counts_as_a_connection() {
    let secured =
        Secured::with(ClientAuth::None, |server| server.bind_tls("127.0.0.1:0").max_connections(1)).await;
    let silent = secured.tcp().await;
    until(|| secured.handshakes()[3] == 1).await;
    assert_eq!(rest(&mut secured.tcp().await).await, b"");
    drop(silent);
    until(|| secured.handshakes()[3] == 0).await;
    assert!(Wire::open(secured.stream().await, Hello::new()).await.is_alive().await);
}

async fn refusal(server: ServerBuilder) -> StartError {
    server.start().await.expect_err("a refusal")
}

#[tokio::test]
async fn a_server_whose_tls_cannot_work_does_not_start_and_says_why() {
    let tls = || ServerTls::new(Store::file("none.pem")).client_auth(ClientAuth::None);
    let missing = refusal(Server::builder().tls(tls()).bind_tls("127.0.0.1:0")).await;
    assert_eq!(missing.to_string(), "TLS: none.pem: cannot be read: No such file or directory (os error 2)");
    let text = |error: StartError| error.to_string();
    let needs = "needs a certificate and its key: set ServerBuilder::tls";
    let without = text(refusal(Server::builder().bind_tls("127.0.0.1:0")).await);
    assert_eq!(without, format!("bind_tls = 127.0.0.1:0: {needs}"));
    let unified = text(refusal(Server::builder().bind("127.0.0.1:0").unified_ports(true)).await);
    assert_eq!(unified, format!("unified_ports = true: {needs}"));
    let unused = "tls = set: is used by no port: set bind_tls, or unified_ports with a bind";
    assert_eq!(text(refusal(Server::builder().tls(tls()).bind("127.0.0.1:0")).await), unused);
    assert_eq!(text(refusal(Server::builder().tls(tls()).unified_ports(true)).await), unused);
    let none = Server::builder().tls(tls()).bind_tls("127.0.0.1:0").max_tls_handshakes(0);
    assert!(text(refusal(none).await).starts_with("max_tls_handshakes = 0: must be at least 1"));
}
