//! A client that accepts a read-only server, and switches to one that takes writes.

use zoolet_client::{Client, SessionState, Stat};
use zoolet_proto::{Reply, Request, SessionId, records};

use crate::common::{Listener, Peer, TIMEOUT, listener};

fn get(path: &str) -> Request {
    Request::GetData(records::GetData { path: path.into(), watch: false })
}

/// A client of a read-only server, with its connection.
async fn read_only() -> (Client, Peer, Listener) {
    let (connect, mut listener) = listener();
    let options = Client::options().session_timeout(TIMEOUT).read_only(true);
    let (client, peer) = tokio::join!(options.connect(connect), async {
        let mut peer = listener.connection().await;
        peer.grant_read_only().await;
        peer
    });
    let client = client.expect("a session");
    assert_eq!(client.state(), SessionState::ConnectedReadOnly);
    (client, peer, listener)
}

#[tokio::test(start_paused = true)]
async fn the_client_switches_to_a_server_that_grants_the_session() {
    let (zk, mut cut_off, mut listener) = read_only().await;
    let mut states = zk.states();
    assert_eq!(states.next().await, Some(SessionState::ConnectedReadOnly));
    let mut better = listener.connection().await;
    let asked = better.grant_session_as(SessionId(0x99), TIMEOUT).await;
    assert_eq!((asked.session, asked.read_only), (SessionId(0), Some(false)));
    assert_eq!(states.next().await, Some(SessionState::Disconnected));
    assert_eq!(states.next().await, Some(SessionState::Connected));
    assert_eq!(zk.session_id(), SessionId(0x99));
    assert_eq!(cut_off.next().await, None, "the client closes the connection");
    let written = zk.set_data("/a", "x").send();
    let (xid, _) = better.next().await.expect("a request");
    better.reply(xid, Reply::Stat(Stat::default())).await;
    written.await.expect("a stat");
}

#[tokio::test(start_paused = true)]
async fn reads_continue_while_other_servers_refuse_the_session() {
    let (zk, mut cut_off, mut listener) = read_only().await;
    for way in 0..3 {
        let mut other = listener.connection().await;
        match way {
            // Closes the connection.
            0 => drop(other),
            1 => other.refuse().await,
            // Not a ZooKeeper server.
            _ => other.write_raw(b"HTTP/1.1 400 Bad Request\r\n\r\n").await,
        }
        let read = zk.get_data("/a").send();
        let xid = cut_off.expect(get("/a")).await;
        cut_off.reply(xid, Reply::Data(None, Stat::default())).await;
        read.await.expect("data");
    }
    assert_eq!(zk.state(), SessionState::ConnectedReadOnly);
    listener.connection().await.grant_session().await;
    let mut states = zk.states();
    while states.next().await.expect("a state") != SessionState::Connected {}
}
