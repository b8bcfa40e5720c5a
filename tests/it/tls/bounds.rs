//! What handshakes may take from others.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{advance, pause, resume};
use zoolet::server::tls::{ClientAuth, Store};
use zoolet_test_support::*;

use super::{Secured, rest, shake_hands};

#[tokio::test]
async fn a_silent_handshake_gives_way_to_another_after_a_second() {
    let secured =
        Secured::with(ClientAuth::None, |server| server.bind_tls("127.0.0.1:0").max_tls_handshakes(2)).await;
    let mut silent = [secured.tcp().await, secured.tcp().await];
    until(|| secured.handshakes()[3] == 2).await;
    // At once there is no place.
    assert_eq!(rest(&mut secured.tcp().await).await, b"");
    assert_eq!(secured.handshakes(), [0, 0, 1, 2]);
    pause();
    advance(secs(1)).await;
    resume();
    let mut wire = Wire::open(secured.stream().await, Hello::new()).await;
    assert!(wire.is_alive().await);
    assert_eq!(rest(&mut silent[0]).await, b"", "the older one is closed");
    assert_eq!(secured.handshakes(), [1, 0, 2, 1]);
}

#[tokio::test]
async fn a_failed_handshake_that_its_peer_does_not_close_gives_way_as_well() {
    let secured =
        Secured::with(ClientAuth::None, |server| server.bind_tls("127.0.0.1:0").max_tls_handshakes(1)).await;
    let mut failed = secured.tcp().await;
    failed.write_all(b"\x16\x03\x01\x00\x05wrong").await.expect("a socket that takes bytes");
    until(|| secured.handshakes() == [0, 1, 0, 1]).await;
    pause();
    advance(secs(1)).await;
    resume();
    let mut wire = Wire::open(secured.stream().await, Hello::new()).await;
    assert!(wire.is_alive().await);
}

#[tokio::test]
async fn certificates_of_a_hundred_kilobytes_are_refused() {
    let secured = Secured::start(ClientAuth::Need).await;
    let chain = secured.authority.pem().repeat(250);
    let large = Store::pem(secured.authority.issue("alice") + &chain);
    assert!(chain.len() > 130_000, "it has {} bytes of base64", chain.len());
    // A client of TLS 1.3 is done before the server has looked at it.
    if let Ok(mut stream) = shake_hands(&secured.client().key_store(large), secured.tcp().await).await {
        let mut all = Vec::new();
        assert!(stream.read_to_end(&mut all).await.is_err() && all.is_empty());
    }
    until(|| secured.handshakes() == [0, 1, 0, 0]).await;
    secured.zk.serves_others().await;
}

#[tokio::test]
async fn a_handshake_in_records_of_one_byte_is_cut_off() {
    let secured = Secured::start(ClientAuth::None).await;
    let mut tcp = secured.tcp().await;
    // The begin of a ClientHello of 64 kB, and then its bytes.
    let record = |byte| [0x16, 3, 1, 0, 1, byte];
    let begin: Vec<u8> = [1, 0, 0xff, 0xf0, 3, 3].into_iter().flat_map(record).collect();
    let more: Vec<u8> = (0..1_000).flat_map(|_| record(7)).collect();
    tcp.write_all(&begin).await.expect("a socket that takes bytes");
    let mut sent = begin.len();
    while secured.handshakes()[1] == 0 {
        let _ = tcp.write_all(&more).await;
        sent += more.len();
        assert!(sent < 4 << 20, "it reads without end");
        tokio::task::yield_now().await;
    }
    // Earlier than by the bound on its length: rustls joins no more records than that.
    assert!(sent > 50_000, "it was cut off after {sent} bytes for another reason");
    secured.zk.serves_others().await;
}
