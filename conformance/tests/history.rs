//! Concurrent clients of our server, whose connections are cut.

use std::time::Duration;

use zoolet_conformance::{ANSWER_LIMIT, CheckError, HistoryCheck, Runner};
use zoolet_server::Server;

#[tokio::test]
async fn our_server_breaks_no_rule() {
    let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
    let address = server.connect_string();
    // A connection is cut after so many bytes, which a busy machine may not come to.
    for seed in 3..23 {
        let servers = vec![address.clone()];
        let check = HistoryCheck { servers, clients: 6, duration: Duration::from_millis(400), seed };
        let runner = Runner::new(&address, seed, ANSWER_LIMIT).await.expect("a server that answers");
        let report = check.run(&runner).await.expect("a server that answers");
        runner.finish().await.expect("nothing that is left");
        let broken = matches!(report.checked, Err(CheckError::Violation(_)));
        assert!(!broken, "seed {seed}: {report:?}");
        if report.answered > 100 && report.cuts > 0 && report.unanswered > 0 {
            return;
        }
    }
    panic!("no check has cut a connection in the middle of a request");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_not_passed() {
    let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
    let limit = Duration::from_millis(100);
    let runner = Runner::new(&server.connect_string(), 1, limit).await.expect("a server that answers");
    let servers = vec!["127.0.0.1:1".to_owned()];
    let check = HistoryCheck { servers, clients: 1, duration: Duration::ZERO, seed: 1 };
    check.run(&runner).await.expect_err("there is no such server");
}
