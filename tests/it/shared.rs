//! A server that outlives the runtime of the test that has started it, as one in a `static` does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use tokio::runtime::Builder;
use zoolet::testing::{FixtureError, FixtureExt as _, TestServer};
use zoolet::{Client, Clock, Server};
use zoolet_test_support::{limit, secs};

/// As `#[tokio::test]` does.
fn test<F: Future>(test: F) -> F::Output {
    limit();
    Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test)
}

fn is_named(message: &str) -> bool {
    message.contains("the tokio runtime that it was started in was shut down")
}

#[test]
fn the_second_test_of_a_test_server_fails_at_once_and_is_told_why() {
    for builder in [TestServer::builder(), TestServer::builder().durable()] {
        let zk = test(async {
            let zk = builder.start().await.expect("a server");
            zk.client().await.create("/a", "").await.expect("a create");
            zk
        });
        let began = Instant::now();
        let client = catch_unwind(AssertUnwindSafe(|| test(async { drop(zk.client().await) })));
        let message = client.expect_err("no client of a server that is gone");
        assert!(is_named(message.downcast_ref::<String>().expect("a message")));
        assert_eq!(test(zk.set("/a", "")), Err(FixtureError::LostRuntime));
        assert_eq!(test(zk.wait_until_idle()), Err(FixtureError::LostRuntime));
        assert_eq!(test(zk.advance(secs(1))), Err(FixtureError::LostRuntime));
        assert_eq!(test(zk.restart()), Err(FixtureError::LostRuntime));
        assert_eq!(test(zk.wait_for("/b", |znode| znode.is_some())), Err(FixtureError::LostRuntime));
        assert!(began.elapsed() < secs(5), "{:?}: it is known at once", began.elapsed());
        assert!(zk.get("/a").is_some(), "what there was can still be seen");
    }
}

#[test]
fn a_client_of_a_server_whose_runtime_is_gone_is_told_so_and_does_not_try_again() {
    // Nobody moves the clock, so that no second attempt is made and no timeout passes.
    let server = test(Server::builder().start()).expect("a server");
    let connect = server.in_process();
    let client = test(Client::options().clock(Clock::manual()).connect(connect));
    let error = client.expect_err("no server").to_string();
    assert!(is_named(&error) && error.contains("on_own_thread"), "{error}");
}

#[test]
fn a_server_that_was_stopped_otherwise_has_not_lost_its_runtime() {
    test(async {
        let server = Server::builder().start().await.expect("a server");
        let (fixture, connect) = (server.fixture(), server.in_process());
        drop(server);
        assert_eq!(fixture.set("/a", "").await, Err(FixtureError::Stopped));
        let refused = connect().into_inner().expect_err("it has stopped");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    });
}
