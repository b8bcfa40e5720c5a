//! The built-in catalogue on our own server.

use zoolet_conformance::{Catalogue, Outcome, Profile, Runner};
use zoolet_server::{Server, ServerBuilder};

#[tokio::test]
async fn our_server_passes_but_for_what_is_decided_otherwise() {
    judge(Server::builder()).await;
}

#[tokio::test]
async fn our_durable_server_does_too() {
    let dir = tempfile::tempdir().expect("a directory");
    judge(Server::builder().data_dir(dir.path())).await;
}

async fn judge(server: ServerBuilder) {
    let server = server.bind("127.0.0.1:0").start().await.expect("a server");
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

#[test]
fn each_name_is_given_once() {
    let catalogue = Catalogue::builtin();
    let mut names: Vec<_> = catalogue.cases().iter().map(|case| case.name()).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(names.len() >= 600, "{}", names.len());
}
