//! The page of a test server: a test opens it, or a test that fails leaves it open.

use std::io::{self, Write as _};
use std::thread;

use zoolet_admin::{AdminError, AdminServer};
use zoolet_server::Observer;

use super::TestServer;

/// Set to 1, a test that fails waits with the page open.
const INSPECT: &str = "ZOOLET_INSPECT";
const FREE_PORT: &str = "127.0.0.1:0";

impl TestServer {
    /// Opens the page of the server on a free port of this machine: the tree, sessions, locks, transactions and load in a browser, at
    /// [`AdminServer::url`]. It may also change znodes. It is closed when the handle is dropped.
    ///
    /// A test on a current-thread runtime must let other tasks run while somebody looks, for example by awaiting a sleep on the
    /// system's clock. A test that fails waits by itself with `ZOOLET_INSPECT=1` in its environment: see
    /// [`TestServer`](TestServer#when-a-test-fails).
    ///
    /// # Errors
    /// [`AdminError::Listen`] if no port is free.
    pub async fn open_page(&self) -> Result<AdminServer, AdminError> {
        AdminServer::builder(&self.server).bind(FREE_PORT).writable_page().start().await
    }

    /// Leaves the page open after a failure, if it is asked for, until its reader presses Enter.
    pub(super) fn wait_for_inspection(&self) {
        if std::env::var(INSPECT).is_ok_and(|value| value == "1") {
            let observer = Observer::from(&self.server);
            // The thread of the test is busy with its failure, and perhaps its runtime with it.
            let page = thread::Builder::new().name("zoolet-page".to_owned()).spawn(move || serve(observer));
            // What is wrong with the page does not hide what is wrong with the test.
            let _ = page.map(thread::JoinHandle::join);
        }
    }
}

/// Serves the page until a line or the end of the standard input.
fn serve(observer: Observer) -> io::Result<()> {
    // Not by a macro: the test harness would keep it until the test has ended.
    let say = |text: &str| io::stderr().write_all(text.as_bytes());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let admin = match AdminServer::builder(observer).bind(FREE_PORT).start().await {
            Ok(admin) => admin,
            Err(error) => {
                return say(&format!("--- the page of the failed test cannot be opened: {error}\n"));
            }
        };
        say(&format!(
            "--- the test has failed, and its server is open at {}; press Enter to go on\n",
            admin.url()
        ))?;
        let enter = tokio::task::spawn_blocking(|| io::stdin().read_line(&mut String::new()));
        enter.await.map_err(io::Error::other)??;
        admin.shutdown().await;
        Ok(())
    })
}
