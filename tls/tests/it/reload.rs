//! A configuration that follows its files.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tokio::time::advance;
use zoolet_test_support::certificates::Authority;
use zoolet_tls::{ClientAuth, ClientTls, LiveTls, ServerTls, Store, TlsError, TlsSettings};

use crate::common::{Outcome, handshake, store};

#[tokio::test(start_paused = true)]
async fn the_next_connection_has_the_new_certificate_and_a_broken_file_changes_nothing() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("server.pem");
    let write = |text: &str| fs::write(&file, text).expect("a file");
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
    fs::remove_file(&file).expect("a file");
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

/// Settings whose configuration is the text of a file, unless something else is in the way.
#[derive(Clone)]
struct TextSettings {
    file: PathBuf,
    obstacle: PathBuf,
    /// How many loads are under way, and how many there were at most at a time.
    loads: Arc<[AtomicUsize; 2]>,
}

impl TlsSettings for TextSettings {
    type Config = String;

    fn load(&self) -> Result<Arc<String>, TlsError> {
        let [now, most] = &*self.loads;
        most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
        (0..1_000).for_each(|_| thread::yield_now());
        now.fetch_sub(1, Relaxed);
        match self.obstacle.exists() {
            true => "an error".parse::<ClientAuth>().map(|_| unreachable!()),
            false => Ok(Arc::new(fs::read_to_string(&self.file).expect("a file"))),
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.file.clone()]
    }
}

fn text_settings() -> (tempfile::TempDir, TextSettings) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name| folder.path().join(name);
    let settings = TextSettings { file: path("file"), obstacle: path("obstacle"), loads: Arc::default() };
    fs::write(&settings.file, "old").expect("a file");
    (folder, settings)
}

#[tokio::test(start_paused = true)]
async fn changed_files_are_tried_until_they_can_be_loaded() {
    let (_folder, settings) = text_settings();
    let (file, obstacle) = (settings.file.clone(), settings.obstacle.clone());
    let live = LiveTls::load(settings).expect("a file");
    fs::write(&file, "new text").expect("a file");
    fs::write(&obstacle, "").expect("a file");
    for _ in 0..2 {
        advance(Duration::from_secs(1)).await;
        assert_eq!(*live.current().await, "old");
    }
    fs::remove_file(&obstacle).expect("a file");
    advance(Duration::from_secs(1)).await;
    assert_eq!(*live.current().await, "new text");
}

#[test]
fn no_two_loads_overlap_so_that_the_last_to_begin_is_the_one_that_counts() {
    let (_folder, settings) = text_settings();
    let loads = Arc::clone(&settings.loads);
    let live = LiveTls::load(settings).expect("a file");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| live.reload().expect("a file"));
        }
    });
    assert_eq!(loads[1].load(Relaxed), 1);
}
