//! A program that ends without a close, and the next one, which resumes its session.

use tokio::runtime::Builder;
use zoolet::testing::FixtureExt as _;
use zoolet::{Client, Clock, Error, Lock, Server, SessionPassword};

/// A server on a runtime of its own, with a clock that stands still.
async fn server() -> Server {
    zoolet_test_support::limit();
    Server::builder().bind("127.0.0.1:0").clock(Clock::manual()).start().await.unwrap()
}

/// Runs a program that creates an ephemeral znode and holds a lock, and is killed: time is paused, as in a simulation.
fn killed_program(address: &str) -> (zoolet::SessionId, SessionPassword) {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let zk = Client::options().clock(Clock::system()).connect(address).await.unwrap();
        zk.create("/here", "").ephemeral().await.unwrap();
        std::mem::forget(Lock::new(&zk, "/lock").acquire().await.unwrap());
        (zk.session_id(), zk.session_password())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_next_process_resumes_the_session_and_has_its_ephemerals() {
    let server = server().await;
    let address = server.connect_string();
    let (id, password) = tokio::task::spawn_blocking(move || killed_program(&address)).await.unwrap();
    let zk = Client::options().resume(id, password).connect(server.connect_string()).await.unwrap();
    assert_eq!(zk.session_id(), id);
    assert_eq!(zk.exists("/here").await.unwrap().expect("as before").ephemeral_owner, id);
    let lock = Lock::new(&zk, "/lock");
    assert!(lock.try_acquire().await.unwrap().is_none(), "the znode of the earlier process is in front");
    for contender in lock.contenders().await.unwrap() {
        assert_eq!(contender.session, id);
        zk.delete(contender.path).await.unwrap();
    }
    assert!(lock.try_acquire().await.unwrap().is_some());
    zk.close().await.unwrap();
    let other = Client::connect(server.in_process()).await.unwrap();
    assert_eq!(other.exists("/here").await.unwrap(), None);
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wrong_password_and_an_ended_session_are_refused_and_open_no_session() {
    let server = server().await;
    let address = server.connect_string();
    let (id, password) = tokio::task::spawn_blocking(move || killed_program(&address)).await.unwrap();
    let attempt = async |password: SessionPassword| {
        Client::options().resume(id, password).connect(server.connect_string()).await
    };
    let refused = attempt(b"another password"[..].into()).await.expect_err("another password");
    assert!(matches!(refused, Error::SessionExpired(_)), "{refused}");
    assert_eq!(server.fixture().sessions().len(), 1);
    attempt(password.clone()).await.unwrap().close().await.unwrap();
    let refused = attempt(password).await.expect_err("closed");
    assert!(matches!(refused, Error::SessionExpired(_)), "{refused}");
    assert_eq!(server.fixture().sessions().len(), 0);
    server.shutdown().await;
}
