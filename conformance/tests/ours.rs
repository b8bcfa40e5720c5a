//! The built-in catalogue on our own server.

use zoolet_conformance::{Catalogue, Outcome, Profile, Runner};
use zoolet_server::Server;

#[tokio::test]
async fn our_server_passes_but_for_what_is_decided_otherwise() {
    let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
    let runner = Runner::new(&server.connect_string(), 1).await.expect("a server that answers");
    let mut wrong = Vec::new();
    for case in Catalogue::builtin().cases().iter().filter(|case| case.is_for(Profile::V3_9)) {
        match (runner.run(case).await.expect("a server that answers"), case.deviates()) {
            (Outcome::Passed, None) | (Outcome::Failed(_), Some(_)) => {}
            (outcome, deviates) => {
                wrong.push(format!("{} (deviates: {deviates:?}): {outcome:#?}", case.name()))
            }
        }
    }
    runner.finish().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
