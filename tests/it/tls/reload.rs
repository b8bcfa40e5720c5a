//! New certificates without a restart.

use tokio::time::{advance, pause, resume};
use zoolet::server::tls::{ClientAuth, ClientTls, Store};
use zoolet_test_support::certificates::Authority;
use zoolet_test_support::*;

use super::{Secured, shake_hands};

#[tokio::test]
async fn new_connections_have_the_new_certificate_and_sessions_go_on() {
    let secured = Secured::start(ClientAuth::None).await;
    let mut before = Wire::open(secured.stream().await, Hello::new()).await;
    let other = Authority::new("other");
    std::fs::write(secured.file("server.pem"), other.issue("server")).expect("a file");
    secured.zk.reload_tls().await.expect("a file that can be used");
    let client = ClientTls::new().trust_store(Store::pem(other.pem()));
    let after = shake_hands(&client, secured.tcp().await).await.expect("the new certificate");
    let mut after = Wire::open(after, Hello::new()).await;
    assert!(before.is_alive().await && after.is_alive().await);

    std::fs::write(secured.file("server.pem"), "broken").expect("a file");
    let error = secured.zk.reload_tls().await.expect_err("a broken file").to_string();
    let file = secured.file("server.pem").display().to_string();
    assert_eq!(error, format!("{file}: it is neither PEM nor PKCS12 nor JKS"));
    shake_hands(&client, secured.tcp().await).await.expect("the certificate that was there before");
    assert!(before.is_alive().await && after.is_alive().await);
}

#[tokio::test]
async fn a_changed_file_is_noticed_without_being_told() {
    let secured = Secured::start(ClientAuth::None).await;
    let other = Authority::new("other");
    std::fs::write(secured.file("server.pem"), other.issue("server")).expect("a file");
    let client = ClientTls::new().trust_store(Store::pem(other.pem()));
    assert!(shake_hands(&client, secured.tcp().await).await.is_err(), "looked at the files too often");
    pause();
    advance(secs(1)).await;
    resume();
    assert!(shake_hands(&client, secured.tcp().await).await.is_ok());
}
