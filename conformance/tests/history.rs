//! Concurrent clients of our server, whose connections are cut.

use std::time::Duration;

use zoolet_conformance::HistoryCheck;
use zoolet_server::Server;

#[tokio::test]
async fn our_server_breaks_no_rule() {
    let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
    let servers = vec![server.connect_string()];
    let check = HistoryCheck { servers, clients: 6, duration: Duration::from_millis(400), seed: 3 };
    let verdict = check.run().await.expect("a server that answers");
    assert_eq!(verdict.violation, None);
    assert!(verdict.answered > 100 && verdict.cuts > 0 && verdict.unanswered > 0, "{verdict:?}");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_not_passed() {
    let check = HistoryCheck {
        servers: vec!["127.0.0.1:1".to_owned()],
        clients: 1,
        duration: Duration::ZERO,
        seed: 1,
    };
    check.run().await.expect_err("there is no server");
}
