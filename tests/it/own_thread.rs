//! A server on a thread of its own: what the program does with its runtimes holds up nobody.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zoolet::client::Client;
use zoolet::server::{Server, StartError};
use zoolet_test_support::Hello;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A question by an outside program, which the caller's thread waits for. Blocks the runtime of the caller.
fn ask(addr: SocketAddr) -> String {
    let mut socket = TcpStream::connect(addr).expect("a connection");
    // Only a server that nobody runs lets this pass.
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    socket.write_all(b"srvr").expect("a socket that takes four bytes");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer while the program blocks its runtime");
    answer
}

#[tokio::test]
async fn a_program_that_blocks_its_runtime_holds_up_no_client() {
    let server = Server::builder().bind("127.0.0.1:0").on_own_thread().start().await.expect("a server");
    assert!(ask(server.addrs()[0]).contains("Mode: standalone"));
    server.shutdown().await;
}

#[test]
fn a_server_outlives_the_runtime_in_which_it_was_started() {
    let server = runtime().block_on(Server::builder().on_own_thread().start()).expect("a server");
    for name in ["/one", "/two"] {
        // As each `#[tokio::test]` of a binary has a runtime of its own.
        runtime().block_on(async {
            let client = Client::connect(server.in_process()).await.expect("a session");
            client.create(name, "").await.expect("a create");
            client.close().await.expect("the end of the session");
        });
    }
    let seen = runtime().block_on(async {
        let client = Client::connect(server.in_process()).await.expect("a session");
        let (children, _) = client.get_children("/").await.expect("the children");
        client.close().await.expect("the end of the session");
        children
    });
    assert_eq!(seen, ["one", "two", "zookeeper"]);
}

#[tokio::test]
async fn it_can_be_durable_and_leaves_a_snapshot_when_it_is_shut_down() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Server::builder().data_dir(dir.path()).on_own_thread();
    let server = settings.clone().start().await.expect("a server");
    let client = Client::connect(server.in_process()).await.expect("a session");
    client.create("/a", "1").await.expect("a create");
    client.close().await.expect("the end of the session");
    server.shutdown().await;
    assert!(dir.path().join("version-2/snapshot.3").is_file());
    let server = settings.start().await.expect("the next server");
    assert_eq!(server.initial_zxid().0, 3);
    server.shutdown().await;
}

#[tokio::test]
async fn a_start_that_fails_says_why_as_without_a_thread() {
    let refused = Server::builder().bind("no-port").on_own_thread().start().await.expect_err("no address");
    assert!(matches!(refused, StartError::Setting(_)), "{refused}");
    let taken = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
    let address = taken.connect_string();
    let refused = Server::builder().bind(&address).on_own_thread().start().await.expect_err("a taken port");
    assert!(refused.to_string().contains(&address), "{refused}");
    taken.shutdown().await;
}

#[tokio::test]
async fn a_drop_of_it_ends_its_connections() {
    let server = Server::builder().bind("127.0.0.1:0").on_own_thread().start().await.expect("a server");
    let mut socket = TcpStream::connect(server.addrs()[0]).expect("a connection");
    socket.write_all(&Hello::new().bytes()).expect("a socket that takes a handshake");
    socket.read_exact(&mut [0; 41]).expect("a session");
    drop(server);
    let end = socket.read(&mut [0]);
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}
