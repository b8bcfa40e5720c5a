//! Two servers of ours, compared by random requests.

use zoolet_conformance::{Catalogue, Fuzz, Outcome, Runner};
use zoolet_server::{Server, ServerBuilder};

async fn start(builder: ServerBuilder) -> Server {
    builder.bind("127.0.0.1:0").start().await.expect("a server")
}

#[tokio::test]
async fn equal_servers_do_not_differ() {
    let (one, other) = (start(Server::builder()).await, start(Server::builder()).await);
    let fuzz = Fuzz::new(&one.connect_string(), &other.connect_string(), 1).await.expect("two servers");
    for seed in 0..6 {
        let difference = fuzz.run(seed, 300).await.expect("servers that answer");
        assert_eq!(difference, None, "seed {seed}");
    }
}

#[tokio::test]
async fn a_difference_becomes_a_short_case_that_only_the_reference_passes() {
    let (one, other) = (start(Server::builder()).await, start(Server::builder().extended_types(true)).await);
    let [one, other] = [one.connect_string(), other.connect_string()];
    let fuzz = Fuzz::new(&one, &other, 1).await.expect("two servers");
    let difference = fuzz.run(1, 500).await.expect("servers that answer").expect("a difference");
    assert!(difference.repeats);
    assert_eq!(difference.case.matches("createTTL").count(), 1, "{}", difference.case);
    assert!(difference.case.lines().count() <= 4, "{}", difference.case);
    let catalogue = Catalogue::parse("fuzz", &difference.case).expect("a case");
    let outcome = async |server: &str| {
        let runner = Runner::new(server, 2).await.expect("a server");
        runner.run(&catalogue.cases()[0]).await.expect("a server that answers")
    };
    assert_eq!(outcome(&one).await, Outcome::Passed);
    assert!(matches!(outcome(&other).await, Outcome::Failed(_)));
}
