//! A configuration that follows its files.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::advance;
use zoolet_test_support::certificates::Authority;
use zoolet_tls::{ClientAuth, ClientTls, LiveTls, ServerTls, Store, TlsSettings};

use crate::common::{Outcome, handshake, store};

#[tokio::test(start_paused = true)]
async fn the_next_connection_has_the_new_certificate_and_a_broken_file_changes_nothing() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("server.pem");
    let write = |text: &str| std::fs::write(&file, text).expect("a file");
    write(&before.issue("server"));
    let tls = ServerTls::new(Store::file(&file)).client_auth(ClientAuth::None);
    let live = LiveTls::load(tls).expect("a server");
    let trusts = async |authority: &Authority| {
        let client = ClientTls::new().trust_store(store(authority)).load().expect("a client");
        handshake(live.current().await, client, "localhost").await == Outcome::accepted(None)
    };
    assert!(trusts(&before).await && !trusts(&after).await);

    write(&after.issue("server"));
    assert!(trusts(&before).await, "looked at the files too often");
    advance(Duration::from_secs(1)).await;
    assert!(trusts(&after).await && !trusts(&before).await);

    let config = live.current().await;
    for broken in ["", "-----BEGIN PRIVATE KEY-----\n"] {
        write(broken);
        advance(Duration::from_secs(1)).await;
        assert!(Arc::ptr_eq(&config, &live.current().await), "{broken:?}");
        let error = live.reload().expect_err(broken);
        assert_eq!(error.file(), Some(file.as_path()));
    }
    std::fs::remove_file(&file).expect("a file");
    advance(Duration::from_secs(1)).await;
    assert!(Arc::ptr_eq(&config, &live.current().await));

    write(&before.issue("server"));
    live.reload().expect("a valid file");
    assert!(trusts(&before).await);
}

#[tokio::test]
async fn files_are_not_read_again_in_a_runtime_that_is_gone() {
    let tls = ServerTls::new(Store::pem(Authority::new("any").issue("server"))).client_auth(ClientAuth::None);
    let live = LiveTls::open(tls).await.expect("a server");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let handle = runtime.handle().clone();
    live.reload_in(&handle).await.expect("valid files");
    runtime.shutdown_background();
    let error = live.reload_in(&handle).await.expect_err("no runtime");
    assert_eq!(error.to_string(), "the runtime is shut down");
}
