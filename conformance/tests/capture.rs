//! What a capture notes of the server itself.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;
use zoolet_conformance::{ANSWER_LIMIT, Capture, CaseOutcome, Catalogue, Messages, Runner};
use zoolet_server::Server;

/// Longer, in seconds, than the session of the capture lasts if it is not kept alive.
const SECONDS: usize = 45;

/// Something happens more often than the capture pings, so its session must not depend on silence.
#[tokio::test(start_paused = true)]
async fn deletions_are_seen_for_longer_than_a_session_lasts_on_a_server_that_is_never_quiet() {
    let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
    let address = server.connect_string();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("busy.cap");
    let capture = Capture::start("127.0.0.1:0", &address, &file).await.expect("a capture");
    let (stop, stopped) = oneshot::channel::<()>();
    let capturing = tokio::spawn(capture.run(async move { stopped.await.unwrap_or(()) }));

    let runner = Runner::new(&address, 1, ANSWER_LIMIT).await.expect("a server that answers");
    let case = "case own/delete\nfact Two znodes are deleted: its own, and that of the case\nA create ~/n\nA delete ~/n";
    let catalogue = Catalogue::parse("own.case", case).expect("a case");
    for _ in 0..SECONDS {
        let outcome = runner.run(&catalogue.cases()[0]).await.expect("a server that answers");
        assert_eq!(outcome, CaseOutcome::Passed);
        sleep(Duration::from_secs(1)).await;
    }
    drop(stop);
    capturing.await.expect("no panic").expect("a capture");

    let mut messages = Messages::open(&file).expect("a capture");
    let mut deletions = 0;
    while let Some(message) = messages.next().expect("a whole capture") {
        deletions += usize::from(message.connection == 0 && message.text.starts_with("NodeDeleted"));
    }
    assert_eq!(deletions, 2 * SECONDS);
}
